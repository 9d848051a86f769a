package backoff_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/idem-go/idem/backoff"
)

// The targets are for a machine that reads its clock in about 25 ns: a first try
// at most 60 ns and one allocation, a delay at most 10 ns and none, a closed
// circuit at most 60 ns and none. alloc_test.go holds the allocations; the module
// benchmarks has the same work done by other libraries.

func BenchmarkFirstTry(b *testing.B) {
	circuit := newCircuit(b, nil)
	budget := newBudget(b, nil)
	for name, p := range map[string]*backoff.Policy{
		"plain":            {},
		"budget":           {Budget: budget},
		"circuit":          {Breaker: circuit},
		"budget+circuit":   {Budget: budget, Breaker: circuit},
		"only-one-attempt": {MaxAttempts: 1},
	} {
		b.Run(name, func(b *testing.B) {
			ctx := b.Context()
			calls := 0
			op := func(context.Context) (int, error) { calls++; return calls, nil }
			b.ReportAllocs()
			for b.Loop() {
				if v, err := backoff.Do(ctx, p, op); err != nil || v != calls {
					b.Fatal(v, err)
				}
			}
			if calls < b.N {
				b.Fatalf("%d calls in %d loops", calls, b.N)
			}
		})
	}
}

func BenchmarkOneRetry(b *testing.B) {
	ctx := b.Context()
	p := &backoff.Policy{Base: backoff.NoDelay}
	failure, calls := transient(), 0
	op := func(context.Context) error {
		if calls++; calls%2 == 1 {
			return failure
		}
		return nil
	}
	b.ReportAllocs()
	loops := 0
	for b.Loop() {
		loops++
		if err := backoff.Run(ctx, p, op); err != nil {
			b.Fatal(err)
		}
	}
	if calls != 2*loops {
		b.Fatalf("%d calls in %d loops", calls, loops)
	}
}

// The delay alone: the random number is handed in.
func BenchmarkDelay(b *testing.B) {
	rng, numbers := rand.New(rand.NewPCG(2015, 1)), [1 << 10]uint64{}
	for i := range numbers {
		numbers[i] = rng.Uint64()
	}
	for _, j := range jitters() {
		b.Run(j.String(), func(b *testing.B) {
			p := &backoff.Policy{Jitter: j}
			i, zero, prev := 0, 0, p.Delay(1, 0, most())
			b.ReportAllocs()
			for b.Loop() {
				i++
				if prev = p.Delay(5, prev, numbers[i%len(numbers)]); prev == 0 {
					zero++
				}
			}
			if zero > 3 {
				b.Fatalf("%d delays were 0", zero)
			}
		})
	}
}

// The delay with the draw that a loop makes, which is most of it.
func BenchmarkDelayAndDraw(b *testing.B) {
	for _, j := range jitters() {
		b.Run(j.String(), func(b *testing.B) {
			p := &backoff.Policy{Jitter: j}
			zero, prev := 0, p.Delay(1, 0, most())
			b.ReportAllocs()
			for b.Loop() {
				if prev = p.Delay(5, prev, rand.Uint64()); prev == 0 {
					zero++
				}
			}
			if zero > 3 {
				b.Fatalf("%d delays were 0", zero)
			}
		})
	}
}

func BenchmarkCircuitClosed(b *testing.B) {
	c := newCircuit(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		done, err := c.Allow()
		if err != nil {
			b.Fatal(err)
		}
		done(nil)
	}
	if s := c.Stats(); s.State != backoff.Closed || s.Calls == 0 || s.Failures != 0 {
		b.Fatalf("%+v", s)
	}
}

func BenchmarkCircuitClosedParallel(b *testing.B) {
	c := newCircuit(b, nil)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if done, err := c.Allow(); err == nil {
				done(nil)
			}
		}
	})
	if s := c.Stats(); s.State != backoff.Closed || s.Calls == 0 {
		b.Fatalf("%+v", s)
	}
}

func BenchmarkBudget(b *testing.B) {
	budget := newBudget(b, nil)
	refused := 0
	for b.Loop() {
		budget.Deposit()
		if !budget.Withdraw() {
			refused++
		}
		budget.Refund()
	}
	if refused != 0 {
		b.Fatalf("%d refused", refused)
	}
}

func BenchmarkClassify(b *testing.B) {
	err := &httpError{503, nil}
	for b.Loop() {
		if c := backoff.Classify(err); c != backoff.Throttled {
			b.Fatal(c)
		}
	}
}
