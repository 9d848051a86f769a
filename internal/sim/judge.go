package sim

import (
	"errors"
	"time"

	"github.com/idem-go/idem/driver"
)

// judge looks at everything that happened in a step.
func (w *world) judge() {
	now := time.Now()
	w.expire(now)
	for i := range w.sendings {
		w.judgeSending(&w.sendings[i])
	}
	if len(w.sendings) > 0 || !w.nudging { // else the step's own comparison follows at once
		for _, k := range w.keys {
			w.compare(k, now)
		}
	}
	w.sendings = w.sendings[:0]
	w.sightings(now)
	w.judgeObserved()
	w.judgeAsides()
	for _, r := range w.begun {
		w.judgeRun(r, now)
	}
	w.begun = w.begun[:0]
	for _, e := range w.recoveries {
		w.judgeRecovery(e)
	}
	w.recoveries = w.recoveries[:0]
	for _, it := range w.arrived {
		if it.call != nil && it.call.sent == 0 {
			w.judgeArrival(it, now)
		}
	}
	w.judgeTrust(now)
	for _, e := range w.returned {
		if !e.p.dead {
			w.judgeReturn(e)
		}
	}
	w.returned = w.returned[:0]
}

// forget drops what happened.
func (w *world) forget() {
	w.sendings, w.begun, w.recoveries, w.returned = w.sendings[:0], w.begun[:0], w.recoveries[:0], w.returned[:0]
	w.observed, w.asides = w.observed[:0], w.asides[:0]
}

// expire notes what time alone has done to the records.
func (w *world) expire(now time.Time) {
	for _, k := range w.keys {
		m := &k.model
		if m.phase == claimed && !k.ended && !m.unexpired(now) {
			k.ended = true
			w.count.see(tEnd)
		}
		done := m.phase == completed
		if m.expire(now) {
			if done {
				w.count.see(tExpireDone)
			} else {
				w.count.see(tExpireFree)
			}
			w.note("%s is new: its retention has ended", k.name)
			k.vanished = true
			k.renew(now)
		}
	}
}

// renew begins another epoch of a key.
func (k *key) renew(now time.Time) {
	k.epoch++
	k.endOutcome(now)
	if k.model.phase == absent {
		k.request = noRequest
	}
}

func (k *key) endOutcome(now time.Time) {
	if n := len(k.outcomes); n > 0 && k.outcomes[n-1].until.IsZero() {
		k.outcomes[n-1].until = now
	}
}

// judgeSending compares what the backend answered with the contract.
func (w *world) judgeSending(s *sending) {
	k := s.call.key
	w.count.Calls++
	if k == nil || s.call.method == mWatch || s.call.method == mCheck {
		return
	}
	m := &k.model
	m.expire(s.at)
	was := *m
	var a answer
	switch c := s.call; c.method {
	case mClaim:
		a = m.claim(c.claim, s.at)
		w.judgeClaimed(s, &was, a)
	case mRenew:
		a = m.renew(c.ref, &c.renew, s.at)
	case mAnnotate:
		a = m.annotate(c.ref, &c.annotate, s.at)
	case mComplete:
		a = m.complete(c.ref, &c.complete, s.at)
		w.judgeCompleted(s, &was, a)
	case mRelease:
		a = m.release(c.ref, &c.release, s.at)
		if a.err == nil && s.reply.err == nil {
			s.e.settled = s.call
		}
	case mRedact:
		a = m.redact(&c.edit, s.at)
		if n := len(k.outcomes); a.change && n > 0 {
			k.outcomes[n-1].redacted = true
		}
	case mReset:
		a = m.reset(&c.edit, s.at)
		if a.change {
			k.renew(s.at)
			w.takeToken(k)
		}
	case mInspect:
		w.judgeInspected(s)
		return
	default:
	}
	w.count.judged(a.rule)
	k.touched = a.rule
	if !a.change {
		k.refused = s.call.method
	}
	w.note("%s %v of e%d applied%s: %s", k.name, s.call.method, s.e.n, lateText(s.late), replyText(&s.reply))
	if !errors.Is(s.reply.err, a.err) || s.reply.err != nil && a.err == nil {
		w.fail(a.rule, "%v of %v was answered %v; the contract says %v", s.call.method, s.e, s.reply.err, a.err)
	}
	w.seeTransition(s, &was, a)
}

