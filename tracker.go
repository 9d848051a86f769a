package idem

import "sync"

// tracker counts running calls and background work, and tells when there is
// none left after it was closed.
type tracker struct {
	mu     sync.Mutex // guards the fields below
	n      int
	closed bool
	idle   chan struct{} // closed when closed and n is 0
}

func newTracker() *tracker { return &tracker{idle: make(chan struct{})} }

// enter counts one more, unless the tracker is closed.
func (t *tracker) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.n++
	return true
}

// add counts one more, also when closed. Only something that is counted itself
// may call it.
func (t *tracker) add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
}

// leave counts one less.
func (t *tracker) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n--
	if t.n == 0 && t.closed {
		close(t.idle)
	}
}

// close refuses those who come later. The channel is closed once nothing is
// counted any more; first is true for the first call.
func (t *tracker) close() (idle <-chan struct{}, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first = !t.closed
	t.closed = true
	if first && t.n == 0 {
		close(t.idle)
	}
	return t.idle, first
}
