package tieredstore

import (
	"sync/atomic"
	"time"
)

const (
	// breakAfter is how many failures in a row open the breaker.
	breakAfter = 3
	// probeEvery is how often one call tries a tier that has failed.
	probeEvery = time.Second
)

// breaker keeps calls away from a tier that does not answer.
//
//	closed --breakAfter failures in a row--> open
//	open   --probeEvery--> one call goes through --success--> closed
//	                                             --failure--> open
//
// Its methods are safe for concurrent use. A success closes it whoever reports
// it, also a call that began before it opened.
type breaker struct {
	start    time.Time    // instants are durations since
	failures atomic.Int64 // in a row
	until    atomic.Int64 // no call before; 0 is closed
}

// allow reports whether a call may be made. Of the calls that ask after until, one
// gets a yes and moves it on, so that it need not come back to free the others.
func (b *breaker) allow() bool {
	until := b.until.Load()
	if until == 0 {
		return true
	}
	now := time.Since(b.start)
	return now >= time.Duration(until) && b.until.CompareAndSwap(until, int64(now+probeEvery))
}

// closed reports whether no failure stands in the way, and takes no probe.
func (b *breaker) closed() bool { return b.until.Load() == 0 }

func (b *breaker) succeeded() {
	if b.failures.Load() != 0 || b.until.Load() != 0 {
		b.failures.Store(0)
		b.until.Store(0)
	}
}

func (b *breaker) failed() {
	if b.failures.Add(1) >= breakAfter {
		b.until.Store(int64(time.Since(b.start) + probeEvery))
	}
}
