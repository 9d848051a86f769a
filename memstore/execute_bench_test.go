package memstore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/memstore"
)

// BenchmarkExecute is what a user of this backend pays: an operation that makes 200
// bytes, bare, as the first execution of its key, and as a replay. Each makes its
// key from a number. Outcomes are kept for 10 ms, so that memory does not grow with
// b.N.
func BenchmarkExecute(b *testing.B) {
	ran := 0
	op := func(context.Context) (idem.Result, error) {
		ran++
		return idem.Result{Value: make([]byte, 200)}, nil
	}
	b.Run("bare", func(b *testing.B) {
		ran = 0
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			if key := benchKey(n); key == "" {
				b.Fatal("no key")
			}
			if res, err := op(b.Context()); err != nil || len(res.Value) != 200 {
				b.Fatal(res, err)
			}
		}
		require.Equal(b, b.N, ran)
	})
	b.Run("first", func(b *testing.B) {
		ran = 0
		s := benchStore(b, 10*time.Millisecond)
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			if res, err := s.Execute(b.Context(), benchKey(n), op); err != nil || res.Replayed || len(res.Value) != 200 {
				b.Fatal(res, err)
			}
		}
		require.Equal(b, b.N, ran, "each key ran")
	})
	b.Run("replay", func(b *testing.B) {
		ran = 0
		s := benchStore(b, time.Hour)
		_, err := s.Execute(b.Context(), benchKey(7), op)
		require.NoError(b, err)
		b.ReportAllocs()
		for b.Loop() {
			if res, err := s.Execute(b.Context(), benchKey(7), op); err != nil || !res.Replayed || len(res.Value) != 200 {
				b.Fatal(res, err)
			}
		}
		require.Equal(b, 1, ran)
	})
}

// benchKey is not inlined, so that the bare operation's key is allocated as the
// others' are.
//
//go:noinline
func benchKey(n int) string { return strconv.Itoa(1_000_000 + n) }

func benchStore(b *testing.B, retention time.Duration) *idem.Store {
	b.Helper()
	s, err := idem.New(memstore.New(nil), &idem.Options{
		Namespace: "bench", Observer: idem.Discard, Retention: retention, RetryWindow: retention,
	})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close(context.WithoutCancel(b.Context()))) })
	return s
}
