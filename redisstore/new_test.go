package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/redisstore"
)

func TestClientsThatWouldBreakAPromiseAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rdb  redis.UniversalClient
		says string
	}{
		"none":                          {nil, "nil"},
		"ring":                          {redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": ":1"}, ContextTimeoutEnabled: true}), "Ring"},
		"contexts do not bound":         {redis.NewClient(&redis.Options{}), "ContextTimeoutEnabled"},
		"contexts do not bound cluster": {redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{":1"}}), "ContextTimeoutEnabled"},
		"unknown kind":                  {struct{ redis.UniversalClient }{redis.NewClient(&redis.Options{ContextTimeoutEnabled: true})}, "does not tell its options"},
	} {
		_, err := redisstore.New(c.rdb, nil)
		require.ErrorContains(t, err, c.says, name)
		if c.rdb != nil {
			require.NoError(t, c.rdb.Close())
		}
	}
}

func TestClientsOfEachKindAreAccepted(t *testing.T) {
	t.Parallel()
	type wrapped struct{ *redis.Client }
	single := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true})
	for name, rdb := range map[string]redis.UniversalClient{
		"single":   single,
		"wrapped":  wrapped{single},
		"cluster":  redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{":1"}, ContextTimeoutEnabled: true}),
		"sentinel": redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{":1"}, ContextTimeoutEnabled: true}),
		// C62: reads go to the primary all the same, see TestAReplayNeverComesFromAReplica.
		"replica reads": redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{":1"}, ContextTimeoutEnabled: true, RouteRandomly: true}),
	} {
		b, err := redisstore.New(rdb, nil)
		require.NoError(t, err, name)
		require.Equal(t, 7*24*time.Hour, b.DefaultRetention())
		require.Equal(t, "idem:{}k", b.RedisKey("k"))
		_ = rdb.Close()
	}
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true, ReadTimeout: time.Second})
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	for field, o := range map[string]redisstore.Options{
		"Retention":                {Retention: -1},
		"MinReplicas":              {MinReplicas: -1},
		"Options.ReplicaTimeout":   {ReplicaTimeout: -1},
		"the client's ReadTimeout": {MinReplicas: 1, ReplicaTimeout: time.Second},
		"not shorter":              {MinReplicas: 1, ReplicaTimeout: 2 * time.Second},
	} {
		_, err := redisstore.New(rdb, &o)
		require.ErrorContains(t, err, field)
	}
	b, err := redisstore.New(rdb, &redisstore.Options{Retention: time.Minute, MinReplicas: 1, ReplicaTimeout: 900 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, time.Minute, b.DefaultRetention())
}
