package idem_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backoff"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
)

// retry calls Execute in a loop of package backoff.
func (w *world) retry(ctx context.Context, p *backoff.Policy, op idem.Op, opts ...idem.ExecuteOption) (idem.Result, error) {
	return backoff.Do(ctx, p, func(ctx context.Context) (idem.Result, error) {
		return w.store.Execute(ctx, "k", op, opts...)
	})
}

// A duplicate that meets a running operation waits as long as the lease says, and
// then gets the outcome, or takes over from one that died.
func TestALoopAroundExecuteWaitsAsLongAsTheLeaseSays(t *testing.T) {
	t.Parallel()
	for name, dies := range map[string]bool{"the other one records": false, "the other one dies": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, nil)
				began := time.Now()
				other := w.process(t, nil)
				claim, err := other.store.Claim(t.Context(), "k", lease)
				require.NoError(t, err)
				if !dies {
					time.AfterFunc(lease/2, func() {
						assert.NoError(t, other.store.Record(t.Context(), claim, idem.Result{Value: []byte("theirs")}))
					})
				}
				waits := 0
				p := &backoff.Policy{MaxAttempts: 20, Cap: 100 * time.Millisecond, OnRetry: func(_ context.Context, r backoff.Retry) {
					var busy *idem.InProgressError
					require.ErrorAs(t, r.Err, &busy)
					require.Equal(t, backoff.Transient, r.Class)
					require.GreaterOrEqual(t, r.Delay, busy.RetryAfter, "a hint is a minimum")
					require.LessOrEqual(t, r.Delay, busy.RetryAfter+50*time.Millisecond, "and with the small Cap nearly the maximum")
					waits++
				}}
				res, err := w.retry(t.Context(), p, returns("mine"))
				require.NoError(t, err)
				require.Equal(t, !dies, res.Replayed)
				require.Less(t, waits, 12, "the hint grows with the time that the other one takes")
				if dies {
					require.Equal(t, "mine", string(res.Value))
					require.GreaterOrEqual(t, time.Since(began), lease)
					require.Less(t, time.Since(began), lease+2*time.Second)
				} else {
					require.Equal(t, "theirs", string(res.Value))
					require.Less(t, time.Since(began), lease+time.Second)
				}
			})
		})
	}
}

// The hint is beyond what the caller has left: it is told so at once, and how long.
func TestALoopAroundExecuteDoesNotWaitBeyondItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		_, err := w.process(t, nil).store.Claim(t.Context(), "k", lease)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		_, err = w.retry(ctx, nil, forbidden(t))
		require.Zero(t, time.Since(began))
		require.ErrorIs(t, err, backoff.ErrHint)
		require.ErrorIs(t, err, backoff.ErrDeadline)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, idem.ErrInProgress)
		left, ok := backoff.Hint(err)
		require.True(t, ok)
		require.Equal(t, 10*time.Second, left)
	})
}

func TestALoopAroundExecuteRetriesWhatMayBeCalledAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ context.Context, c faultstore.Call) faultstore.Fault {
			if c.Method == faultstore.Claim && c.Nth <= 2 {
				return faultstore.Fault{Drop: true, Err: driver.ErrUnavailable}
			}
			return faultstore.Fault{}
		}, nil)
		n := 0
		res, err := w.retry(t.Context(), nil, counted(&n, returns("v")))
		require.NoError(t, err)
		require.Equal(t, "v", string(res.Value))
		require.Equal(t, 1, n)
	})
}

// What each error of a Store means to a loop around it.
func TestErrorsOfAStoreKnowTheirClass(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]backoff.Class{
		"in_progress": backoff.Transient, "unavailable": backoff.Transient,
		"lease_lost": backoff.Ambiguous, "max_run": backoff.Ambiguous,
		"already_done": backoff.Permanent, "fingerprint_mismatch": backoff.Permanent, "outcome_unknown": backoff.Permanent,
		"not_recorded": backoff.Permanent, "not_encoded": backoff.Permanent, "too_large": backoff.Permanent, "redacted": backoff.Permanent,
		"recorded_failure": backoff.Permanent, "not_decoded": backoff.Permanent, "corrupt": backoff.Permanent, "invalid_key": backoff.Permanent,
		"invalid_option": backoff.Permanent, "closed": backoff.Permanent, "conflict": backoff.Permanent, "not_found": backoff.Permanent,
		"context_ended": backoff.Permanent, // unless its cause says more
	} {
		err := &idem.Error{Code: code}
		require.Equal(t, want, backoff.Classify(err), code)
		require.False(t, backoff.NothingSent(err), "%s: it may come from inside an operation, after the effect", code)
		_, marked := backoff.Marked(err)
		require.False(t, marked, code)
	}
	require.Equal(t, backoff.Transient, backoff.Classify(&idem.InProgressError{}))
	require.Equal(t, backoff.Permanent, backoff.Classify(&idem.RecordedError{}))
}

