package backoff_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

// Not parallel: testing.AllocsPerRun counts what the whole process allocates.
//
//nolint:paralleltest // see above
func TestAllocationsStayWithinTheirBudgets(t *testing.T) {
	const runs = 1000
	ctx := t.Context()
	circuit := newCircuit(t, nil)
	full := &backoff.Policy{Budget: newBudget(t, nil), Breaker: circuit}
	again, failure := &backoff.Policy{Base: backoff.NoDelay}, transient()
	value := func(context.Context) (int, error) { return 7, nil }
	nothing := func(context.Context) error { return nil }
	for name, tc := range map[string]struct {
		allocs float64
		call   func() bool
	}{
		"first try":                         {1, func() bool { v, err := backoff.Do(ctx, &backoff.Policy{}, value); return v == 7 && err == nil }},
		"first try, no value":               {1, func() bool { return backoff.Run(ctx, nil, nothing) == nil }},
		"first try with budget and circuit": {1, func() bool { v, err := backoff.Do(ctx, full, value); return v == 7 && err == nil }},
		"a retry": {1, func() bool {
			calls := 0
			err := backoff.Run(ctx, again, func(context.Context) error {
				if calls++; calls == 1 {
					return failure
				}
				return nil
			})
			return calls == 2 && err == nil
		}},
		"classes of an error":            {0, func() bool { return backoff.Classify(failure) == backoff.Transient && backoff.NothingSent(failure) }},
		"first try that is the only one": {0, func() bool { return backoff.Run(ctx, &backoff.Policy{MaxAttempts: 1}, nothing) == nil }},
		"circuit, closed": {0, func() bool {
			done, err := circuit.Allow()
			done(nil)
			return err == nil
		}},
		"budget": {0, func() bool { full.Budget.Deposit(); full.Budget.Refund(); return full.Budget.Withdraw() }},
		"delays": {0, func() bool {
			d := time.Duration(0)
			for _, j := range jitters() {
				d += (&backoff.Policy{Jitter: j}).Delay(3, time.Second, rand.Uint64())
			}
			return d > 0
		}},
	} {
		ok := true
		got := testing.AllocsPerRun(runs, func() { ok = tc.call() && ok })
		require.True(t, ok, "%s: another answer was measured", name)
		require.LessOrEqual(t, got, tc.allocs, name)
	}
}
