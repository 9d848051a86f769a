package idem_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
)

func TestAContextThatOutlivesItsOperationDoesNotMakeTheKeyBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		var kept context.Context
		_, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
			kept = context.WithoutCancel(ctx) //nolint:fatcontext // what a careless caller does
			return idem.Result{Value: []byte("v")}, nil
		})
		require.NoError(t, err)
		res, err := w.store.Execute(kept, "k", forbidden(t))
		require.NoError(t, err)
		require.True(t, res.Replayed)

		c, err := w.store.Claim(t.Context(), "steps", 0)
		require.NoError(t, err)
		ctx, cancel := c.Context(t.Context())
		defer cancel()
		require.NoError(t, w.store.Release(t.Context(), c))
		_, err = w.store.Execute(ctx, "steps", returns("v"))
		require.NoError(t, err)
	})
}

func TestANilContextDoesNotMakeCloseWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		assert.Panics(t, func() {
			_, _ = w.store.Execute(nil, "k", returns("v")) //nolint:staticcheck // what a careless caller does
		})
		require.NoError(t, w.store.Close(t.Context()))
	})
}

// panicsWhenRead is an error with a method that cannot bear its receiver.
type panicsWhenRead struct{ code *string }

func (panicsWhenRead) Error() string  { return "unreadable" }
func (e panicsWhenRead) Code() string { return *e.code }

// C55: the key is settled in a path that runs for every kind of exit.
func TestAnErrorWhoseMethodsPanicDoesNotLeaveTheKeyBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		require.Panics(t, func() {
			_, _ = w.store.Execute(t.Context(), "k", fails(idem.Permanent(panicsWhenRead{})))
		})
		_, err := w.store.Execute(t.Context(), "k", returns("v"))
		require.NoError(t, err)
	})
}

func TestTheContextOfAClaimThatIsNotHeldHasEndedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		_, err := w.store.Execute(t.Context(), "k", returns("v"))
		require.NoError(t, err)
		done, err := w.store.Claim(t.Context(), "k", 0)
		require.ErrorIs(t, err, idem.ErrAlreadyDone)
		ctx, cancel := done.Context(t.Context())
		defer cancel()
		require.ErrorIs(t, context.Cause(ctx), idem.ErrLeaseLost)

		c, err := w.store.Claim(t.Context(), "expired", time.Second)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		ctx, cancel = c.Context(t.Context())
		defer cancel()
		require.ErrorIs(t, context.Cause(ctx), idem.ErrLeaseLost)
	})
}

// A mark speaks of the operation that returns it. An operation that had its
// effect and then returns the error of a nested call must not be taken for one
// that had none.
func TestTheMarkOfANestedCallDoesNotSettleTheOuterKey(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]func(error) error{"not applied": idem.NotApplied, "permanent": idem.Permanent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, nil)
				charges := 0
				op := func(ctx context.Context) (idem.Result, error) {
					charges++
					_, err := w.store.Execute(ctx, "mail", fails(mark(errNothing)))
					return idem.Result{}, err
				}
				_, err := w.store.Execute(t.Context(), "charge", op, idem.OnUnknown(idem.Hold))
				require.ErrorIs(t, err, errNothing)
				require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
				_, err = w.store.Execute(t.Context(), "charge", op, idem.OnUnknown(idem.Hold))
				require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
				require.Equal(t, 1, charges)
			})
		})
	}
}

func TestDurationsOverACenturyAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		const huge = time.Duration(1<<63 - 1)
		for name, opt := range map[string]idem.ExecuteOption{
			"lease": idem.WithLease(huge), "max run": idem.WithMaxRun(huge), "retention": idem.WithRetention(huge), "wait": idem.WithWait(huge),
		} {
			_, err := w.store.Execute(t.Context(), "k", forbidden(t), opt)
			require.ErrorIs(t, err, idem.ErrInvalidOption, name)
		}
		_, err := w.store.Claim(t.Context(), "k", huge)
		require.ErrorIs(t, err, idem.ErrInvalidOption)
	})
}
