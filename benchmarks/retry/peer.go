package retry

import (
	"context"
	"fmt"
	"time"

	avast "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/idem-go/idem/backoff"
	sethvargo "github.com/sethvargo/go-retry"
)

// Operation is what is retried, whatever its error.
type Operation func(ctx context.Context) (int, error)

// Loop calls an operation at most attempts times, with a constant delay.
type Loop func(ctx context.Context, attempts int, delay time.Duration, op Operation) (int, error)

// Peer is a library.
type Peer struct {
	Name string
	Loop Loop
	// Outer returns what comes out of a loop whose operation fails with the
	// library's own mark around err, and "outer: " around that. It is nil where the
	// library has no marks.
	Outer func(ctx context.Context, err error) error
	// First is a loop of three attempts around an operation that succeeds, with
	// all set up that calls with different contexts can share.
	First func(ctx context.Context, op Operation) (int, error)
	// Again is First without any delay, for an operation that fails once.
	Again func(ctx context.Context, op Operation) (int, error)
	// Delay returns one random delay; nil where the library does not show it.
	Delay func() time.Duration
}

// Idem is package backoff.
const Idem = "idem backoff"

// Peers returns the libraries, idem first.
func Peers() []Peer { return []Peer{idem(), newCenkalti(), newAvast(), newSethvargo(), newFailsafe()} }

func outer(err error) error { return fmt.Errorf("outer: %w", err) }

func idem() Peer {
	// Any error is retried, as the others do.
	all := func(error) backoff.Class { return backoff.Transient }
	first := &backoff.Policy{Classify: all}
	again := &backoff.Policy{Classify: all, Base: backoff.NoDelay}
	delays := &backoff.Policy{}
	return Peer{
		Name: Idem,
		Loop: func(ctx context.Context, attempts int, delay time.Duration, op Operation) (int, error) {
			p := &backoff.Policy{MaxAttempts: attempts, Base: delay, Cap: delay, Jitter: backoff.None, Classify: all}
			return backoff.Do(ctx, p, op)
		},
		Outer: func(ctx context.Context, err error) error {
			return backoff.Run(ctx, nil, func(context.Context) error { return outer(backoff.Mark(err, backoff.Permanent)) })
		},
		First: func(ctx context.Context, op Operation) (int, error) { return backoff.Do(ctx, first, op) },
		Again: func(ctx context.Context, op Operation) (int, error) { return backoff.Do(ctx, again, op) },
		Delay: func() time.Duration { return delays.Delay(3, 0, random()) },
	}
}

// handedIn is package backoff without the draw: a delay is a function of a number
// that the caller may have anyhow. No other library has that seam.
func handedIn() Peer {
	p, number := &backoff.Policy{}, random()
	return Peer{Name: "idem, number handed in", Delay: func() time.Duration {
		number += 0x9e3779b97f4a7c15
		return p.Delay(3, 0, number)
	}}
}

func newCenkalti() Peer {
	delays := cenkalti.NewExponentialBackOff()
	return Peer{
		Name: "cenkalti v7",
		Loop: func(ctx context.Context, attempts int, delay time.Duration, op Operation) (int, error) {
			return cenkalti.Retry(ctx, func() (int, error) { return op(ctx) },
				cenkalti.WithBackOff(cenkalti.NewConstantBackOff(delay)), cenkalti.WithMaxTries(uint(attempts)), cenkalti.WithMaxElapsedTime(0))
		},
		Outer: func(ctx context.Context, err error) error {
			_, err = cenkalti.Retry(ctx, func() (int, error) { return 0, outer(cenkalti.Permanent(err)) })
			return err
		},
		First: func(ctx context.Context, op Operation) (int, error) {
			return cenkalti.Retry(ctx, func() (int, error) { return op(ctx) }, cenkalti.WithMaxTries(3))
		},
		Again: func(ctx context.Context, op Operation) (int, error) {
			return cenkalti.Retry(ctx, func() (int, error) { return op(ctx) },
				cenkalti.WithMaxTries(3), cenkalti.WithBackOff(&cenkalti.ZeroBackOff{}))
		},
		Delay: delays.NextBackOff,
	}
}

