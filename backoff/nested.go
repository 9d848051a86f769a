package backoff

import "context"

type loopKey struct{}

// loopContext is the context inside a loop. It is a type of its own because
// that costs one small allocation, and it is on the path of every call.
type loopContext struct {
	context.Context //nolint:containedctx // it is a context
}

// inside is the context inside a loop that retries.
func inside(ctx context.Context) context.Context { return &loopContext{ctx} }

// Value implements context.Context.
func (c *loopContext) Value(key any) any {
	if key == (loopKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// detachedContext hides the loops around it.
type detachedContext struct {
	context.Context //nolint:containedctx // it is a context
}

// Value implements context.Context.
func (c *detachedContext) Value(key any) any {
	if key == (loopKey{}) {
		return nil
	}
	return c.Context.Value(key)
}

// Detach returns a context under which [Do] retries although a loop around it
// does too. It is for work that the outer loop does not repeat, such as work
// that an operation starts in the background: that has the operation's context,
// or one made from it with context.WithoutCancel, and would be taken for a part
// of the operation for ever. Nothing else about the context changes.
func Detach(ctx context.Context) context.Context {
	if !inLoop(ctx) {
		return ctx
	}
	return &detachedContext{ctx}
}

// inLoop reports whether a loop around ctx retries.
func inLoop(ctx context.Context) bool { return ctx.Value(loopKey{}) != nil }
