package faultstore

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors made by this package. None matches a sentinel of package driver, so
// that the caller must take the effect for unknown (I8).
var (
	// ErrDropped is the error of a dropped call whose Fault names none.
	ErrDropped = errors.New("faultstore: call dropped")
	// ErrReplyLost is the error of [Lose].
	ErrReplyLost = errors.New("faultstore: reply lost")
)

// Fault is what happens to one call. The zero value is none. Before, Drop,
// Twice, After and Err act in this order, and combine.
type Fault struct {
	// Before runs before the send: it may delay, block, or end the caller's
	// context. If it returns an error, the call is not applied and returns that.
	Before func(ctx context.Context) error
	// Drop: the call is not applied. It returns Err, or [ErrDropped].
	Drop bool
	// Twice: the call is applied two times; the first reply is lost.
	Twice bool
	// After runs before the reply is handed to the caller. If it returns an error,
	// the call returns that instead of the reply, applied or not.
	After func(ctx context.Context) error
	// Err, if set, is returned instead of the reply, applied or not.
	Err error
}

func (f Fault) none() bool {
	return f.Before == nil && !f.Drop && !f.Twice && f.After == nil && f.Err == nil
}

// Hook decides what happens to a call. It may call the Store that it serves, and
// is called by many goroutines at once if the Store is.
type Hook func(ctx context.Context, c Call) Fault

// At is the Hook that makes f happen to the nth call of method, counted from 1.
// Without a method it is the nth call of all; nth 0 means each.
func At(method string, nth int, f Fault) Hook {
	return func(_ context.Context, c Call) Fault {
		count := c.Nth
		if method == "" {
			count = c.Seq
		}
		if (method == "" || method == c.Method) && (nth == 0 || nth == count) {
			return f
		}
		return Fault{}
	}
}

// Fail makes the nth call of method fail with err, not applied. See [At] for
// method and nth.
func Fail(method string, nth int, err error) Hook {
	return At(method, nth, Fault{Drop: true, Err: err})
}

// Lose makes the nth call of method fail with [ErrReplyLost], applied.
func Lose(method string, nth int) Hook { return At(method, nth, Fault{Err: ErrReplyLost}) }

// Duplicate makes the nth call of method arrive two times.
func Duplicate(method string, nth int) Hook { return At(method, nth, Fault{Twice: true}) }

// First is the Hook of the first of hooks that makes something happen.
func First(hooks ...Hook) Hook {
	return func(ctx context.Context, c Call) Fault {
		for _, h := range hooks {
			if f := h(ctx, c); !f.none() {
				return f
			}
		}
		return Fault{}
	}
}

// The functions below are for Fault.Before and Fault.After.

// Delay waits for d, or until ctx ends, and then returns its cause.
func Delay(d time.Duration) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return cause(ctx)
		}
	}
}

// PauseUntil waits until resume is closed, or until ctx ends, and then returns
// its cause. With a nil channel only the context ends it.
func PauseUntil(resume <-chan struct{}) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-resume:
			return nil
		case <-ctx.Done():
			return cause(ctx)
		}
	}
}

// StallUntil waits until resume is closed, whatever happens to ctx: a backend
// that breaks the contract, or a process that is stopped.
func StallUntil(resume <-chan struct{}) func(ctx context.Context) error {
	return func(context.Context) error {
		<-resume
		return nil
	}
}

// Cut ends a context with cancel, as its caller would, and the call with it if
// the call's context descends from that one. In Before nothing is applied; in
// After the call is applied and its reply lost.
func Cut(cancel func()) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		cancel()
		if ctx.Err() != nil {
			return cause(ctx)
		}
		return nil
	}
}

// End ends a context with cancel. In Before, it leaves it to the wrapped backend
// to look; in After, the caller gets the reply and a context that has ended.
func End(cancel func()) func(ctx context.Context) error {
	return func(context.Context) error {
		cancel()
		return nil
	}
}

// cause matches what ended ctx, and ctx.Err().
func cause(ctx context.Context) error {
	return fmt.Errorf("faultstore: %w: %w", ctx.Err(), context.Cause(ctx))
}

// Odd returns an error of a type that nobody knows, and that panics when it is
// compared with one of its kind by ==, or used as the key of a map.
func Odd(text string) error { return odd{text: []string{text}} }

type odd struct{ text []string }

func (o odd) Error() string { return "faultstore: odd: " + o.text[0] }
