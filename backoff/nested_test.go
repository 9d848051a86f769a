package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

// nest wraps an operation in layers of loops.
func nest(layers int, p *backoff.Policy, op func(context.Context) error) func(context.Context) error {
	for range layers {
		within := op
		op = func(ctx context.Context) error { return backoff.Run(ctx, p, within) }
	}
	return op
}

// backoff.md 2.2: three retries in three layers are 4³ = 64 calls, three tries in
// five layers 3⁵ = 243; here they are those of one layer.
func TestNestedLoopsAreOneLayer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ layers, attempts int }{{2, 3}, {3, 4}, {5, 3}} {
		op := failing(transient())
		p := &backoff.Policy{MaxAttempts: tc.attempts, Base: backoff.NoDelay}
		err := nest(tc.layers, p, op.run)(t.Context())
		e := stopped(t, err, backoff.ErrExhausted, tc.attempts)
		require.Equal(t, tc.attempts, op.count)
		require.Equal(t, transient(), e.Last, "an inner loop returns the operation's own error")
	}
}

func TestAnInnerLoopReturnsItsValueAndItsError(t *testing.T) {
	t.Parallel()
	v, err := backoff.Do(t.Context(), nil, func(ctx context.Context) (string, error) {
		v, err := backoff.Do(ctx, nil, func(context.Context) (string, error) { return "half", errX })
		require.Equal(t, errX, err)
		return v, err
	})
	require.ErrorIs(t, err, errX)
	require.Equal(t, "half", v)
}

func TestADetachedLoopRetriesByItself(t *testing.T) {
	t.Parallel()
	p := &backoff.Policy{Base: backoff.NoDelay}
	op := failing(transient())
	err := backoff.Run(t.Context(), p, func(ctx context.Context) error {
		return backoff.Run(backoff.Detach(ctx), p, op.run)
	})
	requireStopped(t, err, backoff.ErrExhausted, 3)
	require.Equal(t, 9, op.count)

	// Below the detached one there is again one layer.
	op = failing(transient())
	_ = backoff.Run(t.Context(), &backoff.Policy{MaxAttempts: 2, Base: backoff.NoDelay}, func(ctx context.Context) error {
		return nest(2, p, op.run)(backoff.Detach(ctx))
	})
	require.Equal(t, 6, op.count)
}

func TestDetachKeepsTheRestOfTheContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
	require.Equal(t, ctx, backoff.Detach(ctx), "nothing to detach from")
	_ = backoff.Run(ctx, nil, func(ctx context.Context) error {
		detached := backoff.Detach(ctx)
		require.NotEqual(t, ctx, detached)
		require.Equal(t, detached, backoff.Detach(detached))
		require.Equal(t, "value", ctx.Value(key{}))
		require.Equal(t, "value", detached.Value(key{}))
		cancel(errCause)
		require.ErrorIs(t, detached.Err(), context.Canceled)
		require.Equal(t, errCause, context.Cause(detached))
		return nil
	})
}

// What outlives the operation is still taken for a part of it: the marker is a
// value, and context.WithoutCancel keeps values. Detach is for that.
func TestBackgroundWorkIsPartOfTheLoopUnlessDetached(t *testing.T) {
	t.Parallel()
	left, err := backoff.Do(t.Context(), nil, func(ctx context.Context) (context.Context, error) {
		return context.WithoutCancel(ctx), nil
	})
	require.NoError(t, err)
	p := &backoff.Policy{Base: backoff.NoDelay}
	op := failing(transient())
	_ = backoff.Run(left, p, op.run)
	require.Equal(t, 1, op.count)
	_ = backoff.Run(backoff.Detach(left), p, op.run)
	require.Equal(t, 4, op.count)
}

