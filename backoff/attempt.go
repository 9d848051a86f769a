package backoff

import (
	"context"
	"errors"
)

// verdict is how an attempt ended. The zero value is a success.
type verdict struct {
	err     error
	class   Class
	marked  bool // the class is the operation's own mark
	outcome outcome
}

// attempt makes one call. parent is the caller's context; op gets ctx, which is
// made from it, bounded by the policy's Timeout.
func (p *Policy) attempt(parent, ctx context.Context, a admission, op func(context.Context) error) (v verdict) {
	if p.Timeout == 0 && !a.guarded() { // the common case, without what costs
		if err := op(ctx); err != nil {
			return p.judge(parent, ctx, err)
		}
		return verdict{}
	}
	if a.guarded() {
		v.err, v.outcome = errUnfinished, failed // what a panic leaves behind
		defer func() { a.settle(v) }()
	}
	if p.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.Timeout, attemptTimeout(p.Timeout))
		defer cancel()
	}
	err := op(ctx)
	if err == nil {
		return verdict{}
	}
	return p.judge(parent, ctx, err)
}

// judge says what a failed attempt means for the next one, and for the breaker.
func (p *Policy) judge(parent, ctx context.Context, err error) verdict {
	v := verdict{err: err}
	v.class, v.marked = Marked(err)
	if !v.marked {
		v.class = p.classify(err)
	}
	if timedOut := ctx.Err() != nil && parent.Err() == nil; timedOut && !v.marked && v.class == Permanent {
		// The error is what a driver made of our own time-out, and has often lost
		// the traces of it: SQLSTATE 57014, or a text.
		v.class = Ambiguous
	}
	v.outcome = v.health(parent.Err())
	return v
}

// health says what a failure tells about the target. ended is the Err of the
// caller's context.
func (v verdict) health(ended error) outcome {
	switch {
	case ended != nil && !errors.Is(ended, context.DeadlineExceeded):
		return neutral // the caller gave up
	case v.class != Permanent:
		return failed
	case v.marked:
		return succeeded // it answered
	case ended != nil:
		return failed // it had all the time that the caller has
	case errors.Is(v.err, context.Canceled):
		return neutral // somebody else gave up
	}
	return succeeded
}
