package testenv

import (
	"context"
	"os"
	"sync"
	"testing"
)

// RedisEnv names the variable with the URL of a server to use instead of a local
// one. Its user may run every command on every key.
const RedisEnv = "IDEM_TEST_REDIS_URL"

// sharedRedis is the server that all tests of this process use.
var sharedRedis struct { //nolint:gochecknoglobals // one server for a process is the point
	once   sync.Once
	url    string
	err    error
	server *RedisServer // nil with RedisEnv
}

// RedisURL returns the URL of the server that this process's tests share, and
// starts it the first time: the one that RedisEnv names, else a local one that
// persists nothing. [StopRedis] ends it.
func RedisURL(ctx context.Context) (string, error) {
	sharedRedis.once.Do(func() {
		if sharedRedis.url = os.Getenv(RedisEnv); sharedRedis.url != "" {
			return
		}
		sharedRedis.server, sharedRedis.err = StartRedis(context.WithoutCancel(ctx), RedisConfig{})
		if sharedRedis.err == nil {
			sharedRedis.url = sharedRedis.server.URL()
		}
	})
	return sharedRedis.url, sharedRedis.err
}

// StopRedis stops the shared server, if this process has started one. Call it at
// the end of TestMain.
func StopRedis() error {
	if sharedRedis.server == nil {
		return nil
	}
	return sharedRedis.server.Close()
}

// Redis returns the URL of the shared server. It fails the test, and says what
// to install, if there is none: it never skips. A test keeps to keys with a
// prefix of its own, see [Random].
func Redis(tb testing.TB) string {
	tb.Helper()
	url, err := RedisURL(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return url
}

// OwnRedis starts a server for one test, which may kill it. It needs the binary,
// also with RedisEnv.
func OwnRedis(tb testing.TB, cfg RedisConfig) *RedisServer {
	tb.Helper()
	s, err := StartRedis(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	closeAfter(tb, s)
	return s
}

// OwnRedisCluster starts a cluster of three primaries with a replica each for
// one test.
func OwnRedisCluster(tb testing.TB) *RedisCluster {
	tb.Helper()
	c, err := StartRedisCluster(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	closeAfter(tb, c.Nodes...)
	return c
}

// OwnRedisSentinel starts a primary with two replicas, watched by three
// sentinels, for one test.
func OwnRedisSentinel(tb testing.TB) *RedisSentinel {
	tb.Helper()
	s, err := StartRedisSentinel(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	closeAfter(tb, s.Sentinels...)
	closeAfter(tb, s.Servers...)
	return s
}

// closeAfter closes servers when the test ends, and shows their logs if it
// failed.
func closeAfter(tb testing.TB, servers ...*RedisServer) {
	tb.Helper()
	for _, s := range servers {
		tb.Cleanup(func() {
			if tb.Failed() {
				tb.Logf("the log of the server on %s:\n%s", s.Addr(), s.Log())
			}
			if err := s.Close(); err != nil {
				tb.Error(err)
			}
		})
	}
}
