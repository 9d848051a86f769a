package idem_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
)

// These benchmarks measure idem itself: memstore answers from memory, so that
// what is left is the cost of the Store. Values are of 200 bytes.

func value200() []byte { return make([]byte, 200) }

func benchOp(n *int) idem.Op {
	return func(context.Context) (idem.Result, error) {
		*n++
		return idem.Result{Value: value200()}, nil
	}
}

// benchStore is a Store whose outcomes are kept so shortly that a long run does
// not fill the memory: each new key removes old ones.
func benchStore(tb testing.TB, retention time.Duration) (*idem.Store, *memstore.Backend) {
	tb.Helper()
	b := memstore.New(nil)
	return newStore(tb, b, &idem.Options{
		Namespace: "bench", Observer: idem.Discard, Retention: retention, RetryWindow: retention,
	}), b
}

// bare runs an operation. It is not inlined, so that the operation's value is
// allocated as it is when a Store runs it.
//
//go:noinline
func bare(ctx context.Context, op idem.Op) (idem.Result, error) { return op(ctx) }

func BenchmarkBare(b *testing.B) {
	n := 0
	op := benchOp(&n)
	b.ReportAllocs()
	for b.Loop() {
		if res, err := bare(b.Context(), op); err != nil || len(res.Value) != 200 {
			b.Fatal(res, err)
		}
	}
	require.Equal(b, b.N, n)
}

// BenchmarkFirst is a first execution: claim, run, record.
func BenchmarkFirst(b *testing.B) {
	s, _ := benchStore(b, 10*time.Millisecond)
	n := 0
	op := benchOp(&n)
	keys := 0
	b.ReportAllocs()
	for b.Loop() {
		keys++
		if res, err := s.Execute(b.Context(), strconv.Itoa(keys), op); err != nil || res.Replayed {
			b.Fatal(res, err)
		}
	}
	require.Equal(b, b.N, n, "each key ran")
}

// BenchmarkDo is a first execution of a typed value.
func BenchmarkDo(b *testing.B) {
	s, _ := benchStore(b, 10*time.Millisecond)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		got, err := idem.Do(b.Context(), s, strconv.Itoa(n), func(context.Context, *idem.Claim) (charge, error) {
			return charge{ID: "ch_1", Amount: n}, nil
		})
		if err != nil || got.Amount != n {
			b.Fatal(got, err)
		}
	}
	require.Equal(b, b.N, n)
}

// BenchmarkReplay is a duplicate of what is recorded.
func BenchmarkReplay(b *testing.B) {
	s, backend := benchStore(b, time.Hour)
	n := 0
	op := benchOp(&n)
	_, err := s.Execute(b.Context(), "k", op)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if res, err := s.Execute(b.Context(), "k", op); err != nil || !res.Replayed || len(res.Value) != 200 {
			b.Fatal(res, err)
		}
	}
	require.Equal(b, 1, n)
	require.EqualValues(b, 1, backend.Stat().Records)
}

// BenchmarkFingerprint is a replay that compares a body of 200 bytes.
func BenchmarkFingerprint(b *testing.B) {
	for name, opts := range map[string]*idem.Options{"SHA-256": {}, "HMAC": keys("k1"), "HMAC of two": keys("k1", "k2")} {
		b.Run(name, func(b *testing.B) {
			opts.Observer = idem.Discard
			s := newStore(b, memstore.New(nil), opts)
			n := 0
			op := benchOp(&n)
			body := value200()
			_, err := s.Execute(b.Context(), "k", op, idem.WithFingerprint(body))
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				if res, err := s.Execute(b.Context(), "k", op, idem.WithFingerprint(body)); err != nil || !res.Replayed {
					b.Fatal(res, err)
				}
			}
			require.Equal(b, 1, n)
			_, err = s.Execute(b.Context(), "k", op, idem.WithFingerprint(body[1:]))
			require.ErrorIs(b, err, idem.ErrFingerprintMismatch)
		})
	}
}

