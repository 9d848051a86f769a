package idem

import (
	"sync"
	"sync/atomic"
)

// tracker counts running calls and background work, and tells when there is
// none left after it was closed.
type tracker struct {
	n    atomic.Int64 // what is counted; trackerClosed is added by close
	idle chan struct{}
	once sync.Once // closes idle
}

// trackerClosed is more than can ever be counted.
const trackerClosed = 1 << 62

func newTracker() *tracker { return &tracker{idle: make(chan struct{})} }

// enter counts one more, unless the tracker is closed.
func (t *tracker) enter() bool {
	if t.n.Add(1) < trackerClosed {
		return true
	}
	t.leave()
	return false
}

// add counts one more, also when closed. Only something that is counted itself
// may call it.
func (t *tracker) add() { t.n.Add(1) }

// leave counts one less.
func (t *tracker) leave() {
	if t.n.Add(-1) == trackerClosed {
		t.once.Do(func() { close(t.idle) })
	}
}

// close refuses those who come later. The channel is closed once nothing is
// counted any more; first is true for the first call.
func (t *tracker) close() (idle <-chan struct{}, first bool) {
	for {
		n := t.n.Load()
		if n >= trackerClosed {
			return t.idle, false
		}
		if t.n.CompareAndSwap(n, n+trackerClosed) {
			break
		}
	}
	if t.n.Load() == trackerClosed { // nothing was counted
		t.once.Do(func() { close(t.idle) })
	}
	return t.idle, true
}
