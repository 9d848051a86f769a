package examples

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/idem-go/idem/backoff"
)

// Failsafe returns a breaker that asks one of failsafe-go, and tells when that
// will admit a call again.
func Failsafe[R any](b circuitbreaker.CircuitBreaker[R]) backoff.Breaker { return failsafe[R]{b} }

type failsafe[R any] struct {
	breaker circuitbreaker.CircuitBreaker[R]
}

// Allow implements backoff.Breaker.
func (f failsafe[R]) Allow() (done func(error), err error) {
	if !f.breaker.TryAcquirePermit() {
		return nil, refused{f.breaker.RemainingDelay()}
	}
	return func(err error) {
		switch {
		case err == nil:
			f.breaker.RecordSuccess()
		case !errors.Is(err, context.Canceled):
			f.breaker.RecordFailure()
		case f.breaker.IsHalfOpen():
			// A permit that is not given back is lost, and it is only given back with a
			// verdict: the careful one opens the circuit again.
			f.breaker.RecordFailure()
		}
	}, nil
}

// refused is the error of a breaker that is open.
type refused struct{ after time.Duration }

func (r refused) Error() string {
	return fmt.Sprintf("%v for another %v", circuitbreaker.ErrOpen, r.after)
}

func (refused) Unwrap() error { return circuitbreaker.ErrOpen }

// RetryAfterHint lets backoff.Hint read when to come back.
func (r refused) RetryAfterHint() time.Duration { return r.after }
