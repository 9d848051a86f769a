package backoff

import (
	"math"
	"math/bits"
	"time"
)

// Jitter says how the delay after a failed attempt is drawn. All of them have
// the ceiling min(Cap, Base·2ⁿ⁻¹) after attempt n, except Decorrelated, which
// goes by the delay before. None is cut at the cap: it is still random there, so
// that clients that have reached it do not come back in step.
type Jitter uint8

const (
	// Full draws from [0, ceiling]. The default: the fewest calls of them all
	// where many clients contend (docs/retries.md has the figures).
	Full Jitter = iota
	// Equal draws from [ceiling/2, ceiling]: never at once.
	Equal
	// Decorrelated draws from [Base, 3·previous delay]: never sooner than Base.
	// Where that reaches beyond Cap, all above two thirds of Cap is drawn from the
	// last third below it.
	Decorrelated
	// None is the ceiling itself. Clients that failed together come back
	// together.
	None
)

// String returns the name in lower case.
func (j Jitter) String() string {
	switch j {
	case Full:
		return "full"
	case Equal:
		return "equal"
	case Decorrelated:
		return "decorrelated"
	case None:
		return "none"
	}
	return "invalid"
}

// Delay returns how long to wait after failed attempt number attempt, counted
// from 1. It is a pure function: prev is what it returned for the attempt before
// (0 if there was none; only Decorrelated looks at it), and random is any number,
// each as likely as the others. A larger random never gives a shorter delay.
//
// The delay is never negative and never above Cap. It is 0 if Base is
// [NoDelay], and for a policy that [Policy.Validate] refuses because Base or Cap
// is negative. An attempt below 1 counts as 1.
//
// [Do] waits longer after a [Throttled] failure, and when a server asks for it.
func (p *Policy) Delay(attempt int, prev time.Duration, random uint64) time.Duration {
	base, limit := p.Base, p.Cap
	if base == 0 {
		base = defaultBase
	}
	if limit == 0 {
		limit = defaultCap
	}
	if p.Jitter == Full {
		return scale(ceiling(base, limit, attempt), random)
	}
	return p.Jitter.delay(base, limit, attempt, prev, random)
}

func (j Jitter) delay(base, limit time.Duration, attempt int, prev time.Duration, random uint64) time.Duration {
	switch j {
	case Full: // and what Validate refuses
	case Equal:
		most := ceiling(base, limit, attempt)
		return most/2 + scale(most-most/2, random)
	case Decorrelated:
		return decorrelated(ceiling(base, limit, 1), limit, prev, random)
	case None:
		return ceiling(base, limit, attempt)
	}
	return scale(ceiling(base, limit, attempt), random)
}

// decorrelated maps random evenly to [least, 3·prev], and squeezes the upper part
// of that if it does not fit below limit. To cut it there would make limit itself
// the most frequent delay; to draw up to limit alone would shorten the delays of
// all that have come near it by a quarter.
func decorrelated(least, limit, prev time.Duration, random uint64) time.Duration {
	if least == 0 {
		return 0 // also where base or limit is negative
	}
	most := time.Duration(math.MaxInt64)
	if prev = max(prev, least); prev < most/3 {
		most = 3 * prev
	}
	d := least + scale(most-least, random)
	knee := max(limit-limit/3, least)
	if most <= limit || d <= knee {
		return d
	}
	high, low := bits.Mul64(uint64(d-knee), uint64(limit-knee)) //nolint:gosec // not negative: d > knee, knee <= limit
	squeezed, _ := bits.Div64(high, low, uint64(most-knee))     //nolint:gosec // not negative: most > limit
	return knee + time.Duration(squeezed)                       //nolint:gosec // at most limit-knee
}

// ceiling is min(limit, base·2ⁿ⁻¹) without overflow; 0 unless both are positive.
func ceiling(base, limit time.Duration, attempt int) time.Duration {
	n := max(attempt, 1) - 1
	switch {
	case base <= 0 || limit <= 0:
		return 0
	case n > 62 || base > limit>>n: // beyond 62 nothing is left of limit
		return limit
	}
	return base << n
}

// scale maps random to [0, span], evenly. span is not negative.
func scale(span time.Duration, random uint64) time.Duration {
	high, _ := bits.Mul64(random, uint64(span)+1) //nolint:gosec // span is not negative
	return time.Duration(high)                    //nolint:gosec // high is at most span
}
