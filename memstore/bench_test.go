package memstore_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

// Every benchmark checks what it measured.

// value200 is an outcome of a usual size.
func value200() string { return strings.Repeat("v", 200) }

func BenchmarkClaimAndComplete(b *testing.B) {
	m := memstore.New(nil)
	p, outcome := params(1), success(value200())
	outcome.Retention = 1 // so that memory does not grow with b.N
	n := int64(0)
	for b.Loop() {
		p.Key = fmt.Sprintf("key%09d", n)
		n++
		res, err := m.Claim(b.Context(), p)
		if err != nil || res.Fact != driver.Acquired {
			b.Fatal(res, err)
		}
		if err := m.Complete(b.Context(), driver.Ref{Key: p.Key, Owner: p.Owner, Token: res.Record.Token}, outcome); err != nil {
			b.Fatal(err)
		}
	}
	require.Less(b, m.Stat().Records, max(1000, n/10), "the sweeps keep up")
}

func BenchmarkReplay(b *testing.B) {
	m := memstore.New(nil)
	ref := acquire(b, m, 1)
	complete(b, m, ref, value200())
	p := params(2)
	for b.Loop() {
		res, err := m.Claim(b.Context(), p)
		if err != nil || res.Fact != driver.Completed || len(res.Record.Outcome.Value) != 200 {
			b.Fatal(res, err)
		}
	}
	require.Equal(b, ref.Token, inspect(b, m, key).Token, "nothing was claimed")
}

func BenchmarkInProgress(b *testing.B) {
	m := memstore.New(nil)
	ref := acquire(b, m, 1, func(p *driver.ClaimParams) { p.Lease = 1 << 60 })
	p := params(2)
	for b.Loop() {
		res, err := m.Claim(b.Context(), p)
		if err != nil || res.Fact != driver.InProgress {
			b.Fatal(res, err)
		}
	}
	require.Equal(b, ref.Token, inspect(b, m, key).Token, "nothing was claimed")
}

// Half of the callers replay one key with a value of 1 MiB, the others a key of
// their own each: what is reported is the time of either.
func BenchmarkHotKeyBesideOthers(b *testing.B) {
	m := memstore.New(nil)
	complete(b, m, acquire(b, m, 1, forKey("hot")), string(make([]byte, 1<<20)))
	fill(b, m, "own", 64)
	var callers, hot, own atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		id := callers.Add(1)
		k, size, count := "hot", 1<<20, &hot
		if id%2 == 0 {
			k, size, count = fmt.Sprintf("own%04d", id%64), 1, &own
		}
		p := params(2, forKey(k))
		n := int64(0)
		for pb.Next() {
			res, err := m.Claim(b.Context(), p)
			if err != nil || res.Fact != driver.Completed || len(res.Record.Outcome.Value) != size {
				b.Error(res, err)
				return
			}
			n++
		}
		count.Add(n)
	})
	require.EqualValues(b, b.N, hot.Load()+own.Load())
	b.ReportMetric(float64(own.Load())/float64(max(1, hot.Load())), "own/hot")
}

func BenchmarkCacheGet(b *testing.B) {
	c := memstore.NewCache(nil)
	require.NoError(b, c.Put(b.Context(), &driver.PutParams{Record: copyOf(key, 1, 1, 200), TTL: 1 << 60}))
	for b.Loop() {
		rec, err := c.Get(b.Context(), key)
		if err != nil || len(rec.Outcome.Value) != 200 {
			b.Fatal(rec, err)
		}
	}
	require.EqualValues(b, 1, c.Stat().Records)
	require.Zero(b, c.Stat().Evictions)
}

func BenchmarkCacheGetInParallel(b *testing.B) {
	const keys = 1024
	c := memstore.NewCache(nil)
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("k%04d", i)
		require.NoError(b, c.Put(b.Context(), &driver.PutParams{Record: copyOf(names[i], 1, 1, 200), TTL: 1 << 60}))
	}
	var got atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		n := 0
		for ; pb.Next(); n++ {
			rec, err := c.Get(b.Context(), names[n%keys])
			if err != nil || rec.Key != names[n%keys] {
				b.Error(rec, err)
				return
			}
		}
		got.Add(int64(n))
	})
	require.EqualValues(b, b.N, got.Load())
}
