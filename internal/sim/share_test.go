package sim_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// share divides the work of a test among processes of one processor each: a
// bubble's goroutines take turns, so that a second processor only slows it down.
// work does share i of n and fills in what it found. A worker is this test binary
// again, with the same flags and -sim.share; in a worker, share does not return.
func share[F any](t *testing.T, work func(t *testing.T, i, n int, found *F)) []F {
	t.Helper()
	if budget.share != "" {
		serve(t, work)
		t.SkipNow() // nothing is left to do for a worker
	}
	results := make([]F, budget.workers)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() { spawn(t, i, &results[i]) })
	}
	wg.Wait()
	return results
}

// serve is a worker's whole life.
func serve[F any](t *testing.T, work func(t *testing.T, i, n int, found *F)) {
	t.Helper()
	debug.SetGCPercent(400) // a bubble's memory dies with it
	var i, n int
	_, err := fmt.Sscanf(budget.share, "%d/%d", &i, &n)
	require.NoError(t, err)
	var found F
	work(t, i, n, &found)
	b, err := json.Marshal(&found)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(budget.out, b, 0o600))
}

// spawn runs a worker.
func spawn[F any](t *testing.T, i int, found *F) {
	t.Helper()
	out := filepath.Join(t.TempDir(), strconv.Itoa(i))
	args := append([]string{}, os.Args[1:]...)
	args = append(args, "-test.run=^"+t.Name()+"$", "-test.timeout=0", "-test.v=false", "-test.count=1", "-test.coverprofile=",
		fmt.Sprintf("-sim.share=%d/%d", i, budget.workers), "-sim.out="+out)
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	log, err := cmd.CombinedOutput()
	if b, readErr := os.ReadFile(out); err == nil && readErr == nil {
		err = json.Unmarshal(b, found)
	} else if err == nil {
		err = readErr
	}
	if err != nil {
		text := string(log)
		t.Errorf("worker %d: %v (in a stack, the seed is the number that sim.Run is about)\n%s", i, err, text[:min(len(text), 20_000)])
	}
}
