package idem_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
)

// The tests of this file are about recoveries that meet trouble; what each
// verdict does is in next_test.go.

// verdict is a recovery that gives one.
func verdict(r idem.Recovery) idem.ExecuteOption {
	return idem.WithRecover(func(context.Context, *idem.Claim) (idem.Recovery, error) { return r, nil })
}

// doubtfulWorld is a world whose key "k" is released in doubt. The hook does not
// see how it came to be.
func doubtfulWorld(t *testing.T, hook faultstore.Hook, opts *idem.Options) *world {
	t.Helper()
	before := newWorld(t, nil, nil)
	_, err := before.store.Execute(t.Context(), "k", fails(errBoom))
	require.ErrorIs(t, err, errBoom)
	return newProcess(t, before.memory, hook, opts)
}

// "Not executed" is recorded before the operation runs: if that fails, it does
// not run, and the doubt stays.
func TestTheOperationDoesNotRunBeforeNotExecutedIsRecorded(t *testing.T) {
	t.Parallel()
	silent := faultstore.Fault{Before: faultstore.PauseUntil(nil)}
	for _, tc := range []struct {
		name string
		hook faultstore.Hook
		want error
		runs bool
	}{
		{"one reply lost", faultstore.Lose(faultstore.Annotate, 1), nil, true},
		{"one time-out", faultstore.At(faultstore.Annotate, 1, silent), nil, true},
		{"sent twice", faultstore.Duplicate(faultstore.Annotate, 1), nil, true},
		{"down", faultstore.Fail(faultstore.Annotate, 0, errDown), idem.ErrUnavailable, false},
		{"silent", faultstore.At(faultstore.Annotate, 0, silent), idem.ErrUnavailable, false},
		{"unreadable", faultstore.Fail(faultstore.Annotate, 0, driver.ErrCorrupt), idem.ErrCorrupt, false},
		{"taken over", faultstore.Fail(faultstore.Annotate, 0, driver.ErrLeaseLost), idem.ErrLeaseLost, false},
	} {
		for _, v := range ways() {
			synctestWorld(t, tc.name+"/"+v.name, func(t *testing.T) {
				w := doubtfulWorld(t, tc.hook, nil)
				n := 0
				_, err := v.call(t.Context(), w.store, "k", counted(&n, returns("2")), verdict(idem.NotExecuted()))
				require.ErrorIs(t, err, tc.want)
				require.Equal(t, tc.runs, n == 1)
				if tc.runs {
					return
				}
				if tc.want != idem.ErrLeaseLost { //nolint:errorlint // a value of the table above
					rec := w.record(t, "k")
					require.Equal(t, driver.Released, rec.State, "given up")
					require.True(t, rec.Doubt, "still in doubt")
				}
				require.NotEqual(t, idem.EffectRan, infoOf(t, err).Effect)
			})
		}
	}
}

// A verdict that cannot be recorded is not lost to the caller.
func TestAVerdictThatCannotBeRecordedComesBackWithAnError(t *testing.T) {
	t.Parallel()
	recovered, failure := idem.Recovered(idem.Result{Value: []byte(`"r"`)}), idem.RecoveredFailure(errPermanent)
	for _, tc := range []struct {
		name    string
		hook    faultstore.Hook
		verdict idem.Recovery
		want    []error
		value   string
	}{
		{"recovered", faultstore.Fail(faultstore.Complete, 0, errDown), recovered, []error{idem.ErrNotRecorded, errDown}, `"r"`},
		{"recovered, too late", faultstore.Fail(faultstore.Complete, 0, driver.ErrLeaseLost), recovered, []error{idem.ErrLeaseLost}, ""},
		{"failure", faultstore.Fail(faultstore.Complete, 0, errDown), failure, []error{idem.ErrNotRecorded, errPermanent}, ""},
		{"failure, too late", faultstore.Fail(faultstore.Complete, 0, driver.ErrLeaseLost), failure, []error{idem.ErrLeaseLost}, ""},
		{"none", faultstore.Fail(faultstore.Release, 0, errDown), idem.Recovery{}, []error{idem.ErrNotRecorded}, ""},
		{"none, too late", faultstore.Fail(faultstore.Release, 0, driver.ErrLeaseLost), idem.Recovery{}, []error{idem.ErrLeaseLost}, ""},
	} {
		for _, v := range ways() {
			synctestWorld(t, tc.name+"/"+v.name, func(t *testing.T) {
				w := doubtfulWorld(t, tc.hook, nil)
				res, err := v.call(t.Context(), w.store, "k", forbidden(t), verdict(tc.verdict))
				for _, want := range tc.want {
					require.ErrorIs(t, err, want)
				}
				if v.name == "Execute" { // Claim returns a nil claim beside an error, Do the value of an operation only
					require.Equal(t, tc.value, string(res.Value))
				}
				rec := w.record(t, "k")
				require.Equal(t, driver.Claimed, rec.State, "it stands until its lease ends")
				require.True(t, rec.Doubt)
			})
		}
	}
}

