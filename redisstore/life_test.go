package redisstore_test

import (
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redisstore"
)

// The tests here are of ADR 0064: a server that was restored from an old copy
// serves nothing that it has not been given since.

// revised is a completed record of the key "k". Revision 2 has been redacted.
func revised(revision uint64) *driver.Record {
	r := &driver.Record{Key: "k", State: driver.Succeeded, Token: 5, Revision: revision, Attempt: 1, Outcome: success("a secret"), RetentionLeft: time.Hour}
	if revision > 1 {
		r.Outcome = driver.Outcome{Body: driver.BodyRedacted}
	}
	return r
}

func put(t *testing.T, c *redisstore.Cache, revision uint64) {
	t.Helper()
	require.NoError(t, c.Put(t.Context(), &driver.PutParams{Record: revised(revision), TTL: time.Hour}))
}

func serves(t *testing.T, c *redisstore.Cache, revision uint64) {
	t.Helper()
	got, err := c.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, revision, got.Revision)
}

// missesOld requires that the server has a copy and does not serve it.
func missesOld(t *testing.T, c *redisstore.Cache, rdb redis.UniversalClient) {
	t.Helper()
	require.NotEmpty(t, rdb.Get(t.Context(), c.RedisKey("k")).Val(), "the old copy is there")
	_, err := c.Get(t.Context(), "k")
	require.ErrorIs(t, err, driver.ErrNotFound)
}

func TestAnOldSnapshotThatIsPutBackServesNothing(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{})
	rdb := connect(t, s.Addr())
	c := openCache(t, rdb, prefix())
	put(t, c, 1)
	require.NoError(t, rdb.Save(t.Context()).Err())
	old, err := os.ReadFile(s.SnapshotFile())
	require.NoError(t, err)
	put(t, c, 2) // a redaction
	serves(t, c, 2)
	require.NoError(t, s.Kill())
	require.NoError(t, os.WriteFile(s.SnapshotFile(), old, 0o600))
	require.NoError(t, s.Start(t.Context()))
	missesOld(t, c, rdb)
	put(t, c, 2)
	serves(t, c, 2)
	put(t, c, 1)
	serves(t, c, 2)
}

// What a restart keeps is not served either: the last second of it may be gone.
func TestARestartServesNothing(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{Args: []string{"--appendonly", "yes"}})
	rdb := connect(t, s.Addr())
	c := openCache(t, rdb, prefix())
	put(t, c, 1)
	require.NoError(t, s.Stop())
	require.NoError(t, s.Start(t.Context()))
	missesOld(t, c, rdb)
	put(t, c, 1)
	serves(t, c, 1)
}

// A copy of a later revision, from another life, still keeps an older one out.
func TestACopyOfAnotherLifeStillComparesItsRevision(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{Args: []string{"--appendonly", "yes"}})
	rdb := connect(t, s.Addr())
	c := openCache(t, rdb, prefix())
	put(t, c, 2)
	require.NoError(t, s.Stop())
	require.NoError(t, s.Start(t.Context()))
	put(t, c, 1)
	missesOld(t, c, rdb)
	put(t, c, 2)
	serves(t, c, 2)
}

func TestALaggingReplicaThatIsPromotedServesNothing(t *testing.T) {
	t.Parallel()
	primary, replica := withReplica(t)
	at := prefix()
	before, after := connect(t, primary.Addr()), connect(t, replica.Addr(), noRetries)
	c, promoted := openCache(t, before, at), openCache(t, after, at)
	put(t, c, 1)
	require.EqualValues(t, 1, before.Wait(t.Context(), 1, 20*time.Second).Val())
	_, err := promoted.Get(t.Context(), "k")
	require.ErrorContains(t, err, "READONLY", "a replica may be behind")
	require.NoError(t, replica.Freeze())
	put(t, c, 2) // a redaction that the replica has not seen
	require.NoError(t, primary.Kill())
	require.NoError(t, replica.Thaw())
	_, err = replica.Do(t.Context(), "REPLICAOF", "NO", "ONE")
	require.NoError(t, err)
	missesOld(t, promoted, after)
	put(t, promoted, 2)
	serves(t, promoted, 2)
}

// A primary that was replaced, follows, and is promoted again, without ever
// having ended, has another life each time.
func TestAPrimaryThatComesBackServesNothingOfItsFirstReign(t *testing.T) {
	t.Parallel()
	one, two := withReplica(t)
	at := prefix()
	rdb := connect(t, one.Addr(), noRetries)
	c := openCache(t, rdb, at)
	put(t, c, 1)
	require.EqualValues(t, 1, rdb.Wait(t.Context(), 1, 20*time.Second).Val())
	do := func(s *testenv.RedisServer, args ...any) {
		t.Helper()
		_, err := s.Do(t.Context(), args...)
		require.NoError(t, err)
	}
	do(two, "REPLICAOF", "NO", "ONE")
	do(one, "REPLICAOF", "127.0.0.1", port(t, two))
	other := connect(t, two.Addr())
	require.Eventually(t, func() bool { return other.Wait(t.Context(), 1, time.Second).Val() == 1 }, 20*time.Second, 50*time.Millisecond)
	_, err := c.Get(t.Context(), "k")
	require.Error(t, err, "it follows now")
	do(one, "REPLICAOF", "NO", "ONE")
	missesOld(t, c, rdb)
}

// In a Cluster each primary has a life of its own.
func cachedOnCluster(t *testing.T, c *testenv.RedisCluster) {
	t.Helper()
	cache := openCache(t, cluster(t, c), prefix())
	for i := range 30 {
		rec := revised(1)
		rec.Key = testenv.Random(8)
		require.NoError(t, cache.Put(t.Context(), &driver.PutParams{Record: rec, TTL: time.Hour}))
		got, err := cache.Get(t.Context(), rec.Key)
		require.NoError(t, err, i)
		require.Equal(t, rec.Outcome, got.Outcome)
	}
}