// A recorded failure is final, also where Options.Errors revives an error that
// would be retried if it were fresh.
func TestALoopAroundExecuteDoesNotRetryARecordedFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, &idem.Options{Errors: map[string]error{"failed": context.DeadlineExceeded}})
		n := 0
		for range 2 {
			_, err := w.retry(t.Context(), nil, counted(&n, fails(idem.Permanent(errPermanent))))
			var e *backoff.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, 1, e.Attempts)
			require.ErrorIs(t, e.Reason, backoff.ErrPermanent)
		}
		require.Equal(t, 1, n)
		require.Equal(t, driver.Failed, w.record(t, "k").State)
	})
}

// loop is an operation with a loop inside that gets these errors.
func loop(errs ...error) idem.Op {
	return func(ctx context.Context) (idem.Result, error) {
		p := &backoff.Policy{MaxAttempts: len(errs), Base: backoff.NoDelay, ThrottledBase: backoff.NoDelay}
		i := -1
		return backoff.Do(ctx, p, func(context.Context) (idem.Result, error) {
			i++
			return idem.Result{}, errs[i]
		})
	}
}

// Only an explicit mark records a failure: neither the verdict of a loop inside
// the operation on an error without a mark, nor its reason to stop.
func TestALoopInsideAnOperationRecordsAndReleasesByMarksAlone(t *testing.T) {
	t.Parallel()
	refused, reset := &net.OpError{Op: "dial"}, &net.OpError{Op: "read", Err: context.DeadlineExceeded}
	hold := []idem.ExecuteOption{idem.OnUnknown(idem.Hold)}
	for name, tc := range map[string]struct {
		op          idem.Op
		opts        []idem.ExecuteOption
		state       driver.State
		doubt, held bool
	}{
		"stopped as permanent, no mark":         {op: loop(errPermanent), state: driver.Released, doubt: true},
		"exhausted":                             {op: loop(reset, reset), state: driver.Released, doubt: true},
		"marked as permanent":                   {op: loop(idem.Permanent(errPermanent)), state: driver.Failed},
		"marked as permanent after a retry":     {op: loop(reset, idem.Permanent(errPermanent)), state: driver.Failed},
		"refused each time":                     {op: loop(refused, refused), state: driver.Released},
		"refused each time, under Hold":         {op: loop(refused, refused), opts: hold, state: driver.Released},
		"perhaps sent, then refused":            {op: loop(reset, refused), state: driver.Released, doubt: true},
		"perhaps sent, then refused, Hold":      {op: loop(reset, refused), opts: hold, state: driver.Unknown, doubt: true, held: true},
		"unknown by a mark, then not applied":   {op: loop(idem.Unknown(errPermanent), idem.NotApplied(errPermanent)), state: driver.Unknown, doubt: true, held: true},
		"unknown by a mark, then refused":       {op: loop(idem.Unknown(errPermanent), refused), state: driver.Unknown, doubt: true, held: true},
		"unknown by a mark, then failed by one": {op: loop(idem.Unknown(errPermanent), idem.Permanent(errPermanent)), state: driver.Failed},
		"cancelled, with a mark in the cause":   {op: cancelledByMark, state: driver.Released, doubt: true},
		"refused by a breaker":                  {op: breakerOpen, opts: hold, state: driver.Released},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, nil)
				_, err := w.store.Execute(t.Context(), "k", tc.op, tc.opts...)
				require.Error(t, err)
				rec := w.record(t, "k")
				require.Equal(t, tc.state.String(), rec.State.String())
				require.Equal(t, tc.doubt, rec.Doubt)
				require.Equal(t, tc.held, rec.Held)
			})
		})
	}
}

// cancelledByMark is an operation whose loop ends with its context, the cause of
// which has a mark that is not the operation's.
func cancelledByMark(ctx context.Context) (idem.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	return idem.Result{}, backoff.Run(ctx, nil, func(context.Context) error {
		cancel(idem.Permanent(errors.New("shutting down")))
		return errPermanent
	})
}

// breakerOpen is an operation that was not even tried.
func breakerOpen(ctx context.Context) (idem.Result, error) {
	return idem.Result{}, backoff.Run(ctx, &backoff.Policy{Breaker: openBreaker{}}, func(context.Context) error { return nil })
}

type openBreaker struct{}

func (openBreaker) Allow() (func(error), error) { return nil, errors.New("open") }

// A loop around Execute is the only one: the loop inside the operation makes one
// call for each of its attempts, and the key tells the second that the first may
// have had its effect.
func TestALoopAroundExecuteIsTheOnlyOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		calls, takeovers := 0, 0
		_, err := w.retry(t.Context(), nil, func(ctx context.Context) (idem.Result, error) {
			if c, ok := idem.ClaimFrom(ctx); ok && c.Takeover() {
				takeovers++
			}
			return backoff.Do(ctx, nil, func(context.Context) (idem.Result, error) {
				calls++
				return idem.Result{}, context.DeadlineExceeded
			})
		})
		var e *backoff.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, 3, e.Attempts)
		require.Equal(t, 3, calls)
		require.Equal(t, 2, takeovers)
	})
}
