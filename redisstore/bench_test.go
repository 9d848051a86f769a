package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redisstore"
	"github.com/idem-go/idem/storetest"
)

func BenchmarkRedis(b *testing.B) {
	rdb := connect(b, testenv.OwnRedis(b, testenv.RedisConfig{}).Addr(), func(o *redis.Options) { o.PoolSize = 64 })
	h := &harness{prefix: prefix(), dial: func(testing.TB) redis.UniversalClient { return rdb }}
	storetest.Bench(b, h.storetest())
}

// BenchmarkMemory reports what a record takes of the server, by used_memory, in
// bytes: 20,000 records with keys of 24 bytes, and a plain SET with an expiry.
func BenchmarkMemory(b *testing.B) {
	s := testenv.OwnRedis(b, testenv.RedisConfig{})
	rdb := connect(b, s.Addr())
	store := open(b, rdb, func(o *redisstore.Options) { o.Prefix = "i:" })
	cache, err := redisstore.NewCache(rdb, &redisstore.CacheOptions{Prefix: "i:"})
	require.NoError(b, err)
	value := strings.Repeat("x", 200)
	ctx := b.Context()
	key := func(i int) string { return fmt.Sprintf("payment:%012d", i) } // 20 bytes, 24 with prefix and tag
	claim := func(i int, change ...func(*driver.ClaimParams)) driver.Ref {
		return acquire(b, store, key(i), change...)
	}
	for name, write := range map[string]func(i int){
		"plain":            func(i int) { require.NoError(b, rdb.Set(ctx, "i:{}"+key(i), value, time.Hour).Err()) },
		"claim":            func(i int) { claim(i) },
		"done":             func(i int) { complete(b, store, claim(i), value) },
		"done,fingerprint": func(i int) { complete(b, store, claim(i, printed("a")), value) },
		"done,20B":         func(i int) { complete(b, store, claim(i), value[:20]) },
		"copy": func(i int) {
			rec := &driver.Record{Key: key(i), State: driver.Succeeded, Token: 1, Revision: 1, Outcome: success(value)}
			require.NoError(b, cache.Put(ctx, &driver.PutParams{Record: rec, TTL: time.Hour}))
		},
	} {
		const records = 20_000
		require.NoError(b, rdb.FlushAll(ctx).Err())
		before := used(b, rdb)
		for i := range records {
			write(i)
		}
		b.ReportMetric(float64(used(b, rdb)-before)/records, name+"-B/record")
	}
	b.ReportMetric(0, "ns/op")
}

func used(b *testing.B, rdb *redis.Client) (n int) {
	b.Helper()
	for line := range strings.Lines(rdb.Info(b.Context(), "memory").Val()) {
		if rest, ok := strings.CutPrefix(line, "used_memory:"); ok {
			_, err := fmt.Sscan(rest, &n)
			require.NoError(b, err)
		}
	}
	require.Positive(b, n)
	return n
}

// variant is one way to answer a duplicate, or to execute first.
type variant struct {
	name string
	call func(ctx context.Context, i uint64) error
}

// BenchmarkRatio sets this package against hand-written commands of the same
// client, in one run, in turns: what is reported is the ratio of the rates, the
// median of all rounds. "again" is the reference against itself: what differs
// from 1 there is noise.
func BenchmarkRatio(b *testing.B) {
	for _, size := range []int{200, 4096} {
		rdb := connect(b, testenv.OwnRedis(b, testenv.RedisConfig{}).Addr(), func(o *redis.Options) { o.PoolSize = 64 })
		for _, callers := range []int{1, 8, 64} {
			name := fmt.Sprintf("%dB/callers=%d", size, callers)
			b.Run("replay/"+name, func(b *testing.B) { compare(b, callers, replays(b, rdb, size)) })
			b.Run("first/"+name, func(b *testing.B) { compare(b, callers, firsts(b, rdb, size)) })
		}
	}
}

// replays: the reference is a GET of the outcome.
func replays(b *testing.B, rdb *redis.Client, size int) []variant {
	b.Helper()
	store := open(b, rdb)
	complete(b, store, acquire(b, store, "k"), strings.Repeat("x", size))
	raw := store.RedisKey("raw")
	require.NoError(b, rdb.Set(b.Context(), raw, strings.Repeat("x", size), time.Hour).Err())
	get := func(ctx context.Context, _ uint64) error {
		v, err := rdb.Get(ctx, raw).Bytes()
		if err == nil && len(v) != size {
			err = errors.New("another value")
		}
		return err
	}
	var owners atomic.Uint64
	return []variant{{"GET", get}, {"again", get}, {"idem", func(ctx context.Context, _ uint64) error {
		p := driver.ClaimParams{Key: "k", Lease: time.Minute, Retention: kept, Take: takeAll}
		p.Owner = numbered(owners.Add(1))
		res, err := store.Claim(ctx, &p)
		if err == nil && (res.Fact != driver.Completed || len(res.Record.Outcome.Value) != size) {
			err = fmt.Errorf("found %v", res.Fact)
		}
		return err
	}}}
}

