package idem

import (
	"hash/maphash"
	"slices"
	"sync"
)

// meeting is where calls of one Store for one key meet, so that a duplicate of
// something that runs here asks the backend nothing, and of those who wait only
// one asks.
//
// For each key there is at most one turn. While a claim runs here, the turn is
// its: the others wait or are refused. When it ends, what becomes of the turn
// depends on how:
//
//	recorded      everybody looks: they find the outcome
//	free          the first in the queue gets the turn, and claims under its own policy
//	not recorded  everybody is refused; nobody may see a value that is not recorded
//
// A waiter that has the turn and is answered "in progress" (the claim is in
// another process) keeps it, and asks again later. If it finds the outcome,
// everybody looks, as above; one that leaves with neither, and without becoming
// the runner, passes the turn on.
type meeting struct {
	seed   maphash.Seed
	shards [64]meetingShard
}

// meetingShard holds the keys of one shard. Its mutex guards both maps and
// everything in them, and is never held while anything else is waited for or
// called.
type meetingShard struct {
	mu      sync.Mutex
	running map[string]*Claim
	waiting map[string]*queue
}

// queue is the waiters of one key, in order of arrival.
type queue struct {
	waiters []*waiter
	turn    *waiter // who may ask the backend; nil if nobody or the runner
}

// waiter is one call that waits.
type waiter struct {
	signal chan signal // capacity 1; the latest signal replaces an older one
	looks  bool        // was told to look; guarded by the shard's mutex
}

// signal tells a waiter what to do.
type signal uint8

const (
	signalTurn    signal = iota + 1 // ask the backend: it is your turn
	signalLook                      // ask the backend: the outcome is recorded
	signalRefused                   // the outcome could not be recorded
)

// left says how a claim ended for those who wait for it.
type left uint8

const (
	leftRecorded left = iota + 1
	leftFree
	leftNotRecorded
)

func newMeeting() *meeting {
	m := &meeting{seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].running = make(map[string]*Claim)
		m.shards[i].waiting = make(map[string]*queue)
	}
	return m
}

func (m *meeting) shard(stored string) *meetingShard {
	return &m.shards[maphash.String(m.seed, stored)%uint64(len(m.shards))]
}

// runner returns the claim that runs the key here and whose trust window is
// open, or nil.
func (m *meeting) runner(c *request) *Claim {
	sh := c.place
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.runner(c)
}

// runner is meeting.runner; the caller holds the mutex. An entry answers only
// within its trust window: after it, somebody else may hold the key.
func (sh *meetingShard) runner(c *request) *Claim {
	r := sh.running[c.stored]
	if r == nil || !r.trustedAt(c.store.now()) {
		return nil
	}
	return r
}

// run makes c the runner of its key. It takes the turn.
func (m *meeting) run(c *Claim) {
	sh := c.place
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.run(c)
}

// run is meeting.run; the caller holds the mutex.
func (sh *meetingShard) run(c *Claim) {
	sh.running[c.stored] = c
	if q := sh.waiting[c.stored]; q != nil {
		q.turn = nil
	}
}

// enter makes c the runner of its key unless another one is, which it returns.
func (m *meeting) enter(c *Claim) *Claim {
	sh := c.place
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r := sh.runner(&c.request); r != nil && r != c {
		return r
	}
	sh.run(c)
	return nil
}

// leave tells that c does not run its key any more, and how that ended. Only
// the current runner's leave has an effect, so that it may be called twice.
func (m *meeting) leave(c *Claim, how left) {
	sh := c.place
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.running[c.stored] != c {
		return
	}
	delete(sh.running, c.stored)
	q := sh.waiting[c.stored]
	if q == nil {
		return
	}
	switch how {
	case leftRecorded:
		q.tell(signalLook)
	case leftNotRecorded:
		q.tell(signalRefused)
	case leftFree:
		q.pass()
	}
}

// join adds a waiter for c's key, or returns nil if there are too many. If
// nobody has the turn, it gets it at once.
func (m *meeting) join(c *request) *waiter {
	sh := c.place
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q := sh.waiting[c.stored]
	if q == nil {
		q = &queue{}
		sh.waiting[c.stored] = q
	}
	if len(q.waiters) >= c.store.opts.MaxWaiters {
		return nil
	}
	w := &waiter{signal: make(chan signal, 1)}
	q.waiters = append(q.waiters, w)
	if q.turn == nil && sh.runner(c) == nil {
		q.pass()
	}
	return w
}

// quit removes a waiter. If it had the turn and nobody runs the key here, the
// turn is passed on.
func (m *meeting) quit(c *request, w *waiter) {
	sh := c.place
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q := sh.waiting[c.stored]
	q.waiters = slices.DeleteFunc(q.waiters, func(o *waiter) bool { return o == w })
	if len(q.waiters) == 0 {
		delete(sh.waiting, c.stored)
		return
	}
	if q.turn == w {
		q.turn = nil
	}
	if q.turn == nil && sh.runner(c) == nil {
		q.pass()
	}
}

// found tells the others to look too, because w, which had the turn, has found
// the outcome that was recorded in another process. Those who look do not tell
// again.
func (m *meeting) found(c *request, w *waiter) {
	sh := c.place
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if q := sh.waiting[c.stored]; q.turn == w && !w.looks {
		q.tell(signalLook)
	}
}

// keepTurn reports whether w, which was answered "in progress", has the turn. It
// takes it if nobody has.
func (m *meeting) keepTurn(c *request, w *waiter) bool {
	sh := c.place
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q := sh.waiting[c.stored]
	w.looks = false
	if q.turn == nil && sh.runner(c) == nil {
		q.turn = w
	}
	return q.turn == w
}

// pass gives the turn to the first in the queue.
func (q *queue) pass() {
	if q.turn == nil {
		q.turn = q.waiters[0]
	}
	q.turn.tell(signalTurn)
}

// tell signals all waiters. The turn is nobody's: each asks for itself or goes.
func (q *queue) tell(s signal) {
	for _, w := range q.waiters {
		w.looks = s == signalLook
		w.tell(s)
	}
}

// tell replaces the waiter's signal. Only holders of the shard's mutex send.
func (w *waiter) tell(s signal) {
	select {
	case <-w.signal:
	default:
	}
	w.signal <- s
}
