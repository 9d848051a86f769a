package idem

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idem-go/idem/driver"
)

// # Leases
//
// A claim is one term of holding a key: an owner (16 random bytes), a token,
// and a lease. The term is identified by (key, owner, token). Every renewal,
// annotation, completion and release names exactly that term, so that a holder
// that stalled can never act on its successor's record.
//
// The backend is authoritative for: who holds the key, when the lease ends, and
// what is recorded. Its clock decides each of them. This process's clock is
// used for one thing, to stop trusting the lease sooner than the backend does:
//
//	trustedUntil = attemptStarted + lease - margin
//
// where margin is a tenth of the lease, at most one second. attemptStarted is
// the instant before the call that claimed or renewed was sent: the backend
// counts the lease from a later instant, when the call arrived, so that the
// trust window always ends before the lease does. The margin is for clocks that
// run at different rates and for the time that a cancelled operation needs to
// notice. The clock is the monotonic one; setting the wall clock moves nothing.
//
//	claimed ── renew ok ──► claimed, trust window moved on
//	   │
//	   ├── renew: ErrLeaseLost ───────────────► lost: context ends, nothing is written
//	   ├── renew: any other error ─► tried again until the trust window ends
//	   ├── MaxRun or provider's window ends ──► context ends, no more renewals
//	   └── trust window ends ─────────────────► context ends; a result that
//	                                            comes back is still offered to
//	                                            Complete: the backend decides
//
// A short operation pays one timer and no call: nothing is sent, and no
// goroutine started, before the first renewal is due. The timer's function
// never waits for the backend, so that a backend that hangs cannot keep the
// trust window open; a renewal runs in a goroutine of its own, one at a time.

// lease is the watch over the lease of one claim.
type lease struct {
	claimed time.Duration // when the claim was sent; see Store.now
	granted time.Duration // when the answer had come
	trusted atomic.Int64  // the end of the trust window, as a time of Store.now

	mu       sync.Mutex // guards the fields below; never held while the backend is called
	refs     []driver.ProviderRef
	renewAt  time.Duration // 0: no renewal is planned
	endAt    time.Duration // 0: the run is not bounded, or has ended
	renewing bool
	lost     bool  // the backend said so
	settled  bool  // nothing more may be written
	told     bool  // the observer knows that the lease is lost
	over     error // the provider's window has ended; of a claim from Store.Claim
	timer    *time.Timer
	op       *opContext         // the operation's; nil of a claim from Store.Claim
	window   *stoppable         // ends with the trust window; made by Context
	quit     context.CancelFunc // ends a running renewal
}

// margin is how much sooner than the backend we stop trusting a lease.
func margin(lease time.Duration) time.Duration { return min(lease/10, time.Second) }

// trust moves the trust window on, never back, after a claim or a renewal that
// was sent at started (see Store.now) and acknowledged.
func (c *Claim) trust(started time.Duration) {
	until := int64(started + c.opts.lease - margin(c.opts.lease))
	c.trusted.Store(max(until, c.trusted.Load()))
}

// trustedAt reports whether the trust window is still open at the given time.
func (c *Claim) trustedAt(now time.Duration) bool { return now < time.Duration(c.trusted.Load()) }

// keep begins to watch the lease. With an operation's context it renews, and
// ends that as the drawing above says; with nil only the trust window is
// watched, for Context and for those who wait in this process.
func (c *Claim) keep(op *opContext) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case op != nil:
		c.op = op
		c.endAt = c.claimed + c.runFor()
		if !c.open {
			c.renewAt = c.claimed + c.opts.renewEvery
		}
	case c.opts.window > 0:
		c.endAt = c.claimed + c.opts.window
	}
	c.timer = time.AfterFunc(c.next()-c.granted, c.tick)
}

// runs reports whether the claim's operation is running, or, for one from
// Store.Claim, may be.
func (c *Claim) runs() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.settled && !c.lost && (c.managed || c.trustedAt(c.store.now()))
}

// runFor is how long the operation may run: MaxRun, or what is left of the
// shortest provider's window. While a recovery is still to decide, the window
// does not count.
func (c *Claim) runFor() time.Duration {
	if w := c.opts.window; w > 0 {
		return min(w, c.opts.maxRun)
	}
	return c.opts.maxRun
}

// ranTooLong is the cause with which the operation's context ends.
func (c *Claim) ranTooLong() error {
	if c.runFor() < c.opts.maxRun || c.op == nil {
		return c.error(ErrMaxRun, fmt.Sprintf("the provider's window ended %v after the claim", c.opts.window), nil)
	}
	return c.error(ErrMaxRun, fmt.Sprintf("MaxRun is %v", c.opts.maxRun), nil)
}

