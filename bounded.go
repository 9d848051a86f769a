package idem

import (
	"context"
	"sync"
	"sync/atomic"
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

	mu    sync.Mutex               // held while inner is made
	inner atomic.Pointer[timedOut] // nil until somebody asks
}

// timedOut is a context with its timer.
type timedOut struct {
	context.Context //nolint:containedctx // it is a context
	cancel          context.CancelFunc
}

// real returns the context with the timer, made at the first call.
func (b *bounded) real() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	inner := b.inner.Load()
	if inner == nil {
		parent := b.parent
		if b.detached {
			parent = context.WithoutCancel(parent)
		}
		inner = new(timedOut)
		inner.Context, inner.cancel = context.WithTimeout(parent, b.timeout)
		b.inner.Store(inner)
	}
	return inner.Context
}

// made reports whether somebody has asked for the context with the timer.
func (b *bounded) made() bool { return b.inner.Load() != nil }

// end releases the timer.
func (b *bounded) end() {
	if inner := b.inner.Load(); inner != nil {
		inner.cancel()
	}
}

// String is what is printed of the context, as for opContext.
func (b *bounded) String() string { return "idem.Bounded" }

// Deadline implements context.Context.
func (b *bounded) Deadline() (time.Time, bool) { return b.real().Deadline() }

// Done implements context.Context.
func (b *bounded) Done() <-chan struct{} { return b.real().Done() }

// Err implements context.Context.
func (b *bounded) Err() error {
	switch inner := b.inner.Load(); {
	case inner != nil:
		return inner.Err()
	case b.detached:
		return nil
	}
	return b.parent.Err()
}

// Value implements context.Context. It goes through the context with the timer
// once that exists, so that package context finds it there and derives from it
// without a goroutine. A detached one never shows package context the parent: it
// would find the parent's end, and its cause.
func (b *bounded) Value(key any) any {
	switch inner := b.inner.Load(); {
	case inner != nil:
		return inner.Value(key)
	case b.detached:
		return context.WithoutCancel(b.parent).Value(key)
	}
	return b.parent.Value(key)
}
