package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/memstore"
)

func TestMain(m *testing.M) {
	status := m.Run()
	for _, stop := range []func() error{testenv.StopRedis, testenv.StopPostgres} {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

// named are the flags that name the servers that this process's tests share.
func named(t *testing.T) []string {
	t.Helper()
	return []string{"-redis-url", testenv.Redis(t), "-postgres-url", testenv.Postgres(t)}
}

// requireOnce requires that every operation had its effect once, and that the
// second pass had none.
func requireOnce(t *testing.T, status int, r *report) {
	t.Helper()
	require.Zero(t, status)
	requireWhole(t, r)
	require.Zero(t, r.Doubled)
	require.Zero(t, r.Forgotten)
	require.Positive(t, r.Killed)
	require.Positive(t, r.Takeovers)
	require.Len(t, r.Passes, 2)
	first, second := r.Passes[0], r.Passes[1]
	require.Positive(t, first.Effects)
	require.Zero(t, second.Effects)
	require.Equal(t, second.Deliveries-second.Rejected, second.Replays, "each finds its outcome")
}

func TestOverEveryStoreEachOperationHasItsEffectOnceAndTheSecondPassReplays(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			status, r := runJSON(t, append(named(t), "-store", store, "-generate", "1200", "-crash=0.03", "-passes", "2", "-sample", "0")...)
			requireOnce(t, status, r)
			require.Equal(t, store, r.Store)
		})
	}
}

func TestAReplayInsideTheWindowIsOneReadOfTheFastTierAndNothingElse(t *testing.T) {
	t.Parallel()
	_, r := runJSON(t, append(named(t), "-store", "tiered", "-generate", "800", "-crash=0", "-passes", "2", "-sample", "0")...)
	second := r.Passes[1]
	fast, archive := second.Tiers[0].Calls, second.Tiers[1].Calls
	answered := archive["claims_replayed"] + archive["claims_other"]
	require.Equal(t, second.Replays+second.OtherBody, fast["reads_hit"]+answered, "each is one or the other")
	if failed(r) == 0 { // else the archive answers where a copy could not be put, or not be read, in time
		require.Zero(t, answered)
	}
	require.Zero(t, archive["claims_acquired"]+archive["completions"]+archive["releases"])
}

// failed counts the calls of both tiers, in both passes, that a slow machine cut.
func failed(r *report) (n int64) {
	for _, pass := range r.Passes {
		for _, tier := range pass.Tiers {
			n += tier.Calls["calls_failed"]
		}
	}
	return n
}

// The calls that a store sees in the second pass: each delivery that has a key
// is one call, and none of it writes.
func TestAReplayIsOneCallOfTheStore(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"memory", "redis", "postgres"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			_, r := runJSON(t, append(named(t), "-store", store, "-generate", "800", "-crash=0", "-lease", "30s", "-passes", "2", "-sample", "0")...)
			second := r.Passes[1].Tiers[0].Calls
			require.Equal(t, r.Passes[1].Replays, second["claims_replayed"])
			require.Equal(t, r.Passes[1].OtherBody, second["claims_other"])
			delete(second, "claims_replayed")
			delete(second, "claims_other")
			delete(second, "calls_failed") // a machine that stands still for seconds, and the call is made again
			require.Empty(t, second)
			first := r.Passes[0].Tiers[0].Calls
			require.Equal(t, r.Overhead.First.Calls, first["completions"], "one for each operation that ended")
			if first["calls_failed"] == 0 {
				require.Equal(t, first["completions"]+first["releases"], first["claims_acquired"], "whatever was claimed was settled")
			}
		})
	}
}

func TestAServerThatIsKilledInTheMiddleOfEachPassCostsNoEffect(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		for _, server := range []string{"redis", "postgres"} {
			if (&config{store: store, restart: server}).checkRestart() != nil {
				continue // the store has no such server
			}
			t.Run(store+", killing "+server, func(t *testing.T) {
				t.Parallel()
				status, r := runJSON(t, "-store", store, "-restart", server, "-generate", "1200", "-crash=0.03", "-passes", "2", "-sample", "0")
				requireOnce(t, status, r)
				require.Equal(t, int64(2), r.Restarts)
			})
		}
	}
}

func TestNothingIsLeftOnAServerThatIsSomebodyElses(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: testenv.OwnRedis(t, testenv.RedisConfig{}).Addr()})
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	require.NoError(t, rdb.Set(t.Context(), "somebody's", "key", 0).Err())
	db, err := pgx.Connect(t.Context(), testenv.Postgres(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close(context.WithoutCancel(t.Context()))) })
	cfg, err := parseConfig(append(named(t), "-redis-url", "redis://"+rdb.Options().Addr, "-generate", "600", "-sample", "0"), os.Stderr)
	require.NoError(t, err)
	for _, store := range stores {
		cfg.store = store
		o, err := openStore(t.Context(), cfg, t.Logf)
		require.NoError(t, err)
		_, err = execute(t.Context(), cfg, o, nil, newProgress(new(bytes.Buffer)))
		require.NoError(t, err)
		if o.schema != "" {
			require.Equal(t, 1, schemas(t, db, o.schema))
		}
		require.NoError(t, o.close(t.Context()))
		if o.schema != "" {
			require.Zero(t, schemas(t, db, o.schema))
		}
		require.Equal(t, []string{"somebody's"}, rdb.Keys(t.Context(), "*").Val())
	}
}

