package storetest_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idem-go/idem/storetest"
)

// slowHarness is that of an intact backend on a machine that is a hundred times
// too slow, for so many waits.
func slowHarness(waits int64) storetest.Harness {
	var left atomic.Int64
	left.Store(waits)
	h := harness(none)
	h.Advance = func(tb testing.TB, d time.Duration) {
		tb.Helper()
		if left.Add(-1) >= 0 {
			d *= 100
		}
		time.Sleep(d) // in a bubble
	}
	return h
}

// watching are the rules that look at a deadline from before.
func watching() []string {
	return []string{"claim/lease_excludes_others_until_it_ends", "retention/counts_from_completion", "provider/window_over_forbids_taking"}
}

func TestASlowMachineRepeatsTheRuleWithALongerUnit(t *testing.T) {
	t.Parallel()
	for _, rule := range watching() {
		v := judge(t, slowHarness(3), []string{rule})
		if len(v.passed) != 1 {
			t.Errorf("%s: %s", rule, v.failed[rule])
		}
	}
}

func TestAMachineThatStaysTooSlowFailsAndSaysSo(t *testing.T) {
	t.Parallel()
	for _, rule := range watching() {
		v := judge(t, slowHarness(1<<40), []string{rule})
		if !strings.Contains(v.failed[rule], "the machine was too slow to tell") {
			t.Errorf("%s: passed %q, or another failure: %s", rule, v.passed, v.failed[rule])
		}
	}
}
