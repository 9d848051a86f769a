package sim

import (
	"errors"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
)

// finish is the second phase of a run: no faults any more.
//
//   - E2: every delivery under way returns, and a new one to each key gets a
//     verdict.
//   - E1: then every key is settled, claimable, or held.
//   - E3: one recovery pass brings the unknown keys to none, also when its
//     process dies in the middle and another one goes on.
func (w *world) finish() {
	w.calm, w.calmed = true, time.Now()
	if !w.drain(E2) {
		return
	}
	w.outlastLeases()
	for len(w.ledger.pending) > 0 && !w.broken() {
		w.land(0, w.dice.chance(0.5))
	}
	w.checkKeys()
	w.recoverAll()
	if w.broken() {
		return
	}
	w.deliverAll()
	w.closeAll()
}

// longest lease that any delivery has had.
func (w *world) longest() time.Duration {
	longest := time.Duration(0)
	for _, e := range w.execs {
		longest = max(longest, e.lease())
	}
	return longest
}

// drain gives every item its word until all deliveries have returned. Under rule
// r this must happen within the time that a wait, a record time-out or a lease
// allows.
func (w *world) drain(r rule) bool {
	began := time.Now()
	limit := w.longest() + 30*time.Second
	for _, e := range w.execs {
		if !e.finished {
			limit = max(limit, e.s.wait+30*time.Second)
		}
	}
	for {
		w.nudge()
		if w.broken() {
			return false
		}
		switch {
		case len(w.parked) > 0:
			w.meetCalm(w.parked[0])
		case w.allReturned():
			return true
		case time.Since(began) > limit:
			w.fail(r, "after %v without faults a delivery has not returned: %v", time.Since(began), w.anyDelivery())
			return false
		default:
			w.asleep = true
			w.sleep(time.Second)
			w.settle()
			w.asleep = false
		}
		if w.broken() {
			return false
		}
	}
}

// meetCalm answers without a fault.
func (w *world) meetCalm(it *item) {
	switch {
	case it.call == nil:
		w.say("%v goes on", it.id)
		w.resume(it, word{})
	case it.call.sent > 0:
		w.answer(it, nil)
	case it.ctx.Err() != nil:
		w.meet(it, fEnded, 0)
	default:
		w.meet(it, fNone, 0)
	}
}

func (w *world) allReturned() bool {
	for _, e := range w.execs {
		if !e.finished && !e.p.dead {
			return false
		}
	}
	return true
}

// outlastLeases lets one lease and 30 seconds pass.
func (w *world) outlastLeases() {
	until := time.Now().Add(w.longest() + 30*time.Second)
	for time.Now().Before(until) && !w.broken() {
		w.nudge()
		if len(w.parked) > 0 {
			w.meetCalm(w.parked[0])
			continue
		}
		w.sleep(time.Until(until))
		w.settle()
	}
}

// checkKeys is E1.
func (w *world) checkKeys() {
	for _, k := range w.keys {
		w.count.judged(E1)
		if k.model.state(time.Now()) == driver.Claimed {
			w.fail(E1, "%s is still claimed a lease and 30 seconds after the last fault", k.name)
		}
	}
}

// recoverAll is E3.
func (w *world) recoverAll() {
	tries := make(map[*key]int)
	crash := w.dice.chance(0.5)
	w.count.judged(E3)
	for w.anyUnknown() && !w.broken() {
		list, err := w.b.List(w.base, &driver.ListParams{States: []driver.State{driver.Unknown}})
		if err != nil {
			w.fail(E3, "List: %v", err)
			return
		}
		p := w.fresh()
		for _, rec := range list.Records {
			k := w.keyOf(rec.Key)
			tries[k]++
			if tries[k] > 2 {
				w.fail(E3, "%s is still unknown after the recovery pass", k.name)
				return
			}
			e := w.start1(k, p, script{kind: kExecute, recover: true, verdict: 0.9, provider: k.plan.family == windowed})
			if crash {
				crash = false
				w.kill(p)
				w.outlastLeases()
				break // another pass begins anew
			}
			if !w.drain(E3) {
				return
			}
			w.judgeFinal(e, E3)
		}
	}
}

