package backoff_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

var errCause = errors.New("the operator said stop")

// backoff.md 4.9 and 7: with a second left and ten to wait, no peer looks at the
// deadline; all of them sleep, and then have lost the error.
func TestADelayBeyondTheDeadlineEndsTheLoopAtOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		left, delay time.Duration
		stops       bool
	}{
		"far beyond":       {time.Second, 10 * time.Second, true},
		"at the deadline":  {time.Second, time.Second, true},
		"just before":      {time.Second, time.Second - 1, false},
		"no delay at all":  {time.Second, backoff.NoDelay, false},
		"with time enough": {time.Minute, 10 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tc.left)
				defer cancel()
				began := time.Now()
				op := failing(transient(), nil)
				v, err := backoff.Do(ctx, &backoff.Policy{Base: tc.delay, Jitter: backoff.None}, op.do)
				if !tc.stops {
					require.NoError(t, err)
					require.Equal(t, max(tc.delay, 0), time.Since(began))
					return
				}
				require.Zero(t, time.Since(began))
				require.Equal(t, 1, v)
				requireStopped(t, err, backoff.ErrDeadline, 1)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, errX)
				require.NotErrorIs(t, err, context.Canceled)
				require.NoError(t, ctx.Err(), "the context itself is alive")
			})
		})
	}
}

func TestAContextThatHasEndedAllowsNoCall(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.Context) (context.Context, error){
		"cancelled":              func(ctx context.Context) (context.Context, error) { return cancelled(ctx, nil), context.Canceled },
		"cancelled with a cause": func(ctx context.Context) (context.Context, error) { return cancelled(ctx, errCause), context.Canceled },
		"too late": func(ctx context.Context) (context.Context, error) {
			ctx, cancel := context.WithTimeoutCause(ctx, -1, errCause)
			cancel()
			return ctx, context.DeadlineExceeded
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, ended := end(t.Context())
			op := failing(nil)
			v, err := backoff.Do(ctx, nil, op.do)
			require.Zero(t, op.count)
			require.Zero(t, v)
			e := stopped(t, err, context.Cause(ctx), 0)
			require.ErrorIs(t, err, ended)
			require.Equal(t, context.Cause(ctx), e.Reason)
			require.True(t, backoff.NothingSent(err))
			require.Equal(t, backoff.Transient, backoff.Classify(err))
		})
	}
}

// cancelled returns a context that has been cancelled.
func cancelled(ctx context.Context, cause error) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(cause)
	return ctx
}

// backoff.md 4.10 and 7: the cause, the context's own error and the last error
// all match, wherever in the loop the context ends.
func TestACancellationKeepsItsCauseAndTheLastError(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"without a cause": nil, "with one": errCause} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(3*time.Second, func() { cancel(cause) })
				began := time.Now()
				op := failing(transient())
				err := backoff.Run(ctx, &backoff.Policy{Base: 10 * time.Second, Rand: most}, op.run)
				require.Equal(t, 3*time.Second, time.Since(began), "the wait ends with the context")
				e := stopped(t, err, context.Cause(ctx), 1)
				require.Equal(t, transient(), e.Last)
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, errX)
				if cause != nil {
					require.ErrorIs(t, err, cause)
				}
				require.NotErrorIs(t, err, backoff.ErrDeadline)
			})
		})
	}
}

// backoff.md 4.8: whatever the error says, and were it retryable.
func TestAContextThatEndsDuringACallEndsTheLoop(t *testing.T) {
	t.Parallel()
	for _, last := range []error{transient(), errX, context.Canceled, backoff.Mark(errX, backoff.Permanent)} {
		ctx, cancel := context.WithCancelCause(t.Context())
		count := 0
		err := backoff.Run(ctx, &backoff.Policy{Base: backoff.NoDelay}, func(context.Context) error {
			count++
			cancel(errCause)
			return last
		})
		require.Equal(t, 1, count)
		e := stopped(t, err, errCause, 1)
		require.Equal(t, last, e.Last)
	}
}

func TestASuccessCountsAlthoughTheContextHasEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	v, err := backoff.Do(ctx, nil, func(context.Context) (string, error) {
		cancel()
		return "done", nil
	})
	require.NoError(t, err)
	require.Equal(t, "done", v)
}

// backoff.md 4.7: where timer and context are ready at once, select takes either.
func TestNoCallIsMadeOnceTheContextHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := unseen{t.Context(), time.Now().Add(time.Second)}
		op := failing(transient())
		err := backoff.Run(ctx, &backoff.Policy{Base: time.Second, Jitter: backoff.None}, op.run)
		requireStopped(t, err, context.Canceled, 1)
	})
	ctx, cancel := context.WithCancel(t.Context())
	op := failing(transient())
	p := &backoff.Policy{Base: backoff.NoDelay, OnRetry: func(context.Context, backoff.Retry) { cancel() }}
	requireStopped(t, backoff.Run(ctx, p, op.run), context.Canceled, 1)
}

