package backoff

import "time"

// After attaches to err what the server said about when to come back: a
// duration from now, such as the one in a Retry-After header. The text stays
// the same, and errors.Is and errors.As see through it. It does not change the
// class of err. After of nil is nil. A negative duration is no hint: err comes
// back as it is. Zero is one: the server expects the next call at once.
func After(err error, d time.Duration) error {
	if err == nil || d < 0 {
		return err
	}
	return &hinted{cause: err, after: d}
}

// Hint returns how long the server asked to wait, and whether it did. It finds
// what [After] attached and any error in the tree of err that has a method
//
//	RetryAfterHint() time.Duration
//
// A negative duration from such a method is no hint. In a chain the outermost
// hint counts; across the branches of a join the longest, because each of them
// is a minimum.
//
// The value is what a server said, unchecked: whoever waits must bound it.
func Hint(err error) (time.Duration, bool) {
	for !isNil(err) {
		if h, ok := as[interface{ RetryAfterHint() time.Duration }](err); ok {
			if d := h.RetryAfterHint(); d >= 0 {
				return d, true
			}
		}
		switch e := any(err).(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			return longest(e.Unwrap())
		default:
			return 0, false
		}
	}
	return 0, false
}

// longest returns the longest hint among the branches of a join.
func longest(branches []error) (hint time.Duration, found bool) {
	for _, b := range branches {
		if d, ok := Hint(b); ok {
			hint, found = max(hint, d), true
		}
	}
	return hint, found
}

// hinted is an error with a server's hint.
type hinted struct {
	cause error
	after time.Duration
}

func (h *hinted) Error() string                 { return text(h.cause) }
func (h *hinted) Unwrap() error                 { return h.cause }
func (h *hinted) RetryAfterHint() time.Duration { return h.after }