// BenchmarkHotKey is many goroutines at one key: recorded, or running.
func BenchmarkHotKey(b *testing.B) {
	b.Run("recorded", func(b *testing.B) {
		s, backend := benchStore(b, time.Hour)
		n := 0
		op := benchOp(&n)
		_, err := s.Execute(b.Context(), "k", op)
		require.NoError(b, err)
		var replays atomic.Int64
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if res, err := s.Execute(b.Context(), "k", op); err == nil && res.Replayed {
					replays.Add(1)
				}
			}
		})
		require.EqualValues(b, b.N, replays.Load())
		require.EqualValues(b, 1, backend.Stat().Records)
	})
	b.Run("running", func(b *testing.B) {
		backend := faultstore.New(memstore.New(nil), nil)
		s := newStore(b, backend, &idem.Options{Observer: idem.Discard})
		n := 0
		_, err := s.Execute(b.Context(), "k", func(ctx context.Context) (idem.Result, error) {
			var refused atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				op := benchOp(&n)
				for pb.Next() {
					if _, err := s.Execute(b.Context(), "k", op); err != nil {
						refused.Add(1)
					}
				}
			})
			require.EqualValues(b, b.N, refused.Load())
			return idem.Result{}, ctx.Err()
		})
		require.NoError(b, err)
		require.Zero(b, n)
		require.Equal(b, 1, backend.Count(faultstore.Claim), "the backend is asked nothing")
	})
}

// BenchmarkBesideAHotKey is a first execution of a key of one's own, alone and
// while a thousand callers wait for one key that is running: they slow nobody
// else down.
func BenchmarkBesideAHotKey(b *testing.B) {
	for _, callers := range []int{0, 1000} {
		b.Run(fmt.Sprintf("%d callers wait", callers), func(b *testing.B) {
			s, _ := benchStore(b, 10*time.Millisecond)
			n, hot := 0, 0
			var waiting, replayed sync.WaitGroup
			var replays atomic.Int64
			_, err := s.Execute(b.Context(), "hot", func(context.Context) (idem.Result, error) {
				hot++
				for range callers {
					waiting.Add(1)
					replayed.Go(func() {
						waiting.Done()
						res, err := s.Execute(b.Context(), "hot", benchOp(&hot), idem.WithWait(time.Hour), idem.WithRetention(time.Hour))
						if err == nil && res.Replayed {
							replays.Add(1)
						}
					})
				}
				waiting.Wait()
				op, keys := benchOp(&n), 0
				b.ReportAllocs()
				for b.Loop() {
					keys++
					if res, err := s.Execute(b.Context(), strconv.Itoa(keys), op); err != nil || res.Replayed {
						b.Fatal(res, err)
					}
				}
				return idem.Result{}, nil
			}, idem.WithRetention(time.Hour))
			require.NoError(b, err)
			replayed.Wait()
			require.Equal(b, b.N, n, "each key ran")
			require.Equal(b, 1, hot)
			require.EqualValues(b, callers, replays.Load())
		})
	}
}

// allocations of one call of f, on average.
func allocations(t *testing.T, f func()) int {
	t.Helper()
	return int(testing.AllocsPerRun(1000, f))
}

// These two do not run beside other tests, which AllocsPerRun could not tell
// from the call that it measures.

func TestAFirstExecutionCostsAtMostTwelveAllocationsMoreThanTheBareOperation(t *testing.T) { //nolint:paralleltest // see above
	s, _ := benchStore(t, time.Hour)
	n := 0
	op := benchOp(&n)
	ctx := t.Context()
	names := make([]string, 2100)
	for i := range names {
		names[i] = fmt.Sprintf("charge:inv_%d", i)
	}
	for i := range 1000 { // the maps of the Store and the backend have their size
		_, err := s.Execute(ctx, names[i], op)
		require.NoError(t, err)
	}
	alone := allocations(t, func() { _, _ = bare(ctx, op) })
	i := 1000
	first := allocations(t, func() {
		if res, err := s.Execute(ctx, names[i], op); err != nil || res.Replayed {
			t.Error(res, err)
		}
		i++
	})
	require.LessOrEqual(t, first-alone, 12, "%d, of which %d are the operation's", first, alone)
}

func TestAReplayCostsAtMostFourAllocations(t *testing.T) { //nolint:paralleltest // see above
	s, _ := benchStore(t, time.Hour)
	n := 0
	op := benchOp(&n)
	ctx := t.Context()
	_, err := s.Execute(ctx, "k", op)
	require.NoError(t, err)
	replay := allocations(t, func() {
		if res, err := s.Execute(ctx, "k", op); err != nil || !res.Replayed {
			t.Error(res, err)
		}
	})
	require.LessOrEqual(t, replay, 4)
	require.Equal(t, 1, n)
}
