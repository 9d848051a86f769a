package main

import (
	"bytes"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func example() *report {
	with := figures{Deliveries: 22000, Operations: 14235, Effects: 13983, Replays: 7661, Throughput: 9211.4, Seconds: 2.39}
	return &report{
		Store: "memory", Policy: "rerun", Workers: 16, Processes: 4, Seed: 1, PeakMemory: 29 << 20,
		figures: with, Passes: []figures{with},
		Without:  &figures{Deliveries: 2000, Effects: 2067, Doubled: 528, Overcharged: 9971338},
		Overhead: overhead{First: quantiles{14235, 8960, 117456, 5841234}, Replay: quantiles{7661, 4613, 86100, 2671234}},
	}
}

func table(t *testing.T, r *report) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, r.table(&b))
	return b.String()
}

func TestTheTableSetsTheSampleBesideTheRun(t *testing.T) {
	t.Parallel()
	text := table(t, example())
	for _, line := range []string{
		"                                 without idem      with idem\n",
		"deliveries                              2,000         22,000\n",
		"replays                                     -          7,661\n",
		"DOUBLED EFFECTS                           528              0\n",
		"  charged too much                  99,713.38           0.00\n",
		"first executions                       14,235         8.96µs          117µs         5.84ms\n",
		"store memory, policy rerun, 16 workers in 4 processes, seed 1, peak memory 29 MB\n",
		"OK: every operation had its effect once, or was refused for good\n",
	} {
		require.Contains(t, text, line)
	}
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, len([]rune(line)), 100)
	}
}

func TestTheTableShowsPassesUpToThree(t *testing.T) {
	t.Parallel()
	r := example()
	r.Without = nil
	r.Passes = make([]figures, 2)
	require.Contains(t, table(t, r), "         pass 1         pass 2      with idem\n")
	r.Passes = make([]figures, 4)
	require.NotContains(t, table(t, r), "pass 1")
}

func TestTheLastLineSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	r := example()
	r.Doubled, r.Example = 3, []int64{17, 4711}
	require.Contains(t, table(t, r),
		"FAILED: 3 effects doubled (the first by deliveries 17 and 4711), 0 operations lost, 0 outcomes forgotten, 0 answers to another request\n")
	require.True(t, r.failed())
	r = example()
	r.Lost = 1
	require.Contains(t, table(t, r), "FAILED: 0 effects doubled, 1 operations lost, 0 outcomes forgotten, 0 answers to another request\n")
	require.True(t, r.failed())
	r = example()
	r.Wrong = 1
	require.True(t, r.failed(), "an answer that belongs to another operation is no success")
	r = example()
	r.Unsettled = 2
	require.Contains(t, table(t, r), "INCOMPLETE: 2 deliveries found no end\n")
}

func TestNumbersAreGrouped(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 1400000: "1,400,000", -12345: "-12,345"} {
		require.Equal(t, want, grouped(n))
	}
	require.Equal(t, "1,234.05", money(123405))
}

func TestProgressIsAPlainLineNowAndThenWithoutATerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w bytes.Buffer
		var n atomic.Int64
		p := newProgress(&w)
		stop := p.follow("with idem", 1000, n.Load)
		n.Store(400)
		time.Sleep(lineEvery + time.Millisecond)
		synctest.Wait()
		p.say("a remark")
		n.Store(1000)
		time.Sleep(lineEvery - 2*time.Millisecond)
		stop()
		stop()
		require.Equal(t, "with idem: 400 of 1,000 deliveries, 200/s\na remark\nwith idem: 1,000 deliveries, 250/s\n", w.String())
	})
}

func TestProgressOnATerminalIsABarThatIsWipedForARemark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w bytes.Buffer
		p := &progress{w: &w, terminal: true}
		stop := p.follow("with idem", 1000, func() int64 { return 500 })
		time.Sleep(barEvery + time.Millisecond)
		synctest.Wait()
		require.Equal(t, "\rwith idem [###############...............]  50 %  5,000/s", w.String())
		w.Reset()
		p.say("a remark")
		require.Equal(t, "\r"+strings.Repeat(" ", 57)+"\ra remark\n", w.String())
		stop()
	})
}

func TestTheBarIsNeverLongerThanWhole(t *testing.T) {
	t.Parallel()
	require.Contains(t, bar("x", 1500, 1000, 0), "["+strings.Repeat("#", barWidth)+"] 100 %")
	require.Equal(t, "x: 1,500 deliveries, 10/s", bar("x", 1500, 0, 10), "no bar where the end is not known")
	require.False(t, isTerminal(io.Discard))
}
