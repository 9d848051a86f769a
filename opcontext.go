package idem

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// opContext is the operation's context. It carries the claim, and ends with the
// caller's context, when stop is called, and at the latest with the run. Like
// bounded it costs nothing until somebody asks for its end: an operation that
// never does has no use for a context of its own.
type opContext struct {
	claim *Claim // its ctx is the parent

	mu    sync.Mutex // held while inner is made, and while over is set
	inner atomic.Pointer[stoppable]
	over  atomic.Bool // the run has ended
}

// stoppable is a context that can be ended with a cause.
type stoppable struct {
	context.Context //nolint:containedctx // it is a context
	stop            context.CancelCauseFunc
}

func newStoppable(parent context.Context) *stoppable {
	s := new(stoppable)
	s.Context, s.stop = context.WithCancelCause(parent)
	return s
}

// real returns the context that ends, made at the first call.
func (o *opContext) real() *stoppable {
	o.mu.Lock()
	defer o.mu.Unlock()
	inner := o.inner.Load()
	if inner == nil {
		inner = newStoppable(o.claim.ctx)
		if o.over.Load() {
			inner.stop(context.Canceled)
		}
		o.inner.Store(inner)
	}
	return inner
}

// stop ends the context with a cause.
func (o *opContext) stop(cause error) { o.real().stop(cause) }

// end ends the context because the run has ended.
func (o *opContext) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over.Store(true)
	if inner := o.inner.Load(); inner != nil {
		inner.stop(context.Canceled)
	}
}

// String is what is printed of the context: without it package fmt would read
// all of the claim, also what others write at that moment.
func (o *opContext) String() string { return "idem.Operation" }

// Deadline implements context.Context.
func (o *opContext) Deadline() (time.Time, bool) { return o.claim.ctx.Deadline() }

// Done implements context.Context.
func (o *opContext) Done() <-chan struct{} { return o.real().Done() }

// Err implements context.Context.
func (o *opContext) Err() error {
	if o.inner.Load() == nil && !o.over.Load() {
		return o.claim.ctx.Err()
	}
	return o.real().Err()
}

// Value implements context.Context. It goes through the context that ends once
// that exists or has ended, so that package context finds it there, its cause
// too.
func (o *opContext) Value(key any) any {
	if key == (claimKey{}) {
		return o.claim
	}
	if o.inner.Load() == nil && !o.over.Load() {
		return o.claim.ctx.Value(key)
	}
	return o.real().Value(key)
}
