package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redisstore"
)

// BenchmarkBytesPerRecord reports what a completed record with a value of 200
// bytes, a key of 24 and the prefix "idem:" takes in Redis: by MEMORY USAGE of one,
// and by the growth of used_memory over all. copy is that of a Cache, as a fast tier
// has it; plain is a string of the same value under the same key, with a lifetime.
func BenchmarkBytesPerRecord(b *testing.B) {
	n := 200_000
	if testing.Short() {
		n = 1000
	}
	for range b.N {
		server := testenv.OwnRedis(b, testenv.RedisConfig{})
		rdb := connect(b, server.Addr(), func(o *redis.Options) { o.PoolSize = 16 })
		back, err := redisstore.New(rdb, &redisstore.Options{Prefix: "idem:"})
		require.NoError(b, err)
		before := memoryUsed(b, rdb)
		execute(b, n, func(key string, value []byte) error { return claimAndComplete(b, back, key, value) })
		b.ReportMetric(float64(memoryUsed(b, rdb)-before)/float64(n), "record-B")
		one, err := rdb.MemoryUsage(b.Context(), back.RedisKey(sizedKey(0)), 0).Result()
		require.NoError(b, err)
		b.ReportMetric(float64(one), "record-usage-B")

		rec, err := back.Inspect(b.Context(), sizedKey(0))
		require.NoError(b, err)
		copies, err := redisstore.NewCache(rdb, nil)
		require.NoError(b, err)
		require.NoError(b, rdb.FlushAll(b.Context()).Err())
		before = memoryUsed(b, rdb)
		execute(b, n, func(key string, _ []byte) error {
			of := *rec
			of.Key = key
			return copies.Put(b.Context(), &driver.PutParams{Record: &of, TTL: 7 * 24 * time.Hour})
		})
		b.ReportMetric(float64(memoryUsed(b, rdb)-before)/float64(n), "copy-B")
		size, err := rdb.DBSize(b.Context()).Result()
		require.NoError(b, err)
		require.Equal(b, int64(n), size)

		require.NoError(b, rdb.FlushAll(b.Context()).Err())
		before = memoryUsed(b, rdb)
		execute(b, n, func(key string, value []byte) error {
			return rdb.Set(b.Context(), back.RedisKey(key), value, 7*24*time.Hour).Err()
		})
		b.ReportMetric(float64(memoryUsed(b, rdb)-before)/float64(n), "plain-B")
		b.ReportMetric(0, "ns/op")
	}
}

func sizedKey(i int) string { return fmt.Sprintf("0:payments  %012d", i) }

func execute(b *testing.B, n int, do func(key string, value []byte) error) {
	b.Helper()
	const workers = 16
	value := make([]byte, 200)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				if err := do(sizedKey(i), value); err != nil {
					b.Errorf("record %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func claimAndComplete(b *testing.B, back driver.Backend, key string, value []byte) error {
	b.Helper()
	const week = 7 * 24 * time.Hour
	ref := driver.Ref{Key: key, Owner: driver.Owner{1}}
	res, err := back.Claim(b.Context(), &driver.ClaimParams{Key: key, Owner: ref.Owner, Lease: time.Minute, Retention: week, Take: driver.TakeAbsent})
	if err != nil {
		return err
	}
	ref.Token = res.Record.Token
	return back.Complete(b.Context(), ref, &driver.CompleteParams{Outcome: driver.Outcome{Value: value}, Retention: week})
}

// memoryUsed is the server's used_memory.
func memoryUsed(b *testing.B, rdb *redis.Client) int64 {
	b.Helper()
	info, err := rdb.Info(b.Context(), "memory").Result()
	require.NoError(b, err)
	for line := range strings.Lines(info) {
		if text, ok := strings.CutPrefix(line, "used_memory:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			require.NoError(b, err)
			return n
		}
	}
	b.Fatal("INFO memory tells no used_memory")
	return 0
}