// A loop that never retries is no layer of retries: the inner one is the only.
func TestALoopOfOneAttemptLeavesRetryingToTheInnerOne(t *testing.T) {
	t.Parallel()
	op := failing(transient())
	err := backoff.Run(t.Context(), &backoff.Policy{MaxAttempts: 1}, func(ctx context.Context) error {
		return backoff.Run(ctx, &backoff.Policy{Base: backoff.NoDelay}, op.run)
	})
	requireStopped(t, err, backoff.ErrExhausted, 1)
	require.Equal(t, 3, op.count)
}

func TestAnInnerLoopKeepsItsTimeoutAndItsBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		circuit := newCircuit(t, &backoff.CircuitOptions{MinCalls: 2})
		inner := &backoff.Policy{Timeout: time.Second, Breaker: circuit, Base: time.Hour}
		began, count := time.Now(), 0
		err := backoff.Run(t.Context(), &backoff.Policy{MaxAttempts: 9, Base: backoff.NoDelay}, func(ctx context.Context) error {
			return backoff.Run(ctx, inner, func(ctx context.Context) error {
				count++
				<-ctx.Done()
				return ctx.Err()
			})
		})
		require.Equal(t, 2, count, "the circuit has seen enough")
		require.Equal(t, 2*time.Second, time.Since(began), "open means stop, also further down")
		e := stopped(t, err, backoff.ErrOpen, 3)
		require.ErrorIs(t, e.Last, backoff.ErrOpen)
		left, ok := backoff.Hint(err)
		require.True(t, ok)
		require.Equal(t, circuit.Stats().OpenFor, left)
	})
}

// A budget that inner and outer loops share counts each call once.
func TestNestedLoopsUseASharedBudgetOnce(t *testing.T) {
	t.Parallel()
	budget := newBudget(t, nil)
	require.True(t, budget.Withdraw())
	p := &backoff.Policy{Budget: budget, Base: backoff.NoDelay}
	_ = nest(3, p, failing(transient()).run)(t.Context())
	require.InDelta(t, 9+0.1-2, budget.Balance(), exact)
}

// The retries of the outer loop reach the target of the inner one: its budget
// pays for them, and when it is empty they end. Otherwise an outer loop would
// undo the bound of all budgets below it.
func TestTheBudgetOfAnInnerLoopPaysForTheRetriesOfTheOuterOne(t *testing.T) {
	t.Parallel()
	budget := newBudget(t, nil)
	inner := &backoff.Policy{Budget: budget}
	outer := &backoff.Policy{Base: backoff.NoDelay}
	const requests = 1000
	calls := 0
	for range requests {
		err := backoff.Run(t.Context(), outer, func(ctx context.Context) error {
			return backoff.Run(ctx, inner, func(context.Context) error { calls++; return transient() })
		})
		require.ErrorIs(t, err, errX)
	}
	require.LessOrEqual(t, float64(calls), requests+10+0.1*requests+exact)
	require.GreaterOrEqual(t, calls, requests+requests/10)

	budget = newBudget(t, nil)
	for budget.Withdraw() {
		continue // until nothing is left: a request alone earns no retry then
	}
	inner = &backoff.Policy{Budget: budget}
	op := failing(transient())
	err := backoff.Run(t.Context(), outer, func(ctx context.Context) error { return backoff.Run(ctx, inner, op.run) })
	e := stopped(t, err, backoff.ErrBudget, 2)
	require.Equal(t, 1, op.count)
	last := stopped(t, e.Last, backoff.ErrBudget, 1)
	require.Equal(t, transient(), last.Last, "the target's own error")
	require.True(t, backoff.NothingSent(err))
}

// What failed afterwards sent nothing; the call before it did.
func TestAnInnerCallThatSucceededIsNotForgotten(t *testing.T) {
	t.Parallel()
	budget := newBudget(t, nil)
	for budget.Withdraw() {
		continue
	}
	err := backoff.Run(t.Context(), &backoff.Policy{Base: backoff.NoDelay}, func(ctx context.Context) error {
		if err := backoff.Run(ctx, &backoff.Policy{Budget: budget}, failing(nil).run); err != nil {
			return err
		}
		return transient()
	})
	e := stopped(t, err, backoff.ErrBudget, 2)
	require.ErrorIs(t, e.Last, backoff.ErrBudget)
	require.False(t, backoff.NothingSent(err))
}

