package memstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

func hinted(hints <-chan struct{}) bool {
	select {
	case <-hints:
		return true
	default:
		return false
	}
}

func TestAWatchIsHintedWhenTheKeyIsSettled(t *testing.T) {
	t.Parallel()
	b := memstore.New(nil)
	one, err := b.Watch(t.Context(), key)
	require.NoError(t, err)
	two, err := b.Watch(t.Context(), key)
	require.NoError(t, err)
	other, err := b.Watch(t.Context(), "other")
	require.NoError(t, err)

	ref := acquire(t, b, 1)
	require.NoError(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: lease, Retention: retention}))
	require.False(t, hinted(one), "a claim and a renewal settle nothing")
	release(t, b, ref, driver.ReleaseParams{})
	require.True(t, hinted(one))
	require.True(t, hinted(two))
	release(t, b, ref, driver.ReleaseParams{})
	require.False(t, hinted(one), "said again, nothing changed")

	ref = acquire(t, b, 2)
	complete(t, b, ref, "v")
	require.True(t, hinted(one))
	require.NoError(t, b.Reset(t.Context(), key, edit(ref.Token)))
	require.True(t, hinted(one))
	require.False(t, hinted(other), "keys are independent (I9)")

	require.True(t, hinted(two), "one hint stands for those not received")
	require.False(t, hinted(two))
}

func TestAWaiterWakesUpWithoutPolling(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		ref := acquire(t, b, 1)
		hints, err := b.Watch(t.Context(), key)
		require.NoError(t, err)
		go func() {
			time.Sleep(time.Minute)
			complete(t, b, ref, "v")
		}()
		start := time.Now()
		<-hints
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, driver.Succeeded, inspect(t, b, key).State)
	})
}

func TestAWatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		ctx, cancel := context.WithCancel(t.Context())
		ended, err := b.Watch(ctx, key)
		require.NoError(t, err)
		goesOn, err := b.Watch(t.Context(), key)
		require.NoError(t, err)
		cancel()
		synctest.Wait()
		release(t, b, acquire(t, b, 1), driver.ReleaseParams{})
		require.False(t, hinted(ended))
		require.True(t, hinted(goesOn))
	})
}
