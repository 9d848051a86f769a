package examples_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/idem-go/idem/backoff"
	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff/examples"
)

// eachBreaker runs f with a breaker of each library that opens after two failures
// in a row, for a second. isOpen asks the library itself.
func eachBreaker(t *testing.T, f func(t *testing.T, b backoff.Breaker, isOpen func() bool)) {
	t.Helper()
	t.Run("gobreaker", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			state := gobreaker.StateClosed
			b := examples.Gobreaker(gobreaker.Settings{
				Timeout:       time.Second,
				ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 2 },
				OnStateChange: func(_ string, _, to gobreaker.State) { state = to },
			})
			f(t, b, func() bool { return state == gobreaker.StateOpen })
		})
	})
	t.Run("failsafe-go", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := circuitbreaker.NewBuilder[int]().WithFailureThreshold(2).WithDelay(time.Second).Build()
			f(t, examples.Failsafe(b), b.IsOpen)
		})
	})
}

func TestABreakerOpensAndEndsTheLoop(t *testing.T) {
	t.Parallel()
	eachBreaker(t, func(t *testing.T, b backoff.Breaker, isOpen func() bool) {
		calls := 0
		p := &backoff.Policy{MaxAttempts: 5, Base: backoff.NoDelay, Breaker: b}
		err := backoff.Run(t.Context(), p, func(context.Context) error { calls++; return errBusy })
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.Equal(t, 2, calls)
		require.True(t, isOpen())
		time.Sleep(time.Second + time.Millisecond)
		require.NoError(t, backoff.Run(t.Context(), p, func(context.Context) error { return nil }))
		require.False(t, isOpen())
	})
}

// C20, for the breakers of others.
func TestCallersWhoGiveUpOpenNoBreaker(t *testing.T) {
	t.Parallel()
	eachBreaker(t, func(t *testing.T, b backoff.Breaker, isOpen func() bool) {
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			err := backoff.Run(ctx, &backoff.Policy{Breaker: b}, func(context.Context) error { cancel(); return errBusy })
			require.ErrorIs(t, err, context.Canceled)
		}
		require.False(t, isOpen())
	})
}

// A probe whose caller gives up leaves no slot taken.
func TestAProbeThatIsCancelledLeavesTheBreakerUsable(t *testing.T) {
	t.Parallel()
	eachBreaker(t, func(t *testing.T, b backoff.Breaker, isOpen func() bool) {
		for range 2 {
			done, err := b.Allow()
			require.NoError(t, err)
			done(errBusy)
		}
		require.True(t, isOpen())
		time.Sleep(time.Second + time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		_ = backoff.Run(ctx, &backoff.Policy{Breaker: b}, func(context.Context) error { cancel(); return errBusy })
		time.Sleep(time.Second + time.Millisecond)
		require.NoError(t, backoff.Run(t.Context(), &backoff.Policy{Breaker: b}, func(context.Context) error { return nil }))
	})
}

func TestANotFoundIsAnAnswer(t *testing.T) {
	t.Parallel()
	eachBreaker(t, func(t *testing.T, b backoff.Breaker, isOpen func() bool) {
		for range 10 {
			err := backoff.Run(t.Context(), &backoff.Policy{Breaker: b}, func(context.Context) error { return errors.ErrUnsupported })
			require.ErrorIs(t, err, backoff.ErrPermanent)
		}
		require.False(t, isOpen())
	})
}
