package sim_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/internal/sim"
)

// flags are the budget: the same program for a moment, for CI and for a night.
type flags struct {
	seeds, first uint64
	long         time.Duration
	twice        uint64
	workers      int
	trace        int64
	share        string
	out          string
}

var budget = registerFlags() //nolint:gochecknoglobals // flags of the test binary

func registerFlags() *flags {
	f := &flags{}
	flag.Uint64Var(&f.seeds, "sim.seeds", 300, "how many seeds to run")
	flag.Uint64Var(&f.first, "sim.first", 1, "the first seed")
	flag.DurationVar(&f.long, "sim.for", 0, "run for so long, whatever -sim.seeds says")
	flag.Uint64Var(&f.twice, "sim.twice", 20, "how many seeds to run twice, to compare the traces")
	flag.IntVar(&f.workers, "sim.workers", runtime.NumCPU(), "how many processes share the seeds")
	flag.Int64Var(&f.trace, "sim.trace", -1, "run this seed alone and print its trace")
	flag.StringVar(&f.share, "sim.share", "", "of a worker: which share of the seeds is its own, as i/n")
	flag.StringVar(&f.out, "sim.out", "", "of a worker: the file for its findings")
	return f
}

// gateSeeds is how many seeds must have come across everything.
const gateSeeds = 5000

// findings are what a worker hands to its parent.
type findings struct {
	Counters sim.Counters
	Failing  []sim.Result
}

func TestSimulatedFaultsBreakNoProperty(t *testing.T) { //nolint:paralleltest // it uses every processor
	switch {
	case budget.trace >= 0:
		r := sim.Run(t, uint64(budget.trace), &sim.Counters{}, true) //nolint:gosec // not negative
		t.Log(r.Report())
		require.Empty(t, r.Violations)
	case budget.share != "":
		work(t)
	default:
		runAll(t)
	}
}

// runAll runs the failing seeds of the past, and then the budget.
func runAll(t *testing.T) {
	t.Helper()
	for _, seed := range pastFailures(t) {
		if r := sim.Run(t, seed, &sim.Counters{}, false); len(r.Violations) > 0 {
			report(t, r)
		}
	}
	began := time.Now()
	all := share(t)
	for _, r := range all.Failing {
		report(t, r)
	}
	c := &all.Counters
	t.Logf("%.0f seeds/s, first %d; %v", float64(c.Seeds)/time.Since(began).Seconds(), budget.first, c)
	if c.Seeds >= gateSeeds {
		require.Empty(t, c.Missing(), "never seen: the generator is blind")
	}
}

// report runs a failing seed once more, to tell its story.
func report(t *testing.T, failing sim.Result) {
	t.Helper()
	r := sim.Run(t, failing.Seed, &sim.Counters{}, true)
	if len(r.Violations) == 0 {
		t.Errorf("seed %d does not replay; it broke %+v", failing.Seed, failing.Violations)
		return
	}
	t.Error(r.Report())
}

// share divides the seeds among processes of one processor each: a bubble's
// goroutines take turns, so that a second processor only slows it down.
func share(t *testing.T) findings {
	t.Helper()
	n := budget.workers
	if budget.long == 0 {
		n = min(n, int(budget.seeds/200)+1) //nolint:gosec // small
	}
	results := make([]findings, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { results[i] = spawn(t, i, n) })
	}
	wg.Wait()
	var all findings
	for i := range results {
		all.Counters.Add(&results[i].Counters)
		all.Failing = append(all.Failing, results[i].Failing...)
	}
	slices.SortFunc(all.Failing, func(a, b sim.Result) int { return int(a.Seed - b.Seed) }) //nolint:gosec // an order
	return all
}

// spawn runs this test binary as a worker.
func spawn(t *testing.T, i, n int) findings {
	t.Helper()
	out := filepath.Join(t.TempDir(), strconv.Itoa(i))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=0", //nolint:gosec // ourselves
		fmt.Sprintf("-sim.share=%d/%d", i, n), "-sim.out="+out, fmt.Sprintf("-sim.seeds=%d", budget.seeds),
		fmt.Sprintf("-sim.first=%d", budget.first), fmt.Sprintf("-sim.for=%v", budget.long))
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	log, err := cmd.CombinedOutput()
	var f findings
	if b, readErr := os.ReadFile(out); err == nil && readErr == nil { //nolint:gosec // our own file
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		text := string(log)
		t.Errorf("worker %d: %v (in a stack, the last seed is the number that (*world).simulate and sim.Run are about)\n%s", i, err, text[:min(len(text), 20_000)])
	}
	return f
}

// work is a worker's whole life. It ends after some failures: more say no more.
func work(t *testing.T) {
	t.Helper()
	const enough = 5
	debug.SetGCPercent(400)
	var i, n uint64
	_, err := fmt.Sscanf(budget.share, "%d/%d", &i, &n)
	require.NoError(t, err)
	var f findings
	until := time.Now().Add(budget.long)
	for k := i; len(f.Failing) < enough && (budget.long > 0 || k < budget.seeds); k += n {
		if r := sim.Run(t, budget.first+k, &f.Counters, false); len(r.Violations) > 0 {
			f.Failing = append(f.Failing, r)
		}
		if budget.long > 0 && time.Now().After(until) {
			break
		}
	}
	b, err := json.Marshal(f)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(budget.out, b, 0o600))
}

// pastFailures reads the seeds that once failed.
func pastFailures(t *testing.T) []uint64 {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "failing-seeds.txt"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	var seeds []uint64
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		seed, err := strconv.ParseUint(strings.Fields(line)[0], 10, 64)
		require.NoError(t, err)
		seeds = append(seeds, seed)
	}
	return seeds
}

// Here all processors are used: the order of a run must not depend on them.
func TestSimulationOfOneSeedTwiceGivesTheSameTrace(t *testing.T) { //nolint:paralleltest // it uses every processor
	if budget.share != "" || budget.trace >= 0 {
		t.Skip("this process is a worker")
	}
	var wg sync.WaitGroup
	workers := uint64(runtime.GOMAXPROCS(0)) //nolint:gosec // small
	for i := range workers {
		wg.Go(func() {
			for seed := budget.first + i; seed < budget.first+budget.twice; seed += workers {
				first := sim.Run(t, seed, &sim.Counters{}, true)
				second := sim.Run(t, seed, &sim.Counters{}, true)
				if first.Hash != second.Hash {
					t.Errorf("seed %d differs from %s", seed, difference(first.Trace, second.Trace))
				}
			}
		})
	}
	wg.Wait()
}

// difference shows where two traces part.
func difference(a, b []string) string {
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	from := max(0, at-8)
	return fmt.Sprintf("line %d on:\n%s\n\nor:\n%s", at,
		strings.Join(a[from:min(len(a), at+4)], "\n"), strings.Join(b[from:min(len(b), at+4)], "\n"))
}
