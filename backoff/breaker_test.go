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

// told is a breaker that remembers what it is told.
type told struct {
	outcomes []error
	asked    int
}

func (b *told) Allow() (func(error), error) {
	b.asked++
	return func(err error) { b.outcomes = append(b.outcomes, err) }, nil
}

func TestABreakerIsToldOfEachAttempt(t *testing.T) {
	t.Parallel()
	b := &told{}
	p := &backoff.Policy{Breaker: b, Base: backoff.NoDelay}
	require.NoError(t, backoff.Run(t.Context(), p, failing(transient(), &httpError{500, nil}, nil).run))
	require.Equal(t, []error{transient(), &httpError{500, nil}, nil}, b.outcomes)
	require.Equal(t, 3, b.asked)

	*b = told{}
	requireStopped(t, backoff.Run(t.Context(), p, failing(&httpError{404, nil}).run), backoff.ErrPermanent, 1)
	require.Equal(t, []error{nil}, b.outcomes, "it answered")
}

// C20: what the caller's cancellation has become is a cancellation again, so that
// a breaker needs one rule to leave it out.
func TestABreakerIsToldThatTheCallerGaveUp(t *testing.T) {
	t.Parallel()
	b := &told{}
	for _, text := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		err := backoff.Run(ctx, &backoff.Policy{Breaker: b}, func(ctx context.Context) error {
			cancel()
			if text {
				return errX
			}
			return fmt.Errorf("get: %w", ctx.Err())
		})
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Len(t, b.outcomes, 2)
	require.ErrorIs(t, b.outcomes[0], context.Canceled)
	require.ErrorIs(t, b.outcomes[1], context.Canceled)
	require.ErrorIs(t, b.outcomes[1], errX)
	require.EqualError(t, b.outcomes[1], "x")
}

func TestABreakerIsToldOfAPanic(t *testing.T) {
	t.Parallel()
	b := &told{}
	require.Panics(t, func() {
		_ = backoff.Run(t.Context(), &backoff.Policy{Breaker: b}, func(context.Context) error { panic("boom") })
	})
	require.Len(t, b.outcomes, 1)
	require.Error(t, b.outcomes[0])
}

// A breaker that does not tell how long it refuses is asked after the wait.
func TestAForeignBreakerIsAskedAfterTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := backoff.Run(t.Context(), &backoff.Policy{Breaker: onAllow(2, nil), Base: time.Second, Jitter: backoff.None}, failing(transient()).run)
		e := stopped(t, err, backoff.ErrOpen, 1)
		require.Equal(t, transient(), e.Last)
		require.ErrorIs(t, e.Reason, errX, "what the breaker said")
		require.Equal(t, time.Second, time.Since(began))
	})
}

// An error of a breaker below that the operation has marked means what it says.
func TestAMarkedRefusalIsNoOpenBreaker(t *testing.T) {
	t.Parallel()
	below := backoff.Mark(backoff.Run(t.Context(), &backoff.Policy{Breaker: refusing{errors.New("no")}}, failing(nil).run), backoff.Transient)
	require.ErrorIs(t, below, backoff.ErrOpen)
	op := failing(below, nil)
	require.NoError(t, backoff.Run(t.Context(), &backoff.Policy{Base: backoff.NoDelay}, op.run))
	require.Equal(t, 2, op.count)
}
