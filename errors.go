package idem

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idem-go/idem/driver"
)

// Sentinels to match with errors.Is. What each says about the effect, and what
// the caller may do, stands in the package documentation and, at length, in
// docs/errors.md.
var (
	// ErrAlreadyDone is returned by [Store.Claim] alone, together with a claim
	// whose Result is the recorded outcome.
	ErrAlreadyDone = errors.New("already done")
	// ErrInProgress: a live claim of the key is running elsewhere. The error is
	// an [*InProgressError].
	ErrInProgress = errors.New("in progress")
	// ErrFingerprintMismatch: the key was used for another request.
	ErrFingerprintMismatch = errors.New("fingerprint mismatch")
	// ErrOutcomeUnknown: an earlier attempt may have had its effect, and the
	// policy or the record forbids another one before that is known.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrLeaseLost: the lease ended while the operation ran.
	ErrLeaseLost = driver.ErrLeaseLost
	// ErrMaxRun: the operation ran longer than MaxRun, or than its provider's
	// window.
	ErrMaxRun = errors.New("ran too long")
	// ErrNotRecorded: the operation ran here and how it ended could not be
	// recorded.
	ErrNotRecorded = errors.New("outcome not recorded")
	// ErrNotEncoded: done, but the value could not be encoded and is not kept.
	ErrNotEncoded = errors.New("value not encoded")
	// ErrTooLarge: done, but the value is larger than MaxValue and is not kept.
	ErrTooLarge = errors.New("value too large")
	// ErrRedacted: done, but an operator removed the value.
	ErrRedacted = errors.New("value redacted")
	// ErrUnavailable: the store could not be asked, so nothing ran.
	ErrUnavailable = driver.ErrUnavailable
	// ErrRecordedFailure: a failure that an earlier call recorded. The error is
	// a [*RecordedError].
	ErrRecordedFailure = errors.New("recorded failure")
	// ErrNotDecoded: the recorded bytes cannot be decoded into the type asked
	// for. The error is a [*DecodeError].
	ErrNotDecoded = errors.New("value not decoded")
	// ErrCorrupt: the stored record cannot be read.
	ErrCorrupt = driver.ErrCorrupt
	// ErrInvalidKey: the key is empty, too long, or has forbidden characters.
	ErrInvalidKey = driver.ErrInvalidKey
	// ErrInvalidOption: an option or argument is out of its bounds.
	ErrInvalidOption = errors.New("invalid option")
	// ErrClosed: the Store was closed.
	ErrClosed = errors.New("store closed")
	// ErrConflict: the record has not the token or the state that an operator's
	// call expects.
	ErrConflict = driver.ErrConflict
	// ErrNotFound: there is no record for the key.
	ErrNotFound = driver.ErrNotFound
)

// Effect answers the question of every caller: did the effect happen?
type Effect uint8

const (
	// EffectNotRun: not by this call.
	EffectNotRun Effect = iota
	// EffectElsewhere: another attempt is running.
	EffectElsewhere
	// EffectUnknown: it may have happened.
	EffectUnknown
	// EffectRan: the operation ran in this call.
	EffectRan
	// EffectEarlier: an earlier call ran it.
	EffectEarlier
)

// String returns the answer in words.
func (e Effect) String() string {
	switch e {
	case EffectNotRun:
		return "not run"
	case EffectElsewhere:
		return "running elsewhere"
	case EffectUnknown:
		return "effect unknown"
	case EffectRan:
		return "ran here"
	case EffectEarlier:
		return "ran earlier"
	}
	return "no effect"
}

// Error is what every failure of a [Store] is, or wraps: what failed, why it
// stopped, whether the effect happened, and what to do next. It matches its
// sentinel, and whatever caused it, with errors.Is and errors.As. The text is
// not part of the API; Code is.
type Error struct {
	// Code is stable and has a section in docs/errors.md.
	Code string
	// Key as given, or a digest of it if Options.HashKeysInErrors is set.
	Key string
	// Attempt the error speaks of; 0 if it is not known.
	Attempt int
	// State of the key, as far as the call has seen it; 0 if it has not.
	State driver.State
	// Effect says whether the effect happened.
	Effect Effect

	reason error // the sentinel; may be nil
	detail string
	cause  error // what the operation, the store or the context said; may be nil
}