// next is the time of the next event. The caller holds c.mu.
func (c *Claim) next() time.Duration {
	next := time.Duration(c.trusted.Load())
	if c.renewAt > 0 && !c.renewing {
		next = min(next, c.renewAt)
	}
	if c.endAt > 0 {
		next = min(next, c.endAt)
	}
	return next
}

// tick does what is due, and sets the timer for what comes next.
func (c *Claim) tick() {
	if c.advance(c.store.now()) {
		c.store.observe(c.ctx, c, Event{Kind: EventLeaseLost, Err: c.leaseLost(nil)})
	}
}

// advance is tick at the given time. It reports whether the trust window has
// just ended, for the observer.
func (c *Claim) advance(now time.Duration) (ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled || c.lost {
		return false
	}
	if !c.trustedAt(now) {
		c.store.meeting.leave(c, leftFree)
		if !c.open {
			c.renewAt, c.endAt = 0, 0
			c.endAll(c.leaseLost(nil))
			return c.tell()
		}
		c.trusted.Store(math.MaxInt64) // there is no lease to lose
	}
	if c.endAt > 0 && now >= c.endAt {
		c.renewAt, c.endAt = 0, 0
		c.endRun(c.ranTooLong())
	}
	if c.renewAt > 0 && now >= c.renewAt && !c.renewing {
		c.renewing = true
		c.store.running.add()
		ctx, quit := context.WithTimeout(context.WithoutCancel(c.ctx), min(c.store.opts.StoreTimeout, time.Duration(c.trusted.Load())-now))
		c.quit = quit
		go c.renew(ctx, quit, now)
	}
	c.timer.Reset(c.next() - now)
	return false
}

// tell reports, once, that the observer is to be told of a lost lease. The
// caller holds c.mu.
func (c *Claim) tell() bool {
	first := !c.told
	c.told = true
	return first
}

// renew sends one renewal, started at the given time.
func (c *Claim) renew(ctx context.Context, quit context.CancelFunc, started time.Duration) {
	defer c.store.running.leave()
	defer quit()
	err := c.store.b.Renew(ctx, c.ref(), &driver.RenewParams{Lease: c.opts.lease, Retention: c.opts.retention})
	c.mu.Lock()
	c.renewing = false
	c.mu.Unlock()
	if e := c.renewed(started, err); e.Kind != 0 {
		c.store.observe(ctx, c, e)
	}
}

// renewed takes in the answer to a renewal, and returns the event to tell, if
// any.
func (c *Claim) renewed(started time.Duration, err error) Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.settled || c.lost:
		return Event{}
	case err == nil:
		c.trust(started)
		if c.told && c.trustedAt(c.store.now()) { // the trust window had ended, and nobody has taken over
			c.window, c.told = nil, false
			c.store.meeting.enter(c)
		}
		if c.renewAt > 0 {
			c.renewAt = started + c.opts.renewEvery
		}
	case errors.Is(err, driver.ErrLeaseLost):
		c.lose(err)
		if !c.tell() {
			return Event{}
		}
		return Event{Kind: EventLeaseLost, Err: err}
	default:
		if c.renewAt > 0 {
			c.renewAt = c.store.now() + c.retryEvery()
		}
	}
	if c.timer != nil {
		c.timer.Reset(max(0, c.next()-c.store.now()))
	}
	if err != nil {
		return Event{Kind: EventRenewFailed, Err: err}
	}
	return Event{}
}

// retryEvery is the pause after a failed renewal: a share of the interval that
// leaves several tries within what is left of the lease.
func (c *Claim) retryEvery() time.Duration { return max(c.opts.renewEvery/8, time.Millisecond) }

// lose notes that the backend says the lease is lost. The caller holds c.mu.
func (c *Claim) lose(err error) {
	c.lost = true
	c.renewAt, c.endAt = 0, 0
	c.trusted.Store(0)
	c.endAll(c.leaseLost(err))
	if c.timer != nil {
		c.timer.Stop()
	}
	c.store.meeting.leave(c, leftFree)
}

// endRun ends the operation's context, or that of a claim whose caller runs it.
// The caller holds c.mu.
func (c *Claim) endRun(cause error) {
	if c.op != nil {
		c.op.stop(cause)
	}
	c.over = cause
	if c.window != nil {
		c.window.stop(cause)
	}
}

// endAll ends every context that depends on the lease. The caller holds c.mu.
func (c *Claim) endAll(cause error) {
	if c.op != nil {
		c.op.stop(cause)
	}
	if c.window != nil {
		c.window.stop(cause)
	}
}

// finish stops the watch over the lease because the run has ended, and reports
// whether the backend has said that the lease is lost. A renewal that is under
// way is cancelled; whatever it answers is ignored.
func (c *Claim) finish() (lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled {
		return c.lost
	}
	c.settled = true
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.renewing {
		c.quit()
	}
	return c.lost
}
