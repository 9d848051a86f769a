package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/tcpproxy"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redisstore"
	"github.com/idem-go/idem/storetest"
)

func openCache(tb testing.TB, rdb redis.UniversalClient, prefix string) *redisstore.Cache {
	tb.Helper()
	c, err := redisstore.NewCache(rdb, &redisstore.CacheOptions{Prefix: prefix})
	require.NoError(tb, err)
	return c
}

func TestTheCacheKeepsItsContract(t *testing.T) {
	t.Parallel()
	rdb, at := shared(t), prefix()
	storetest.RunCache(t, storetest.CacheHarness{
		New:  func(tb testing.TB) driver.Cache { tb.Helper(); return openCache(tb, rdb, at) },
		Unit: time.Second,
		Garbage: func(tb testing.TB, c driver.Cache, key string) {
			tb.Helper()
			named, ok := c.(*redisstore.Cache)
			require.True(tb, ok)
			require.NoError(tb, rdb.Set(tb.Context(), named.RedisKey(key), "C garbage", time.Hour).Err())
		},
	})
}

func TestWhateverIsNoCopyIsAMissAndIsOverwritten(t *testing.T) {
	t.Parallel()
	rdb := shared(t)
	c := openCache(t, rdb, prefix())
	rec := &driver.Record{Key: "k", State: driver.Succeeded, Token: 5, Revision: 1, Attempt: 1, Outcome: success(strings.Repeat("7", 200)), RetentionLeft: time.Hour}
	require.NoError(t, c.Put(t.Context(), &driver.PutParams{Record: rec, TTL: time.Hour}))
	whole, err := rdb.Get(t.Context(), c.RedisKey("k")).Result()
	require.NoError(t, err)
	for _, garbage := range []string{
		"", "C", "x", whole[:len(whole)-1], whole[:len(whole)-30], whole + "7", strings.Replace(whole, "77", "78", 1), whole[:120],
		whole[:33], "C" + strings.Repeat("\xff", 200), whole[:33] + "\x02" + whole[34:],
	} {
		require.NoError(t, rdb.Set(t.Context(), c.RedisKey("k"), garbage, time.Hour).Err())
		_, err := c.Get(t.Context(), "k")
		require.ErrorIs(t, err, driver.ErrNotFound, "%q", garbage)
	}
	require.NoError(t, rdb.Del(t.Context(), c.RedisKey("k")).Err())
	require.NoError(t, rdb.RPush(t.Context(), c.RedisKey("k"), "a list").Err())
	_, err = c.Get(t.Context(), "k")
	require.ErrorIs(t, err, driver.ErrNotFound)
	require.NoError(t, c.Put(t.Context(), &driver.PutParams{Record: rec, TTL: time.Hour}))
	got, err := c.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, rec.Outcome, got.Outcome)
}

// A copy's end is the smaller of its TTL and what is left of the retention, and
// its durations go on.
func TestACopyEndsWithItsRecord(t *testing.T) {
	t.Parallel()
	rdb := shared(t)
	c := openCache(t, rdb, prefix())
	rec := &driver.Record{
		Key: "k", State: driver.Succeeded, Token: 5, Revision: 1, ClaimAge: time.Hour, RetentionLeft: 10 * time.Minute,
		Providers: []driver.Provider{{Name: "acme", Window: day, Elapsed: time.Minute}},
	}
	require.NoError(t, c.Put(t.Context(), &driver.PutParams{Record: rec, TTL: time.Hour}))
	left, err := rdb.PTTL(t.Context(), c.RedisKey("k")).Result()
	require.NoError(t, err)
	require.LessOrEqual(t, left, 10*time.Minute)
	require.Greater(t, left, 9*time.Minute)
	one, err := c.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		two, err := c.Get(t.Context(), "k")
		require.NoError(t, err)
		return two.RetentionLeft < one.RetentionLeft && two.ClaimAge > one.ClaimAge && two.Providers[0].Elapsed > one.Providers[0].Elapsed
	}, 10*time.Second, time.Millisecond)
	require.LessOrEqual(t, one.RetentionLeft, 10*time.Minute)
	require.GreaterOrEqual(t, one.ClaimAge, time.Hour)

	rec.RetentionLeft = 0 // which does not end by itself
	rec.Key = "endless"
	require.NoError(t, c.Put(t.Context(), &driver.PutParams{Record: rec, TTL: time.Minute}))
	got, err := c.Get(t.Context(), "endless")
	require.NoError(t, err)
	require.Zero(t, got.RetentionLeft)
}

