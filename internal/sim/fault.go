package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/idem-go/idem/driver"
)

// fault is what happens to a call instead of "sent, answered".
type fault uint8

const (
	fNone      fault = iota
	fLost            // an error, not applied
	fApplied         // applied, and an error
	fLate            // applied; the reply waits
	fTwice           // applied two times, the first reply lost
	fRefused         // ErrUnavailable
	fCorrupt         // ErrCorrupt
	fGarbled         // a reply that cannot be read
	fEndBefore       // the caller's context ends before the send
	fEndDuring       // after it, before the reply
	fEndAfter        // with the reply
	fEnded           // the call's own context ended while it was parked, not applied
	fEndedLate       // the same, applied
	fCopy            // a copy of an older call arrives late
	fKill            // the process dies
	faults
)

func (f fault) String() string {
	return [faults]string{
		"none", "lost", "reply lost", "reply late", "twice", "unavailable", "corrupt", "garbled", "context ends before",
		"context ends during", "context ends after", "context ended, not applied", "context ended, applied", "late copy",
		"killed",
	}[f]
}

// oddError is an error of a type that nobody knows, and that panics when it is
// compared with one of its kind by ==.
type oddError struct{ text []string }

func (o oddError) Error() string { return o.text[0] }

// failure is what a client library may return when a call got no answer.
func failure(kind int) error {
	switch kind % failures {
	case 0:
		return errors.New("sim: connection reset")
	case 1:
		return oddError{[]string{"sim: odd"}}
	case 2:
		return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case 3:
		return fmt.Errorf("sim: read: %w", context.DeadlineExceeded)
	}
	return &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
}

const failures = 5

// meet makes a fault happen to a parked call, and counts it. how chooses among
// the kinds of an error.
func (w *world) meet(it *item, f fault, how int) {
	w.count.Faults[f]++
	c := it.call
	if f != fNone {
		w.say("%v: %v", it.id, f)
	} else {
		w.say("%v", it.id)
	}
	wd := word{}
	switch f {
	case fNone:
		wd.send = 1
	case fLost:
		wd.err = failure(how)
	case fApplied:
		wd.send, wd.err = 1, failure(how)
	case fLate:
		wd.send, wd.stay = 1, true
	case fTwice:
		wd.send = 2
	case fRefused:
		wd.err = fmt.Errorf("sim: %w", driver.ErrUnavailable)
	case fCorrupt:
		wd.err = fmt.Errorf("sim: %w", driver.ErrCorrupt)
	case fGarbled:
		wd.send, wd.garble = 1, 1+how%2
	case fEndBefore:
		w.giveUp(it.e)
		wd.err = ctxError(it.ctx)
	case fEndDuring:
		w.giveUp(it.e)
		wd.send, wd.err = 1, ctxError(it.ctx)
	case fEndAfter:
		w.giveUp(it.e)
		wd.send = 1
	case fEnded:
		wd.err = ctxError(it.ctx)
	case fEndedLate:
		wd.send, wd.err = 1, ctxError(it.ctx)
	default:
	}
	w.seeIf(wd.err != nil && it.ctx.Err() != nil && c.sent+wd.send > 0, s19)
	w.resume(it, wd)
}

// answer hands a reply over that waited, or loses it.
func (w *world) answer(it *item, err error) {
	w.say("%v: its reply arrives, %v", it.id, err)
	w.seeIf(err != nil && it.ctx.Err() != nil, s19)
	w.resume(it, word{err: err})
}

// ctxError is what a client library makes of a context that has ended; if it has
// not, because the call's context is not the caller's, of a broken connection.
func ctxError(ctx context.Context) error {
	if ctx.Err() == nil {
		return errors.New("sim: interrupted")
	}
	return fmt.Errorf("sim: %w: %w", ctx.Err(), context.Cause(ctx))
}

// giveUp ends a caller's context.
func (w *world) giveUp(e *exec) {
	e.cancelled = true
	e.cancel(errCancelled)
}
