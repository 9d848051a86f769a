package idem_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
)

func TestAClosedStoreRefusesNewCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	_, err := w.store.Execute(t.Context(), "k", returns("1"))
	require.NoError(t, err)
	require.NoError(t, w.store.Close(t.Context()))
	require.NoError(t, w.store.Close(t.Context()), "it may be called again")
	calls := w.faults.Count("")
	for name, call := range map[string]func() error{
		"Execute": func() error { _, err := w.store.Execute(t.Context(), "k", forbidden(t)); return err },
		"Do":      func() error { _, err := idem.Do(t.Context(), w.store, "k", doOne); return err },
		"Claim":   func() error { _, err := w.store.Claim(t.Context(), "k", lease); return err },
		"Inspect": func() error { _, err := w.store.Inspect(t.Context(), "k"); return err },
		"Resolve": func() error { return w.store.Resolve(t.Context(), "k", 1, resolution(idem.NotExecuted())) },
		"Redact":  func() error { return w.store.Redact(t.Context(), "k", 1, "") },
		"Reset":   func() error { return w.store.Reset(t.Context(), "k", 1, "") },
	} {
		err := call()
		require.ErrorIs(t, err, idem.ErrClosed, name)
		require.Equal(t, idem.EffectNotRun, infoOf(t, err).Effect, name)
	}
	require.Equal(t, calls, w.faults.Count(""))
}

// Close waits for running calls and their bookkeeping, which it does not
// disturb: their leases are renewed, and their outcomes recorded.
func TestCloseWaitsForWhatRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.At(faultstore.Complete, 1, faultstore.Fault{Before: faultstore.Delay(time.Second)}), nil)
		line := newTimeline()
		done := w.execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
			time.Sleep(time.Minute)
			return idem.Result{Value: []byte("1")}, ctx.Err()
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errLeft)
		defer cancel()
		err := w.store.Close(ctx)
		require.ErrorIs(t, err, errLeft)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, line.now(), "the calls go on")
		require.NoError(t, w.store.Close(t.Context()))
		require.Equal(t, time.Minute+time.Second, line.now())
		require.NoError(t, (<-done).err)
		require.Equal(t, driver.Succeeded, w.process(t, nil).record(t, "k").State)
	})
}

func TestClaimsMayBeSettledAfterClose(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	settle := map[string]func(c *idem.Claim) error{
		"record":  func(c *idem.Claim) error { return w.store.Record(t.Context(), c, idem.Result{Value: []byte("1")}) },
		"fail":    func(c *idem.Claim) error { return w.store.RecordFailure(t.Context(), c, errBoom) },
		"release": func(c *idem.Claim) error { return w.store.Release(t.Context(), c) },
	}
	claims := map[string]*idem.Claim{}
	for name := range settle {
		c, err := w.store.Claim(t.Context(), name, lease)
		require.NoError(t, err)
		claims[name] = c
	}
	require.NoError(t, w.store.Close(t.Context()), "a claim that its caller holds is no running call")
	for name, f := range settle {
		require.NoError(t, claims[name].Renew(t.Context()))
		require.NoError(t, f(claims[name]), name)
	}
}

// Close waits for what goes on behind a call that has returned.
func TestCloseWaitsForTheReleaseOfAnAbandonedClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.First(
			faultstore.Lose(faultstore.Claim, 0),
			faultstore.At(faultstore.Release, 1, faultstore.Fault{Before: faultstore.Delay(time.Second)})), nil)
		_, err := w.store.Execute(t.Context(), "k", forbidden(t))
		require.ErrorIs(t, err, idem.ErrUnavailable)
		require.NoError(t, w.store.Close(t.Context()))
		require.Equal(t, driver.Released, w.process(t, nil).record(t, "k").State)
	})
}

// The release of an abandoned claim that stays without an answer is told.
func TestAnAbandonedClaimThatCannotBeReleasedIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.First(faultstore.Lose(faultstore.Claim, 0), faultstore.Fail(faultstore.Release, 0, errDown)), nil)
		_, err := w.store.Execute(t.Context(), "k", forbidden(t))
		require.ErrorIs(t, err, idem.ErrUnavailable)
		require.NoError(t, w.store.Close(t.Context()))
		w.requireKinds(t, idem.EventUnavailable, idem.EventNotReleased)
		other := w.process(t, nil)
		_, err = other.store.Execute(t.Context(), "k", forbidden(t))
		require.ErrorIs(t, err, idem.ErrInProgress)
		time.Sleep(lease)
		_, err = other.store.Execute(t.Context(), "k", returns("1"))
		require.NoError(t, err, "its lease runs out")
	})
}
