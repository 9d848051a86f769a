package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

// backoff.md 7: what other libraries were seen to do wrong, row by row, with the
// right behaviour. The module benchmarks asks them the same.
func TestProbesHaveTheRightAnswer(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(t *testing.T){
		"deadline in 1 s, delay 10 s: nothing slept, last error kept": func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			err := backoff.Run(ctx, &backoff.Policy{Base: 10 * time.Second, Jitter: backoff.None}, failing(transient()).run)
			require.Zero(t, time.Since(began))
			requireAll(t, err, errX, context.DeadlineExceeded, backoff.ErrDeadline)
		},
		"context cancelled before: no call, both errors match": func(t *testing.T) {
			op := failing(nil)
			requireAll(t, backoff.Run(cancelled(t.Context(), errCause), nil, op.run), context.Canceled, errCause)
			require.Zero(t, op.count)
		},
		"cancelled in the wait: last error kept": func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(errCause) })
			err := backoff.Run(ctx, &backoff.Policy{Base: 10 * time.Second, Jitter: backoff.None}, failing(transient()).run)
			requireAll(t, err, errX, context.Canceled, errCause)
		},
		"3 x 3 nested: three calls": func(t *testing.T) {
			op := failing(transient())
			requireAll(t, nest(2, nil, op.run)(t.Context()), errX, backoff.ErrExhausted)
			require.Equal(t, 3, op.count)
		},
		"outer text around a mark kept": func(t *testing.T) {
			err := backoff.Run(t.Context(), nil, failing(fmt.Errorf("outer: %w", backoff.Mark(errX, backoff.Permanent))).run)
			require.ErrorContains(t, err, "outer: x")
		},
		"a hint of 24 h, a cap of 1 s: stops, the hint can be read": func(t *testing.T) {
			began := time.Now()
			err := backoff.Run(t.Context(), &backoff.Policy{Cap: time.Second}, failing(backoff.After(transient(), 24*time.Hour)).run)
			require.Zero(t, time.Since(began))
			requireAll(t, err, errX, backoff.ErrHint)
			hint, ok := backoff.Hint(err)
			require.True(t, ok)
			require.Equal(t, 24*time.Hour, hint)
		},
		"no jitter, a high attempt, a negative delay: no panic": func(t *testing.T) {
			require.NotPanics(t, func() {
				require.Equal(t, time.Second, (&backoff.Policy{Base: 1, Cap: time.Second, Jitter: backoff.None}).Delay(1<<40, 0, 0))
				requireAll(t, backoff.Run(t.Context(), &backoff.Policy{Base: -time.Second}, failing(nil).run), backoff.ErrInvalidOption)
			})
		},
		"an empty budget: nothing slept, the target's error kept": func(t *testing.T) {
			budget := newBudget(t, nil)
			for budget.Withdraw() {
				continue
			}
			began := time.Now()
			requireAll(t, backoff.Run(t.Context(), &backoff.Policy{Budget: budget}, failing(transient()).run), errX, backoff.ErrBudget)
			require.Zero(t, time.Since(began))
		},
		"six callers give up: the circuit stays closed": func(t *testing.T) {
			c := newCircuit(t, &backoff.CircuitOptions{MinCalls: 6})
			for range 6 {
				call(t, c, context.Canceled)
			}
			require.Equal(t, backoff.Closed, c.Stats().State)
		},
		"an hour behind a hung probe: the next one is admitted": func(t *testing.T) {
			c := newCircuit(t, nil)
			trip(t, c)
			time.Sleep(5 * time.Second)
			_, err := c.Allow()
			require.NoError(t, err)
			time.Sleep(time.Hour)
			_, err = c.Allow()
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, ask)
		})
	}
}

// requireAll requires that an error matches each of the targets.
func requireAll(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		require.True(t, errors.Is(err, target), "%v is not %v", err, target)
	}
}
