package idem_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
)

// The tests of this file are about claims that their caller renews and settles.

func TestAClaimKnowsItsKeyItsTokenAndItsAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, &idem.Options{Namespace: "billing"})
	for attempt := 1; attempt <= 3; attempt++ {
		c, err := w.store.Claim(t.Context(), "k", time.Minute)
		require.NoError(t, err)
		rec := w.record(t, "k")
		require.Equal(t, "k", c.Key())
		require.Equal(t, rec.Token, c.Token())
		require.NotZero(t, c.Token())
		require.Equal(t, attempt, c.Attempt())
		require.False(t, c.Takeover())
		require.Empty(t, c.Refs())
		require.Equal(t, idem.Result{}, c.Result)
		require.NoError(t, w.store.Release(t.Context(), c))
	}
}

func TestClaimTakesItsLeaseFromTheCallTheStoreOrTheDefault(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		store, call, want time.Duration
	}{
		{0, 0, lease},
		{time.Minute, 0, time.Minute},
		{time.Minute, 3 * time.Second, 3 * time.Second},
		{0, time.Hour, time.Hour},
	} {
		synctestWorld(t, tc.want.String(), func(t *testing.T) {
			w := newWorld(t, nil, &idem.Options{Lease: tc.store})
			c, err := w.store.Claim(t.Context(), "k", tc.call)
			require.NoError(t, err)
			require.Equal(t, tc.want, w.record(t, "k").LeaseLeft)
			require.Equal(t, tc.want-min(tc.want/10, time.Second), c.Remaining())
		})
	}
	w := newWorld(t, nil, nil)
	_, err := w.store.Claim(t.Context(), "k", -time.Second)
	require.ErrorIs(t, err, idem.ErrInvalidOption)
	require.Zero(t, w.faults.Count(""))
}

// A claim of the steps is renewed by its caller, whatever RenewEvery is.
func TestRenewEveryDoesNotBoundTheLeaseOfAClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, &idem.Options{Lease: time.Minute, RenewEvery: 20 * time.Second})
	c, err := w.store.Claim(t.Context(), "k", 30*time.Second)
	require.NoError(t, err)
	require.NoError(t, w.store.Release(t.Context(), c))
}

func TestAClaimIsNeverRenewedByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		before := goroutines(t)
		c, err := w.store.Claim(t.Context(), "k", lease)
		require.NoError(t, err)
		for left := lease - margin; left > 0; left -= time.Second {
			require.Equal(t, left, c.Remaining())
			time.Sleep(time.Second)
		}
		require.Zero(t, c.Remaining())
		time.Sleep(time.Hour)
		require.Zero(t, c.Remaining())
		require.Zero(t, w.faults.Count(faultstore.Renew))
		synctest.Wait()
		require.Equal(t, before, goroutines(t))
	})
}

func TestRenewMovesTheTrustWindowAndItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		line := newTimeline()
		c, err := w.store.Claim(t.Context(), "k", lease)
		require.NoError(t, err)
		ctx, cancel := c.Context(t.Context())
		defer cancel()
		from, ok := idem.ClaimFrom(ctx)
		require.True(t, ok)
		require.Same(t, c, from)
		for range 3 {
			time.Sleep(20 * time.Second)
			require.NoError(t, c.Renew(t.Context()))
			require.Equal(t, lease-margin, c.Remaining())
			require.Equal(t, lease, w.record(t, "k").LeaseLeft)
			require.NoError(t, ctx.Err())
		}
		<-ctx.Done()
		require.Equal(t, time.Minute+lease-margin, line.now())
		require.ErrorIs(t, context.Cause(ctx), idem.ErrLeaseLost)
	})
}

func TestTheContextOfAClaimEndsWithItsParentToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	c, err := w.store.Claim(t.Context(), "k", lease)
	require.NoError(t, err)
	parent, end := context.WithCancelCause(t.Context())
	ctx, cancel := c.Context(parent)
	defer cancel()
	other, cancelOther := c.Context(t.Context())
	require.NoError(t, ctx.Err())
	end(errLeft)
	require.Equal(t, errLeft, context.Cause(ctx))
	require.NoError(t, other.Err())
	cancelOther()
	require.ErrorIs(t, other.Err(), context.Canceled)
}

