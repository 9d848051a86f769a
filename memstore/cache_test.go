package memstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

const ttl = time.Minute

// copyOf makes a completed record with a value of about size bytes.
func copyOf(k string, token, revision uint64, size int) *driver.Record {
	return &driver.Record{
		Key: k, State: driver.Succeeded, Token: token, Revision: revision,
		Outcome: driver.Outcome{Value: []byte(strings.Repeat("v", size))},
	}
}

func put(t *testing.T, c *memstore.Cache, rec *driver.Record) {
	t.Helper()
	require.NoError(t, c.Put(t.Context(), &driver.PutParams{Record: rec, TTL: ttl}))
}

func del(t *testing.T, c *memstore.Cache, k string, refuse time.Duration) {
	t.Helper()
	require.NoError(t, c.Delete(t.Context(), k, refuse))
}

// has reports whether the copy of k is there; what else Get may say fails t.
func has(t *testing.T, c *memstore.Cache, k string) bool {
	t.Helper()
	_, err := c.Get(t.Context(), k)
	if err != nil {
		require.ErrorIs(t, err, driver.ErrNotFound)
	}
	return err == nil
}

func inCacheBubble(t *testing.T, opts *memstore.CacheOptions, f func(t *testing.T, c *memstore.Cache)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, memstore.NewCache(opts)) })
}

// C41. The order of arrival does not matter, (Token, Revision) does.
func TestANewerCopyIsNeverReplacedByAnOlderOne(t *testing.T) {
	t.Parallel()
	type version struct{ token, revision uint64 }
	for _, c := range []struct{ first, second, want version }{
		{version{5, 1}, version{6, 1}, version{6, 1}},
		{version{6, 1}, version{5, 9}, version{6, 1}},
		{version{5, 1}, version{5, 2}, version{5, 2}},
		{version{5, 2}, version{5, 1}, version{5, 2}},
	} {
		cache := memstore.NewCache(nil)
		put(t, cache, copyOf(key, c.first.token, c.first.revision, 1))
		put(t, cache, copyOf(key, c.second.token, c.second.revision, 1))
		rec, err := cache.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, c.want, version{rec.Token, rec.Revision})
		require.EqualValues(t, 1, cache.Stat().Records)
	}
}

func TestACopyEndsWithItsTTL(t *testing.T) {
	t.Parallel()
	inCacheBubble(t, nil, func(t *testing.T, c *memstore.Cache) {
		put(t, c, copyOf(key, 5, 2, 1))
		time.Sleep(ttl - time.Nanosecond)
		require.True(t, has(t, c, key))
		time.Sleep(time.Nanosecond)
		require.False(t, has(t, c, key), "reading does not extend it")
		require.Zero(t, c.Stat())
		put(t, c, copyOf(key, 4, 1, 1))
		require.True(t, has(t, c, key), "what is over is not there")
	})
}

// I13: a copy does not outlive the record, and tells how long it has left.
func TestACopyAgesLikeTheRecord(t *testing.T) {
	t.Parallel()
	inCacheBubble(t, nil, func(t *testing.T, c *memstore.Cache) {
		rec := copyOf(key, 5, 1, 1)
		rec.RetentionLeft, rec.ClaimAge = 10*time.Second, time.Second
		rec.Providers = []driver.Provider{{Name: "card", Window: time.Hour, Elapsed: time.Second}}
		put(t, c, rec)
		time.Sleep(9 * time.Second)
		got, err := c.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, time.Second, got.RetentionLeft)
		require.Equal(t, 10*time.Second, got.ClaimAge)
		require.Equal(t, 10*time.Second, got.Providers[0].Elapsed)
		time.Sleep(time.Second)
		require.False(t, has(t, c, key))
		rec.RetentionLeft = 0 // it does not end by itself
		put(t, c, rec)
		time.Sleep(30 * time.Second)
		got, err = c.Get(t.Context(), key)
		require.NoError(t, err)
		require.Zero(t, got.RetentionLeft)
	})
}

