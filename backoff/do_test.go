package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

func TestASuccessIsReturnedAfterOneCall(t *testing.T) {
	t.Parallel()
	op := failing(nil)
	v, err := backoff.Do(t.Context(), nil, op.do)
	require.NoError(t, err)
	require.Equal(t, 1, v)
	require.Equal(t, 1, op.count)
	require.NoError(t, backoff.Run(t.Context(), &backoff.Policy{}, op.run))
}

func TestATransientFailureIsRetriedAfterItsDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		op := failing(transient(), transient(), nil)
		v, err := backoff.Do(t.Context(), &backoff.Policy{Rand: most}, op.do)
		require.NoError(t, err)
		require.Equal(t, 3, v)
		require.Equal(t, ms(50, 100), op.gaps())
	})
}

// backoff.md 2.3 and 4.15: the limit counts calls, the first included.
func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	for allowed, want := range map[int]int{0: 3, 1: 1, 2: 2, 7: 7} {
		t.Run(fmt.Sprint(allowed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				op := failing(transient())
				v, err := backoff.Do(t.Context(), &backoff.Policy{MaxAttempts: allowed}, op.do)
				e := stopped(t, err, backoff.ErrExhausted, want)
				require.Equal(t, want, op.count)
				require.Equal(t, want, v, "the last value comes with the error")
				require.Equal(t, transient(), e.Last)
			})
		})
	}
}

// backoff.md 4.28: the value of the last call, not of an earlier one.
func TestTheLastValueComesWithTheError(t *testing.T) {
	t.Parallel()
	for _, errs := range [][]error{{errX}, {transient(), errX}} {
		op := failing(errs...)
		v, err := backoff.Do(t.Context(), &backoff.Policy{Base: backoff.NoDelay}, op.do)
		requireStopped(t, err, backoff.ErrPermanent, len(errs))
		require.Equal(t, len(errs), v)
	}
}

func TestTheClassDecidesWhetherToTryAgain(t *testing.T) {
	t.Parallel()
	for _, c := range classes() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				op := failing(backoff.Mark(errX, c))
				_, err := backoff.Do(t.Context(), nil, op.do)
				require.ErrorIs(t, err, errX)
				if c == backoff.Permanent {
					requireStopped(t, err, backoff.ErrPermanent, 1)
				} else {
					requireStopped(t, err, backoff.ErrExhausted, 3)
				}
			})
		})
	}
}

// A call that may have been applied is made again only where that does no harm.
func TestAnUnrepeatableOperationIsNotRepeatedInDoubt(t *testing.T) {
	t.Parallel()
	p := &backoff.Policy{Unrepeatable: true, Base: backoff.NoDelay, ThrottledBase: backoff.NoDelay}
	ambiguous := backoff.Mark(errX, backoff.Ambiguous)
	for _, tc := range []struct {
		errs     []error
		reason   error
		attempts int
	}{
		{[]error{ambiguous}, backoff.ErrAmbiguous, 1},
		{[]error{io.ErrUnexpectedEOF}, backoff.ErrAmbiguous, 1},
		{[]error{transient(), &httpError{429, nil}, &httpError{502, nil}}, backoff.ErrAmbiguous, 3},
		{[]error{transient()}, backoff.ErrExhausted, 3},
		{[]error{errX}, backoff.ErrPermanent, 1},
	} {
		op := failing(tc.errs...)
		e := stopped(t, backoff.Run(t.Context(), p, op.run), tc.reason, tc.attempts)
		require.Equal(t, tc.attempts, op.count)
		require.Equal(t, tc.errs[len(tc.errs)-1], e.Last)
	}
	timedOut := &backoff.Policy{Unrepeatable: true, Timeout: time.Nanosecond}
	err := backoff.Run(t.Context(), timedOut, func(ctx context.Context) error { <-ctx.Done(); return errX })
	requireStopped(t, err, backoff.ErrAmbiguous, 1)
}

// backoff.md 2.5: after a throttled failure the SDK's base is one second.
func TestAThrottledFailureWaitsLonger(t *testing.T) {
	t.Parallel()
	throttled := backoff.Mark(errX, backoff.Throttled)
	for name, tc := range map[string]struct {
		p    backoff.Policy
		errs []error
		want []time.Duration
	}{
		"by default":         {backoff.Policy{}, []error{throttled, throttled, nil}, ms(1000, 2000)},
		"only where it is":   {backoff.Policy{}, []error{throttled, transient(), nil}, ms(1000, 100)},
		"as long as it says": {backoff.Policy{ThrottledBase: 3 * time.Second}, []error{throttled, nil}, ms(3000)},
		"never shorter":      {backoff.Policy{Base: 2 * time.Second}, []error{throttled, nil}, ms(2000)},
		"capped":             {backoff.Policy{Cap: 500 * time.Millisecond}, []error{throttled, nil}, ms(500)},
		"not if so wished":   {backoff.Policy{ThrottledBase: backoff.NoDelay}, []error{throttled, nil}, ms(50)},
		"also without delay": {backoff.Policy{Base: backoff.NoDelay}, []error{throttled, transient(), nil}, ms(1000, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				op := failing(tc.errs...)
				tc.p.Rand = most
				require.NoError(t, backoff.Run(t.Context(), &tc.p, op.run))
				require.Equal(t, tc.want, op.gaps())
			})
		})
	}
}

