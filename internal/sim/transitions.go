package sim

import (
	"context"
	"errors"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
)

// seeTransition counts what a call has done to its record.
func (w *world) seeTransition(s *sending, was *model, a answer) {
	k, c := s.call.key, s.call
	if c.method == mClaim {
		w.seeClaim(s, was, a)
		return
	}
	stale := errors.Is(a.err, driver.ErrLeaseLost) && k.granted[c.ref.Owner] && k.model.owner != c.ref.Owner && k.model.phase != absent
	switch c.method {
	case mRenew:
		w.seeIf(stale, s1Renew)
	case mAnnotate:
		w.seeIf(stale, s1Annotate)
		w.seeIf(a.change && c.annotate.NotExecuted && was.doubt, tNotExecuted)
	case mComplete:
		w.seeIf(stale, s1Complete)
		w.seeIf(a.err == nil && !a.change && !s.late && c.sent > 0, s4)
		w.seeIf(a.change && !c.complete.Outcome.Failed, tSucceed)
		w.seeIf(a.change && c.complete.Outcome.Failed, tFail)
	case mRelease:
		w.seeIf(stale, s1Release)
		w.seeIf(a.change && k.model.held, tHold)
		w.seeIf(a.change && !k.model.held && k.model.doubt, tDoubt)
		w.seeIf(a.change && !k.model.held && !k.model.doubt, tRelease)
	case mRedact:
		w.seeIf(a.change, tRedact)
	case mReset:
		w.seeIf(a.change && was.phase == completed, tResetDone)
		w.seeIf(a.change && was.phase != completed, tResetOpen)
	default:
	}
}

func (w *world) seeIf(ok bool, s sight) {
	if ok {
		w.count.see(s)
	}
}

func (w *world) seeClaim(s *sending, was *model, a answer) {
	k, c := s.call.key, s.call
	if k.granted[c.ref.Owner] && was.owner != c.ref.Owner && was.phase != absent {
		w.count.see(s1Claim)
	}
	w.seeIf(a.err == nil && !a.change && !s.late && (a.fact == driver.Acquired || a.fact == driver.TakenOver), s3)
	if a.fact == driver.Held && c.claim.MinWindow > 0 && c.claim.Take.Has(was.needs()) {
		w.count.see(s10)
	}
	if !a.change {
		return
	}
	if k.granted == nil {
		k.granted = make(map[driver.Owner]bool)
	}
	k.granted[c.ref.Owner] = true
	switch {
	case was.phase == absent:
		w.count.see(tClaim)
	case c.claim.ExpectToken != 0:
		w.count.see(tResolve)
	case was.held:
		w.count.see(tRecover)
	case was.phase == claimed:
		w.count.see(tTakeover)
	case was.doubt:
		w.count.see(tAgainDoubt)
	default:
		w.count.see(tAgain)
	}
}

// told notes what a delivery learns from the reply that it is handed.
func (w *world) told(it *item, r reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, c := it.e, it.call
	e.saw.unreadable = e.saw.unreadable || unreadable(r)
	switch c.method {
	case mClaim:
		e.retrying = r.err != nil && !driver.NoEffect(r.err)
		e.saw.corrupt = e.saw.corrupt || unreadable(r)
		e.waiting = r.claim != nil && r.claim.Fact == driver.InProgress && e.s.wait > 0
	case mRenew:
		// Once its own settling call was taken, a renewal under way is refused, and no lease is lost.
		if (it.id.origin == fromEngine || e.s.kind == kSteps) && e.settled == nil {
			e.lost = e.lost || errors.Is(r.err, driver.ErrLeaseLost)
		}
		w.seeIf(r.err == nil && e.renewFailed, s5)
		e.renewFailed = r.err != nil
	case mComplete, mRelease:
		if c.ref.Owner == e.owner {
			e.lost = e.lost || errors.Is(r.err, driver.ErrLeaseLost)
		}
	default:
	}
}

// unreadable reports whether a reply to a Claim tells of a record that cannot be
// read.
func unreadable(r reply) bool {
	return errors.Is(r.err, driver.ErrCorrupt) ||
		r.claim != nil && (r.claim.Fact > driver.Mismatch || r.claim.Record.Outcome.Body > driver.BodyRedacted)
}

// signal counts what woke a delivery that waits, when it asks again.
func (e *exec) signal(w *world) {
	if !e.waiting {
		return
	}
	switch {
	case e.hinted:
		w.count.see(s17Hint)
	case w.asleep:
		w.count.see(s17Poll)
	default:
		w.count.see(s17Signal)
	}
	e.hinted, e.waiting = false, false
}

// observer counts the events of a process.
type observer struct {
	w *world
	p *proc
}

func (o observer) Observe(ctx context.Context, ev idem.Event) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	if o.p.dead {
		return
	}
	o.w.count.Events[ev.Kind]++
	if e := deliveryOf(ctx); e != nil {
		o.w.note("e%d: event %v", e.n, ev.Kind)
		e.events[ev.Kind]++
		o.w.observed = append(o.w.observed, observed{e, ev})
	}
}

// seeReturn counts what a delivery came to.
func (w *world) seeReturn(e *exec) {
	if errors.Is(e.ret.err, idem.ErrOutcomeUnknown) && e.run == nil && e.s.hold && !e.s.recover && !e.key.model.held {
		w.count.see(s8)
	}
	if r := e.run; r != nil && r.lostTrust {
		w.count.see(s6)
	}
	if e.recovered == nil || !e.recovered.done || e.s.kind > kSteps {
		return
	}
	switch e.recovered.verdict {
	case verdictSucceeded:
		w.count.see(s9Succeeded)
	case verdictFailed:
		w.count.see(s9Failed)
	case verdictNotExecuted:
		w.count.see(s9NotExecuted)
	default:
		w.count.see(s9None)
	}
}
