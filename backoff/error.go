package backoff

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Why a loop ended without success: the Reason of an [*Error], to match with
// errors.Is. None of them says anything about the target's answer, which is in
// Last.
var (
	// ErrPermanent: the last failure is [Permanent].
	ErrPermanent = errors.New("permanent failure")
	// ErrAmbiguous: the last failure is [Ambiguous], and the policy says that the
	// operation is Unrepeatable.
	ErrAmbiguous = errors.New("perhaps applied, and not repeatable")
	// ErrExhausted: MaxAttempts calls were made.
	ErrExhausted = errors.New("attempts exhausted")
	// ErrBudget: the retry budget of the target is empty. It is a local decision;
	// the target's own answer is in Last.
	ErrBudget = errors.New("retry budget empty")
	// ErrOpen: the breaker refused the next call. [Hint] reads from the error
	// when it will admit one, if the breaker tells.
	ErrOpen = errors.New("breaker open")
	// ErrHint: the server asked to wait longer than MaxHint, or than the context
	// has left. [Hint] reads from the error how long.
	ErrHint = errors.New("server asks for too long a wait")
	// ErrDeadline: the next attempt would begin when the context has ended. It
	// matches context.DeadlineExceeded, although the deadline is still to come.
	ErrDeadline error = deadlineError{}
)

type deadlineError struct{}

func (deadlineError) Error() string        { return "no time left before the deadline" }
func (deadlineError) Is(target error) bool { return target == context.DeadlineExceeded }
func (deadlineError) Timeout() bool        { return true }

// Error is how a loop ends without success, whatever the reason. It matches
// Reason and Last with errors.Is and errors.As; where the context ended the loop
// it matches both the context's cause and its Err.
//
// It carries no mark of its own: [Marked] sees what the operation marked, and
// neither Reason nor a classifier's verdict. [NothingSent] is true only if it is
// true of every attempt, for the last one says nothing about those before it. An
// [Ambiguous] mark is remembered until an attempt marked [Permanent] has settled
// the question.
type Error struct {
	// Attempts is the number of calls made, the first included. It is 0 if the
	// context had ended before, or the breaker refused the first call.
	Attempts int
	// Reason is one of the sentinels of this package, or an error that matches
	// one, or the cause of the context.
	Reason error
	// Last is what the operation returned last, untouched. It is nil only if
	// Attempts is 0.
	Last error

	also   error // matches beside Reason; may be nil
	unsent bool  // no attempt sent anything
	doubt  bool  // an attempt was marked Ambiguous
}

// Error begins with the text of Last, so that a local reason to stop is not
// taken for the target's answer. The text is not part of the API.
func (e *Error) Error() string {
	reason := e.Reason
	if reason == nil {
		reason = errors.New("stopped")
	}
	switch {
	case e.Last == nil:
		return fmt.Sprintf("backoff: not attempted: %v", reason)
	case e.Attempts == 1:
		return fmt.Sprintf("%v (backoff: %v, 1 attempt)", text(e.Last), reason)
	}
	return fmt.Sprintf("%v (backoff: %v, %d attempts)", text(e.Last), reason, e.Attempts)
}

// Unwrap returns why the loop ended, and the operation's last error.
func (e *Error) Unwrap() []error {
	errs := make([]error, 0, 3)
	for _, err := range [...]error{e.Reason, e.also, e.Last} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// marked is [Marked] of e.
func (e *Error) marked() (Class, bool) {
	c, ok := Marked(e.Last)
	if e.doubt && c != Permanent {
		return Ambiguous, true
	}
	return c, ok
}

// recognise is what the attempts say together, apart from marks.
func (e *Error) recognise(silent Class) Class {
	if e.Attempts == 0 && e.unsent {
		return Transient
	}
	c := recognise(e.Last, silent)
	if c.notApplied() && !e.unsent {
		return Ambiguous
	}
	return c
}

// refusal is the Reason when a breaker refuses a call.
type refusal struct {
	cause error         // what the breaker said; may be nil
	after time.Duration // until it admits a call; negative if that is not known
}

func (r *refusal) Error() string {
	switch {
	case r.cause != nil:
		return fmt.Sprintf("%v: %v", ErrOpen, r.cause)
	case r.after >= 0:
		return fmt.Sprintf("%v for another %v", ErrOpen, r.after)
	}
	return ErrOpen.Error()
}

func (r *refusal) Unwrap() error                 { return r.cause }
func (r *refusal) Is(target error) bool          { return target == ErrOpen }
func (r *refusal) RetryAfterHint() time.Duration { return r.after }

// SafeToRetry says that nothing was sent.
func (r *refusal) SafeToRetry() bool { return true }

// attemptTimeout is the cause with which an attempt's context ends.
type attemptTimeout time.Duration

func (d attemptTimeout) Error() string {
	return fmt.Sprintf("backoff: attempt timed out after %v", time.Duration(d))
}

func (attemptTimeout) Is(target error) bool { return target == context.DeadlineExceeded }
func (attemptTimeout) Timeout() bool        { return true }
