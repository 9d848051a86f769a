package backoff_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

const forever = time.Duration(math.MaxInt64)

func jitters() []backoff.Jitter {
	return []backoff.Jitter{backoff.Full, backoff.Equal, backoff.Decorrelated, backoff.None}
}

// backoff.md 2.1: with n failures so far the ceiling is min(cap, base·2ⁿ⁻¹); the
// delay is that, half of it and more, or any part of it.
func TestDelaysFollowTheirFormulas(t *testing.T) {
	t.Parallel()
	const base, limit, third = 10 * time.Millisecond, 100 * time.Millisecond, math.MaxUint64 / 3
	for _, tc := range []struct {
		attempt int
		ceiling time.Duration
	}{{1, base}, {2, 2 * base}, {3, 4 * base}, {4, 8 * base}, {5, limit}, {6, limit}, {1000, limit}, {0, base}, {-7, base}, {math.MinInt, base}} {
		delay := func(j backoff.Jitter, random uint64) time.Duration {
			return (&backoff.Policy{Base: base, Cap: limit, Jitter: j}).Delay(tc.attempt, 0, random)
		}
		require.Equal(t, tc.ceiling, delay(backoff.None, least()))
		require.Equal(t, tc.ceiling, delay(backoff.None, most()))
		require.Equal(t, tc.ceiling, delay(backoff.Full, most()))
		require.Zero(t, delay(backoff.Full, least()))
		require.InDelta(t, tc.ceiling/3, delay(backoff.Full, third), 1)
		require.Equal(t, tc.ceiling, delay(backoff.Equal, most()))
		require.Equal(t, tc.ceiling/2, delay(backoff.Equal, least()))
		require.InDelta(t, tc.ceiling*2/3, delay(backoff.Equal, third), 1)
	}
}

// backoff.md 2.1: s = U(base, 3·previous s), and s starts at base.
func TestADecorrelatedDelayGoesByTheOneBefore(t *testing.T) {
	t.Parallel()
	p := &backoff.Policy{Base: 5, Cap: 100, Jitter: backoff.Decorrelated}
	for _, tc := range []struct{ prev, least, most time.Duration }{
		{0, 5, 15}, {-9, 5, 15}, {4, 5, 15}, {5, 5, 15}, {10, 5, 30}, {33, 5, 100}, {50, 5, 100}, {forever, 5, 100},
	} {
		for _, attempt := range []int{0, 1, 2, 99} {
			require.Equal(t, tc.least, p.Delay(attempt, tc.prev, least()), "after %d", tc.prev)
			require.InDelta(t, tc.most, p.Delay(attempt, tc.prev, most()), 1, "after %d", tc.prev)
			require.LessOrEqual(t, p.Delay(attempt, tc.prev, most()), tc.most)
		}
	}
}

// backoff.md 2.5, the SDK's vectors for the largest random number.
func TestDelaysMatchTheVectorsOfTheAWSSDK(t *testing.T) {
	t.Parallel()
	p := &backoff.Policy{}
	for i, want := range ms(50, 100, 200, 400) {
		require.Equal(t, want, p.Delay(i+1, 0, most()))
	}
	require.Equal(t, 20*time.Second, p.Delay(10, 0, most()), "the default cap")
	capped := &backoff.Policy{Cap: 200 * time.Millisecond}
	for i, want := range ms(50, 100, 200, 200) {
		require.Equal(t, want, capped.Delay(i+1, 0, most()))
	}
	require.Equal(t, 25*time.Millisecond, (&backoff.Policy{Base: 25 * time.Millisecond}).Delay(1, 0, most()), "DynamoDB")
}

// C64, and backoff.md 4.1: no attempt, base or cap makes a delay overflow.
func TestNoDelayOverflows(t *testing.T) {
	t.Parallel()
	for _, j := range jitters() {
		for _, base := range []time.Duration{1, 3, time.Second, forever/2 + 1, forever} {
			for _, limit := range []time.Duration{1, 9, time.Hour, forever - 1, forever} {
				p := &backoff.Policy{Base: base, Cap: limit, Jitter: j}
				prev := time.Duration(0)
				for attempt := range 10_001 {
					high, low := p.Delay(attempt, prev, most()), p.Delay(attempt, prev, least())
					if low < 0 || high <= 0 || high > limit || low > high {
						require.Fail(t, "out of range", "%v, base %d, cap %d, attempt %d: %d to %d", j, base, limit, attempt, low, high)
					}
					prev = high
				}
			}
		}
	}
}

