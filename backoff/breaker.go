package backoff

import (
	"context"
	"errors"
	"time"
)

// Breaker is what a loop asks before each attempt: a [*Circuit], or a breaker of
// another library. The two-step breaker of sony/gobreaker fits as it is; see
// backoff/examples for that and for failsafe-go.
//
// If err is not nil the attempt is not made and the loop ends with [ErrOpen];
// errors.Is sees err too, and [Hint] reads from it when to come back. Else done
// is called once, when the attempt has ended, with
//
//   - nil if the target answered: a success, or a [Permanent] failure;
//   - an error that matches context.Canceled if the caller gave up, which says
//     nothing about the target: a breaker should count it as neither, and give a
//     probe's slot back;
//   - else the error of the attempt.
//
// Both must be safe for concurrent use.
type Breaker interface {
	Allow() (done func(error), err error)
}

// outcome is what an attempt says about the health of its target.
type outcome uint8

const (
	succeeded outcome = iota
	failed
	neutral
)

var errUnfinished = errors.New("backoff: the operation panicked, or ended its goroutine")

// admission is the leave to make one attempt. The zero value is that of a policy
// without a breaker. A Circuit is told apart, because it needs no function
// allocated, nor to classify the error again.
type admission struct {
	circuit *Circuit
	ticket  ticket
	done    func(error)
}

// admit asks the breaker, if there is one.
func (p *Policy) admit() (admission, error) {
	switch b := p.Breaker.(type) {
	case nil:
		return admission{}, nil
	case *Circuit:
		if b == nil { // a field of a configuration that was not set
			return admission{}, nil
		}
		t, err := b.admit()
		return admission{circuit: b, ticket: t}, err
	}
	done, err := p.Breaker.Allow()
	if err != nil {
		return admission{}, &refusal{cause: err, after: -1}
	}
	return admission{done: done}, nil
}

// refusedFor returns an error if the breaker is known to refuse calls for longer
// than a wait.
func (p *Policy) refusedFor(wait time.Duration) error {
	c, ok := p.Breaker.(*Circuit)
	if !ok || c == nil {
		return nil // it is asked after the wait
	}
	if left := c.openFor(); left > wait {
		return &refusal{after: left}
	}
	return nil
}

// guarded reports whether a breaker waits for the outcome.
func (a *admission) guarded() bool { return a.circuit != nil || a.done != nil }

// settle tells the breaker how the attempt ended.
func (a *admission) settle(v verdict) {
	switch {
	case a.circuit != nil:
		a.circuit.settle(a.ticket, v.outcome)
	case v.outcome == failed:
		a.done(v.err)
	case v.outcome == neutral:
		a.done(gaveUp{v.err})
	default:
		a.done(nil)
	}
}

// gaveUp matches context.Canceled, whatever the operation made of it.
type gaveUp struct{ error }

func (g gaveUp) Unwrap() error        { return g.error }
func (g gaveUp) Is(target error) bool { return target == context.Canceled }