// Settling the claim does not end its context: the caller's work goes on.
func TestTheContextOfAClaimOutlivesItsSettlement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		c, err := w.store.Claim(t.Context(), "k", lease)
		require.NoError(t, err)
		ctx, cancel := c.Context(t.Context())
		defer cancel()
		require.NoError(t, w.store.Record(t.Context(), c, idem.Result{}))
		time.Sleep(time.Hour)
		require.NoError(t, ctx.Err())
	})
}

func TestTheContextOfAClaimThatIsNotHeldHasEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	_, err := w.store.Execute(t.Context(), "k", returns("1"))
	require.NoError(t, err)
	c, err := w.store.Claim(t.Context(), "k", lease)
	require.ErrorIs(t, err, idem.ErrAlreadyDone)
	require.Zero(t, c.Remaining())
	ctx, cancel := c.Context(t.Context())
	defer cancel()
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), idem.ErrLeaseLost)
	require.Equal(t, "1", string(c.Result.Value))
	for _, err := range []error{c.Renew(t.Context()), w.store.Record(t.Context(), c, idem.Result{}), w.store.Release(t.Context(), c)} {
		require.ErrorIs(t, err, idem.ErrInvalidOption)
	}
}

func TestAContextOfAClaimThatIsMadeTooLateHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		c, err := w.store.Claim(t.Context(), "k", lease)
		require.NoError(t, err)
		settled, err := w.store.Claim(t.Context(), "k2", lease)
		require.NoError(t, err)
		require.NoError(t, w.store.Release(t.Context(), settled))
		time.Sleep(lease)
		ctx, cancel := c.Context(t.Context())
		defer cancel()
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), idem.ErrLeaseLost)
		after, cancel := settled.Context(t.Context())
		defer cancel()
		require.ErrorIs(t, context.Cause(after), idem.ErrLeaseLost)
	})
}

// I3: Renew is accepted from the owner until somebody takes over, also after the
// lease's end. The claim is then as good as new.
func TestARenewalAfterTheLeaseEndedMakesTheClaimGoodAgain(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]time.Duration{"after the trust window": lease - margin/2, "after the lease": 2 * lease} {
		synctestWorld(t, name, func(t *testing.T) {
			w := newWorld(t, nil, nil)
			c, err := w.store.Claim(t.Context(), "k", lease)
			require.NoError(t, err)
			ctx, cancel := c.Context(t.Context())
			defer cancel()
			time.Sleep(late)
			synctest.Wait()
			require.ErrorIs(t, context.Cause(ctx), idem.ErrLeaseLost)

			require.NoError(t, c.Renew(t.Context()))
			require.Equal(t, lease-margin, c.Remaining())
			again, cancel := c.Context(t.Context())
			defer cancel()
			synctest.Wait()
			require.NoError(t, again.Err(), "a new context lasts as long as the new trust window")
			calls := w.faults.Count("")
			_, err = w.store.Execute(t.Context(), "k", forbidden(t))
			require.ErrorIs(t, err, idem.ErrInProgress)
			require.Equal(t, calls, w.faults.Count(""), "while it runs here, the backend is asked nothing")
			time.Sleep(lease - margin)
			synctest.Wait()
			require.ErrorIs(t, context.Cause(again), idem.ErrLeaseLost)
			require.NoError(t, w.store.Record(t.Context(), c, idem.Result{Value: []byte("late")}))
		})
	}
}