// C64: the edges of every range, drawn often.
func TestDelaysStayWithinTheirRange(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(64, 0))
	for _, j := range jitters() {
		for _, base := range []time.Duration{backoff.NoDelay, 1, 9, time.Second, forever} {
			p := &backoff.Policy{Base: base, Cap: forever, Jitter: j}
			highest := p.Delay(1, 0, most())
			low, high, outside := 0, 0, 0
			for range 10_000 {
				switch d := p.Delay(0, 0, rng.Uint64()); {
				case d < 0 || d > highest || j == backoff.None && d != max(base, 0):
					outside++ // jitter 0 means exactly the delay
				case d <= (highest-1)/2:
					low++
				default:
					high++
				}
			}
			require.Zero(t, outside, "%v, base %v", j, base)
			if j == backoff.Full && base > 0 {
				require.InDelta(t, low, high, 500, "both halves of the range, base %v", base)
			}
		}
	}
}

// backoff.md 4.3: the cap does not swallow the jitter, and no jitter the cap.
func TestDelaysAreStillRandomAtTheCap(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 0))
	for _, j := range []backoff.Jitter{backoff.Full, backoff.Equal, backoff.Decorrelated} {
		p := &backoff.Policy{Base: time.Millisecond, Cap: time.Second, Jitter: j}
		atCap, prev := 0, time.Duration(0)
		for attempt := range 10_000 {
			prev = p.Delay(100+attempt, prev, rng.Uint64())
			require.LessOrEqual(t, prev, p.Cap)
			if prev == p.Cap {
				atCap++
			}
		}
		require.Less(t, atCap, 10, "%v", j)
	}
}

// backoff.md 4.2: nothing that Validate refuses makes Delay panic.
func TestDelaysOfRefusedPoliciesAreDefined(t *testing.T) {
	t.Parallel()
	for _, j := range append(jitters(), 9, 255) {
		for _, d := range []time.Duration{-1, -2, -time.Second, math.MinInt64} {
			for _, random := range []uint64{least(), 1 << 40, most()} {
				require.Zero(t, (&backoff.Policy{Base: d, Jitter: j}).Delay(3, 0, random))
				require.Zero(t, (&backoff.Policy{Base: d, Jitter: j}).Delay(3, time.Hour, random))
				require.Zero(t, (&backoff.Policy{Cap: d, Jitter: j}).Delay(3, time.Second, random))
				require.Zero(t, (&backoff.Policy{Base: d, Cap: d, Jitter: j}).Delay(3, d, random))
			}
		}
	}
	require.Equal(t, 50*time.Millisecond, (&backoff.Policy{Jitter: 9}).Delay(1, 0, most()), "as Full")
}

func TestALargerRandomNumberNeverGivesAShorterDelay(t *testing.T) {
	t.Parallel()
	for _, j := range jitters() {
		p := &backoff.Policy{Base: 7, Cap: 1000, Jitter: j}
		for attempt := range 12 {
			drawn := []time.Duration{}
			for step := range uint64(1 << 12) {
				drawn = append(drawn, p.Delay(attempt, 60, step<<52))
			}
			require.IsNonDecreasing(t, drawn)
		}
	}
}

func TestJittersHaveNames(t *testing.T) {
	t.Parallel()
	names := []string{"full", "equal", "decorrelated", "none", "invalid"}
	for i, want := range names {
		require.Equal(t, want, backoff.Jitter(i).String())
	}
}

func FuzzDelay(f *testing.F) {
	f.Add(int64(0), int64(0), uint8(0), 0, int64(0), uint64(0))
	f.Add(int64(1), int64(math.MaxInt64), uint8(2), 63, int64(math.MaxInt64), uint64(math.MaxUint64))
	f.Add(int64(-1), int64(5), uint8(1), -1, int64(-5), uint64(1))
	f.Fuzz(func(t *testing.T, base, limit int64, jitter uint8, attempt int, prev int64, random uint64) {
		p := &backoff.Policy{Base: time.Duration(base), Cap: time.Duration(limit), Jitter: backoff.Jitter(jitter)}
		d := p.Delay(attempt, time.Duration(prev), random)
		limit = max(limit, 0)
		if p.Cap == 0 {
			limit = int64(20 * time.Second)
		}
		if d < 0 || int64(d) > limit {
			t.Fatalf("%+v: delay %d", p, d)
		}
	})
}
