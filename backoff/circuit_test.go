package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

// call makes one call through a circuit that is asked without a loop.
func call(t *testing.T, c *backoff.Circuit, outcome error) {
	t.Helper()
	done, err := c.Allow()
	require.NoError(t, err)
	done(outcome)
}

// trip opens a circuit by failures.
func trip(t *testing.T, c *backoff.Circuit) {
	t.Helper()
	for range 1000 {
		if c.Stats().State == backoff.Open {
			return
		}
		call(t, c, transient())
	}
	require.Fail(t, "it does not open")
}

func refused(t *testing.T, c *backoff.Circuit) time.Duration {
	t.Helper()
	_, err := c.Allow()
	require.ErrorIs(t, err, backoff.ErrOpen)
	left, ok := backoff.Hint(err)
	require.True(t, ok)
	require.ErrorContains(t, err, left.String())
	require.True(t, backoff.NothingSent(err))
	return left
}

func TestACircuitOutOfItsBoundsIsRefused(t *testing.T) {
	t.Parallel()
	for _, opts := range []backoff.CircuitOptions{
		{FailureRatio: -0.1},
		{FailureRatio: 1.01},
		{FailureRatio: math.NaN()},
		{FailureRatio: math.Inf(1)},
		{MinCalls: -1},
		{Window: -1},
		{Window: 9},
		{Open: -1},
		{Open: 2, MaxOpen: 1},
		{MaxOpen: -1},
		{Probes: -1},
		{Successes: -1},
	} {
		_, err := backoff.NewCircuit(&opts)
		require.ErrorIs(t, err, backoff.ErrInvalidOption, "%+v", opts)
	}
	for _, opts := range []backoff.CircuitOptions{{}, {FailureRatio: 1}, {MinCalls: 1, Window: 10, Open: 1, MaxOpen: 1, Probes: 1, Successes: 1}} {
		_, err := backoff.NewCircuit(&opts)
		require.NoError(t, err, "%+v", opts)
	}
}

// backoff.md 4.24: a ratio of few calls means nothing.
func TestACircuitOpensAtItsRatioOfEnoughCalls(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		opts           backoff.CircuitOptions
		good, bad      int // calls, the good ones first
		opens          bool
		calls, failing int // Stats, if it does not open
	}{
		"one short of the minimum":  {good: 9, bad: 10, calls: 19, failing: 10},
		"at the minimum":            {good: 10, bad: 10, opens: true},
		"under the ratio":           {good: 100, bad: 99, calls: 199, failing: 99},
		"at the ratio":              {good: 100, bad: 100, opens: true},
		"nothing but failures":      {bad: 20, opens: true},
		"not yet":                   {bad: 19, calls: 19, failing: 19},
		"a small ratio":             {opts: backoff.CircuitOptions{FailureRatio: 0.1, MinCalls: 100}, good: 90, bad: 10, opens: true},
		"a small ratio, not yet":    {opts: backoff.CircuitOptions{FailureRatio: 0.1, MinCalls: 100}, good: 91, bad: 9, calls: 100, failing: 9},
		"all must fail":             {opts: backoff.CircuitOptions{FailureRatio: 1, MinCalls: 3}, bad: 3, opens: true},
		"all must fail, one is not": {opts: backoff.CircuitOptions{FailureRatio: 1, MinCalls: 3}, good: 1, bad: 50, calls: 51, failing: 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCircuit(t, &tc.opts)
				for range tc.good {
					call(t, c, nil)
				}
				for range tc.bad {
					call(t, c, transient())
				}
				if tc.opens {
					require.Equal(t, backoff.Open, c.Stats().State)
					require.Positive(t, refused(t, c))
				} else {
					require.Equal(t, backoff.CircuitStats{State: backoff.Closed, Calls: tc.calls, Failures: tc.failing}, c.Stats())
				}
			})
		})
	}
}

func TestOldCallsLeaveTheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(t, nil)
		failures := func(n int) {
			for range n {
				call(t, c, transient())
			}
		}
		failures(19)
		time.Sleep(10 * time.Second)
		require.Equal(t, backoff.CircuitStats{}, c.Stats(), "a window later they are forgotten")
		failures(19)
		require.Equal(t, backoff.Closed, c.Stats().State)
		time.Sleep(9 * time.Second)
		require.Equal(t, 19, c.Stats().Failures, "and not before")
		failures(1)
		require.Equal(t, backoff.Open, c.Stats().State)
	})
}

func TestTheWindowRolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(t, &backoff.CircuitOptions{MinCalls: 1000})
		for range 35 { // two calls a second, one of them bad
			call(t, c, nil)
			call(t, c, transient())
			time.Sleep(time.Second)
		}
		require.Equal(t, backoff.CircuitStats{Calls: 18, Failures: 9}, c.Stats())
		time.Sleep(4 * time.Second)
		require.Equal(t, backoff.CircuitStats{Calls: 10, Failures: 5}, c.Stats())
		time.Sleep(1000 * time.Hour)
		call(t, c, transient())
		require.Equal(t, backoff.CircuitStats{Calls: 1, Failures: 1}, c.Stats())
	})
}

// backoff.md 4.23: clients of one target do not all return at the same time.
func TestTheOpenPeriodIsDrawnFromItsUpperHalf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lengths := map[time.Duration]bool{}
		for range 100 {
			c := newCircuit(t, &backoff.CircuitOptions{Open: time.Minute})
			trip(t, c)
			d := refused(t, c)
			require.GreaterOrEqual(t, d, 30*time.Second)
			require.LessOrEqual(t, d, time.Minute)
			lengths[d] = true
		}
		require.Greater(t, len(lengths), 90)
		shortest := newCircuit(t, &backoff.CircuitOptions{Open: time.Minute, Rand: least})
		trip(t, shortest)
		require.Equal(t, 30*time.Second, refused(t, shortest))
	})
}

func TestTheOpenPeriodGrowsUntilTheCircuitCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(t, &backoff.CircuitOptions{Open: time.Second, MaxOpen: 5 * time.Second, Rand: most})
		trip(t, c)
		for _, want := range []time.Duration{1, 2, 4, 5, 5} {
			require.Equal(t, want*time.Second, refused(t, c))
			time.Sleep(want * time.Second)
			call(t, c, transient())
		}
		time.Sleep(5 * time.Second)
		call(t, c, nil)
		require.Equal(t, backoff.Closed, c.Stats().State)
		trip(t, c)
		require.Equal(t, time.Second, refused(t, c))
	})
}

func TestAHalfOpenCircuitAdmitsOnlyProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(t, &backoff.CircuitOptions{Probes: 2, Successes: 3, Open: time.Second, Rand: most})
		trip(t, c)
		time.Sleep(time.Second - 1)
		require.Equal(t, time.Duration(1), refused(t, c))
		time.Sleep(time.Nanosecond)
		first, err := c.Allow()
		require.NoError(t, err)
		second, err := c.Allow()
		require.NoError(t, err)
		require.Equal(t, backoff.HalfOpen, c.Stats().State)
		require.Equal(t, time.Second, refused(t, c), "until the first lease ends")
		first(nil)
		third, err := c.Allow()
		require.NoError(t, err)
		second(nil)
		third(nil)
		require.Equal(t, backoff.CircuitStats{State: backoff.Closed}, c.Stats(), "with an empty window")
	})
}

func TestOneProbeThatFailsOpensTheCircuitAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(t, &backoff.CircuitOptions{Probes: 3, Open: time.Second, Rand: most})
		trip(t, c)
		time.Sleep(time.Second)
		good, _ := c.Allow()
		bad, _ := c.Allow()
		late, _ := c.Allow()
		good(nil)
		bad(transient())
		require.Equal(t, backoff.CircuitStats{State: backoff.Open, OpenFor: time.Second}, c.Stats())
		late(nil)
		time.Sleep(time.Second)
		call(t, c, nil)
		call(t, c, nil)
		require.Equal(t, backoff.HalfOpen, c.Stats().State, "neither the good nor the late one of the term before counts")
		call(t, c, nil)
		require.Equal(t, backoff.Closed, c.Stats().State)
	})
}

// A hung probe wedges other breakers for ever (backoff.md 7).
func TestAHungProbeGivesItsSlotToTheNextCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(t, &backoff.CircuitOptions{Open: time.Second, Rand: most})
		trip(t, c)
		time.Sleep(time.Second)
		hung, err := c.Allow()
		require.NoError(t, err)
		time.Sleep(time.Second - 1)
		require.Equal(t, time.Duration(1), refused(t, c))
		time.Sleep(time.Nanosecond)
		next, err := c.Allow()
		require.NoError(t, err)
		hung(transient())
		require.Equal(t, backoff.HalfOpen, c.Stats().State, "it has lost its slot, and its say")
		next(nil)
		require.Equal(t, backoff.Closed, c.Stats().State)

		trip(t, c)
		time.Sleep(time.Second)
		slow, err := c.Allow()
		require.NoError(t, err)
		time.Sleep(time.Hour)
		slow(nil)
		require.Equal(t, backoff.Closed, c.Stats().State, "nobody wanted the slot meanwhile")
	})
}

func TestLateCallsOfAnEarlierTermDoNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(t, &backoff.CircuitOptions{Open: time.Second, Rand: most})
		var late []func(error)
		for range 50 {
			done, err := c.Allow()
			require.NoError(t, err)
			late = append(late, done)
		}
		trip(t, c)
		late[0](nil)
		require.Equal(t, backoff.Open, c.Stats().State)
		time.Sleep(time.Second)
		probe, err := c.Allow()
		require.NoError(t, err)
		late[1](transient())
		late[2](nil)
		require.Equal(t, backoff.HalfOpen, c.Stats().State)
		probe(nil)
		for _, done := range late[3:] {
			done(transient())
		}
		require.Equal(t, backoff.CircuitStats{State: backoff.Closed}, c.Stats())
		probe(transient()) // a second time, against the contract
		require.Equal(t, backoff.CircuitStats{State: backoff.Closed}, c.Stats())
	})
}

// backoff.md 4.22: an answer is a success of the target, also "not found".
func TestOnlyFailuresOfTheTargetCountAgainstIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want backoff.CircuitStats
	}{
		"a success":              {nil, backoff.CircuitStats{Calls: 1}},
		"not found":              {&httpError{404, nil}, backoff.CircuitStats{Calls: 1}},
		"a duplicate key":        {&sqlError{"23505", nil}, backoff.CircuitStats{Calls: 1}},
		"marked permanent":       {backoff.Mark(&httpError{500, nil}, backoff.Permanent), backoff.CircuitStats{Calls: 1}},
		"unavailable":            {&httpError{503, nil}, backoff.CircuitStats{Calls: 1, Failures: 1}},
		"too slow":               {context.DeadlineExceeded, backoff.CircuitStats{Calls: 1, Failures: 1}},
		"a deadlock":             {&sqlError{"40P01", nil}, backoff.CircuitStats{Calls: 1, Failures: 1}},
		"cancelled":              {context.Canceled, backoff.CircuitStats{}},
		"cancelled, wrapped":     {fmt.Errorf("get: %w", context.Canceled), backoff.CircuitStats{}},
		"cancelled and marked":   {backoff.Mark(context.Canceled, backoff.Permanent), backoff.CircuitStats{Calls: 1}},
		"a server says canceled": {&httpError{503, context.Canceled}, backoff.CircuitStats{Calls: 1, Failures: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCircuit(t, nil)
				call(t, c, tc.err)
				require.Equal(t, tc.want, c.Stats())
				inLoop := newCircuit(t, nil)
				_ = backoff.Run(t.Context(), &backoff.Policy{MaxAttempts: 1, Breaker: inLoop}, failing(tc.err).run)
				require.Equal(t, tc.want, inLoop.Stats(), "in a loop")
			})
		})
	}
}

// C20: callers who give up say nothing about the target, whatever a driver makes
// of it.
func TestCallersWhoGiveUpDoNotTripTheCircuit(t *testing.T) {
	t.Parallel()
	c := newCircuit(t, &backoff.CircuitOptions{MinCalls: 5})
	p := &backoff.Policy{Breaker: c}
	for i := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		err := backoff.Run(ctx, p, func(ctx context.Context) error {
			cancel()
			if i%2 == 0 {
				return ctx.Err()
			}
			return fmt.Errorf("query failed: %v", ctx.Err()) //nolint:errorlint // as drivers do
		})
		requireStopped(t, err, context.Canceled, 1)
	}
	require.Equal(t, backoff.CircuitStats{State: backoff.Closed}, c.Stats())
	require.NoError(t, backoff.Run(t.Context(), p, failing(nil).run))
}

// C20: and a probe whose caller gives up gives its slot back.
func TestAProbeWhoseCallerGivesUpGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(t, &backoff.CircuitOptions{Open: time.Second, Rand: most})
		p := &backoff.Policy{Breaker: c}
		trip(t, c)
		time.Sleep(time.Second)
		for _, text := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			_ = backoff.Run(ctx, p, func(ctx context.Context) error {
				require.Equal(t, backoff.HalfOpen, c.Stats().State)
				cancel()
				if text {
					return errors.New("operation was cancelled")
				}
				return ctx.Err()
			})
			require.Equal(t, backoff.HalfOpen, c.Stats().State, "no verdict")
		}
		require.NoError(t, backoff.Run(t.Context(), p, failing(nil).run))
		require.Equal(t, backoff.Closed, c.Stats().State)
	})
}