func schemas(t *testing.T, db *pgx.Conn, name string) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname = $1", name).Scan(&n))
	return n
}

// signalled is a writer that calls f when a text was written to it.
type signalled struct {
	mu   sync.Mutex
	all  bytes.Buffer
	text string
	f    func()
}

func (w *signalled) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.all.Write(b)
	if w.f != nil && strings.Contains(w.all.String(), w.text) {
		w.f()
		w.f = nil
	}
	return n, err
}

func TestAnInterruptedRunStopsTheServersThatItStarted(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"redis", "postgres"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancel(t.Context())
			stderr := &signalled{text: "with idem: ", f: interrupt} // the first line of its progress
			var stdout bytes.Buffer
			status := run(ctx, []string{"-store", store, "-restart", store, "-generate", "10000000", "-sample", "0"}, nil, &stdout, stderr)
			require.Equal(t, 2, status)
			require.Empty(t, stdout.String())
			addr := regexp.MustCompile(`started a \w+ server on (\S+)`).FindStringSubmatch(stderr.all.String())
			require.Len(t, addr, 2, stderr.all.String())
			_, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr[1])
			require.Error(t, err, "nobody listens any more")
		})
	}
}

func TestWhatStandsInTheWayOfAStoreIsSaidWithoutAPassword(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ store, flag, url, want string }{
		{"redis", "-redis-url", "redis://:s3cret@127.0.0.1:1/0", "127.0.0.1:1"},
		{"redis", "-redis-url", "redis://:s3cret@127.0.0.1:bad/0", "-redis-url"},
		{"redis", "-redis-url", "http://:s3cret@127.0.0.1/0", "scheme"},
		{"postgres", "-postgres-url", "postgres://u:s3cret@127.0.0.1:1/db", "127.0.0.1:1"},
		{"postgres", "-postgres-url", "postgres://u:s3cret@127.0.0.1:bad/db", "-postgres-url"},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, 2, run(t.Context(), []string{"-store", c.store, c.flag, c.url}, nil, &stdout, &stderr), c.url)
		require.Contains(t, stderr.String(), "replay: -store "+c.store)
		require.Contains(t, stderr.String(), c.want)
		require.NotContains(t, stderr.String(), "s3cret")
		require.Empty(t, stdout.String())
	}
}

func TestTheComparisonRunsOverEveryStore(t *testing.T) {
	t.Parallel()
	args := append(named(t), "-compare", "-generate", "300")
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), append(args, "-json"), nil, &stdout, &stderr), stderr.String())
	var c comparison
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &c))
	require.Len(t, c.Stores, len(stores))
	require.Equal(t, int64(300*len(stores)), c.Deliveries)
	for i, r := range c.Stores {
		require.Equal(t, stores[i], r.Store)
		require.Positive(t, r.Overhead.First.P50)
		require.Positive(t, r.Overhead.Replay.P50)
	}
	var b strings.Builder
	require.NoError(t, c.table(&b))
	for _, store := range stores {
		require.Contains(t, b.String(), "\n"+store)
	}
}

// amnesiac is a backend that forgets every outcome once, after some of them were
// recorded: from then on, another one answers for those keys.
type amnesiac struct {
	driver.Backend
	left  atomic.Int64
	other driver.Backend
}

func (a *amnesiac) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	res, err := a.Backend.Claim(ctx, p)
	if err == nil && res.Fact == driver.Completed && a.left.Load() <= 0 {
		return a.other.Claim(ctx, p)
	}
	return res, err
}

func (a *amnesiac) Complete(ctx context.Context, ref driver.Ref, p *driver.CompleteParams) error {
	a.left.Add(-1)
	if a.Backend.Complete(ctx, ref, p) == nil {
		return nil
	}
	return a.other.Complete(ctx, ref, p)
}

func (a *amnesiac) Release(ctx context.Context, ref driver.Ref, p *driver.ReleaseParams) error {
	if a.Backend.Release(ctx, ref, p) == nil {
		return nil
	}
	return a.other.Release(ctx, ref, p)
}

// The run must be able to fail: a provider that deduplicates hides from its ledger
// that a store has lost its memory.
func TestAStoreThatForgetsOutcomesIsFoundOutAlthoughNothingIsDoubled(t *testing.T) {
	t.Parallel()
	cfg, err := parseConfig([]string{"-generate", "2000", "-crash=0", "-sample", "0"}, os.Stderr)
	require.NoError(t, err)
	a := &amnesiac{Backend: memstore.New(nil), other: memstore.New(nil)}
	a.left.Store(800)
	r, err := execute(t.Context(), cfg, &opened{backend: a}, nil, newProgress(new(bytes.Buffer)))
	require.NoError(t, err)
	require.Zero(t, r.Doubled)
	require.Positive(t, r.Forgotten)
	require.Equal(t, 1, r.status())
	require.Contains(t, table(t, r), "FAILED: 0 effects doubled, 0 operations lost, ")
}