func TestDeleteRefusesPutsForAWhile(t *testing.T) {
	t.Parallel()
	inCacheBubble(t, nil, func(t *testing.T, c *memstore.Cache) {
		put(t, c, copyOf(key, 5, 1, 1))
		del(t, c, key, 60*time.Second)
		require.False(t, has(t, c, key))
		require.Zero(t, c.Stat().Records)
		time.Sleep(30 * time.Second)
		del(t, c, key, 10*time.Second) // does not shorten the marker that is there
		time.Sleep(30*time.Second - time.Nanosecond)
		put(t, c, copyOf(key, 9, 9, 1))
		require.False(t, has(t, c, key))
		time.Sleep(time.Nanosecond)
		put(t, c, copyOf(key, 5, 1, 1))
		require.True(t, has(t, c, key))
		del(t, c, key, 0)
		require.False(t, has(t, c, key))
		put(t, c, copyOf(key, 5, 1, 1))
		require.True(t, has(t, c, key), "no refusal was asked for")
		del(t, c, key, time.Second)
		del(t, c, key, time.Minute)
		time.Sleep(time.Second)
		put(t, c, copyOf(key, 5, 1, 1))
		require.False(t, has(t, c, key), "the longer refusal counts")
	})
}

func TestACacheEvictsWhatWasNotUsedForLongest(t *testing.T) {
	t.Parallel()
	inCacheBubble(t, &memstore.CacheOptions{MaxBytes: 20_000}, func(t *testing.T, c *memstore.Cache) {
		for i := range 10 { // of 1,642 bytes each, as long as the estimate stays
			put(t, c, copyOf(fmt.Sprintf("k%d", i), 1, 1, 1000))
		}
		require.Zero(t, c.Stat().Evictions)
		require.True(t, has(t, c, "k0")) // used
		for i := range 5 {
			put(t, c, copyOf(fmt.Sprintf("new%d", i), 1, 1, 1000))
		}
		stat := c.Stat()
		require.Positive(t, stat.Evictions)
		require.LessOrEqual(t, stat.Bytes, int64(20_000))
		require.True(t, has(t, c, "k0"))
		for i := range 9 {
			require.Equal(t, int64(i+1) > stat.Evictions, has(t, c, fmt.Sprintf("k%d", i+1)), i)
		}
	})
}

func TestACopyWithoutRoomIsNotKeptNorTheOneItSupersedes(t *testing.T) {
	t.Parallel()
	c := memstore.NewCache(&memstore.CacheOptions{MaxBytes: 20_000})
	put(t, c, copyOf("other", 1, 1, 1))
	put(t, c, copyOf(key, 5, 1, 10))
	put(t, c, copyOf(key, 6, 1, 20_000))
	require.False(t, has(t, c, key))
	require.True(t, has(t, c, "other"), "nothing is evicted in vain")
	put(t, memstore.NewCache(&memstore.CacheOptions{MaxBytes: -1}), copyOf(key, 1, 1, 0))
}

// A marker that has no room must not let a stale copy in.
func TestDeletionsHoldHoweverManyThereAre(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]*memstore.CacheOptions{
		"some room": {MaxBytes: 5_000}, "room for one": {MaxBytes: 200}, "no room": {MaxBytes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCacheBubble(t, opts, func(t *testing.T, c *memstore.Cache) {
				put(t, c, copyOf("first", 1, 1, 1))
				for i := range 100 {
					del(t, c, fmt.Sprintf("k%d", i), ttl)
				}
				require.LessOrEqual(t, c.Stat().Bytes, opts.MaxBytes)
				for i := range 100 {
					k := fmt.Sprintf("k%d", i)
					put(t, c, copyOf(k, 1, 1, 1))
					require.False(t, has(t, c, k))
				}
				time.Sleep(ttl)
				put(t, c, copyOf("k0", 1, 1, 1))
				require.Equal(t, opts.MaxBytes == 5_000, has(t, c, "k0"), "afterwards everything is as before")
			})
		})
	}
}

// The markers that had to go are those with the longest refusals.
func TestADeletionHoldsThoughItsMarkerHadToGo(t *testing.T) {
	t.Parallel()
	inCacheBubble(t, &memstore.CacheOptions{MaxBytes: 5_000}, func(t *testing.T, c *memstore.Cache) {
		del(t, c, "long", time.Hour)
		for i := range 100 {
			del(t, c, fmt.Sprintf("k%d", i), time.Second)
		}
		time.Sleep(time.Hour - time.Nanosecond)
		put(t, c, copyOf("long", 1, 1, 1))
		require.False(t, has(t, c, "long"))
		time.Sleep(time.Nanosecond)
		put(t, c, copyOf("long", 1, 1, 1))
		require.True(t, has(t, c, "long"))
	})
}

func TestMarkersThatAreOverDoNotPileUp(t *testing.T) {
	t.Parallel()
	inCacheBubble(t, nil, func(t *testing.T, c *memstore.Cache) {
		for i := range 10_000 {
			del(t, c, fmt.Sprintf("k%d", i%7000), time.Second)
			time.Sleep(time.Millisecond)
		}
		require.Less(t, c.Stat().Bytes, int64(1000*250+1), "about the markers of one second")
	})
}

