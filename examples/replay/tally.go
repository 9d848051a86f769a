package main

import "sync/atomic"

// tally counts what happened in one pass. It is safe for concurrent use.
type tally struct {
	deliveries atomic.Int64 // read from the stream
	settled    atomic.Int64 // of them, those that came to their end

	executed   atomic.Int64
	replayed   atomic.Int64
	otherBody  atomic.Int64
	unreadable atomic.Int64

	waits     atomic.Int64 // calls that met a running attempt
	takeovers atomic.Int64 // operations run although an earlier attempt may have had its effect
	errors    atomic.Int64 // calls that failed and were delivered again
	killed    atomic.Int64 // calls that died with their process
	held      atomic.Int64 // calls that were told "outcome unknown"
	resolved  atomic.Int64 // keys that the operator resolved
	wrong     atomic.Int64 // answers that belong to another request
	givenUp   atomic.Int64 // deliveries that found no end
	restarts  atomic.Int64 // of a server
}

// overheads are what the store adds to calls: their time less the time inside
// the operation.
type overheads struct {
	first  histogram // of calls that ran the operation and recorded its outcome
	replay histogram // of calls that returned what was recorded
}

// add counts what the store added to a call.
func (o *overheads) add(e ending) {
	switch {
	case !e.measured:
	case e.kind == executed:
		o.first.add(e.overhead)
	case e.kind == replayed:
		o.replay.add(e.overhead)
	}
}

// count counts how a call ended, and returns how many deliveries are settled if
// this one is.
func (t *tally) count(k endingKind) int64 {
	switch k {
	case executed:
		t.executed.Add(1)
	case replayed:
		t.replayed.Add(1)
	case otherBody:
		t.otherBody.Add(1)
	case unreadable:
		t.unreadable.Add(1)
	case waiting:
		t.waits.Add(1)
	case broken:
		t.errors.Add(1)
	case killed:
		t.killed.Add(1)
	case unknownOutcome:
		t.held.Add(1)
	}
	if !k.settled() {
		return 0
	}
	return t.settled.Add(1)
}