// Error names the key, its state, the attempt, the effect, the remedy and, at
// the end, the code.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("idem: ")
	if e.Key != "" {
		fmt.Fprintf(&b, "key %s: ", e.Key)
	}
	if e.reason != nil {
		b.WriteString(e.reason.Error())
	} else {
		b.WriteString("stopped")
	}
	if e.detail != "" {
		b.WriteString(": " + e.detail)
	}
	b.WriteString(" (")
	if e.State != 0 {
		fmt.Fprintf(&b, "state %s, ", e.State)
	}
	if e.Attempt > 0 {
		fmt.Fprintf(&b, "attempt %d, ", e.Attempt)
	}
	b.WriteString(e.Effect.String())
	if _, remedy := meaning(e.Code); remedy != "" {
		b.WriteString("; " + remedy)
	}
	b.WriteString(")")
	if e.cause != nil {
		b.WriteString(": " + e.cause.Error())
	}
	return b.String() + " [" + e.Code + "]"
}

// Unwrap returns the sentinel and the cause.
func (e *Error) Unwrap() []error {
	errs := make([]error, 0, 2)
	for _, err := range [...]error{e.reason, e.cause} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// meaning gives each code its default effect and its remedy.
func meaning(code string) (Effect, string) {
	switch code {
	case "in_progress":
		return EffectElsewhere, "wait, then call again with the same key"
	case "fingerprint_mismatch":
		return EffectNotRun, "one key stands for one request: fix the caller, do not retry"
	case "outcome_unknown":
		return EffectUnknown, "resolve the key, or give a recovery"
	case "lease_lost":
		return EffectRan, "call again with the same key"
	case "max_run":
		return EffectUnknown, "call again with the same key; bound the operation, or raise MaxRun"
	case "not_recorded":
		return EffectRan, "use the result if there is one; call again with the same key"
	case "not_encoded":
		return EffectRan, "done without its value: stop, and fix the type"
	case "too_large":
		return EffectRan, "done without its value: stop, and raise MaxValue or return less"
	case "redacted":
		return EffectEarlier, "done without its value: stop"
	case "unavailable":
		return EffectNotRun, "call again with the same key"
	case "already_done":
		return EffectEarlier, "use the claim's Result"
	case "recorded_failure":
		return EffectEarlier, "it failed for good: stop"
	case "not_decoded":
		return EffectEarlier, "fix the type or the codec; never run it again"
	case "corrupt":
		return EffectUnknown, "an operator must look at the record"
	case "invalid_key", "invalid_option", "closed":
		return EffectNotRun, "fix the caller"
	case "context_ended":
		return EffectNotRun, "call again with the same key"
	case "conflict":
		return EffectNotRun, "inspect the key and decide again"
	case "not_found":
		return EffectNotRun, "check the namespace and the key"
	}
	return EffectUnknown, ""
}

// codeOf returns the stable code of a sentinel.
func codeOf(reason error) string {
	switch reason {
	case ErrInProgress: //nolint:errorlint // the sentinels themselves are looked up
		return "in_progress"
	case ErrFingerprintMismatch:
		return "fingerprint_mismatch"
	case ErrOutcomeUnknown:
		return "outcome_unknown"
	case ErrLeaseLost:
		return "lease_lost"
	case ErrMaxRun:
		return "max_run"
	case ErrNotRecorded:
		return "not_recorded"
	case ErrNotEncoded:
		return "not_encoded"
	case ErrTooLarge:
		return "too_large"
	case ErrRedacted:
		return "redacted"
	case ErrUnavailable:
		return "unavailable"
	case ErrRecordedFailure:
		return "recorded_failure"
	case ErrNotDecoded:
		return "not_decoded"
	case ErrCorrupt:
		return "corrupt"
	case ErrInvalidKey:
		return "invalid_key"
	case ErrInvalidOption:
		return "invalid_option"
	case ErrClosed:
		return "closed"
	case ErrConflict:
		return "conflict"
	case ErrNotFound:
		return "not_found"
	case ErrAlreadyDone:
		return "already_done"
	}
	return "context_ended"
}

// newError builds an error for a sentinel with that sentinel's effect. cause
// may be nil.
func newError(reason error, key, detail string, cause error) *Error {
	code := codeOf(reason)
	effect, _ := meaning(code)
	return &Error{Code: code, Key: key, Effect: effect, reason: reason, detail: detail, cause: cause}
}

// invalidOption is the error of a wrong option or argument.
func invalidOption(format string, args ...any) *Error {
	return newError(ErrInvalidOption, "", fmt.Sprintf(format, args...), nil)
}

// InProgressError says that a live claim of the key is running elsewhere, in
// this process or another. It matches [ErrInProgress].
type InProgressError struct {
	// RetryAfter is when to call again: min(LeaseLeft, max(100 ms, time since
	// the claim)).
	RetryAfter time.Duration
	// LeaseLeft is when, at the latest, the key is settled or claimable; 0 if
	// the store does not know, because a transaction holds the record.
	LeaseLeft time.Duration

	detail *Error
}

// Error tells what [Error.Error] tells, and when to call again.
func (e *InProgressError) Error() string {
	if e.detail == nil {
		return fmt.Sprintf("idem: %v: retry after %v [in_progress]", ErrInProgress, e.RetryAfter)
	}
	return e.detail.Error()
}

// Unwrap returns the [*Error].
func (e *InProgressError) Unwrap() error {
	if e.detail == nil {
		return ErrInProgress
	}
	return e.detail
}

// RetryAfterHint makes the error a server's hint to a retry loop of package
// backoff, which then waits as long as the lease says.
func (e *InProgressError) RetryAfterHint() time.Duration { return e.RetryAfter }

// RecordedError is the replay of a recorded failure: nothing was attempted by
// this call. It matches [ErrRecordedFailure], and the sentinel that
// Options.Errors has for its Code.
type RecordedError struct {
	// Code of the failure: the first Code() string in the recorded error's
	// chain, else "failed".
	Code string
	// Message of the failure, valid UTF-8, at most 4 KiB.
	Message string
	// RecordedAt is by the store's clock.
	RecordedAt time.Time

	detail  *Error
	revived error // from Options.Errors; may be nil
}

// Error returns the recorded message, when it was recorded, and the code.
func (e *RecordedError) Error() string {
	if e.detail == nil {
		return fmt.Sprintf("idem: %v: %s: %s [recorded_failure]", ErrRecordedFailure, e.Code, e.Message)
	}
	return e.detail.Error()
}

// Unwrap returns the [*Error] and the revived sentinel.
func (e *RecordedError) Unwrap() []error {
	errs := []error{ErrRecordedFailure}
	if e.detail != nil {
		errs = append(errs, e.detail)
	}
	if e.revived != nil {
		errs = append(errs, e.revived)
	}
	return errs
}

// DecodeError says that [Do] found a recorded value that it cannot decode into
// its type. The operation ran earlier and must not run again. It matches
// [ErrNotDecoded] and the codec's error.
type DecodeError struct {
	// Raw is the recorded value.
	Raw []byte
	// CodecID names the codec that encoded it; "" was recorded as raw bytes.
	CodecID string

	detail *Error
}

// Error tells what [Error.Error] tells. It never contains Raw.
func (e *DecodeError) Error() string {
	if e.detail == nil {
		return fmt.Sprintf("idem: %v: codec %q [not_decoded]", ErrNotDecoded, e.CodecID)
	}
	return e.detail.Error()
}

// Unwrap returns the [*Error].
func (e *DecodeError) Unwrap() error {
	if e.detail == nil {
		return ErrNotDecoded
	}
	return e.detail
}
