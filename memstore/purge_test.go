package memstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

// C40.
func TestPurgeRemovesWhatHasExpiredInBoundedSteps(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		fill(t, b, "expired", 500)
		time.Sleep(retention / 2)
		fill(t, b, "kept", 20)
		acquire(t, b, 1, forKey("unknown"))
		release(t, b, acquire(t, b, 1, forKey("held")), driver.ReleaseParams{Held: true})
		time.Sleep(retention / 2)
		acquire(t, b, 1, forKey("claimed"))
		before := b.Stat() // the sweeps of the insertions have removed some
		var last int64
		res, err := b.Purge(t.Context(), &driver.PurgeParams{Batch: 3, Progress: func(sum int64) {
			require.Greater(t, sum, last)
			require.LessOrEqual(t, sum, last+3)
			last = sum
		}})
		require.NoError(t, err)
		require.Equal(t, res.Purged, last)
		require.Equal(t, before.Records-23, res.Purged)
		require.EqualValues(t, 23, b.Stat().Records)
		require.Less(t, b.Stat().Bytes, before.Bytes)
		res, err = b.Purge(t.Context(), &driver.PurgeParams{})
		require.NoError(t, err)
		require.Zero(t, res.Purged)
	})
}

// I13. The time counts from the end of the lease, or from the last change.
func TestPurgeRemovesUnknownRecordsOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		purge := func(after time.Duration) int64 {
			res, err := b.Purge(t.Context(), &driver.PurgeParams{UnknownAfter: after})
			require.NoError(t, err)
			return res.Purged
		}
		acquire(t, b, 1, forKey("unknown"))
		release(t, b, acquire(t, b, 2, forKey("held")), driver.ReleaseParams{Held: true})
		ref := acquire(t, b, 3, forKey("renewed"))
		time.Sleep(90 * 24 * time.Hour)
		require.NoError(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: lease, Retention: retention}))
		require.Zero(t, purge(0))
		require.Zero(t, purge(90*24*time.Hour))
		require.EqualValues(t, 1, purge(90*24*time.Hour-time.Nanosecond), "held, since the release")
		time.Sleep(lease)
		require.EqualValues(t, 1, purge(90*24*time.Hour-time.Nanosecond), "unknown, since the lease's end")
		require.Zero(t, purge(time.Nanosecond))
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, purge(time.Minute))
		require.Zero(t, b.Stat().Records)
	})
}

func TestAPurgeThatIsCancelledKeepsWhatItDid(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		fill(t, b, "expired", 300)
		time.Sleep(retention)
		ctx, cancel := context.WithCancel(t.Context())
		res, err := b.Purge(ctx, &driver.PurgeParams{Batch: 1, Progress: func(sum int64) {
			if sum == 100 {
				cancel()
			}
		}})
		require.ErrorIs(t, err, context.Canceled)
		require.EqualValues(t, 100, res.Purged)
		require.EqualValues(t, 200, b.Stat().Records)
		res, err = b.Purge(t.Context(), &driver.PurgeParams{})
		require.NoError(t, err)
		require.EqualValues(t, 200, res.Purged)
		res, err = b.Purge(t.Context(), &driver.PurgeParams{Batch: -1})
		require.ErrorContains(t, err, "-1")
		require.NotNil(t, res)
	})
}

// A walk through the records steps over the place of another, and a sweep over
// what a walk has removed.
func TestAPurgeMeetsAnotherAndTheSweeps(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		fill(t, b, "expired", 640)
		time.Sleep(retention - time.Minute)
		fill(t, b, "kept", 640)
		time.Sleep(time.Minute)
		var inner int64
		res, err := b.Purge(t.Context(), &driver.PurgeParams{Batch: 1, Progress: func(sum int64) {
			if sum == 300 {
				res, err := b.Purge(t.Context(), &driver.PurgeParams{UnknownAfter: time.Nanosecond})
				require.NoError(t, err)
				inner = res.Purged
			}
		}})
		require.NoError(t, err)
		require.EqualValues(t, 640, b.Stat().Records)
		require.Positive(t, inner)
		require.EqualValues(t, 300, res.Purged, "the other one did the rest")
		fill(t, b, "new", 640)
		require.EqualValues(t, 2*640, b.Stat().Records)
	})
}

// C23, C40. Nobody waits for a purge, two of them do not undo each other, and
// what is claimed meanwhile stays.
func TestPurgesAndClaimsRunSideBySide(t *testing.T) {
	t.Parallel()
	b := memstore.New(nil)
	const n = 2000
	for i := range n {
		require.NoError(t, b.Complete(t.Context(), acquire(t, b, i, forKey(fmt.Sprintf("k%04d", i))), &driver.CompleteParams{Retention: 1}))
	}
	var purged atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			res, err := b.Purge(t.Context(), &driver.PurgeParams{Batch: 7})
			if err == nil {
				purged.Add(res.Purged)
			}
		})
	}
	wg.Go(func() {
		for i := range n {
			res, err := b.Claim(t.Context(), params(i, forKey(fmt.Sprintf("k%04d", i))))
			if err != nil || res.Fact != driver.Acquired {
				purged.Add(-1e9)
			}
		}
	})
	wg.Wait()
	require.GreaterOrEqual(t, purged.Load(), int64(0), "a claim of an expired key failed")
	require.EqualValues(t, n, b.Stat().Records)
	for i := range n {
		require.Equal(t, driver.Claimed, inspect(t, b, fmt.Sprintf("k%04d", i)).State)
	}
}

func TestAPurgeKeepsToItsRate(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		fill(t, b, "expired", 300)
		time.Sleep(retention)
		left, began := b.Stat().Records, time.Now()
		res, err := b.Purge(t.Context(), &driver.PurgeParams{Rate: 50})
		require.NoError(t, err)
		require.Equal(t, left, res.Purged)
		require.InDelta(t, float64(left)/50, time.Since(began).Seconds(), 0.1)

		fill(t, b, "expired again", 300)
		time.Sleep(retention)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		res, err = b.Purge(ctx, &driver.PurgeParams{Rate: 50})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.InDelta(t, 50, res.Purged, 10)
		for want, p := range map[string]driver.PurgeParams{"rate of -1": {Rate: -1}, "unknown after -1ns": {UnknownAfter: -1}} {
			res, err := b.Purge(t.Context(), &p)
			require.ErrorContains(t, err, want)
			require.Zero(t, res.Purged)
		}
	})
}