// C20: a time-out is a failure: our own for an attempt, and the caller's deadline,
// for then the target had all the time there was.
func TestTimeoutsCountAgainstTheTarget(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ attempt, caller time.Duration }{
		"of the attempt": {time.Second, time.Hour},
		"of the caller":  {0, time.Second},
	} {
		for _, text := range []bool{false, true} {
			t.Run(fmt.Sprint(name, text), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					c := newCircuit(t, nil)
					ctx, cancel := context.WithTimeout(t.Context(), tc.caller)
					defer cancel()
					_ = backoff.Run(ctx, &backoff.Policy{MaxAttempts: 1, Timeout: tc.attempt, Breaker: c}, func(ctx context.Context) error {
						<-ctx.Done()
						if text {
							return errors.New("canceling statement due to user request")
						}
						return ctx.Err()
					})
					require.Equal(t, backoff.CircuitStats{Calls: 1, Failures: 1}, c.Stats())
				})
			})
		}
	}
}

// backoff.md 4.22: a panic is a failure, also of a probe, and leaves no slot taken.
func TestAPanicCountsAgainstTheTarget(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){"panic": func() { panic("boom") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCircuit(t, &backoff.CircuitOptions{MinCalls: 1, Open: time.Second, Rand: most})
				for range 3 {
					var wg sync.WaitGroup
					wg.Go(func() {
						defer func() { _ = recover() }()
						_ = backoff.Run(t.Context(), &backoff.Policy{Breaker: c}, func(context.Context) error { end(); return nil })
					})
					wg.Wait()
					require.Equal(t, backoff.CircuitStats{State: backoff.Open, OpenFor: time.Second}, c.Stats())
					time.Sleep(time.Second)
				}
				call(t, c, nil)
				require.Equal(t, backoff.Closed, c.Stats().State)
			})
		})
	}
}

// backoff.md 4.21: the circuit sees attempts, not loops; when it opens, the loop
// stops instead of sleeping, and knows until when.
func TestAnOpenCircuitEndsTheLoopWithoutAWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(t, &backoff.CircuitOptions{MinCalls: 2, Open: time.Minute, Rand: most})
		p := &backoff.Policy{MaxAttempts: 9, Breaker: c, Jitter: backoff.None, Base: time.Second}
		began, op := time.Now(), failing(transient())
		err := backoff.Run(t.Context(), p, op.run)
		e := stopped(t, err, backoff.ErrOpen, 2)
		require.Equal(t, transient(), e.Last)
		require.Equal(t, time.Second, time.Since(began), "one wait, and none after it had opened")
		left, ok := backoff.Hint(err)
		require.True(t, ok)
		require.Equal(t, time.Minute, left)

		err = backoff.Run(t.Context(), p, op.run)
		requireStopped(t, err, backoff.ErrOpen, 0)
		require.Equal(t, 2, op.count)
	})
}

// Where the wait is longer than the circuit stays open, there is no reason to stop.
func TestALoopWaitsForACircuitThatWillAdmitIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(t, &backoff.CircuitOptions{MinCalls: 1, Open: time.Second, Rand: most})
		op := failing(transient(), nil)
		require.NoError(t, backoff.Run(t.Context(), &backoff.Policy{Breaker: c, Base: time.Second, Jitter: backoff.None}, op.run))
		require.Equal(t, backoff.Closed, c.Stats().State)
	})
}

func TestANilCircuitRefusesNothing(t *testing.T) {
	t.Parallel()
	var c *backoff.Circuit
	op := failing(transient(), nil)
	require.NoError(t, backoff.Run(t.Context(), &backoff.Policy{Breaker: c, Base: backoff.NoDelay}, op.run))
	require.Equal(t, 2, op.count)
}

func TestACircuitIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	c := newCircuit(t, &backoff.CircuitOptions{MinCalls: 10, Open: time.Microsecond, Window: 10 * time.Millisecond, Probes: 2})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2_000 {
				done, err := c.Allow()
				if err != nil {
					continue
				}
				if (i/100+g)%3 == 0 {
					done(errX)
				} else {
					done(transient())
				}
				if s := c.Stats(); s.Failures > s.Calls || s.Calls < 0 {
					panic(fmt.Sprint(s))
				}
			}
		})
	}
	wg.Wait()
}

func TestStatesHaveNames(t *testing.T) {
	t.Parallel()
	for i, want := range []string{"closed", "open", "half-open", "invalid"} {
		require.Equal(t, want, backoff.State(i).String())
	}
}
