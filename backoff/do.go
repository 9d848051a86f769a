package backoff

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Do calls op until it succeeds, or must not or need not be called again, and
// returns the last value together with the error, which is nil or an [*Error].
// A nil policy is the zero [Policy].
//
// After each failure, in this order, it stops if
//
//   - ctx has ended, whatever the error says (the context's cause);
//   - op was refused by a breaker or a budget further down ([ErrOpen],
//     [ErrBudget]);
//   - the failure is [Ambiguous] and this policy, or that of a loop further down,
//     is Unrepeatable ([ErrAmbiguous]);
//   - the failure is [Permanent] ([ErrPermanent]);
//   - MaxAttempts calls were made ([ErrExhausted]);
//   - the server asked for more than MaxHint ([ErrHint]);
//   - the next attempt would begin when ctx's deadline has passed ([ErrDeadline],
//     at once and not at the deadline);
//   - the breaker would still be open then ([ErrOpen]);
//   - the budget has nothing left ([ErrBudget]).
//
// Else it waits and calls op again. ctx ends the wait; that it ends op is up to
// op, which gets ctx with the Timeout of the policy. If ctx has ended before, op
// is not called.
//
// Below another loop, as the context of op tells, Do retries nothing: it calls
// op once, under its own Timeout, Breaker and Budget, and returns op's own error
// for the outer loop to judge. Layers would multiply their attempts. See
// [Detach]. A loop with MaxAttempts 1 is none.
//
// Do is safe for concurrent use. A panic of op goes on.
func Do[T any](ctx context.Context, p *Policy, op func(context.Context) (T, error)) (T, error) {
	var last T
	err := Run(ctx, p, func(ctx context.Context) (err error) {
		last, err = op(ctx)
		return err
	})
	return last, err
}

// Run is [Do] for an operation that returns nothing but an error.
func Run(ctx context.Context, p *Policy, op func(context.Context) error) error {
	if p == nil {
		p = &Policy{}
	}
	if err := p.Validate(); err != nil {
		return err
	}
	if p.MaxAttempts == Unlimited && ctx.Done() == nil {
		return fmt.Errorf("%w: MaxAttempts is Unlimited, and the context cannot end", ErrInvalidOption)
	}
	if ctx.Err() != nil {
		return (&loop{unsent: true}).ended(ctx)
	}
	if outer := loopAround(ctx); outer != nil {
		return p.once(ctx, outer, op)
	}
	admitted, refused := p.admit()
	if refused != nil {
		return (&loop{unsent: true}).stop(refused)
	}
	p.Budget.Deposit()
	within := ctx //nolint:contextcheck // what replaces it below is made from it
	if p.attempts() > 1 {
		within = &loopContext{Context: ctx, budget: p.Budget}
	}
	first := p.attempt(ctx, within, admitted, op)
	if first.err == nil {
		return nil
	}
	l := loop{unsent: true}
	l.failed(first)
	return l.run(ctx, within, p, op)
}

// loop is one call of Do. It does not hold the policy: an error is made from it,
// and what a loop holds would be on the heap before the first attempt.
type loop struct {
	made   int           // attempts
	last   verdict       // of the attempt made last
	prev   time.Duration // the delay before it
	unsent bool          // see Error
	doubt  bool          // see Error
}

// run goes on after the first attempt, which has failed.
func (l *loop) run(ctx, within context.Context, p *Policy, op func(context.Context) error) error {
	for {
		wait, stopped := l.next(ctx, p)
		if stopped != nil {
			return stopped
		}
		if !l.pause(ctx, p, wait) {
			return l.ended(ctx)
		}
		admitted, refused := p.admit()
		if refused != nil {
			p.Budget.Refund() // taken for a retry that is not made
			return l.stop(refused)
		}
		if inner, ok := within.(*loopContext); ok {
			inner.retries.Add(1)
		}
		v := p.attempt(ctx, within, admitted, op)
		if v.err == nil {
			return nil
		}
		l.failed(v)
	}
}

// failed counts an attempt, and keeps what it says about the effect.
func (l *loop) failed(v verdict) {
	l.made++
	l.last = v
	l.unsent = l.unsent && NothingSent(v.err)
	l.doubt = l.doubt || v.marked && v.class == Ambiguous
}

// next returns how long to wait before the next attempt, or why there is none.
// It takes the token for it from the budget, last of all, so that none is taken
// for a retry that will not be made.
func (l *loop) next(ctx context.Context, p *Policy) (time.Duration, error) {
	v, below := l.last, stoppedBelow(l.last.err)
	switch {
	case ctx.Err() != nil:
		return 0, l.ended(ctx)
	case below != nil:
		return 0, l.stop(below)
	case v.class == Ambiguous && (p.Unrepeatable || errors.Is(v.err, ErrAmbiguous)):
		return 0, l.stop(ErrAmbiguous)
	case v.class == Permanent:
		return 0, l.stop(ErrPermanent)
	case l.made >= p.attempts():
		return 0, l.stop(ErrExhausted)
	}
	l.prev = p.Jitter.delay(p.base(v.class), orDefault(p.Cap, defaultCap), l.made, l.prev, p.random())
	hint, hinted := Hint(v.err)
	wait := p.wait(l.prev, v.class, hint)
	deadline, bounded := ctx.Deadline()
	late := bounded && time.Until(deadline) <= wait
	switch {
	case hinted && (hint > orDefault(p.MaxHint, defaultMaxHint) || late && hint > l.prev):
		e := l.stop(ErrHint)
		if late {
			e.also = ErrDeadline
		}
		return 0, e
	case late:
		return 0, l.stop(ErrDeadline)
	}
	if refused := p.refusedFor(wait); refused != nil {
		return 0, l.stop(refused)
	}
	if !p.Budget.Withdraw() {
		return 0, l.stop(ErrBudget)
	}
	return wait, nil
}

// pause waits, and reports whether the next attempt may be made. If not, the
// budget gets its token back.
func (l *loop) pause(ctx context.Context, p *Policy, wait time.Duration) (ok bool) {
	defer func() {
		if !ok {
			p.Budget.Refund()
		}
	}()
	if p.OnRetry != nil {
		p.OnRetry(ctx, Retry{Failed: l.made, Delay: wait, Class: l.last.class, Err: l.last.err})
	}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil // also when both were ready
}

func (l *loop) stop(reason error) *Error {
	return &Error{Attempts: l.made, Reason: reason, Last: l.last.err, unsent: l.unsent, doubt: l.doubt}
}

// ended is the error of a loop whose context has ended.
func (l *loop) ended(ctx context.Context) *Error {
	e := l.stop(context.Cause(ctx))
	if err := ctx.Err(); !errors.Is(e.Reason, err) {
		e.also = err
	}
	return e
}