func TestAnInnerBudgetCountsRequestsAndRetries(t *testing.T) {
	t.Parallel()
	before := errors.New("fails before the inner loop")
	for name, tc := range map[string]struct {
		op   func(ctx context.Context, attempt int, inner func() error) error
		want float64 // of 5
	}{
		"a request and two retries":        {func(_ context.Context, _ int, inner func() error) error { return inner() }, 5 + 0.1 - 2},
		"two requests, then their retries": {func(_ context.Context, _ int, inner func() error) error { return errors.Join(inner(), inner()) }, 5 + 0.2 - 4},
		"first reached by a retry": {func(_ context.Context, attempt int, inner func() error) error {
			if attempt == 1 {
				return backoff.Mark(before, backoff.Transient)
			}
			return inner()
		}, 5 + 0.1 - 1},
		"never reached": {func(context.Context, int, func() error) error { return backoff.Mark(before, backoff.Transient) }, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			budget := newBudget(t, nil)
			for range 5 {
				budget.Withdraw()
			}
			attempt := 0
			err := backoff.Run(t.Context(), &backoff.Policy{Base: backoff.NoDelay}, func(ctx context.Context) error {
				attempt++
				return tc.op(ctx, attempt, func() error {
					return backoff.Run(ctx, &backoff.Policy{Budget: budget}, failing(transient()).run)
				})
			})
			requireStopped(t, err, backoff.ErrExhausted, 3)
			require.InDelta(t, tc.want, budget.Balance(), exact)
		})
	}
}

// A retry that the inner breaker refuses is not made, and costs nothing; a request
// that it refuses earns nothing.
func TestAnInnerBudgetDoesNotPayForWhatABreakerRefuses(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]float64{1: 5, 2: 5 + 0.1, 3: 5 + 0.1 - 1} {
		budget := newBudget(t, nil)
		for range 5 {
			budget.Withdraw()
		}
		inner := &backoff.Policy{Budget: budget, Breaker: onAllow(n, nil)}
		err := nest(1, &backoff.Policy{Base: backoff.NoDelay}, func(ctx context.Context) error {
			return backoff.Run(ctx, inner, failing(transient()).run)
		})(t.Context())
		requireStopped(t, err, backoff.ErrOpen, n)
		require.InDelta(t, want, budget.Balance(), exact)
	}
}

func TestInnerLoopsShareAnAccountAcrossGoroutines(t *testing.T) {
	t.Parallel()
	budget := newBudget(t, &backoff.BudgetOptions{Burst: 100})
	inner := &backoff.Policy{Budget: budget}
	err := backoff.Run(t.Context(), &backoff.Policy{Base: backoff.NoDelay}, func(ctx context.Context) error {
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = backoff.Run(ctx, inner, failing(transient()).run) })
		}
		wg.Wait()
		return errors.Join(errs...)
	})
	requireStopped(t, err, backoff.ErrExhausted, 3)
	require.InDelta(t, 100-16, budget.Balance(), exact, "it was full when the eight requests came")
}

