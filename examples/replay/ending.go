package main

import "time"

// ending is how the handling of one message ended.
type ending struct {
	kind  endingKind
	after time.Duration // the least time until it is delivered again, for waiting and broken
	err   error         // why, for waiting and broken
	// overhead is what the store added to the call, if it was measured.
	overhead time.Duration
	measured bool
}

type endingKind uint8

const (
	executed       endingKind = iota + 1 // this call had the effect, or failed for good, and recorded it
	replayed                             // the recorded outcome was returned
	otherBody                            // the key stands for another request
	unreadable                           // no delivery, or a key that cannot be one
	waiting                              // another attempt is running: again later
	broken                               // an error that passes: again later
	unknownOutcome                       // held: for an operator
	killed                               // the process died: the broker delivers it again
)

// settled reports whether the delivery has come to its end.
func (k endingKind) settled() bool {
	return k == executed || k == replayed || k == otherBody || k == unreadable
}
