package idem

import (
	"context"
	"errors"

	"github.com/idem-go/idem/driver"
)

// bothErrors is an error that matches two. The text ends with the first, whose
// code it is.
type bothErrors struct{ first, second error }

func (e *bothErrors) Error() string   { return e.second.Error() + ": " + e.first.Error() }
func (e *bothErrors) Unwrap() []error { return []error{e.first, e.second} }

// orBoth returns first, or both if there is a second.
func orBoth(first, second error) error {
	if second == nil {
		return first
	}
	return &bothErrors{first, second}
}

// orNil avoids an interface that is not nil around a nil pointer.
func orNil(e *Error) error {
	if e == nil {
		return nil
	}
	return e
}

// withCause returns err so that it also matches what ended ctx, if that has.
func withCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil || errors.Is(err, cause):
	case err == nil:
		err = cause
	default:
		err = &bothErrors{err, cause}
	}
	if end := ctx.Err(); end != nil && !errors.Is(err, end) {
		err = &bothErrors{err, end}
	}
	return err
}

// ended adds to a failure what ended the operation's context: the caller's
// context, MaxRun, or the trust window.
func ended(ctx, opCtx context.Context, err error) error {
	if opCtx.Err() == nil || err == nil {
		return err
	}
	if ctx.Err() != nil {
		return withCause(ctx, err)
	}
	var own *Error
	if cause := context.Cause(opCtx); errors.As(cause, &own) && !errors.Is(err, own.reason) {
		return &Error{Code: own.Code, Key: own.Key, Attempt: own.Attempt, State: own.State, Effect: own.Effect, reason: own.reason, detail: own.detail, cause: err}
	}
	return err
}

// masked hides the driver's sentinels in a store's error: they speak of a call
// to the store, and would lie about the operation. It matches everything else
// that the error matches.
type masked struct{ err error }

// mask returns err without the driver's sentinels.
func mask(err error) error {
	if err == nil {
		return nil
	}
	return masked{err}
}

func (m masked) Error() string        { return m.err.Error() }
func (m masked) Is(target error) bool { return !driver.NoEffect(target) && errors.Is(m.err, target) }
func (m masked) As(target any) bool   { return errors.As(m.err, target) }