const compareAndSet = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) return 1 end return 0`

// firsts: the reference claims with SET NX GET and records with a script that
// compares and sets; two SETs are what cannot be beaten.
func firsts(b *testing.B, rdb *redis.Client, size int) []variant {
	b.Helper()
	store := open(b, rdb)
	value := strings.Repeat("x", size)
	sha := rdb.ScriptLoad(b.Context(), compareAndSet).Val()
	run := testenv.Random(8)
	var keys atomic.Uint64
	key := func() string { return fmt.Sprint(run, keys.Add(1)) }
	claimAndSet := func(ctx context.Context, i uint64) error {
		k := store.RedisKey("raw" + key())
		claim := fmt.Sprint("P", i)
		err := rdb.SetArgs(ctx, k, claim, redis.SetArgs{Mode: "NX", Get: true, TTL: time.Minute}).Err()
		if !errors.Is(err, redis.Nil) {
			return fmt.Errorf("claimed before: %w", err)
		}
		done, err := rdb.EvalSha(ctx, sha, []string{k}, claim, value, time.Hour.Milliseconds()).Int()
		if err == nil && done != 1 {
			err = errors.New("not recorded")
		}
		return err
	}
	return []variant{{"SET_NX_GET+EVALSHA", claimAndSet}, {"again", claimAndSet}, {"SET+SET", func(ctx context.Context, _ uint64) error {
		k := store.RedisKey("raw" + key())
		if err := rdb.Set(ctx, k, "P", time.Minute).Err(); err != nil {
			return err
		}
		return rdb.Set(ctx, k, value, time.Hour).Err()
	}}, {"idem", func(ctx context.Context, i uint64) error {
		p := driver.ClaimParams{Key: key(), Owner: numbered(i + 1), Lease: time.Minute, Retention: kept, Take: takeAll}
		res, err := store.Claim(ctx, &p)
		if err != nil || res.Fact != driver.Acquired {
			return fmt.Errorf("not acquired: %w", err)
		}
		ref := driver.Ref{Key: p.Key, Owner: p.Owner, Token: res.Record.Token}
		return store.Complete(ctx, ref, &driver.CompleteParams{Outcome: driver.Outcome{Value: []byte(value)}, Retention: time.Hour})
	}}}
}

func numbered(i uint64) (o driver.Owner) {
	for n := range 8 {
		o[n] = byte(i >> (8 * n))
	}
	o[15] = 1
	return o
}

// compare runs every variant once a round, for b.N rounds.
func compare(b *testing.B, callers int, variants []variant) {
	b.Helper()
	rates := make([][]float64, len(variants))
	length := 100 * time.Millisecond
	if testing.Short() {
		length = 5 * time.Millisecond
	}
	for round := range b.N {
		for i := range variants {
			v := (i + round) % len(variants)
			rates[v] = append(rates[v], rate(b, callers, length, variants[v].call))
		}
	}
	for i, v := range variants {
		var ratios []float64
		for round := range rates[i] {
			ratios = append(ratios, rates[i][round]/rates[0][round])
		}
		slices.Sort(ratios)
		if i > 0 {
			b.ReportMetric(ratios[len(ratios)/2], v.name+"/"+variants[0].name)
		}
		b.ReportMetric(testing.AllocsPerRun(100, func() { _ = v.call(b.Context(), 1<<40) }), "allocs("+v.name+")")
	}
	b.ReportMetric(0, "ns/op") // a round has no meaning of its own
}

// rate is how many calls a second all callers make together.
func rate(b *testing.B, callers int, length time.Duration, call func(ctx context.Context, i uint64) error) float64 {
	b.Helper()
	var n atomic.Uint64
	var wg sync.WaitGroup
	began := time.Now()
	for range callers {
		wg.Go(func() {
			for time.Since(began) < length {
				if err := call(b.Context(), n.Add(1)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(n.Load()) / time.Since(began).Seconds()
}