// C38: a mark is found wherever it is, and the answer does not depend on how many
// attempts are left.
func TestAPermanentMarkEndsTheLoopAtOnce(t *testing.T) {
	t.Parallel()
	permanent := func(err error) error { return backoff.Mark(err, backoff.Permanent) }
	for name, err := range map[string]error{
		"bare":           permanent(errX),
		"wrapped":        fmt.Errorf("outer: %w", permanent(errX)),
		"joined":         errors.Join(permanent(errX), io.ErrUnexpectedEOF),
		"joined, second": errors.Join(io.ErrUnexpectedEOF, permanent(errX)),
		"twice":          permanent(permanent(errX)),
		"beside a 503":   fmt.Errorf("%w: %w", &httpError{503, nil}, permanent(errX)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := []error{}
			for _, attempts := range []int{1, 5} {
				op := failing(err)
				_, got := backoff.Do(t.Context(), &backoff.Policy{MaxAttempts: attempts}, op.do)
				require.Equal(t, 1, op.count)
				require.ErrorIs(t, got, errX)
				e := stopped(t, got, backoff.ErrPermanent, 1)
				require.Equal(t, err, e.Last, "untouched: also what stands around the mark")
				results = append(results, got)
			}
			require.Equal(t, results[0], results[1])
		})
	}
	require.NoError(t, permanent(nil))
}

// C49, the retry side: a message that can never be handled ends, after attempts
// that are never closer than the base, with one error that says so.
func TestAPoisonMessageEndsAfterGrowingDelays(t *testing.T) {
	t.Parallel()
	const base = 50 * time.Millisecond
	for _, j := range []backoff.Jitter{backoff.None, backoff.Decorrelated} {
		t.Run(j.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				op := failing(transient())
				began := time.Now()
				err := backoff.Run(t.Context(), &backoff.Policy{MaxAttempts: 3, Base: base, Jitter: j}, op.run)
				requireStopped(t, err, backoff.ErrExhausted, 3)
				require.Equal(t, 3, op.count)
				for _, gap := range op.gaps() {
					require.GreaterOrEqual(t, gap, base)
				}
				if j == backoff.None {
					require.Equal(t, ms(50, 100), op.gaps())
				}
				require.Equal(t, op.at[2].Sub(began), time.Since(began), "no wait after the last attempt")
			})
		})
	}
}

// C49: what cannot even be read is not run again.
func TestAnUnreadableMessageIsNotRetried(t *testing.T) {
	t.Parallel()
	op := failing(errors.New("no key in the message"))
	err := backoff.Run(t.Context(), nil, op.run)
	requireStopped(t, err, backoff.ErrPermanent, 1)
}

func TestNoDelayNeedsNoTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		op := failing(transient(), transient(), nil)
		require.NoError(t, backoff.Run(t.Context(), &backoff.Policy{Base: backoff.NoDelay}, op.run))
		require.Zero(t, time.Since(began))
	})
}

func TestOnRetryIsToldOfEachWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []backoff.Retry
		busy := backoff.Mark(errX, backoff.Throttled)
		op := failing(transient(), busy, transient())
		p := &backoff.Policy{Rand: most, OnRetry: func(_ context.Context, r backoff.Retry) {
			require.Equal(t, r.Failed, op.count, "before the wait")
			told = append(told, r)
		}}
		requireStopped(t, backoff.Run(t.Context(), p, op.run), backoff.ErrExhausted, 3)
		require.Equal(t, []backoff.Retry{
			{Failed: 1, Delay: 50 * time.Millisecond, Class: backoff.Transient, Err: transient()},
			{Failed: 2, Delay: 2 * time.Second, Class: backoff.Throttled, Err: busy},
		}, told)
	})
}

func TestAnOwnClassifierJudgesWhatHasNoMark(t *testing.T) {
	t.Parallel()
	p := &backoff.Policy{Base: backoff.NoDelay, Classify: func(err error) backoff.Class {
		switch {
		case errors.Is(err, io.EOF):
			return backoff.Transient
		case errors.Is(err, errX):
			return backoff.Permanent
		case errors.Is(err, io.ErrClosedPipe):
			return 77 // no class
		}
		return 0
	}}
	for name, tc := range map[string]struct {
		err      error
		attempts int
	}{
		"it knows":                  {io.EOF, 3},
		"it forbids":                {fmt.Errorf("%w: %w", errX, io.ErrUnexpectedEOF), 1},
		"it leaves it":              {io.ErrUnexpectedEOF, 3},
		"it leaves it, unknown":     {io.ErrShortWrite, 1},
		"it says nothing of use":    {io.ErrClosedPipe, 1},
		"a mark outranks it":        {backoff.Mark(io.EOF, backoff.Permanent), 1},
		"a mark outranks its no":    {backoff.Mark(errX, backoff.Ambiguous), 3},
		"also below something else": {fmt.Errorf("w: %w", backoff.Mark(errX, backoff.Transient)), 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op := failing(tc.err)
			require.ErrorIs(t, backoff.Run(t.Context(), p, op.run), tc.err)
			require.Equal(t, tc.attempts, op.count)
		})
	}
}

// backoff.md 4.5: nothing of a call is kept in the policy.
func TestAPolicyIsSharedWithoutTraces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &backoff.Policy{Rand: most, Jitter: backoff.Decorrelated}
		for range 3 {
			op := failing(transient())
			requireStopped(t, backoff.Run(t.Context(), p, op.run), backoff.ErrExhausted, 3)
			require.InDeltaSlice(t, ms(150, 450), op.gaps(), 2)
		}
		done := make(chan []time.Duration)
		for range 2 {
			go func() {
				op := failing(transient())
				_ = backoff.Run(t.Context(), p, op.run)
				done <- op.gaps()
			}()
		}
		require.Equal(t, <-done, <-done)
	})
}

func TestAPanicGoesOn(t *testing.T) {
	t.Parallel()
	count := 0
	require.PanicsWithValue(t, "boom", func() {
		_ = backoff.Run(t.Context(), nil, func(context.Context) error { count++; panic("boom") })
	})
	require.Equal(t, 1, count)
}
