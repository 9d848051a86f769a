package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

// runJSON runs the program with -json and returns its status and report.
func runJSON(t *testing.T, args ...string) (int, *report) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), append(args, "-json"), strings.NewReader(""), &stdout, &stderr)
	var r report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r), "%s", stderr.String())
	return status, &r
}

// requireWhole requires that the figures add up.
func requireWhole(t *testing.T, r *report) {
	t.Helper()
	require.Zero(t, r.Unsettled)
	require.Zero(t, r.Lost)
	require.Zero(t, r.Wrong)
	for _, p := range r.Passes {
		require.Equal(t, r.Operations, p.Operations)
	}
	require.Equal(t, r.Overhead.Replay.Calls, r.Replays)
	require.Equal(t, r.Deliveries, r.Overhead.First.Calls+r.Replays+r.Rejected)
}

func TestEveryOperationHasItsEffectOnceThoughProcessesDie(t *testing.T) {
	t.Parallel()
	status, r := runJSON(t, "-generate", "4000", "-crash=0.02", "-sample", "1000")
	require.Zero(t, status)
	requireWhole(t, r)
	require.Zero(t, r.Doubled)
	require.Equal(t, int64(4000), r.Deliveries)
	require.Greater(t, r.Operations, r.Effects, "the declined and the malformed have none")
	for name, n := range map[string]int64{
		"replays": r.Replays, "waits": r.Waits, "takeovers": r.Takeovers, "rejected": r.OtherBody,
		"errors": r.Errors, "killed": r.Killed,
	} {
		require.Positive(t, n, "a run without %s shows nothing", name)
	}
	require.Positive(t, r.PeakMemory)
	require.Positive(t, r.Overhead.First.P50)
	require.Positive(t, r.Without.Doubled, "going without has its price")
	require.Positive(t, r.Without.Overcharged)
	require.Positive(t, r.Without.Killed)
	require.Zero(t, r.Without.Lost)
}

func TestAForgetfulProviderAndCrashesDoubleEffectsUnderRerun(t *testing.T) {
	t.Parallel()
	status, r := runJSON(t, "-generate", "2000", "-provider-forgets", "-crash", "-sample", "0")
	require.Equal(t, 1, status)
	require.Positive(t, r.Doubled)
	require.Len(t, r.Example, 2)
	require.Zero(t, r.Lost)
	require.Nil(t, r.Without)
}

func TestUnderHoldNothingIsDoubledEvenIfTheProviderForgets(t *testing.T) {
	t.Parallel()
	status, r := runJSON(t, "-generate", "3000", "-provider-forgets", "-crash", "-policy", "hold", "-sample", "0")
	require.Zero(t, status)
	requireWhole(t, &report{figures: r.figures, Passes: r.Passes, Overhead: r.Overhead})
	require.Zero(t, r.Doubled)
	require.Zero(t, r.Takeovers, "nothing runs again before somebody has looked")
	require.Positive(t, r.Resolved)
}

func TestTheSecondPassResolvesEachDeliveryWithoutAnyEffect(t *testing.T) {
	t.Parallel()
	status, r := runJSON(t, "-generate", "2000", "-passes", "2", "-sample", "0", "-workers", "8", "-processes", "2")
	require.Zero(t, status)
	requireWhole(t, r)
	require.Len(t, r.Passes, 2)
	first, second := r.Passes[0], r.Passes[1]
	require.Equal(t, first.Effects, r.Effects)
	require.Equal(t, figures{
		Deliveries: 2000, Operations: first.Operations, Replays: 2000 - first.Rejected, Rejected: first.Rejected,
		OtherBody: first.OtherBody, Unreadable: first.Unreadable, Seconds: second.Seconds, Throughput: second.Throughput,
		Tiers: []tierCalls{{"memory", map[string]int64{"claims_replayed": 2000 - first.Rejected, "claims_other": first.OtherBody}}},
	}, second)
}

func TestDuplicatesMayWaitForTheRunningOne(t *testing.T) {
	t.Parallel()
	status, r := runJSON(t, "-generate", "2000", "-wait", "2s", "-crash=0", "-sample", "0")
	require.Zero(t, status)
	require.Zero(t, r.Unsettled)
	require.Positive(t, r.Waits)
	require.Less(t, r.Overhead.First.Calls+r.Overhead.Replay.Calls+r.Rejected, r.Deliveries,
		"the time of a call that waited is not the store's")
}

func TestASeedDecidesWhatDoesNotDependOnConcurrency(t *testing.T) {
	t.Parallel()
	args := []string{"-generate", "1500", "-seed", "9", "-sample", "300", "-crash=0"}
	_, a := runJSON(t, args...)
	_, b := runJSON(t, args...)
	require.Equal(t, []int64{a.Operations, a.Effects, a.Unreadable, a.Without.Effects, a.Without.Doubled, a.Without.Overcharged},
		[]int64{b.Operations, b.Effects, b.Unreadable, b.Without.Effects, b.Without.Doubled, b.Without.Overcharged})
}

func TestDeliveriesComeFromAFileOrStandardInput(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deliveries.ndjson.gz")
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), []string{"-generate", "400", "-seed", "4", "-write", path}, nil, &stdout, &stderr)
	require.Zero(t, status, stderr.String())
	require.Empty(t, stdout.String())
	_, want := runJSON(t, "-generate", "400", "-seed", "4", "-crash=0")
	status, have := runJSON(t, "-in", path, "-seed", "4", "-crash=0")
	require.Zero(t, status)
	require.Equal(t, want.Operations, have.Operations)
	require.Equal(t, want.Effects, have.Effects)

	// Two deliveries of one operation, its key with another body, and a line
	// that is none: by hand, as somebody else would write them.
	stdin := strings.NewReader(`{"id":"a","key":"k","type":"charge","amount":5}
{"id":"b","key":"k","type":"charge","amount":5}
{"id":"c","key":"k","type":"charge","amount":6}
{"id":"d"`)
	stdout.Reset()
	status = run(t.Context(), []string{"-in", "-", "-json", "-workers", "1", "-processes", "1"}, stdin, &stdout, &stderr)
	require.Zero(t, status, stderr.String())
	var r report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
	require.Equal(t, []int64{4, 1, 1, 1, 2}, []int64{r.Deliveries, r.Operations, r.Effects, r.Replays, r.Rejected})
}