func TestARecoveredValueThatIsTooLargeIsDoneWithoutItsBody(t *testing.T) {
	t.Parallel()
	for _, v := range ways() {
		w := doubtfulWorld(t, nil, &idem.Options{MaxValue: 2})
		res, err := v.call(t.Context(), w.store, "k", forbidden(t), verdict(idem.Recovered(idem.Result{Value: []byte("123")})))
		require.ErrorIs(t, err, idem.ErrTooLarge)
		if v.name == "Execute" {
			require.Equal(t, "123", string(res.Value))
			require.True(t, res.Recovered)
		}
		require.Equal(t, driver.BodyTooLarge, w.record(t, "k").Outcome.Body)
	}
}

// A recovery runs under a claim that Execute renews, and is bounded as an
// operation is.
func TestALongRecoveryKeepsItsLease(t *testing.T) {
	t.Parallel()
	for _, v := range ways()[:2] {
		synctestWorld(t, v.name, func(t *testing.T) {
			w := doubtfulWorld(t, nil, nil)
			res, err := v.call(t.Context(), w.store, "k", forbidden(t), idem.WithRecover(func(ctx context.Context, c *idem.Claim) (idem.Recovery, error) {
				time.Sleep(maxRun - time.Second)
				require.NoError(t, ctx.Err())
				require.Positive(t, c.Remaining())
				return idem.Recovered(idem.Result{Value: []byte(`"r"`)}), nil
			}))
			require.NoError(t, err)
			require.True(t, res.Recovered)
			require.Equal(t, int((maxRun-time.Second)/renewEvery), w.faults.Count(faultstore.Renew))
		})
	}
}

// The recovery of Claim runs under a lease that nobody renews but itself.
func TestTheRecoveryOfAClaimRenewsItsLeaseItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := doubtfulWorld(t, nil, nil)
		line := newTimeline()
		c, err := w.store.Claim(t.Context(), "k", lease, idem.WithRecover(func(ctx context.Context, c *idem.Claim) (idem.Recovery, error) {
			time.Sleep(20 * time.Second)
			require.NoError(t, c.Renew(ctx))
			<-ctx.Done()
			require.Equal(t, 20*time.Second+lease-margin, line.now())
			require.ErrorIs(t, context.Cause(ctx), idem.ErrLeaseLost)
			return idem.Recovered(idem.Result{Value: []byte("r")}), nil
		}))
		require.ErrorIs(t, err, idem.ErrAlreadyDone, "a late verdict counts")
		require.Equal(t, "r", string(c.Result.Value))
		require.True(t, c.Result.Recovered)
		require.False(t, c.Result.Replayed)
	})
}

