package backoff

import (
	"fmt"
	"reflect"
)

// Mark attaches a class to err, for callers who know more about a failure than
// [Classify] can read from it. The text stays the same, and errors.Is and
// errors.As see through the mark. Mark of nil is nil, and a class that is none
// of the four leaves err as it is.
func Mark(err error, c Class) error {
	if err == nil || c.care() == 0 {
		return err
	}
	return &marked{cause: err, class: c}
}

// Marked returns the class that was attached to err with [Mark], at any depth.
//
// In a chain the outermost mark counts: it was set by the code that knows most
// about what the failure means to the caller. Across the branches of a join
// there is no outermost one, and the most careful mark counts, in the order
// Ambiguous, Permanent, Throttled, Transient: where one branch may have taken
// effect, the whole may have; and where one branch cannot succeed, the whole
// cannot, however often the others are tried.
//
// A nil pointer inside the tree, typed as an error, has no mark.
func Marked(err error) (Class, bool) {
	var room [shortChain]error
	nodes, branches := chain(err, room[:])
	if m, ok := last[*marked](nodes); ok {
		return m.class, true
	}
	if e, ok := last[*Error](nodes); ok {
		return e.marked()
	}
	var found Class
	for _, b := range branches {
		if c, ok := Marked(b); ok {
			found = moreCareful(found, c)
		}
	}
	return found, found != 0
}

// marked is an error with a class. It is found by type, not by errors.As: a
// foreign As method must not be able to pretend to be a mark.
type marked struct {
	cause error
	class Class
}

func (m *marked) Error() string { return text(m.cause) }
func (m *marked) Unwrap() error { return m.cause }

// text is err.Error(), except that a nil pointer whose method cannot bear its
// receiver reads "<nil>", as fmt prints it, instead of panicking in a log line.
func text(err error) string {
	if isNil(err) {
		return fmt.Sprint(err)
	}
	return err.Error()
}

// isNil reports whether err is nil or a nil pointer: calling Unwrap on the
// latter panics for most types, net.OpError among them.
func isNil(err error) bool {
	if err == nil {
		return true
	}
	v := reflect.ValueOf(err)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// shortChain is how many errors a chain can have without an allocation.
const shortChain = 8

// chain follows err down to its first mark, its first loop ([Error]), its first
// join or its end. It returns the errors on the way, outermost first, with the
// mark or the loop as the last one; and the branches of the join. Nil pointers
// end a chain unseen. The nodes begin in room, which callers have on their stack.
func chain(err error, room []error) (nodes, branches []error) {
	nodes = room[:0]
	for !isNil(err) {
		nodes = append(nodes, err)
		switch e := any(err).(type) {
		case *marked, *Error:
			return nodes, nil
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			return nodes, e.Unwrap()
		default:
			return nodes, nil
		}
	}
	return nodes, nil
}

// last returns the end of a chain, if it is of type T.
func last[T error](nodes []error) (t T, ok bool) {
	if len(nodes) == 0 {
		return t, false
	}
	return as[T](nodes[len(nodes)-1])
}

// as is errors.As for one error without what it wraps, and without asking the
// error's own As method.
func as[T any](err error) (T, bool) {
	t, ok := any(err).(T)
	return t, ok
}

// is is errors.Is for one error without what it wraps.
func is(err, target error) bool {
	if any(err) == any(target) {
		return true
	}
	e, ok := as[interface{ Is(target error) bool }](err)
	return ok && e.Is(target)
}

// hasMark reports whether any mark in the tree of err, also one below another
// mark, is of class c.
func hasMark(err error, c Class) bool {
	var room [shortChain]error
	nodes, branches := chain(err, room[:])
	if m, ok := last[*marked](nodes); ok {
		return m.class == c || hasMark(m.cause, c)
	}
	if e, ok := last[*Error](nodes); ok {
		return e.doubt && c == Ambiguous || hasMark(e.Last, c)
	}
	for _, b := range branches {
		if hasMark(b, c) {
			return true
		}
	}
	return false
}