func TestACacheDropsWhatIsOverThoughItIsNotFull(t *testing.T) {
	t.Parallel()
	inCacheBubble(t, &memstore.CacheOptions{MaxBytes: 4 << 20}, func(t *testing.T, c *memstore.Cache) {
		for i := range 1000 {
			put(t, c, copyOf(fmt.Sprintf("k%d", i), 1, 1, 1))
			del(t, c, fmt.Sprintf("d%d", i), ttl)
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, c.Stat().Records, int64(60))
		time.Sleep(ttl)
		for i := range 60 {
			put(t, c, copyOf("last", uint64(i+1), 1, 1))
		}
		require.EqualValues(t, 1, c.Stat().Records)
		require.Zero(t, c.Stat().Evictions)
		del(t, c, "last", 0)
		require.Zero(t, c.Stat())
	})
}

func TestACacheSharesNothingWithItsCallers(t *testing.T) {
	t.Parallel()
	c := memstore.NewCache(nil)
	rec := copyOf(key, 1, 1, 5)
	rec.Refs = []driver.ProviderRef{{Provider: "card", Ref: "1"}}
	rec.Providers = []driver.Provider{{Name: "card"}}
	put(t, c, rec)
	for range 2 {
		copy(rec.Outcome.Value, "XXXXX")
		rec.Refs[0].Ref, rec.Providers[0].Name = "changed", "changed"
		got, err := c.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, "vvvvv", string(got.Outcome.Value))
		require.Equal(t, "1", got.Refs[0].Ref)
		require.Equal(t, "card", got.Providers[0].Name)
		rec = got
	}
}

func TestACacheRefusesWhatItMustNotHold(t *testing.T) {
	t.Parallel()
	c := memstore.NewCache(nil)
	ctx := t.Context()
	for _, state := range []driver.State{0, driver.Claimed, driver.Released, driver.Unknown} {
		rec := copyOf(key, 1, 1, 1)
		rec.State = state
		require.ErrorContains(t, c.Put(ctx, &driver.PutParams{Record: rec, TTL: ttl}), "completed")
	}
	require.Error(t, c.Put(ctx, &driver.PutParams{TTL: ttl}))
	require.ErrorIs(t, c.Put(ctx, &driver.PutParams{Record: copyOf("", 1, 1, 1), TTL: ttl}), driver.ErrInvalidKey)
	for _, none := range []time.Duration{0, -1} {
		require.NoError(t, c.Put(ctx, &driver.PutParams{Record: copyOf(key, 1, 1, 1), TTL: none}))
	}
	_, err := c.Get(ctx, "")
	require.ErrorIs(t, err, driver.ErrInvalidKey)
	require.ErrorIs(t, c.Delete(ctx, "", ttl), driver.ErrInvalidKey)
	require.False(t, has(t, c, key))

	put(t, c, copyOf(key, 1, 1, 1))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = c.Get(ended, key)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, c.Put(ended, &driver.PutParams{Record: copyOf(key, 2, 1, 1), TTL: ttl}), context.Canceled)
	require.ErrorIs(t, c.Delete(ended, key, ttl), context.Canceled)
	require.True(t, has(t, c, key))
}

func TestAllShardsOfACacheHoldItsBytes(t *testing.T) {
	t.Parallel()
	const size = 32 << 20
	c := memstore.NewCache(&memstore.CacheOptions{MaxBytes: size})
	for i := range 1000 {
		put(t, c, copyOf(fmt.Sprintf("k%d", i), 1, 1, 64<<10))
	}
	require.LessOrEqual(t, c.Stat().Bytes, int64(size))
	require.Greater(t, c.Stat().Bytes, int64(size*3/4))
	require.EqualValues(t, 1000, c.Stat().Records+c.Stat().Evictions)
}

func TestACacheIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	c := memstore.NewCache(&memstore.CacheOptions{MaxBytes: 10_000})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			highest := make(map[string]uint64)
			for i := range 500 {
				k := fmt.Sprintf("k%d", i%7)
				_ = c.Put(t.Context(), &driver.PutParams{Record: copyOf(k, uint64(i+g), 1, i), TTL: ttl})
				if rec, err := c.Get(t.Context(), k); err == nil {
					highest[k] = max(highest[k], rec.Token)
				}
				if i%50 == 0 {
					_ = c.Delete(t.Context(), k, time.Nanosecond)
				}
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, c.Stat().Bytes, int64(10_000))
}