// The context ended while the recovery looked: the operation does not begin, and
// what the recovery found is kept.
func TestTheOperationDoesNotBeginWhenItsContextEndedDuringTheRecovery(t *testing.T) {
	t.Parallel()
	for _, v := range ways() {
		for name, tc := range map[string]struct {
			hook  faultstore.Hook
			takes time.Duration
			want  error
			steps bool
		}{
			"of the caller":    {nil, time.Second, errLeft, true},
			"MaxRun":           {nil, maxRun, idem.ErrMaxRun, false},
			"the trust window": {faultstore.Fail(faultstore.Renew, 0, errDown), lease - margin, idem.ErrLeaseLost, true},
		} {
			if v.name == "steps" && !tc.steps {
				continue
			}
			synctestWorld(t, v.name+"/"+name, func(t *testing.T) {
				w := doubtfulWorld(t, tc.hook, nil)
				ctx, cancel := context.WithCancelCause(t.Context())
				_, err := v.call(ctx, w.store, "k", forbidden(t), idem.WithRecover(func(ctx context.Context, _ *idem.Claim) (idem.Recovery, error) {
					time.Sleep(tc.takes)
					if tc.want == errLeft { //nolint:errorlint // a value of the table above
						cancel(errLeft)
					}
					<-ctx.Done()
					return idem.NotExecuted(), nil
				}))
				cancel(nil)
				require.ErrorIs(t, err, tc.want)
				rec := w.record(t, "k")
				require.Equal(t, driver.Released, rec.State)
				require.False(t, rec.Doubt, "it was not executed")
				n := 0
				_, err = v.call(t.Context(), w.store, "k", counted(&n, returns("2")), idem.OnUnknown(idem.Hold))
				require.NoError(t, err)
				require.Equal(t, 1, n)
			})
		}
	}
}

// Somebody takes over while the recovery looks: its verdict is worth nothing.
func TestARecoveryThatLostItsLeaseSettlesNothing(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]idem.Recovery{
		"recovered": idem.Recovered(idem.Result{Value: []byte("r")}), "failure": idem.RecoveredFailure(errPermanent),
		"not executed": idem.NotExecuted(), "none": {},
	} {
		for _, v := range ways() {
			synctestWorld(t, name+"/"+v.name, func(t *testing.T) {
				w := doubtfulWorld(t, nil, nil)
				_, err := v.call(t.Context(), w.store, "k", forbidden(t), idem.WithRecover(func(ctx context.Context, c *idem.Claim) (idem.Recovery, error) {
					claim, _ := w.faults.Nth(faultstore.Claim, 1)
					releaseByOwner(t, w, claim)
					_, err := w.process(t, nil).store.Execute(t.Context(), "k", returns("other"))
					require.NoError(t, err)
					require.ErrorIs(t, c.Renew(ctx), idem.ErrLeaseLost)
					<-ctx.Done()
					require.ErrorIs(t, context.Cause(ctx), idem.ErrLeaseLost)
					return r, nil
				}))
				require.ErrorIs(t, err, idem.ErrLeaseLost)
				require.Equal(t, "other", string(w.record(t, "k").Outcome.Value))
			})
		}
	}
}

// C55: a recovery may call Goexit too.
func TestARecoveryThatCallsGoexitHoldsTheKey(t *testing.T) {
	t.Parallel()
	for _, v := range ways() {
		synctestWorld(t, v.name, func(t *testing.T) {
			w := doubtfulWorld(t, nil, nil)
			end := <-start(func() (idem.Result, error) {
				return v.call(t.Context(), w.store, "k", forbidden(t), idem.WithRecover(
					func(context.Context, *idem.Claim) (idem.Recovery, error) {
						runtime.Goexit()
						return idem.Recovery{}, nil
					}))
			})
			require.True(t, end.exited)
			require.True(t, w.record(t, "k").Held)
			w.requireKinds(t, idem.EventTakeover, idem.EventHeld)
		})
	}
}

// With a claim of the steps nothing is given up behind its caller's back: after
// "not executed" it is an ordinary claim.
func TestAClaimAfterNotExecutedIsAnOrdinaryClaim(t *testing.T) {
	t.Parallel()
	w := doubtfulWorld(t, nil, nil)
	c, err := w.store.Claim(t.Context(), "k", lease, verdict(idem.NotExecuted()))
	require.NoError(t, err)
	require.False(t, c.Takeover())
	require.Positive(t, c.Remaining())
	require.NoError(t, w.store.Release(t.Context(), c))
	require.False(t, w.record(t, "k").Doubt)
}