// Under one prefix a Cache and a Backend do not meet; where prefixes run into
// each other, neither harms the other.
func TestACacheAndABackendDoNotMeet(t *testing.T) {
	t.Parallel()
	rdb, at := shared(t), prefix()
	b := open(t, rdb, func(o *redisstore.Options) { o.Prefix = at })
	c := openCache(t, rdb, at)
	complete(t, b, acquire(t, b, "k"), "the record")
	rec := &driver.Record{Key: "k", State: driver.Succeeded, Token: 1 << 60, Revision: 1, Outcome: success("the copy")}
	require.NoError(t, c.Put(t.Context(), &driver.PutParams{Record: rec, TTL: time.Hour}))
	require.NoError(t, c.Delete(t.Context(), "other", time.Hour))
	require.Equal(t, "the record", string(wants(t, b, driver.Completed, params("k")).Outcome.Value))
	acquire(t, b, "other")
	page, err := b.List(t.Context(), &driver.ListParams{})
	require.NoError(t, err)
	require.Len(t, page.Records, 2)

	within := open(t, rdb, func(o *redisstore.Options) { o.Prefix = at + "c" }) // its names are the cache's
	require.Equal(t, c.RedisKey("k2"), within.RedisKey("k2"))
	ref := acquire(t, within, "k2")
	rec.Key = "k2"
	require.ErrorIs(t, c.Put(t.Context(), &driver.PutParams{Record: rec, TTL: time.Hour}), driver.ErrCorrupt)
	require.ErrorIs(t, c.Delete(t.Context(), "k2", time.Hour), driver.ErrCorrupt)
	_, err = c.Get(t.Context(), "k2")
	require.ErrorIs(t, err, driver.ErrNotFound)
	complete(t, within, ref, "7")
	_, err = within.Claim(t.Context(), params("k"))
	require.ErrorIs(t, err, driver.ErrCorrupt, "a copy is no record")
}

func TestACacheReadsInOneRoundTrip(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{})
	p := tcpproxy.New(t, s.Addr())
	c := openCache(t, connect(t, p.Addr()), prefix())
	rec := &driver.Record{Key: "k", State: driver.Succeeded, Token: 5, Revision: 1, Outcome: success(strings.Repeat("x", 5000))}
	_, err := c.Get(t.Context(), "warm")
	require.ErrorIs(t, err, driver.ErrNotFound)
	require.NoError(t, c.Put(t.Context(), &driver.PutParams{Record: rec, TTL: time.Hour}))
	require.NoError(t, c.Delete(t.Context(), "warm", 0))
	for range 2 {
		trips(t, p, 1, "a copy", func() {
			_, err := c.Get(t.Context(), "k")
			require.NoError(t, err)
		})
		trips(t, p, 1, "a put", func() { require.NoError(t, c.Put(t.Context(), &driver.PutParams{Record: rec, TTL: time.Hour})) })
		trips(t, p, 1, "a deletion", func() { require.NoError(t, c.Delete(t.Context(), "another", time.Hour)) })
	}
}

func TestACacheRefusesTheClientsThatABackendRefuses(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	_, err := redisstore.NewCache(rdb, nil)
	require.ErrorContains(t, err, "ContextTimeoutEnabled")
	fine := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true})
	t.Cleanup(func() { require.NoError(t, fine.Close()) })
	c, err := redisstore.NewCache(fine, nil)
	require.NoError(t, err)
	require.Equal(t, "idem-cache:c{}k", c.RedisKey("k"))
	_, err = redisstore.NewCache(fine, &redisstore.CacheOptions{Prefix: "idem:"})
	require.ErrorContains(t, err, "default of a Backend")
	_, err = redisstore.New(fine, &redisstore.Options{Prefix: "idem-cache:"})
	require.ErrorContains(t, err, "default of a Cache")
}

func FuzzCopiesAreReadOrMissed(f *testing.F) {
	f.Add([]byte{}, uint64(0))
	f.Add([]byte("C"+strings.Repeat("\x01", 200)), uint64(1))
	f.Add([]byte(redisstore.EncodeCopy(&driver.Record{
		State: driver.Failed, Token: 5, Revision: 2, Attempt: 1, Refs: []driver.ProviderRef{{Provider: "a", Ref: "b"}},
		Providers: []driver.Provider{{Name: "a", Window: time.Hour}}, Outcome: driver.Outcome{Failed: true, Code: "x", Message: "y"},
	})), uint64(1<<50))
	f.Fuzz(func(t *testing.T, raw []byte, now uint64) {
		rec, ok := redisstore.DecodeCopy(string(raw), "k", now)
		if !ok {
			return
		}
		require.True(t, rec.State.Completed())
		require.Equal(t, "k", rec.Key)
		require.LessOrEqual(t, len(rec.Outcome.Value)+len(rec.Outcome.Message)+len(rec.Refs)+len(rec.Providers), len(raw))
	})
}
