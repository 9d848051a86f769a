package integration_test

import (
	"errors"
	"testing"
	"time"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/corecases"
	"github.com/idem-go/idem/redisstore"
	"github.com/idem-go/idem/storetest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheContractHoldsOnEachVersionOfRedis(t *testing.T) {
	t.Parallel()
	for _, image := range images(t, "IDEM_TEST_REDIS_IMAGES", "redis:6.2", "redis:7", "redis:8", "valkey/valkey:8") {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			rdb := redis.NewClient(&redis.Options{Addr: start(t, image, "6379"), ContextTimeoutEnabled: true})
			t.Cleanup(func() { _ = rdb.Close() })
			require.EventuallyWithT(t, func(c *assert.CollectT) { assert.NoError(c, rdb.Ping(t.Context()).Err()) }, 2*time.Minute, 50*time.Millisecond)
			open := func(tb testing.TB) driver.Backend {
				tb.Helper()
				b, err := redisstore.New(rdb, nil)
				require.NoError(tb, err)
				return b
			}
			t.Run("contract", func(t *testing.T) { t.Parallel(); storetest.Run(t, redisHarness(rdb, open)) })
			t.Run("cases", func(t *testing.T) { t.Parallel(); corecases.Run(t, redisHarness(rdb, open)) })
		})
	}
}

func redisHarness(rdb *redis.Client, open func(testing.TB) driver.Backend) storetest.Harness {
	return storetest.Harness{
		New:    open,
		Pair:   func(tb testing.TB) (a, b driver.Backend) { tb.Helper(); return open(tb), open(tb) },
		Unit:   time.Second,
		Rounds: 10,
		RawBytes: func(tb testing.TB, b driver.Backend, key string) []byte {
			tb.Helper()
			own, ok := driver.As[*redisstore.Backend](b)
			require.True(tb, ok)
			raw, err := rdb.Get(tb.Context(), own.RedisKey(key)).Bytes()
			if !errors.Is(err, redis.Nil) {
				require.NoError(tb, err)
			}
			return raw
		},
		Capabilities: storetest.Capabilities{Checker: true, Editor: true, Lister: true, Retainer: true, Watcher: true},
	}
}
