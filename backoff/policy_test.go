package backoff_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

func TestTheZeroPolicyIsValid(t *testing.T) {
	t.Parallel()
	require.NoError(t, (&backoff.Policy{}).Validate())
	require.NoError(t, (&backoff.Policy{
		MaxAttempts: backoff.Unlimited, Base: backoff.NoDelay, ThrottledBase: backoff.NoDelay, Cap: 1, Timeout: 1, MaxHint: 1,
		Jitter: backoff.None,
	}).Validate())
}

// C64 and backoff.md 4.2: what makes no sense is refused by name, before any call.
func TestAPolicyOutOfItsBoundsIsRefused(t *testing.T) {
	t.Parallel()
	for field, p := range map[string]*backoff.Policy{
		"MaxAttempts":   {MaxAttempts: -2},
		"Base":          {Base: -2},
		"ThrottledBase": {ThrottledBase: math.MinInt64},
		"Cap":           {Cap: -1},
		"Timeout":       {Timeout: -time.Second},
		"MaxHint":       {MaxHint: -1},
		"Jitter":        {Jitter: backoff.None + 1},
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			err := p.Validate()
			require.ErrorIs(t, err, backoff.ErrInvalidOption)
			require.ErrorContains(t, err, ": "+field+" is")
			op := failing(nil)
			_, got := backoff.Do(t.Context(), p, op.do)
			require.Equal(t, err, got)
			require.Zero(t, op.count)
			require.Equal(t, backoff.Permanent, backoff.Classify(got))
		})
	}
}

// Whatever the policy: no panic, 0 ≤ delay ≤ cap (or the hint and one base), and
// not more attempts than allowed.
func FuzzPolicy(f *testing.F) {
	f.Add(uint64(1), 3, int64(50e6), int64(0), int64(20e9), uint8(0), int64(0), int64(0))
	f.Add(uint64(2), 0, int64(0), int64(-1), int64(1), uint8(2), int64(math.MaxInt64), int64(5e9))
	f.Add(uint64(3), -1, int64(-1), int64(math.MaxInt64), int64(math.MaxInt64), uint8(1), int64(1), int64(-1))
	f.Add(uint64(5), 5, int64(1), int64(math.MaxInt64), int64(math.MaxInt64), uint8(3), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add(uint64(4), -2, int64(math.MinInt64), int64(1), int64(-1), uint8(255), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, seed uint64, attempts int, base, throttled, limit int64, jitter uint8, maxHint, timeout int64) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			p := &backoff.Policy{
				MaxAttempts: attempts, Base: time.Duration(base), ThrottledBase: time.Duration(throttled), Cap: time.Duration(limit),
				Jitter: backoff.Jitter(jitter), MaxHint: time.Duration(maxHint), Timeout: time.Duration(timeout), Rand: rng.Uint64,
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.Int64N(int64(time.Hour))))
			defer cancel()
			retries, calls, bound := 0, 0, delayBound(p)
			p.OnRetry = func(_ context.Context, r backoff.Retry) {
				retries++
				most := bound
				if hint, ok := backoff.Hint(r.Err); ok && hint > bound {
					most = hint + min(bound, forever-hint)
				}
				if r.Delay < 0 || r.Delay > most || r.Failed != calls {
					t.Fatalf("%+v: %+v", p, r)
				}
				if retries > 1000 {
					cancel() // unlimited
				}
			}
			err := backoff.Run(ctx, p, func(context.Context) error { calls++; return draw(rng) })
			if invalid := p.Validate(); invalid != nil {
				require.Equal(t, invalid, err)
				require.Zero(t, calls)
				return
			}
			allowed := attempts
			switch attempts {
			case 0:
				allowed = 3
			case backoff.Unlimited:
				allowed = math.MaxInt
			}
			require.LessOrEqual(t, calls, allowed)
			var e *backoff.Error
			require.True(t, err == nil || errors.As(err, &e) && e.Attempts == calls, "%v", err)
		})
	})
}

// delayBound is the longest delay that a policy allows without a hint.
func delayBound(p *backoff.Policy) time.Duration {
	if p.Cap == 0 {
		return 20 * time.Second
	}
	return max(p.Cap, 0)
}

// draw returns how a call ends: mostly with something to retry.
func draw(rng *rand.Rand) error {
	err := backoff.Mark(errX, backoff.Class(rng.IntN(5)))
	switch rng.IntN(10) {
	case 0:
		return nil
	case 1, 2, 3:
		return backoff.After(err, time.Duration(rng.Int64N(int64(time.Hour))))
	case 4:
		return backoff.After(err, time.Duration(rng.Uint64()>>1))
	}
	return err
}
