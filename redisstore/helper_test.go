package redisstore_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redisstore"
)

const (
	takeAll = driver.TakeAbsent | driver.TakeReleased | driver.TakeDoubtful | driver.TakeUnknown | driver.TakeHeld
	kept    = 24 * time.Hour

	// patience is how long a client waits for a server that is busy with other
	// tests. No test waits for its end.
	patience = 40 * time.Second
)

// connect returns a client for the server at addr, as New wants it.
func connect(tb testing.TB, addr string, change ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	opts := &redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	}
	for _, f := range change {
		f(opts)
	}
	rdb := redis.NewClient(opts)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// shared returns a client for the server that all tests share.
func shared(tb testing.TB, change ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	opts, err := redis.ParseURL(testenv.Redis(tb))
	require.NoError(tb, err)
	return connect(tb, opts.Addr, append([]func(*redis.Options){func(o *redis.Options) {
		o.Username, o.Password, o.DB, o.TLSConfig = opts.Username, opts.Password, opts.DB, opts.TLSConfig
	}}, change...)...)
}

// cluster returns a client for a cluster, as New wants it.
func cluster(tb testing.TB, c *testenv.RedisCluster, change ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	tb.Helper()
	opts := &redis.ClusterOptions{
		Addrs: c.Addrs(), ContextTimeoutEnabled: true, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	}
	for _, f := range change {
		f(opts)
	}
	rdb := redis.NewClusterClient(opts)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// sentinel returns a client for the primary behind sentinels, as New wants it.
func sentinel(tb testing.TB, g *testenv.RedisSentinel, change ...func(*redis.FailoverOptions)) *redis.Client {
	tb.Helper()
	opts := &redis.FailoverOptions{
		MasterName: testenv.RedisSentinelName, SentinelAddrs: g.Addrs(), ContextTimeoutEnabled: true, DialerRetries: 1,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	}
	for _, f := range change {
		f(opts)
	}
	rdb := redis.NewFailoverClient(opts)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// prefix returns one that no other test uses.
func prefix() string { return "idem-test-" + testenv.Random(8) + ":" }

func open(tb testing.TB, rdb redis.UniversalClient, change ...func(*redisstore.Options)) *redisstore.Backend {
	tb.Helper()
	opts := &redisstore.Options{Prefix: prefix()}
	for _, f := range change {
		f(opts)
	}
	b, err := redisstore.New(rdb, opts)
	require.NoError(tb, err)
	return b
}

// prefixed gives a Backend the records of another one.
func prefixed(b *redisstore.Backend) func(*redisstore.Options) {
	return func(o *redisstore.Options) { o.Prefix = prefixOf(b) }
}

func prefixOf(b *redisstore.Backend) string { return strings.TrimSuffix(b.RedisKey(""), "{}") }

func owner() (o driver.Owner) {
	_, _ = rand.Read(o[:]) // never fails
	return o
}

func params(key string, change ...func(*driver.ClaimParams)) *driver.ClaimParams {
	p := &driver.ClaimParams{Key: key, Owner: owner(), Lease: time.Hour, Retention: kept, Take: takeAll}
	for _, f := range change {
		f(p)
	}
	return p
}

func lease(d time.Duration) func(*driver.ClaimParams) {
	return func(p *driver.ClaimParams) { p.Lease = d }
}

func keeping(d time.Duration) func(*driver.ClaimParams) {
	return func(p *driver.ClaimParams) { p.Retention = d }
}

// acquire claims a key that must be free.
func acquire(tb testing.TB, b driver.Backend, key string, change ...func(*driver.ClaimParams)) driver.Ref {
	tb.Helper()
	p := params(key, change...)
	res, err := b.Claim(tb.Context(), p)
	require.NoError(tb, err)
	require.Contains(tb, []driver.Fact{driver.Acquired, driver.TakenOver}, res.Fact)
	return driver.Ref{Key: key, Owner: p.Owner, Token: res.Record.Token}
}

func success(value string) driver.Outcome { return driver.Outcome{Value: []byte(value), Codec: "text"} }

func complete(tb testing.TB, b driver.Backend, ref driver.Ref, value string) {
	tb.Helper()
	require.NoError(tb, b.Complete(tb.Context(), ref, &driver.CompleteParams{Outcome: success(value), Retention: kept}))
}

// wants claims a key and insists on the fact.
func wants(tb testing.TB, b driver.Backend, fact driver.Fact, p *driver.ClaimParams) *driver.Record {
	tb.Helper()
	res, err := b.Claim(tb.Context(), p)
	require.NoError(tb, err)
	require.Equal(tb, fact, res.Fact)
	return &res.Record
}
