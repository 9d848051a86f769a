package sim_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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
	enough       int
	rules        string
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
	flag.IntVar(&f.enough, "sim.enough", 5, "after how many failures a worker stops: more say no more")
	flag.StringVar(&f.rules, "sim.rules", "", "only violations of these properties are failures, as A1,A2: for broken code")
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
	if budget.trace >= 0 {
		r := sim.Run(t, uint64(budget.trace), &sim.Counters{}, true)
		t.Log(r.Report())
		require.Empty(t, r.Violations)
		return
	}
	if budget.rules == "" { // of broken code it is asked how many seeds find it
		for _, seed := range pastFailures(t) {
			if r := sim.Run(t, seed, &sim.Counters{}, false); counts(r.Violations) {
				report(t, r)
			}
		}
	}
	began := time.Now()
	var sum findings
	for _, f := range share(t, runSeeds) {
		sum.Counters.Add(&f.Counters)
		sum.Failing = append(sum.Failing, f.Failing...)
	}
	c := &sum.Counters
	if len(sum.Failing) > 0 {
		t.Errorf("%s broken after %d seeds", sum.Failing[0].Violations[0].Rule, c.Seeds)
	}
	for _, r := range sum.Failing {
		report(t, r)
	}
	t.Logf("%.0f seeds/s, first %d; %v", float64(c.Seeds)/time.Since(began).Seconds(), budget.first, c)
	if c.Seeds >= gateSeeds {
		require.Empty(t, c.Missing(), "never seen: the generator is blind")
	}
}

// counts reports whether a run has failed.
func counts(violations []sim.Violation) bool {
	return slices.ContainsFunc(violations, func(v sim.Violation) bool {
		return budget.rules == "" || slices.Contains(strings.Split(budget.rules, ","), v.Rule)
	})
}

// runSeeds runs a share of the budget.
func runSeeds(t *testing.T, i, n int, f *findings) {
	t.Helper()
	until := time.Now().Add(budget.long)
	for k := uint64(i); len(f.Failing) < budget.enough && (budget.long > 0 || k < budget.seeds); k += uint64(n) {
		if r := sim.Run(t, budget.first+k, &f.Counters, false); counts(r.Violations) {
			f.Failing = append(f.Failing, r)
		}
		if budget.long > 0 && time.Now().After(until) {
			break
		}
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
	var wg sync.WaitGroup
	workers := uint64(runtime.GOMAXPROCS(0))
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