// Nor does the outer loop repeat what the inner one must not.
func TestAnUnrepeatableInnerLoopIsNotRepeatedInDoubt(t *testing.T) {
	t.Parallel()
	errTorn := errors.New("torn") // which the inner loop alone knows
	inner := &backoff.Policy{Unrepeatable: true, Classify: func(err error) backoff.Class {
		if errors.Is(err, errTorn) {
			return backoff.Ambiguous
		}
		return 0
	}}
	for _, tc := range []struct {
		err      error
		reason   error
		attempts int
	}{
		{io.ErrUnexpectedEOF, backoff.ErrAmbiguous, 1},
		{backoff.Mark(errX, backoff.Ambiguous), backoff.ErrAmbiguous, 1},
		{errTorn, backoff.ErrAmbiguous, 1},
		{transient(), backoff.ErrExhausted, 3},
		{errX, backoff.ErrPermanent, 1},
	} {
		op := failing(tc.err)
		err := backoff.Run(t.Context(), &backoff.Policy{Base: backoff.NoDelay}, func(ctx context.Context) error {
			return fmt.Errorf("w: %w", backoff.Run(ctx, inner, op.run))
		})
		requireStopped(t, err, tc.reason, tc.attempts)
		require.ErrorIs(t, err, tc.err)
		require.Equal(t, errors.Is(tc.reason, backoff.ErrExhausted), backoff.NothingSent(err))
	}
}

// What a loop further down has to say counts although its attempts carry marks:
// only a mark set around its error overrules it.
func TestAMarkOfAnAttemptDoesNotOverruleTheLoopBelow(t *testing.T) {
	t.Parallel()
	mark := backoff.Mark
	unknown := mark(errX, backoff.Ambiguous)
	empty := newBudget(t, nil)
	for empty.Withdraw() {
		continue
	}
	for name, tc := range map[string]struct {
		inner  *backoff.Policy
		errs   []error
		reason error
	}{
		"breaker": {&backoff.Policy{Breaker: onAllow(2, nil), Base: backoff.NoDelay}, []error{transient()}, backoff.ErrOpen},
		"budget":  {&backoff.Policy{Budget: empty}, []error{transient()}, backoff.ErrBudget},
		"doubt":   {&backoff.Policy{Unrepeatable: true}, []error{unknown}, backoff.ErrAmbiguous},
		"doubt without a mark": {
			&backoff.Policy{Unrepeatable: true, Base: backoff.NoDelay},
			[]error{transient(), io.ErrUnexpectedEOF},
			backoff.ErrAmbiguous,
		},
	} {
		op := failing(tc.errs...)
		below := backoff.Run(t.Context(), tc.inner, op.run)
		require.ErrorIs(t, below, tc.reason, name)
		for shape, err := range map[string]error{
			"bare":                    below,
			"wrapped":                 fmt.Errorf("w: %w", below),
			"joined":                  errors.Join(errX, below),
			"beside a transient mark": errors.Join(transient(), below),
			"a loop further out":      &backoff.Error{Attempts: 1, Reason: backoff.ErrExhausted, Last: below},
		} {
			got := backoff.Run(t.Context(), &backoff.Policy{Base: backoff.NoDelay}, failing(err).run)
			requireStopped(t, got, tc.reason, 1)
			require.ErrorIs(t, got, err, "%s, %s", name, shape)
		}
		overruled := failing(mark(fmt.Errorf("w: %w", below), backoff.Transient), nil)
		require.NoError(t, backoff.Run(t.Context(), &backoff.Policy{Base: backoff.NoDelay}, overruled.run), name)
		if errors.Is(tc.reason, backoff.ErrAmbiguous) {
			confirmed := failing(mark(below, backoff.Ambiguous))
			requireStopped(t, backoff.Run(t.Context(), &backoff.Policy{Base: backoff.NoDelay}, confirmed.run), tc.reason, 1)
		}
	}
}

func TestAnInnerLoopChecksItsPolicyAndItsContext(t *testing.T) {
	t.Parallel()
	op := failing(nil)
	err := backoff.Run(t.Context(), nil, func(ctx context.Context) error {
		return backoff.Run(ctx, &backoff.Policy{Cap: -1}, op.run)
	})
	require.ErrorIs(t, err, backoff.ErrInvalidOption)
	err = backoff.Run(t.Context(), nil, func(ctx context.Context) error {
		return backoff.Run(cancelled(ctx, errCause), nil, op.run)
	})
	require.ErrorIs(t, err, errCause)
	require.Zero(t, op.count)
	require.False(t, errors.Is(err, context.DeadlineExceeded))
}