// C02: a stalled holder's late renewal, record and release are refused, and the
// successor's claim stands.
func TestAClaimThatWasTakenOverCanDoNothing(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(ctx context.Context, s *idem.Store, c *idem.Claim) error{
		"renew":   func(ctx context.Context, _ *idem.Store, c *idem.Claim) error { return c.Renew(ctx) },
		"saveref": func(ctx context.Context, _ *idem.Store, c *idem.Claim) error { return c.SaveRef(ctx, "bank", "r1") },
		"record":  func(ctx context.Context, s *idem.Store, c *idem.Claim) error { return s.Record(ctx, c, idem.Result{}) },
		"fail":    func(ctx context.Context, s *idem.Store, c *idem.Claim) error { return s.RecordFailure(ctx, c, errBoom) },
		"hold": func(ctx context.Context, s *idem.Store, c *idem.Claim) error {
			return s.RecordFailure(ctx, c, idem.Unknown(errBoom))
		},
		"release": func(ctx context.Context, s *idem.Store, c *idem.Claim) error { return s.Release(ctx, c) },
	} {
		synctestWorld(t, name, func(t *testing.T) {
			a := newWorld(t, nil, nil)
			stale, err := a.store.Claim(t.Context(), "k", lease)
			require.NoError(t, err)
			time.Sleep(lease)
			b := a.process(t, nil)
			fresh, err := b.store.Claim(t.Context(), "k", lease)
			require.NoError(t, err)
			require.True(t, fresh.Takeover())
			require.Greater(t, fresh.Token(), stale.Token())
			before := b.record(t, "k")

			require.ErrorIs(t, act(t.Context(), a.store, stale), idem.ErrLeaseLost)
			require.ErrorIs(t, act(t.Context(), a.store, stale), idem.ErrLeaseLost, "and again")
			require.Equal(t, before, b.record(t, "k"))
			ctx, cancel := stale.Context(t.Context())
			defer cancel()
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), idem.ErrLeaseLost)

			_, err = a.store.Execute(t.Context(), "k", forbidden(t))
			require.ErrorIs(t, err, idem.ErrInProgress)
			require.NoError(t, b.store.Record(t.Context(), fresh, idem.Result{Value: []byte("B")}))
			res, err := a.store.Execute(t.Context(), "k", forbidden(t))
			require.NoError(t, err)
			require.Equal(t, "B", string(res.Value))
		})
	}
}

func TestARenewalThatGetsNoAnswerLeavesTheTrustWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		line := newTimeline()
		w := newWorld(t, faultstore.At(faultstore.Renew, 1, faultstore.Fault{Before: faultstore.PauseUntil(nil)}), nil)
		c, err := w.store.Claim(t.Context(), "k", lease)
		require.NoError(t, err)
		err = c.Renew(t.Context())
		require.ErrorIs(t, err, idem.ErrUnavailable)
		require.Equal(t, 2*time.Second, line.now(), "StoreTimeout bounds the call")
		require.Equal(t, idem.EffectUnknown, infoOf(t, err).Effect, "the operation is running")
		require.Equal(t, lease-margin-2*time.Second, c.Remaining())
		w.requireKinds(t, idem.EventRenewFailed)
		require.NoError(t, c.Renew(t.Context()))
		require.Equal(t, lease-margin, c.Remaining())

		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errLeft)
		err = c.Renew(ctx)
		require.ErrorIs(t, err, idem.ErrUnavailable)
		require.ErrorIs(t, err, errLeft)
	})
}

func TestASettledClaimIsNotHeldAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	c, err := w.store.Claim(t.Context(), "k", lease)
	require.NoError(t, err)
	require.NoError(t, w.store.Record(t.Context(), c, idem.Result{Value: []byte("1")}))
	for _, err := range []error{
		w.store.Record(t.Context(), c, idem.Result{Value: []byte("2")}),
		w.store.RecordFailure(t.Context(), c, errBoom),
		w.store.Release(t.Context(), c),
		c.Renew(t.Context()),
		c.SaveRef(t.Context(), "bank", "r"),
	} {
		require.ErrorIs(t, err, idem.ErrInvalidOption)
	}
	require.Equal(t, "1", string(w.record(t, "k").Outcome.Value))
}

func TestOnlyTheHolderSettlesAClaim(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t, nil, nil), newWorld(t, nil, nil)
	c, err := w.store.Claim(t.Context(), "k", lease)
	require.NoError(t, err)
	require.ErrorIs(t, w.store.Record(t.Context(), nil, idem.Result{}), idem.ErrInvalidOption)
	require.ErrorIs(t, other.store.Record(t.Context(), c, idem.Result{}), idem.ErrInvalidOption)
	require.ErrorIs(t, other.store.Release(t.Context(), c), idem.ErrInvalidOption)
	require.ErrorIs(t, w.store.RecordFailure(t.Context(), c, nil), idem.ErrInvalidOption)
	require.ErrorIs(t, other.store.RecordFailure(t.Context(), c, errBoom), idem.ErrInvalidOption)
	require.Equal(t, driver.Claimed, w.record(t, "k").State)

	_, err = w.store.Execute(t.Context(), "k2", func(ctx context.Context) (idem.Result, error) {
		c, _ := idem.ClaimFrom(ctx)
		require.ErrorIs(t, w.store.Record(ctx, c, idem.Result{}), idem.ErrInvalidOption, "Execute settles it itself")
		require.ErrorIs(t, w.store.Release(ctx, c), idem.ErrInvalidOption)
		require.NoError(t, c.Renew(ctx), "but it may be renewed")
		return idem.Result{}, nil
	})
	require.NoError(t, err)
}

