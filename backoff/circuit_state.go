package backoff

import (
	"math"
	"slices"
	"time"
)

// admit lets a call pass, or returns a [*refusal].
func (c *Circuit) admit() (ticket, error) {
	if t := c.closed.Load(); t != nil {
		return ticket{term: t}, nil
	}
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == Open && now >= c.until {
		c.enter(HalfOpen)
	}
	switch c.state {
	case Open:
		return ticket{}, &refusal{after: c.until - now}
	case HalfOpen:
		return c.admitProbe(now)
	case Closed:
	}
	return ticket{term: c.term}, nil
}

// admitProbe gives away a slot. A lease that has ended is taken over only when
// somebody wants the slot: until then its probe may still report.
func (c *Circuit) admitProbe(now time.Duration) (ticket, error) {
	if len(c.probes) == c.opts.Probes {
		first := c.probes[0] // leases are equally long, so this is the oldest
		if now < first.lease {
			return ticket{}, &refusal{after: first.lease - now}
		}
		c.probes = c.probes[1:]
	}
	c.issued++
	c.probes = append(c.probes, probe{number: c.issued, lease: later(now, c.opts.Open)})
	return ticket{term: c.term, probe: c.issued}, nil
}

// settle counts how a call ended. What belongs to an earlier term, or lost its
// slot, is not counted.
func (c *Circuit) settle(t ticket, o outcome) {
	if o == neutral && t.probe == 0 {
		return
	}
	now, random := c.now(), uint64(0)
	if o == failed {
		random = c.opts.Rand() // not under the lock: it is the caller's code
	}
	c.mu.Lock()
	switch {
	case t.term != c.term:
	case t.probe != 0:
		c.settleProbe(now, t.probe, o, random)
	default:
		c.window.add(now, o == failed)
		if o == failed && c.tooMany() {
			c.open(now, random)
		}
	}
	c.mu.Unlock()
}

// tooMany reports whether the calls of the window are enough to judge by, and
// enough of them failed.
func (c *Circuit) tooMany() bool {
	sum := c.window.sum
	return sum.calls >= c.opts.MinCalls && float64(sum.failures) >= c.opts.FailureRatio*float64(sum.calls)
}

func (c *Circuit) settleProbe(now time.Duration, number uint64, o outcome, random uint64) {
	i := slices.IndexFunc(c.probes, func(p probe) bool { return p.number == number })
	if i < 0 {
		return
	}
	c.probes = slices.Delete(c.probes, i, i+1)
	switch o {
	case neutral:
	case failed:
		c.open(now, random)
	case succeeded:
		if c.good++; c.good >= c.opts.Successes {
			c.enter(Closed)
		}
	}
}

// open begins to refuse calls.
func (c *Circuit) open(now time.Duration, random uint64) {
	c.opened++
	c.until = later(now, Equal.delay(c.opts.Open, c.opts.MaxOpen, c.opened, 0, random))
	c.enter(Open)
}

// later is now + d without overflow: an Open of MaxInt64 is "until somebody makes
// another circuit".
func later(now, d time.Duration) time.Duration {
	return now + min(d, math.MaxInt64-max(now, 0))
}

// enter begins a new term.
func (c *Circuit) enter(s State) {
	t := &term{}
	c.state, c.term, c.good, c.probes = s, t, 0, nil
	if s != Closed {
		c.closed.Store(nil)
		return
	}
	t.done = func(err error) { c.settle(ticket{term: t}, judged(err)) }
	c.opened = 0
	c.window = window{width: c.window.width, epoch: int64(c.now() / c.window.width)}
	c.closed.Store(t)
}

// openFor returns how long calls are still refused.
func (c *Circuit) openFor() time.Duration {
	if c.closed.Load() != nil {
		return 0
	}
	return c.Stats().OpenFor
}
