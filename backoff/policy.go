package backoff

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

const (
	// NoDelay as Base retries at once; as ThrottledBase, a throttled call is
	// retried like any other.
	NoDelay time.Duration = -1
	// Unlimited as MaxAttempts retries until the context ends. [Do] refuses it
	// beside a context that cannot end.
	Unlimited = -1
)

const (
	defaultAttempts      = 3
	defaultBase          = 50 * time.Millisecond
	defaultCap           = 20 * time.Second
	defaultThrottledBase = time.Second
	defaultMaxHint       = time.Minute
)

// Policy says when a failed call is made again. The zero value is usable, and
// nil stands for it. A Policy is only read: share it between goroutines and
// calls, and do not change it once it is in use.
type Policy struct {
	// MaxAttempts counts calls, the first included: 1 never retries. The default
	// value is 3.
	MaxAttempts int
	// Base is the ceiling of the first delay; see [Jitter]. The default value is
	// 50 ms.
	Base time.Duration
	// ThrottledBase is used instead of Base after a [Throttled] failure, if it is
	// longer. The default value is 1 s.
	ThrottledBase time.Duration
	// Cap is never exceeded by a delay, jitter included. Only a server's hint can
	// make the loop wait longer. The default value is 20 s.
	Cap time.Duration
	// Jitter says how delays are drawn. The default value is Full.
	Jitter Jitter
	// Unrepeatable says that the operation must not be applied twice: an Ambiguous
	// failure ends the loop with [ErrAmbiguous]. The default value is false: a
	// repetition does no harm, for instance because it carries an idempotency key.
	Unrepeatable bool
	// Timeout bounds each attempt through the context that the operation gets.
	// The operation must have finished with what it opened under that context
	// (response bodies, rows) when it returns. The default value is 0: only the
	// caller's context bounds an attempt.
	Timeout time.Duration
	// MaxHint is the longest wait that a server may ask for; beyond it the loop
	// stops with [ErrHint]. The default value is one minute.
	MaxHint time.Duration
	// Classify judges errors that have no mark; an explicit [Mark] outranks it.
	// The zero Class leaves an error to [Classify]. The default value is nil: all
	// errors are left to Classify.
	Classify func(error) Class
	// Budget bounds the retries against one target, and is shared by all policies
	// for it. The default value is nil: no bound.
	Budget *Budget
	// Breaker refuses calls to one target while they would fail. It is asked
	// before each attempt, and is shared by all policies for the target. The
	// default value is nil: none.
	Breaker Breaker
	// OnRetry is called before each wait, on the caller's goroutine. The default
	// value is nil.
	OnRetry func(ctx context.Context, r Retry)
	// Rand returns random numbers, and is safe for concurrent use. The default
	// value is nil: Uint64 of math/rand/v2.
	Rand func() uint64
}

// Retry is what Policy.OnRetry is told.
type Retry struct {
	// Failed is the number of the attempt that failed, counted from 1.
	Failed int
	// Delay until the next attempt.
	Delay time.Duration
	// Class of the failure.
	Class Class
	// Err is what the operation returned.
	Err error
}

// ErrInvalidOption is matched by the errors of [Policy.Validate], [NewBudget]
// and [NewCircuit], and by what [Do] returns, without having called anything,
// for a policy that is not valid.
var ErrInvalidOption = errors.New("backoff: invalid option")

// Validate returns an error that names the first field with a value out of its
// bounds. [Do] calls it; call it where a policy is read from configuration.
func (p *Policy) Validate() error {
	switch {
	case p.MaxAttempts < Unlimited:
		return fmt.Errorf("%w: MaxAttempts is %d", ErrInvalidOption, p.MaxAttempts)
	case p.Base < NoDelay:
		return negative("Base", p.Base)
	case p.ThrottledBase < NoDelay:
		return negative("ThrottledBase", p.ThrottledBase)
	case p.Cap < 0:
		return negative("Cap", p.Cap)
	case p.Timeout < 0:
		return negative("Timeout", p.Timeout)
	case p.MaxHint < 0:
		return negative("MaxHint", p.MaxHint)
	case p.Jitter > None:
		return fmt.Errorf("%w: Jitter is %d", ErrInvalidOption, p.Jitter)
	}
	return nil
}

func negative(field string, d time.Duration) error {
	return fmt.Errorf("%w: %s is negative: %v", ErrInvalidOption, field, d)
}

// attempts is how many calls may be made.
func (p *Policy) attempts() int {
	switch p.MaxAttempts {
	case 0:
		return defaultAttempts
	case Unlimited:
		return math.MaxInt
	}
	return p.MaxAttempts
}

// base is the base of the delay after a failure of class c.
func (p *Policy) base(c Class) time.Duration {
	base := orDefault(p.Base, defaultBase)
	if c == Throttled {
		base = max(base, orDefault(p.ThrottledBase, defaultThrottledBase))
	}
	return base
}

// wait is the time between failed attempt number attempt and the next one, for
// a delay and what the server asked for. A hint is a minimum. What a server
// tells all its clients would bring them back together, so up to one base is
// added to it.
func (p *Policy) wait(delay time.Duration, c Class, hint time.Duration) time.Duration {
	if hint <= 0 || hint < delay {
		return delay
	}
	spread := scale(ceiling(p.base(c), orDefault(p.Cap, defaultCap), 1), p.random())
	return hint + min(spread, math.MaxInt64-hint)
}

func (p *Policy) random() uint64 {
	if p.Rand != nil {
		return p.Rand()
	}
	return rand.Uint64() //nolint:gosec // a delay is no secret
}

func (p *Policy) classify(err error) Class {
	if p.Classify != nil {
		if c := p.Classify(err); c.care() != 0 {
			return c
		}
	}
	return Classify(err)
}

func orDefault(d, byDefault time.Duration) time.Duration {
	if d == 0 {
		return byDefault
	}
	return d
}