func newAvast() Peer {
	config := avast.New(avast.Delay(50*time.Millisecond), avast.MaxDelay(20*time.Second))
	return Peer{
		Name: "avast v5",
		Loop: func(ctx context.Context, attempts int, delay time.Duration, op Operation) (int, error) {
			return avast.NewWithData[int](avast.Context(ctx), avast.Attempts(uint(attempts)), avast.DelayType(avast.FixedDelay), avast.Delay(delay)).
				Do(func() (int, error) { return op(ctx) })
		},
		Outer: func(ctx context.Context, err error) error {
			return avast.New(avast.Context(ctx), avast.LastErrorOnly(true)).Do(func() error { return outer(avast.Unrecoverable(err)) })
		},
		First: func(ctx context.Context, op Operation) (int, error) {
			return avast.NewWithData[int](avast.Context(ctx), avast.Attempts(3)).Do(func() (int, error) { return op(ctx) })
		},
		Again: func(ctx context.Context, op Operation) (int, error) {
			return avast.NewWithData[int](avast.Context(ctx), avast.Attempts(3), avast.DelayType(avast.FixedDelay), avast.Delay(0)).
				Do(func() (int, error) { return op(ctx) })
		},
		Delay: func() time.Duration { return avast.FullJitterBackoffDelay(3, nil, config) },
	}
}

// LastErrorOnly is avast v5 with the option of that name, which changes what comes
// out of a loop and nothing else.
func LastErrorOnly() Peer {
	return Peer{
		Name: "... LastErrorOnly",
		Loop: func(ctx context.Context, attempts int, delay time.Duration, op Operation) (int, error) {
			return avast.NewWithData[int](avast.Context(ctx), avast.Attempts(uint(attempts)), avast.DelayType(avast.FixedDelay), avast.Delay(delay),
				avast.LastErrorOnly(true)).Do(func() (int, error) { return op(ctx) })
		},
	}
}

func newSethvargo() Peer {
	loop := func(ctx context.Context, attempts int, b sethvargo.Backoff, op Operation) (int, error) {
		return sethvargo.DoValue(ctx, sethvargo.WithMaxRetries(uint64(attempts-1), b), func(ctx context.Context) (int, error) {
			v, err := op(ctx)
			if err != nil {
				err = sethvargo.RetryableError(err)
			}
			return v, err
		})
	}
	delays := sethvargo.WithFullJitter(sethvargo.WithCappedDuration(20*time.Second, sethvargo.NewExponential(50*time.Millisecond)))
	return Peer{
		Name: "sethvargo 0.5",
		Loop: func(ctx context.Context, attempts int, delay time.Duration, op Operation) (int, error) {
			return loop(ctx, attempts, sethvargo.NewConstant(delay), op)
		},
		Outer: func(ctx context.Context, err error) error {
			b := sethvargo.WithMaxRetries(1, sethvargo.NewConstant(time.Nanosecond))
			return sethvargo.Do(ctx, b, func(context.Context) error { return outer(sethvargo.RetryableError(err)) })
		},
		First: func(ctx context.Context, op Operation) (int, error) {
			return loop(ctx, 3, sethvargo.WithFullJitter(sethvargo.NewExponential(50*time.Millisecond)), op)
		},
		Again: func(ctx context.Context, op Operation) (int, error) {
			return loop(ctx, 3, sethvargo.BackoffFunc(func() (time.Duration, bool) { return 0, false }), op)
		},
		Delay: func() time.Duration {
			d, _ := delays.Next()
			return d
		},
	}
}

func newFailsafe() Peer {
	loop := func(ctx context.Context, e failsafe.Executor[int], op Operation) (int, error) {
		return e.WithContext(ctx).GetWithExecution(func(exec failsafe.Execution[int]) (int, error) { return op(exec.Context()) }) //nolint:contextcheck // that of the execution is made from ctx
	}
	first := failsafe.With[int](retrypolicy.NewBuilder[int]().WithBackoff(50*time.Millisecond, 20*time.Second).WithJitterFactor(0.5).Build())
	again := failsafe.With[int](retrypolicy.NewBuilder[int]().Build())
	return Peer{
		Name: "failsafe-go 0.9",
		Loop: func(ctx context.Context, attempts int, delay time.Duration, op Operation) (int, error) {
			return loop(ctx, failsafe.With[int](retrypolicy.NewBuilder[int]().WithMaxAttempts(attempts).WithDelay(delay).Build()), op)
		},
		First: func(ctx context.Context, op Operation) (int, error) { return loop(ctx, first, op) },
		Again: func(ctx context.Context, op Operation) (int, error) { return loop(ctx, again, op) },
	}
}