func lateText(late bool) string {
	if late {
		return " as a late copy"
	}
	return ""
}

func replyText(r *reply) string {
	switch {
	case r.err != nil:
		return r.err.Error()
	case r.claim != nil:
		return r.claim.Fact.String()
	}
	return "done"
}

// judgeClaimed compares the fact and the record that a claim was answered with.
func (w *world) judgeClaimed(s *sending, was *model, a answer) {
	k, m := s.call.key, &s.call.key.model
	if s.reply.claim == nil {
		return
	}
	rec := &s.reply.claim.Record
	if a.err == nil && s.reply.claim.Fact != a.fact {
		w.fail(a.rule, "the claim of %v was answered %q; the contract says %q", s.e, s.reply.claim.Fact, a.fact)
		return
	}
	if a.change {
		w.count.judged(A3)
		if rec.Token <= m.highest {
			w.fail(A3, "%s: token %d after %d", k.name, rec.Token, m.highest)
		}
		m.token, m.highest = rec.Token, max(rec.Token, m.highest)
		if was.fingerprint.IsZero() && !m.fingerprint.IsZero() {
			k.request = s.e.s.request
		}
		k.ended, k.vanished = false, false
		w.judgeGrant(s)
	}
	if a.err == nil {
		w.compareWith(k, rec, s.at, a.fact == driver.Mismatch)
	}
}

// judgeGrant: when a new token is granted, every operation and recovery under an
// older one has been told (A9).
func (w *world) judgeGrant(s *sending) {
	for _, o := range w.execs {
		if o == s.e && !s.late || o.key != s.call.key || o.p.dead {
			continue
		}
		if r := o.run; r != nil && r.live && !r.open && r.token != s.call.key.model.token {
			w.count.judged(A9)
			if r.ctx.Err() == nil {
				w.fail(A9, "%s was granted to e%d (token %d) while the operation of e%d runs under token %d with a live context",
					s.call.key.name, s.e.n, s.call.key.model.token, o.n, r.token)
			}
		}
		if rec := o.recovered; rec != nil && rec.ctx != nil && !rec.done && rec.ctx.Err() == nil {
			w.fail(A9, "%s was granted to e%d while the recovery of e%d runs with a live context", s.call.key.name, s.e.n, o.n)
		}
	}
}

// judgeCompleted keeps the outcome that the backend took.
func (w *world) judgeCompleted(s *sending, was *model, a answer) {
	if a.err != nil || s.reply.err != nil {
		return
	}
	s.e.settled = s.call
	if !a.change {
		return
	}
	k := s.call.key
	o := s.call.complete.Outcome
	k.outcomes = append(k.outcomes, &recorded{outcome: o, token: k.model.token, e: s.e, at: s.at, request: k.request})
	if was.phase == claimed && !was.unexpired(s.at) {
		w.count.see(s2)
	}
}

// takeToken reads the token that a reset has made.
func (w *world) takeToken(k *key) {
	rec, err := w.b.Inspect(w.base, k.stored)
	if err != nil {
		w.fail(A10, "%s: reset, then %v", k.name, err)
		return
	}
	w.count.judged(A3)
	if rec.Token <= k.model.highest {
		w.fail(A3, "%s: token %d after %d, by Reset", k.name, rec.Token, k.model.highest)
	}
	k.model.token, k.model.highest = rec.Token, max(rec.Token, k.model.highest)
}

func (w *world) judgeInspected(s *sending) {
	k := s.call.key
	switch {
	case k.model.phase == absent && !errors.Is(s.reply.err, driver.ErrNotFound):
		w.fail(A11, "%s: Inspect found %v where there is no record", k.name, s.reply.record)
	case k.model.phase != absent && s.reply.record == nil:
		w.fail(A11, "%s: Inspect: %v", k.name, s.reply.err)
	case k.model.phase != absent:
		w.compareWith(k, s.reply.record, s.at, false)
	}
}
