package idem

import "github.com/idem-go/idem/backoff"

// RetryClass tells a loop of package backoff around a call what to do: to call
// again where nothing ran or somebody else is running ([backoff.Transient]) and
// where the operation was overtaken or cut short ([backoff.Ambiguous], which a
// key makes safe), and else to stop. It is no mark: nothing is recorded for it.
//
// ErrNotRecorded stops the loop, because the result is in hand and would be lost
// with the next call. If the error says nothing of its own, its cause decides.
func (e *Error) RetryClass() backoff.Class {
	switch e.Code {
	case "in_progress", "unavailable":
		return backoff.Transient
	case "lease_lost", "max_run":
		return backoff.Ambiguous
	case "context_ended":
		return 0
	}
	return backoff.Permanent
}

// RetryClass says that another call, later, finds the outcome: see
// [InProgressError.RetryAfterHint].
func (e *InProgressError) RetryClass() backoff.Class { return backoff.Transient }

// RetryClass says that the failure is final, whatever Options.Errors made of it.
func (e *RecordedError) RetryClass() backoff.Class { return backoff.Permanent }