// Steps of one claim may be called from several goroutines: one outcome stands,
// and the race detector has nothing to say.
func TestAClaimMayBeSettledFromSeveralGoroutines(t *testing.T) {
	t.Parallel()
	s := newStore(t, memstore.New(nil), &idem.Options{Observer: idem.Discard}) // nothing between that orders them
	for i := range 200 {
		key := strconv.Itoa(i)
		c, err := s.Claim(t.Context(), key, lease)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { _ = s.Record(t.Context(), c, idem.Result{Value: []byte("7")}) })
			wg.Go(func() { _ = s.RecordFailure(t.Context(), c, errPermanent) })
			wg.Go(func() { _ = s.Release(t.Context(), c) })
		}
		wg.Wait()
		rec, err := s.Inspect(t.Context(), key)
		require.NoError(t, err)
		require.NotEqual(t, driver.Claimed, rec.State)
	}
}

// A context made of the claim under which an operation runs, with another parent,
// ends when the operation's does: with the provider's window, or MaxRun.
func TestTheContextOfARunningClaimEndsWithTheRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		opt  idem.ExecuteOption
		want time.Duration
	}{
		"the provider's window": {idem.WithProvider("p", time.Minute), time.Minute},
		"MaxRun":                {idem.WithMaxRun(2 * time.Minute), 2 * time.Minute},
	} {
		for _, late := range []bool{false, true} {
			synctestWorld(t, fmt.Sprint(name, ", made late: ", late), func(t *testing.T) {
				w := newWorld(t, nil, &idem.Options{Namespace: "n"})
				line := newTimeline()
				_, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
					c, ok := idem.ClaimFrom(ctx)
					require.True(t, ok)
					if late {
						<-ctx.Done()
					}
					under, cancel := c.Context(context.WithoutCancel(ctx))
					defer cancel()
					<-under.Done()
					require.Equal(t, tc.want, line.now())
					require.ErrorIs(t, context.Cause(under), idem.ErrMaxRun)
					return idem.Result{}, nil
				}, tc.opt)
				require.NoError(t, err)
			})
		}
	}
}

// C05: the write of an outcome may be repeated by the caller until it is heard.
func TestRecordMayBeCalledAgainUntilTheStoreHasAnswered(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]func(n int) faultstore.Fault{
		"not applied": func(int) faultstore.Fault { return faultstore.Fault{Drop: true, Err: errDown} },
		"applied":     func(int) faultstore.Fault { return faultstore.Fault{Err: errDown} },
	} {
		synctestWorld(t, name, func(t *testing.T) {
			down := true
			w := newWorld(t, func(_ context.Context, c faultstore.Call) faultstore.Fault {
				if c.Method == faultstore.Complete && down {
					return hook(c.Nth)
				}
				return faultstore.Fault{}
			}, nil)
			c, err := w.store.Claim(t.Context(), "k", lease)
			require.NoError(t, err)
			res := idem.Result{Value: []byte("7")}
			require.ErrorIs(t, w.store.Record(t.Context(), c, res), idem.ErrNotRecorded)
			down = false
			time.Sleep(time.Hour)
			require.NoError(t, w.store.Record(t.Context(), c, res), "also after the lease's end")
			got, err := w.store.Execute(t.Context(), "k", forbidden(t))
			require.NoError(t, err)
			require.Equal(t, "7", string(got.Value))
		})
	}
}

func TestClaimFromReportsFalseOutsideAClaim(t *testing.T) {
	t.Parallel()
	c, ok := idem.ClaimFrom(t.Context())
	require.False(t, ok)
	require.Nil(t, c)
	w := newWorld(t, nil, nil)
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "mine")
	_, err := w.store.Execute(ctx, "k", func(ctx context.Context) (idem.Result, error) {
		c, ok := idem.ClaimFrom(context.WithValue(ctx, key{}, "other"))
		require.True(t, ok)
		require.Equal(t, "k", c.Key())
		require.Equal(t, "mine", ctx.Value(key{}), "the caller's values are there")
		return idem.Result{}, nil
	})
	require.NoError(t, err)
}
