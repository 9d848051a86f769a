package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
)

// judgeRun judges that an operation began: under a live claim of its own, which
// knows what the record knows.
func (w *world) judgeRun(r *run, now time.Time) {
	e := r.e
	k, m := e.key, &e.key.model
	w.count.judged(A1)
	w.count.judged(A10)
	if e.saw.corrupt {
		w.fail(A10, "%v runs although the record was unreadable", e)
	}
	if r.claim == nil {
		w.fail(A8, "%v runs without ClaimFrom", e)
		return
	}
	if r.open {
		w.judgeOpen(r)
		return
	}
	switch {
	case m.phase != claimed || m.token != r.token || !e.owns(m.owner):
		w.fail(A2, "%v runs under token %d, which is not the record's claim (%v, token %d)", e, r.token, m.state(now), m.token)
		return
	case !m.unexpired(now):
		w.fail(A9, "%v begins after the end of its lease", e)
	case m.attempt != r.attempt:
		w.fail(A8, "%v: Attempt() is %d, the record has %d", e, r.attempt, m.attempt)
	}
	if m.doubt != r.takeover {
		w.fail(A1, "%v: Takeover() is %v, the record's doubt %v", e, r.takeover, m.doubt)
	}
	if e.s.strictly() && (m.doubt || m.held) {
		w.fail(A1, "%v runs although an earlier attempt may have had its effect", e)
	}
	if !slices.Equal(r.claim.Refs(), m.refs) {
		w.fail(A8, "%v: Refs() is %v, the record has %v", e, r.claim.Refs(), m.refs)
	}
	if m.held {
		w.fail(A1, "%v runs although the record is held", e)
	}
	w.count.judged(A6)
	if e.s.request != noRequest && k.request != noRequest && e.s.request != k.request {
		w.fail(A6, "%v runs a request for which the key does not stand", e)
	}
	for _, p := range m.providers {
		if left := p.window - e.asked.Sub(p.since); m.doubt && left < e.maxRun()-time.Microsecond {
			w.fail(A1, "%v reruns with %v left of the provider's window", e, left)
		}
	}
}

// judgeOpen judges that an operation began without a claim.
func (w *world) judgeOpen(r *run) {
	e := r.e
	switch {
	case !e.p.plan.opts.FailOpen || e.s.kind == kSteps:
		w.fail(A1, "%v runs without a claim, and FailOpen is not chosen", e)
	case e.s.strictly():
		w.fail(A1, "%v runs without a claim under Hold or with a recovery", e)
	case e.cancelled:
		w.fail(A8, "%v runs without a claim although its caller gave up", e)
	case !r.takeover:
		w.fail(A1, "%v runs without a claim and takes it for the first attempt", e)
	}
}

// owns reports whether o is an owner of this delivery.
func (e *exec) owns(o driver.Owner) bool {
	return slices.Contains(e.owners, o)
}

// judgeRecovery judges that a recovery began: under a claim, and in doubt.
func (w *world) judgeRecovery(e *exec) {
	m := &e.key.model
	w.count.judged(A1)
	if e.recovered.claim == nil || m.phase != claimed || !e.owns(m.owner) || m.token != e.recovered.claim.Token() {
		w.fail(A1, "%v recovers without a claim", e)
	} else if !m.doubt {
		w.fail(A1, "%v recovers a key that is not in doubt", e)
	}
	if e.saw.corrupt {
		w.fail(A10, "%v recovers although the record was unreadable", e)
	}
}

// judgeTrust judges every operation and recovery that is under way: as long as
// its claim trusts the lease, the record is its own, and its context ends with
// its bounds.
func (w *world) judgeTrust(now time.Time) {
	for _, e := range w.execs {
		if e.finished || e.p.dead {
			continue
		}
		if r := e.run; r != nil && r.live {
			w.judgeLive(r, now)
		}
		if rec := e.recovered; rec != nil && rec.claim != nil && !rec.done {
			w.judgeTrusted(e, rec.claim.Remaining(), rec.ctx.Err() == nil, now)
		}
	}
}

func (w *world) judgeLive(r *run, now time.Time) {
	e := r.e
	alive := r.ctx.Err() == nil
	began := e.asked
	if r.open {
		began = r.began
	} else {
		w.judgeTrusted(e, r.claim.Remaining(), alive, now)
	}
	w.count.judged(A9)
	r.lostTrust = r.lostTrust || !alive && errors.Is(context.Cause(r.ctx), idem.ErrLeaseLost)
	if alive && e.s.kind != kSteps && now.Sub(began) > e.maxRun() {
		w.fail(A9, "%v runs with a live context for %v; MaxRun is %v", e, now.Sub(began), e.maxRun())
	}
	if !alive || r.open || e.s.recover || e.s.kind == kSteps {
		return
	}
	for _, p := range e.key.model.providers {
		if now.Sub(p.since) > p.window {
			w.fail(A9, "%v runs with a live context %v after the provider's window", e, now.Sub(p.since)-p.window)
		}
	}
}

// judgeTrusted: who trusts its lease, or has a live context, holds the record; and
// trusts it for less time than the store does.
func (w *world) judgeTrusted(e *exec, trusts time.Duration, alive bool, now time.Time) {
	m := &e.key.model
	if trusts <= 0 && !alive {
		return
	}
	w.count.judged(A9)
	switch {
	case m.phase != claimed || !e.owns(m.owner) || !m.unexpired(now):
		w.fail(A9, "%v trusts its lease (%v) or has a live context (%v), and the record is %v", e, trusts, alive, m.state(now))
	case trusts >= m.leaseUntil.Sub(now):
		w.fail(A9, "%v trusts its lease for %v, and it ends in %v", e, trusts, m.leaseUntil.Sub(now))
	}
}

// judgeEffect counts the effects of a key (A1). Which number is right depends on
// the key's family; see the package documentation. The caller holds mu.
func (w *world) judgeEffect(k *key, epoch int) {
	w.count.judged(A1)
	n := 0
	for i := range w.ledger.effects {
		if f := &w.ledger.effects[i]; f.key == k && f.open && k.plan.family == windowed {
			return // FailOpen: no window is known
		}
		if f := &w.ledger.effects[i]; f.key == k && (f.epoch == epoch || k.plan.family == dedup || k.plan.family == mixed) {
			n++
		}
	}
	if n > 1 {
		w.fail(A1, "%s (%v): %d effects", k.name, k.plan.family, n)
	}
}