// unseen is a context whose end a select has not seen, because it took the timer.
type unseen struct {
	context.Context //nolint:containedctx // it is a context
	end             time.Time
}

func (c unseen) Err() error {
	if time.Now().Before(c.end) {
		return nil
	}
	return context.Canceled
}

func TestUnlimitedAttemptsNeedAContextThatEnds(t *testing.T) {
	t.Parallel()
	p := &backoff.Policy{MaxAttempts: backoff.Unlimited, Base: time.Second, Cap: time.Second, Jitter: backoff.None}
	synctest.Test(t, func(t *testing.T) {
		op := failing(transient())
		err := backoff.Run(context.WithoutCancel(t.Context()), p, op.run)
		require.ErrorIs(t, err, backoff.ErrInvalidOption)
		require.Zero(t, op.count)

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err = backoff.Run(ctx, p, op.run)
		requireStopped(t, err, backoff.ErrDeadline, 3600)
	})
}

// backoff.md 4.11: the attempt's time is not the caller's.
func TestTheTimeoutBoundsEachAttemptAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var causes []error
		p := &backoff.Policy{Timeout: 2 * time.Second, Base: backoff.NoDelay}
		err := backoff.Run(t.Context(), p, func(ctx context.Context) error {
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
			return ctx.Err()
		})
		requireStopped(t, err, backoff.ErrExhausted, 3)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 6*time.Second, time.Since(began))
		for _, cause := range causes {
			require.ErrorIs(t, cause, context.DeadlineExceeded)
			require.EqualError(t, cause, "backoff: attempt timed out after 2s")
			var timeout interface{ Timeout() bool }
			require.ErrorAs(t, cause, &timeout)
			require.True(t, timeout.Timeout())
			require.Equal(t, backoff.Ambiguous, backoff.Classify(cause))
		}
	})
}

// A driver may have lost the traces of our time-out: PostgreSQL says 57014.
func TestAnErrorAfterTheTimeoutIsAmbiguousUnlessItSaysMore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err   error
		class backoff.Class
	}{
		"a text":                 {errors.New("query cancelled"), backoff.Ambiguous},
		"SQLSTATE 57014":         {&sqlError{"57014", nil}, backoff.Ambiguous},
		"cancelled":              {context.Canceled, backoff.Ambiguous},
		"nothing was sent":       {&httpError{503, nil}, backoff.Throttled},
		"marked, and so is it":   {transient(), backoff.Transient},
		"marked, and final":      {backoff.Mark(errX, backoff.Permanent), backoff.Permanent},
		"the same, in good time": {nil, backoff.Permanent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var got backoff.Class
				p := &backoff.Policy{Timeout: time.Second, OnRetry: func(_ context.Context, r backoff.Retry) { got = r.Class }}
				err := backoff.Run(t.Context(), p, func(ctx context.Context) error {
					if tc.err == nil {
						return errors.New("query cancelled")
					}
					<-ctx.Done()
					return tc.err
				})
				if tc.class == backoff.Permanent {
					requireStopped(t, err, backoff.ErrPermanent, 1)
					return
				}
				requireStopped(t, err, backoff.ErrExhausted, 3)
				require.Equal(t, tc.class, got)
			})
		})
	}
}

// Whatever an attempt's context is, it is over when the attempt is.
func TestTheContextOfAnAttemptEndsWithIt(t *testing.T) {
	t.Parallel()
	var seen []context.Context
	_ = backoff.Run(t.Context(), &backoff.Policy{Timeout: time.Hour, Base: backoff.NoDelay}, func(ctx context.Context) error {
		for _, earlier := range seen {
			require.Error(t, earlier.Err())
		}
		require.NoError(t, ctx.Err())
		seen = append(seen, ctx)
		return transient()
	})
	require.Len(t, seen, 3)
}

// Neither the loop nor the contexts it makes start a goroutine, and nothing of a
// call is left when it has ended.
//
//nolint:paralleltest // it counts the goroutines of the whole process
func TestALoopStartsNoGoroutine(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before, most := runtime.NumGoroutine(), 0
	p := &backoff.Policy{Timeout: time.Hour, Base: time.Nanosecond}
	count := func(context.Context) error {
		most = max(most, runtime.NumGoroutine())
		return transient()
	}
	for range 100 {
		_ = backoff.Run(ctx, p, func(ctx context.Context) error {
			return errors.Join(backoff.Run(ctx, p, count), backoff.Run(backoff.Detach(ctx), p, count))
		})
	}
	require.LessOrEqual(t, most, before)
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}
