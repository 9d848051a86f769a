package retry_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	avast "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/idem-go/idem/backoff"
	sethvargo "github.com/sethvargo/go-retry"
	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/require"
)

// What single libraries were seen to do, beside what package backoff does in the
// same place. With -v each is printed.

func TestAHintOfADayWithACapOfASecond(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		began, calls := time.Now(), 0
		b := cenkalti.NewExponentialBackOff()
		b.MaxInterval = time.Second
		_, _ = cenkalti.Retry(t.Context(), func() (int, error) {
			if calls++; calls > 1 {
				return 0, nil
			}
			return 0, cenkalti.RetryAfter(day, errLast)
		}, cenkalti.WithBackOff(b), cenkalti.WithMaxElapsedTime(0))
		t.Logf("cenkalti v7 slept %v", time.Since(began))
	})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		busy := backoff.After(backoff.Mark(errLast, backoff.Throttled), day)
		err := backoff.Run(t.Context(), &backoff.Policy{Cap: time.Second}, func(context.Context) error { return busy })
		hint, _ := backoff.Hint(err)
		require.Zero(t, time.Since(began))
		require.Equal(t, day, hint)
		require.ErrorIs(t, err, backoff.ErrHint)
		t.Logf("idem slept %v and said: %v; hint %v", time.Since(began), err, hint)
	})
}

func TestTheCapAfterJitter(t *testing.T) {
	t.Parallel()
	b := cenkalti.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = time.Second, time.Second
	p := &backoff.Policy{Base: time.Second, Cap: time.Second}
	var theirs, ours, prev time.Duration
	for range 10_000 {
		theirs = max(theirs, b.NextBackOff())
		prev = p.Delay(9, prev, uint64(ours)*2654435761)
		ours = max(ours, prev, p.Delay(9, 0, 1<<64-1))
	}
	require.LessOrEqual(t, ours, time.Second)
	t.Logf("longest delay with a cap of 1s: cenkalti v7 %v, idem %v", theirs, ours)
}

func TestNegativeJitter(t *testing.T) {
	t.Parallel()
	panicked := func(f func()) (p any) {
		defer func() { p = recover() }()
		f()
		return nil
	}
	theirs := panicked(func() {
		_ = avast.New(avast.MaxJitter(-1), avast.Delay(1), avast.Attempts(2)).Do(func() error { return errLast })
	})
	ours := panicked(func() {
		err := backoff.Run(t.Context(), &backoff.Policy{Base: -time.Second}, func(context.Context) error { return errLast })
		require.ErrorIs(t, err, backoff.ErrInvalidOption)
	})
	require.Nil(t, ours)
	t.Logf("avast v5 panicked with: %v; idem refuses the policy", theirs)
}

func TestASecondCallWithTheSamePolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := [2]int{}
		b := sethvargo.WithMaxRetries(2, sethvargo.NewConstant(time.Second))
		p := &backoff.Policy{}
		for range 2 {
			calls = [2]int{}
			_ = sethvargo.Do(t.Context(), b, func(context.Context) error { calls[0]++; return sethvargo.RetryableError(errLast) })
			_ = backoff.Run(t.Context(), p, func(context.Context) error { calls[1]++; return backoff.Mark(errLast, backoff.Transient) })
		}
		require.Equal(t, 3, calls[1])
		t.Logf("calls of the second Do: sethvargo %d, idem %d", calls[0], calls[1])
	})
}

func TestAnEmptyBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// A share of what is in flight: while one retry is, another is too many.
		small := budget.NewBuilder().WithMaxRate(0.1).WithMinConcurrency(0).Build()
		loop := failsafe.With[int](retrypolicy.NewBuilder[int]().WithDelay(time.Second).WithBudget(small).Build())
		var other sync.WaitGroup
		defer other.Wait()
		calls := 0
		other.Go(func() {
			_, _ = loop.Get(func() (int, error) {
				if calls++; calls == 2 {
					time.Sleep(time.Hour)
				}
				return 0, errLast
			})
		})
		time.Sleep(time.Minute)
		began := time.Now()
		_, err := loop.Get(func() (int, error) { return 0, errLast })
		t.Logf("failsafe-go slept %v; last error kept: %v; said: %v", time.Since(began), errors.Is(err, errLast), err)
	})
	synctest.Test(t, func(t *testing.T) {
		b, err := backoff.NewBudget(nil)
		require.NoError(t, err)
		for b.Withdraw() {
		}
		began := time.Now()
		err = backoff.Run(t.Context(), &backoff.Policy{Budget: b}, func(context.Context) error { return backoff.Mark(errLast, backoff.Transient) })
		require.Zero(t, time.Since(began))
		require.ErrorIs(t, err, errLast)
		require.ErrorIs(t, err, backoff.ErrBudget)
		t.Logf("idem slept %v; last error kept: true; said: %v", time.Since(began), err)
	})
}

func TestSixCallersGiveUp(t *testing.T) {
	t.Parallel()
	sony := gobreaker.NewTwoStepCircuitBreaker[int](gobreaker.Settings{})
	circuit, err := backoff.NewCircuit(&backoff.CircuitOptions{MinCalls: 6})
	require.NoError(t, err)
	for _, b := range []backoff.Breaker{sony, circuit} {
		for range 6 {
			if done, err := b.Allow(); err == nil {
				done(context.Canceled)
			}
		}
	}
	require.Equal(t, backoff.Closed, circuit.Stats().State)
	t.Logf("after six cancellations: gobreaker %v, idem %v", sony.State(), circuit.Stats().State)
}

func TestAHungProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sony := gobreaker.NewTwoStepCircuitBreaker[int](gobreaker.Settings{Timeout: time.Second})
		circuit, err := backoff.NewCircuit(&backoff.CircuitOptions{MinCalls: 6, Open: time.Second})
		require.NoError(t, err)
		said := []string{}
		for _, b := range []backoff.Breaker{sony, circuit} {
			for range 6 {
				if done, err := b.Allow(); err == nil {
					done(context.DeadlineExceeded)
				}
			}
			time.Sleep(time.Second + time.Nanosecond)
			_, err := b.Allow() // the probe, which never comes back
			require.NoError(t, err)
			time.Sleep(time.Hour)
			_, err = b.Allow()
			said = append(said, fmt.Sprint(err))
		}
		require.Equal(t, "<nil>", said[1])
		t.Logf("an hour behind a hung probe: gobreaker %q, idem %q", said[0], said[1])
	})
}
