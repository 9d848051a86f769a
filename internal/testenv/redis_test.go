package testenv_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/internal/testenv"
)

func redisAt(t *testing.T, s *testenv.RedisServer, change func(*redis.Options)) *redis.Client {
	t.Helper()
	opts := &redis.Options{Addr: s.Addr(), MaxRetries: -1}
	if change != nil {
		change(opts)
	}
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	return rdb
}

func TestTheSharedRedisIsOne(t *testing.T) {
	t.Parallel()
	require.Equal(t, testenv.Redis(t), testenv.Redis(t))
	opts, err := redis.ParseURL(testenv.Redis(t))
	require.NoError(t, err)
	rdb := redis.NewClient(opts)
	defer func() { require.NoError(t, rdb.Close()) }()
	require.NoError(t, rdb.Ping(t.Context()).Err())
}

func TestAKilledRedisComesBackWithItsAppendOnlyFile(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	rdb := redisAt(t, s, nil)
	require.NoError(t, rdb.Set(t.Context(), "k", "kept", 0).Err())
	require.NoError(t, s.Kill())
	require.Error(t, rdb.Ping(t.Context()).Err())
	require.NoError(t, s.Start(t.Context()))
	require.Equal(t, "kept", rdb.Get(t.Context(), "k").Val())
	require.NoError(t, s.Stop())
	require.NoError(t, s.Start(t.Context()))
	require.Equal(t, "kept", rdb.Get(t.Context(), "k").Val())
	file, err := s.AppendOnlyFile()
	require.NoError(t, err)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Positive(t, info.Size())
}

func TestAFrozenRedisAnswersAfterTheThaw(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{})
	require.NoError(t, s.Freeze())
	rdb := redisAt(t, s, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.Error(t, rdb.Ping(short).Err())
	require.NoError(t, s.Thaw())
	require.NoError(t, rdb.Ping(t.Context()).Err())
}

func TestARedisWithTLSAsksForACertificate(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{TLS: true})
	require.NoError(t, redisAt(t, s, func(o *redis.Options) { o.TLSConfig = s.TLS() }).Ping(t.Context()).Err())
	require.Error(t, redisAt(t, s, nil).Ping(t.Context()).Err(), "without TLS")
	bare := s.TLS()
	bare.Certificates = nil
	require.Error(t, redisAt(t, s, func(o *redis.Options) { o.TLSConfig = bare }).Ping(t.Context()).Err(), "without a certificate")
}

func TestARedisWithAnACLAsksForAUser(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{ACL: "user default off\nuser reader on >secret ~a:* +get"})
	as := func(o *redis.Options) { o.Username, o.Password = "reader", "secret" }
	require.ErrorContains(t, redisAt(t, s, nil).Ping(t.Context()).Err(), "NOAUTH")
	require.Equal(t, redis.Nil, redisAt(t, s, as).Get(t.Context(), "a:1").Err())
	require.ErrorContains(t, redisAt(t, s, as).Get(t.Context(), "b:1").Err(), "NOPERM")
	_, err := s.Do(t.Context(), "SET", "b:1", "x")
	require.NoError(t, err)
}

func TestAClusterServesEverySlotAndHasReplicas(t *testing.T) {
	t.Parallel()
	c := testenv.OwnRedisCluster(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	defer func() { require.NoError(t, rdb.Close()) }()
	for i := range 100 {
		key := fmt.Sprint(i)
		require.NoError(t, rdb.Set(t.Context(), key, key, 0).Err())
		require.Equal(t, key, rdb.Get(t.Context(), key).Val())
	}
	shards, err := rdb.ClusterShards(t.Context()).Result()
	require.NoError(t, err)
	require.Len(t, shards, 3)
	for _, s := range shards {
		require.Len(t, s.Nodes, 2)
	}
}

func TestSentinelsPromoteAReplica(t *testing.T) {
	t.Parallel()
	g := testenv.OwnRedisSentinel(t)
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: testenv.RedisSentinelName, SentinelAddrs: g.Addrs()})
	defer func() { require.NoError(t, rdb.Close()) }()
	require.NoError(t, rdb.Set(t.Context(), "k", "v", 0).Err())
	require.EqualValues(t, 2, rdb.Wait(t.Context(), 2, 10*time.Second).Val())
	require.NoError(t, g.ExpectFailure(t.Context()))
	require.NoError(t, g.Servers[0].Kill())
	require.Eventually(t, func() bool {
		return rdb.Set(t.Context(), "k2", "v", 0).Err() == nil
	}, 30*time.Second, 100*time.Millisecond)
	require.Equal(t, "v", rdb.Get(t.Context(), "k").Val())
}

func TestClosingARedisRemovesItsFolder(t *testing.T) {
	t.Parallel()
	s, err := testenv.StartRedis(t.Context(), testenv.RedisConfig{Args: []string{"--appendonly", "yes"}})
	require.NoError(t, err)
	file, err := s.AppendOnlyFile()
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = os.Stat(file)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	_, err := testenv.StartRedis(t.Context(), testenv.RedisConfig{Args: []string{"--no-such-setting", "yes"}})
	require.Error(t, err)
	require.True(t, strings.Contains(err.Error(), "no-such-setting"), "%v", err)
}
