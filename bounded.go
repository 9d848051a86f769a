package idem

import (
	"context"
	"sync"
	"time"
)

// bounded is a context with a time-out that costs nothing until somebody asks
// for Done or Deadline, and counts from then. A backend that answers from
// memory never asks, so it never pays for a timer; any that waits must ask
// before it does.
type bounded struct {
	parent   context.Context //nolint:containedctx // it is a context
	timeout  time.Duration
	detached bool // goes on when the parent has ended

	mu     sync.Mutex      // guards the fields below
	inner  context.Context //nolint:containedctx // it is the context
	cancel context.CancelFunc
}

// real returns the context with the timer, made at the first call.
func (b *bounded) real() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inner == nil {
		parent := b.parent
		if b.detached {
			parent = context.WithoutCancel(parent)
		}
		b.inner, b.cancel = context.WithTimeout(parent, b.timeout)
	}
	return b.inner
}

// made returns the context with the timer, or nil if nobody has asked for it.
func (b *bounded) made() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inner
}

// end releases the timer.
func (b *bounded) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel != nil {
		b.cancel()
	}
}

// Deadline implements context.Context.
func (b *bounded) Deadline() (time.Time, bool) { return b.real().Deadline() }

// Done implements context.Context.
func (b *bounded) Done() <-chan struct{} { return b.real().Done() }

// Err implements context.Context.
func (b *bounded) Err() error {
	switch inner := b.made(); {
	case inner != nil:
		return inner.Err()
	case b.detached:
		return nil
	}
	return b.parent.Err()
}

// Value implements context.Context. It goes through the context with the timer
// once that exists, so that package context finds it there and derives from it
// without a goroutine.
func (b *bounded) Value(key any) any {
	if inner := b.made(); inner != nil {
		return inner.Value(key)
	}
	return b.parent.Value(key)
}