func (w *world) anyUnknown() bool {
	for _, k := range w.keys {
		if k.model.unknown(time.Now()) {
			return true
		}
	}
	return false
}

// fresh is a process that fails closed. It is made once, and again after its
// death: a Store costs more than a delivery.
func (w *world) fresh() *proc {
	if w.last != nil && !w.last.dead {
		return w.last
	}
	sp := w.plan.options[0]
	sp.checks = false
	sp.opts.FailOpen = false
	w.last = w.startProcess(sp)
	return w.last
}

// deliverAll is E2 for new deliveries.
func (w *world) deliverAll() {
	for _, k := range w.keys {
		strictly := k.plan.family == strict
		e := w.start1(k, w.fresh(), script{kind: kExecute, recover: strictly, verdict: 0.9, provider: k.plan.family == windowed})
		if !w.drain(E2) {
			return
		}
		w.judgeFinal(e, E2)
	}
}

// judgeFinal: a delivery without faults gets a verdict.
func (w *world) judgeFinal(e *exec, r rule) {
	w.count.judged(r)
	err := e.ret.err
	for _, verdict := range []error{
		nil, idem.ErrRecordedFailure, idem.ErrNotEncoded, idem.ErrTooLarge, idem.ErrRedacted,
	} {
		if err == verdict || verdict != nil && errors.Is(err, verdict) { //nolint:errorlint // nil is one of them
			return
		}
	}
	if errors.Is(err, idem.ErrOutcomeUnknown) && !e.s.recover && e.key.plan.family == windowed {
		return // the provider's window is over: rightly held
	}
	if errors.Is(err, idem.ErrCorrupt) && e.saw.foreignKey {
		return
	}
	w.fail(r, "%v: without any fault: %v", e, err)
}

// judgeWaited: without faults, who waits gets an outcome that is recorded later
// than since, and soon: by a call of its process, by a hint or by its poll.
func (w *world) judgeWaited(e *exec, since time.Time) {
	if !e.finished || e.s.wait == 0 || !errors.Is(e.ret.err, idem.ErrInProgress) {
		return
	}
	w.count.judged(E2)
	for _, o := range e.key.outcomes {
		if o.until.IsZero() && o.at.After(since) && e.finishedAt.Sub(o.at) > 5*time.Second {
			w.fail(E2, "%v is told %v, %v after the outcome was recorded", e, e.ret.err, e.finishedAt.Sub(o.at))
		}
	}
}

// closeAll closes every Store: each returns within RecordTimeout, and nothing is
// sent any more.
func (w *world) closeAll() {
	for _, p := range w.procs {
		if !p.dead && p.closed.IsZero() {
			p.closed = time.Now()
			w.close(p)
		}
	}
	w.settle()
	for until := time.Now().Add(5*time.Second + time.Minute); time.Now().Before(until) && !w.allStopped(); {
		w.nudge()
		if len(w.parked) > 0 {
			w.meetCalm(w.parked[0])
			continue
		}
		w.sleep(time.Second)
		w.settle()
	}
	w.count.judged(A13)
	for _, p := range w.procs {
		if !p.dead && !p.stopped {
			w.fail(A13, "Close of p%d has not returned", p.n)
		}
	}
	w.sleep(time.Hour)
	w.settle()
	if len(w.parked) > 0 {
		w.fail(A13, "a call after all Stores were closed: %v", w.parked[0].id)
	}
}

func (w *world) allStopped() bool {
	for _, p := range w.procs {
		if !p.dead && !p.stopped {
			return false
		}
	}
	return true
}

// abort ends what a broken run has left, so that its bubble can end.
func (w *world) abort() {
	for _, p := range w.procs {
		p.dead = true
	}
	for _, e := range w.execs {
		e.cancel(errKilled)
	}
	for _, it := range w.parked {
		it.resume <- word{die: true, err: errDead}
	}
	w.parked = nil
	for until := time.Now().Add(time.Minute); time.Now().Before(until) || w.anyUnfinished(); {
		for _, it := range w.parked {
			it.resume <- word{die: true, err: errDead}
		}
		w.parked = nil
		w.sleep(10 * time.Second)
		w.settle()
	}
}

func (w *world) anyUnfinished() bool {
	for _, e := range w.execs {
		if !e.finished {
			return true
		}
	}
	return false
}