func TestTheJSONKeepsItsNames(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-generate", "200", "-sample", "50", "-json"}, nil, &stdout, &stderr))
	var top map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &top))
	for _, name := range []string{
		"deliveries", "operations", "effects", "replays", "waits", "takeovers", "rejected", "errors",
		"doubled", "lost", "throughput", "overhead", "peak_rss_bytes", "passes", "without", "store", "policy", "seed",
	} {
		require.Contains(t, top, name)
	}
	var without map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(top["without"], &without))
	require.Subset(t, slices.Collect(maps.Keys(without)), []string{"deliveries", "effects", "doubled", "lost", "throughput"})
	var spent map[string]map[string]int64
	require.NoError(t, json.Unmarshal(top["overhead"], &spent))
	for _, kind := range []string{"first", "replay"} {
		require.ElementsMatch(t, []string{"calls", "p50_ns", "p99_ns", "max_ns"}, slices.Collect(maps.Keys(spent[kind])))
	}
}

func TestTheStatusTellsThatARunCouldNotBeMade(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-in", filepath.Join(t.TempDir(), "absent")}, {"-write", t.TempDir()}, {"-store", "punched-cards"}} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, 2, run(t.Context(), args, nil, &stdout, &stderr))
		require.Contains(t, stderr.String(), "replay: ")
		require.Empty(t, stdout.String())
	}
	ended, end := context.WithCancel(t.Context())
	end()
	var stdout, stderr bytes.Buffer
	require.Equal(t, 2, run(ended, nil, nil, &stdout, &stderr), "an interrupted run proves nothing")
}

// What a run has left out is no success.
func TestAStreamThatCannotBeReadAgainOrEndsTooSoonIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "deliveries.ndjson")
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-generate", "300", "-write", path}, nil, &stdout, &stderr))
	require.Equal(t, 2, run(t.Context(), []string{"-in", path, "-write", path}, nil, &stdout, &stderr))
	require.Contains(t, stderr.String(), "-write")
	status, r := runJSON(t, "-in", path, "-passes", "2", "-sample", "0")
	require.Zero(t, status)
	require.EqualValues(t, 600, r.Deliveries, "nothing was cut")

	one := &replay{cfg: &config{}}
	require.NoError(t, one.complete(figures{Deliveries: 300}, []figures{{Deliveries: 300}}))
	require.ErrorContains(t, one.complete(figures{}, []figures{{Deliveries: 300}}), "read again", "-in named a pipe")
	one.cfg.restart = "redis"
	require.ErrorContains(t, one.complete(figures{Deliveries: 300}, nil), "-restart")
	require.NoError(t, one.complete(figures{Deliveries: 300, Restarts: 1}, nil))
}

// A verdict is not hidden by what goes wrong after it.
func TestAFailedCleanUpDoesNotHideADoubledEffect(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	status, err := exit(1, newProgress(&said), errors.New("the schema could not be dropped"))
	require.NoError(t, err)
	require.Equal(t, 1, status)
	require.Contains(t, said.String(), "the schema could not be dropped")
	_, err = exit(0, newProgress(&said), errors.New("the schema could not be dropped"))
	require.Error(t, err)
}

// twoOwners is a backend without the live-claim test (I1): a key that is
// claimed is given to the next one too.
type twoOwners struct {
	driver.Backend
	mu     sync.Mutex
	n      int
	second map[driver.Owner]string // the record kept for a second owner
}

func (b *twoOwners) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	res, err := b.Backend.Claim(ctx, p)
	if err != nil || res.Fact != driver.InProgress {
		return res, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
	q := *p
	q.Key = fmt.Sprintf("%s/%d", p.Key, b.n)
	b.second[p.Owner] = q.Key
	return b.Backend.Claim(ctx, &q)
}

func (b *twoOwners) ref(ref driver.Ref) driver.Ref {
	b.mu.Lock()
	defer b.mu.Unlock()
	if key, ok := b.second[ref.Owner]; ok {
		ref.Key = key
	}
	return ref
}

func (b *twoOwners) Complete(ctx context.Context, ref driver.Ref, p *driver.CompleteParams) error {
	return b.Backend.Complete(ctx, b.ref(ref), p)
}

func (b *twoOwners) Release(ctx context.Context, ref driver.Ref, p *driver.ReleaseParams) error {
	return b.Backend.Release(ctx, b.ref(ref), p)
}

// The run must be able to fail: this is what it looks like when the store lets
// two owners in, although the provider deduplicates and nobody is killed.
func TestAStoreThatGivesOneKeyToTwoOwnersIsFoundOut(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cfg, err := parseConfig([]string{"-generate", "3000", "-crash=0", "-sample", "0"}, &out)
	require.NoError(t, err)
	broken := &twoOwners{Backend: memstore.New(nil), second: make(map[driver.Owner]string)}
	r, err := execute(t.Context(), cfg, &opened{backend: broken}, nil, newProgress(&out))
	require.NoError(t, err)
	require.Equal(t, 1, r.status())
	require.Contains(t, table(t, r), "FAILED: ")
}
