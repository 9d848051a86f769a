package backoff_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

// ledger is a budget, what the documentation says of it, and what happened.
type ledger struct {
	t     *testing.T
	b     *backoff.Budget
	began time.Time

	balance           float64
	credited          time.Time
	requests, retries int
}

const (
	everyBurst, everyRatio, everyPerSecond = 1, 0.5, 1.0
)

func newLedger(t *testing.T) *ledger {
	t.Helper()
	b := newBudget(t, &backoff.BudgetOptions{Burst: everyBurst, Ratio: everyRatio, PerSecond: everyPerSecond})
	return &ledger{t: t, b: b, began: time.Now(), balance: everyBurst, credited: time.Now()}
}

func (l *ledger) request() {
	l.requests++
	l.b.Deposit()
	l.balance = min(l.balance+everyRatio, everyBurst)
}

// retry takes a retry, and makes it or gives it back. It reports whether it was made.
func (l *ledger) retry(makes bool) bool {
	if l.balance+exact < 1 {
		if earned := everyPerSecond * time.Since(l.credited).Seconds(); l.balance+earned+exact >= 1 {
			l.balance, l.credited = min(l.balance+earned, everyBurst), time.Now()
		}
	}
	allowed := l.balance+exact >= 1
	require.Equal(l.t, allowed, l.b.Withdraw(), "of a balance of %v", l.balance)
	switch {
	case allowed && makes:
		l.balance--
		l.retries++
	case allowed:
		l.b.Refund()
	}
	return allowed && makes
}

// audit holds the budget to its bound.
func (l *ledger) audit() {
	bound := everyBurst + everyRatio*float64(l.requests) + everyPerSecond*time.Since(l.began).Seconds()
	if float64(l.retries) > bound+exact {
		require.Fail(l.t, "out of bounds", "%d retries, at most %v", l.retries, bound)
	}
	earned := everyPerSecond * time.Since(l.credited).Seconds()
	require.InDelta(l.t, min(l.balance+earned, everyBurst), l.b.Balance(), exact)
}

// loop is what a loop of three attempts does with a budget, step by step: it asks
// for another retry only if it has made the one before.
func (l *ledger) loop(makesSecond bool) []func() {
	made := false
	return []func(){
		l.request,
		func() { made = l.retry(true) },
		func() {
			if made {
				l.retry(makesSecond)
			}
		},
	}
}

// The bound of the documentation in every interleaving, not in many: three loops
// and the clock, in each of the orders that their steps can have. Deposit,
// Withdraw and Refund take effect at one instant each, so that there are no other
// orders; that they do is what TestRetriesStayWithinTheBoundInEveryInterleaving
// looks for, with goroutines.
func TestTheBoundHoldsInEveryOrderOfSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		orders, retries := 0, map[int]int{}
		var order []int
		left := []int{3, 3, 2, 2} // steps of the loops, and of the clock
		var extend func()
		extend = func() {
			done := true
			for who := range left {
				if left[who] == 0 {
					continue
				}
				done = false
				left[who]--
				order = append(order, who)
				extend()
				order = order[:len(order)-1]
				left[who]++
			}
			if done {
				orders++
				retries[run(t, order)]++
			}
		}
		extend()
		require.Equal(t, 25_200, orders, "10! / (3!·3!·2!·2!)")
		require.Greater(t, len(retries), 1, "the order matters")
		t.Logf("%d orders; retries made, and in how many of them: %v", orders, retries)
	})
}

// run makes the steps happen in an order, and returns how many retries were made.
func run(t *testing.T, order []int) int {
	t.Helper()
	l := newLedger(t)
	tick := func() { time.Sleep(600 * time.Millisecond) }
	steps := [][]func(){l.loop(true), l.loop(false), l.loop(true)[:2], {tick, tick}}
	for _, who := range order {
		steps[who][0]()
		steps[who] = steps[who][1:]
		l.audit()
	}
	return l.retries
}
