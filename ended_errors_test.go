package idem_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
)

// The caller's context ended while the operation ran: the error matches what
// ended it, and what the operation said.
func TestAnErrorMatchesWhatEndedTheCallersContext(t *testing.T) {
	t.Parallel()
	for _, w := range ways()[:2] {
		for _, p := range policies() {
			t.Run(w.name+"/"+p.name, func(t *testing.T) {
				t.Parallel()
				world := newWorld(t, nil, nil)
				ctx, cancel := context.WithCancelCause(t.Context())
				_, err := w.call(ctx, world.store, "k", func(ctx context.Context) (idem.Result, error) {
					cancel(errLeft)
					require.Equal(t, errLeft, context.Cause(ctx))
					return idem.Result{}, errBoom
				}, p.opts...)
				require.ErrorIs(t, err, errBoom)
				require.ErrorIs(t, err, errLeft)
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, p.strict, errors.Is(err, idem.ErrOutcomeUnknown))
			})
		}
	}
}

// So does the error of an outcome that could not be recorded.
func TestAnOutcomeThatIsNotRecordedMatchesWhatEndedTheCallersContext(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{"success": nil, "permanent": idem.Permanent(errPermanent)} {
		synctestWorld(t, name, func(t *testing.T) {
			w := newWorld(t, faultstore.Fail(faultstore.Complete, 0, errDown), nil)
			ctx, cancel := context.WithCancelCause(t.Context())
			_, err := w.store.Execute(ctx, "k", func(context.Context) (idem.Result, error) {
				cancel(errLeft)
				return idem.Result{}, end
			})
			require.ErrorIs(t, err, idem.ErrNotRecorded)
			require.ErrorIs(t, err, errLeft)
		})
	}
}

// A hold that could not be written is an outcome that is lost: the observer is told
// so, and that is grave.
func TestAHoldThatCannotBeWrittenIsGrave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.Fail(faultstore.Release, 0, errDown), nil)
		_, err := w.store.Execute(t.Context(), "k", fails(idem.Unknown(errBoom)))
		require.ErrorIs(t, err, idem.ErrNotRecorded)
		w.requireKinds(t, idem.EventNotRecorded)
		require.True(t, idem.EventNotRecorded.Grave())
		_, err = w.store.Execute(t.Context(), "k2", fails(errBoom))
		require.ErrorIs(t, err, errBoom)
		w.requireKinds(t, idem.EventNotReleased)
	})
}

// A mark speaks of its own key, whether the nested call ran or replayed: also if the
// sentinel that a replay revives is marked itself.
func TestAMarkOfANestedCallDoesNotSpeakForTheOuterKey(t *testing.T) {
	t.Parallel()
	declined := idem.Permanent(coded{"declined"})
	w := newWorld(t, nil, &idem.Options{Errors: map[string]error{"declined": declined}})
	outer := func(ctx context.Context) (idem.Result, error) {
		return w.store.Execute(ctx, "inner", fails(declined))
	}
	for _, key := range []string{"inner runs", "inner replays", "inner replays again"} {
		_, err := w.store.Execute(t.Context(), key, outer)
		require.ErrorIs(t, err, declined)
		require.Equal(t, driver.Released, w.record(t, key).State, key)
	}
}

type coded struct{ code string }

func (c coded) Error() string { return "card " + c.code }
func (c coded) Code() string  { return c.code }
