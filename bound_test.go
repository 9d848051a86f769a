package idem_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/internal/faultstore"
)

// bind gives a world's Store another view of the same records.
func (w *world) bind() (*idem.Store, *faultstore.Store) {
	view := faultstore.New(w.memory, nil)
	return w.store.WithBackend(view), view
}

func TestABoundStoreAsksItsOwnBackendWithTheOptionsOfTheFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, &idem.Options{Namespace: "ns", FingerprintKeys: keys("k1").FingerprintKeys, MaxValue: 10})
	bound, view := w.bind()
	require.Equal(t, w.faults, w.store.Backend())
	require.Equal(t, view, bound.Backend())
	for _, v := range ways() {
		_, err := v.call(t.Context(), bound, "k"+v.name, returns("1"), fingerprint("a"))
		require.NoError(t, err)
		_, err = v.call(t.Context(), w.store, "k"+v.name, forbidden(t), fingerprint("b"))
		require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
		require.Equal(t, keyed("k1", "a"), w.record(t, "k"+v.name).Fingerprint)
	}
	require.Equal(t, 3, view.Count(faultstore.Claim))
	require.Equal(t, 3, w.faults.Count(faultstore.Claim))
	require.Zero(t, w.faults.Count(faultstore.Complete))
	require.Len(t, w.events.take(), 6, "one observer sees both")
}

func TestCallsOfABoundStoreMeetThoseOfTheFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		bound, view := w.bind()
		done := start(func() (idem.Result, error) { return bound.Execute(t.Context(), "k", takes(time.Second, "1")) })
		synctest.Wait()
		_, err := w.store.Execute(t.Context(), "k", forbidden(t))
		require.ErrorIs(t, err, idem.ErrInProgress)
		res, err := w.store.Execute(t.Context(), "k", forbidden(t), idem.WithWait(time.Hour))
		require.NoError(t, err)
		require.True(t, res.Replayed)
		require.Equal(t, 1, w.faults.Count(faultstore.Claim), "to look, once it was recorded")
		require.NoError(t, (<-done).err)

		_, err = w.store.Execute(t.Context(), "k2", func(ctx context.Context) (idem.Result, error) {
			_, err := bound.Execute(ctx, "k2", forbidden(t), idem.WithWait(time.Hour))
			require.ErrorIs(t, err, idem.ErrInProgress, "a nested call does not wait for itself")
			return idem.Result{}, nil
		})
		require.NoError(t, err)
		require.Equal(t, 1, view.Count(faultstore.Claim))
	})
}

func TestClosingEitherClosesBoth(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		w := newWorld(t, nil, nil)
		bound, _ := w.bind()
		closes, other := w.store, bound
		if !first {
			closes, other = bound, w.store
		}
		require.NoError(t, closes.Close(t.Context()))
		_, err := other.Execute(t.Context(), "k", forbidden(t))
		require.ErrorIs(t, err, idem.ErrClosed)
		require.NoError(t, other.Close(t.Context()))
	}
}

// The findings about a server count for every view of it.
func TestABoundStoreIsNotCheckedAnew(t *testing.T) {
	t.Parallel()
	b := newChecked(finds(warning()))
	s := newStore(t, b, &idem.Options{Observer: idem.Discard})
	_, err := s.Execute(t.Context(), "k", returns("1"))
	require.NoError(t, err)
	for range 3 {
		_, err = s.WithBackend(b).Execute(t.Context(), "k", forbidden(t))
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, b.looks.Load())
}
