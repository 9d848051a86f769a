package sim

import (
	"time"

	"github.com/idem-go/idem/driver"
)

// play is the part of a run with faults: step by step, each a seeded choice.
func (w *world) play() {
	for range w.plan.steps {
		w.nudge()
		if w.broken() || w.idle() {
			return
		}
		w.choose()
		w.count.Steps++
		if w.broken() {
			return
		}
	}
}

// idle reports whether nothing is left to happen but the retention's end, which
// two seeds of three do not wait for.
func (w *world) idle() bool {
	return len(w.parked) == 0 && len(w.execs) >= w.plan.deliveries && w.allReturned() && w.plan.seed%3 != 0
}

func (w *world) broken() bool { return len(w.violations) > 0 }

// choose takes one step. A call whose context has ended is answered before much
// time passes, as the contract of a backend demands.
func (w *world) choose() {
	d, r := w.dice, &w.plan.rates
	ended := w.endedCall()
	switch {
	case ended != nil && d.chance(0.8):
		w.meetEnded(ended)
	case d.chance(r.deliver) && len(w.execs) < w.plan.deliveries || len(w.parked) == 0 && len(w.execs) < w.plan.deliveries && d.chance(0.5):
		w.beginDelivery()
	case d.chance(r.cancel):
		w.cancelOne()
	case d.chance(r.kill):
		w.killOne()
	case d.chance(r.stop):
		w.closeOne()
	case d.chance(r.purge):
		w.purge()
	case d.chance(r.late):
		w.lateCopy()
	case d.chance(r.hint):
		w.hint()
	case len(w.ledger.pending) > 0 && d.chance(0.1):
		w.landOne()
	case len(w.parked) == 0 || ended == nil && d.chance(r.pass):
		w.pass()
	default:
		w.meetOne(w.parked[d.IntN(len(w.parked))])
	}
}

// endedCall is a parked call whose context has ended.
func (w *world) endedCall() *item {
	for _, it := range w.parked {
		if it.call != nil && it.ctx.Err() != nil {
			return it
		}
	}
	return nil
}

func (w *world) meetEnded(it *item) {
	d := w.dice
	switch {
	case it.call.sent > 0 && d.chance(0.3):
		w.answer(it, nil)
	case it.call.sent > 0:
		w.answer(it, ctxError(it.ctx))
	case d.chance(0.3):
		w.meet(it, fEndedLate, 0)
	case d.chance(0.2): // the answer came at the last moment
		w.meet(it, fNone, 0)
	default:
		w.meet(it, fEnded, 0)
	}
}

// meetOne gives one parked item its word.
func (w *world) meetOne(it *item) {
	d, r := w.dice, &w.plan.rates
	switch {
	case it.call == nil:
		w.say("%v goes on", it.id)
		w.resume(it, word{})
	case it.ctx.Err() != nil:
		w.meetEnded(it)
	case it.call.sent > 0:
		var err error
		if d.chance(r.lostApplied) {
			err = failure(d.IntN(failures))
		}
		w.answer(it, err)
	default:
		w.meet(it, w.drawFault(it.call), d.IntN(1<<10))
	}
}

func (w *world) drawFault(c *call) fault {
	d, r := w.dice, &w.plan.rates
	for _, f := range [...]struct {
		rate  float64
		fault fault
	}{
		{r.lost, fLost},
		{r.lostApplied, fApplied},
		{r.slow, fLate},
		{r.twice, fTwice},
		{r.unavailable, fRefused},
		{r.corrupt, fCorrupt},
		{r.cut / 3, fEndBefore},
		{r.cut / 3, fEndDuring},
		{r.cut / 3, fEndAfter},
		{r.garbled, fGarbled},
	} {
		if d.chance(f.rate) && (f.fault != fGarbled || c.method == mClaim) && (f.fault != fCorrupt || c.method != mCheck) {
			return f.fault
		}
	}
	return fNone
}

// beginDelivery begins a delivery: of a key, or of an operator's call.
func (w *world) beginDelivery() {
	d := w.dice
	alive := w.alive()
	if len(alive) == 0 {
		w.startProcess(w.plan.options[d.IntN(len(w.plan.options))])
		alive = w.alive()
	}
	p, k := pick(d, alive...), pick(d, w.keys...)
	if d.chance(0.03) {
		p = w.procs[d.IntN(len(w.procs))] // it may be closed
	}
	s := w.drawScript(k, p)
	if d.chance(w.plan.rates.operate) {
		s.kind, s.oldToken = pick(d, kResolve, kResolve, kRedact, kReset), d.chance(0.2)
	}
	w.start1(k, p, s)
}

func (w *world) start1(k *key, p *proc, s script) *exec {
	e := w.deliver(w.base, k, p, s, nil)
	e.saw.closed = !p.closed.IsZero()
	w.count.Deliveries++
	w.say("begin %v (%v)", e, k.plan.family)
	w.sightings(time.Now())
	go e.main()
	w.settle()
	return e
}

// pass lets time pass: until something happens, or for a while that is drawn from
// what matters to leases, time-outs and retentions.
func (w *world) pass() {
	d := w.dice
	p := w.procs[d.IntN(len(w.procs))]
	lease := p.lease()
	span := pick(d, 5*time.Millisecond, 50*time.Millisecond, time.Second, lease/3, lease, lease*9/8, 2*lease, 3*time.Second)
	if d.chance(0.05) {
		span = pick(d, p.plan.opts.Retention, 20*lease, time.Hour, 25*time.Hour)
	}
	span = span/time.Microsecond*time.Microsecond + time.Duration(d.between(1, 1000))*time.Microsecond
	w.say("time passes, at most %v", span)
	w.asleep = true
	w.sleep(span)
	w.settle()
	w.asleep = false
}

// cancelOne ends the context of a caller.
func (w *world) cancelOne() {
	e := w.anyDelivery()
	if e == nil || e.cancelled {
		return
	}
	w.say("the caller of e%d gives up", e.n)
	w.giveUp(e)
	w.settle()
}

// anyDelivery that is under way.
func (w *world) anyDelivery() *exec {
	var under []*exec
	for _, e := range w.execs {
		if !e.finished && !e.p.dead {
			under = append(under, e)
		}
	}
	if len(under) == 0 {
		return nil
	}
	return pick(w.dice, under...)
}

// killOne kills a process. Nothing that it has not sent is ever sent, except by a
// network that held it back.
func (w *world) killOne() {
	alive := w.alive()
	if len(alive) == 0 {
		return
	}
	w.kill(pick(w.dice, alive...))
}

func (w *world) kill(p *proc) {
	w.count.Faults[fKill]++
	w.say("p%d is killed", p.n)
	p.dead = true
	var rest []*item
	for _, it := range w.parked {
		if it.p != p {
			rest = append(rest, it)
			continue
		}
		if it.call != nil && it.call.sent == 0 && it.call.method < mInspect {
			w.older = append(w.older, it.call)
		}
		it.resume <- word{die: true, err: errDead}
	}
	w.parked = rest
	for _, e := range w.execs {
		if e.p == p {
			e.cancel(errKilled)
		}
	}
	w.settle()
}

// closeOne closes a Store. The calls under way go on.
func (w *world) closeOne() {
	alive := w.alive()
	if len(alive) == 0 {
		return
	}
	p := pick(w.dice, alive...)
	w.say("p%d is closed", p.n)
	p.closed = time.Now()
	w.sightings(time.Now())
	w.close(p)
	w.settle()
}

func (w *world) close(p *proc) {
	go func() {
		err := p.store.Close(w.base)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil && !p.dead {
			w.fail(A8, "Close of p%d: %v", p.n, err)
		}
		p.stopped = true
	}()
}

// purge removes what has expired, and sometimes, as an operator may ask for it,
// what has been unknown for long.
func (w *world) purge() {
	p := driver.PurgeParams{}
	if w.dice.chance(0.2) {
		p.UnknownAfter = w.procs[0].lease() * 10
	}
	res, err := w.b.Purge(w.base, &p)
	if err != nil {
		w.fail(A11, "Purge: %v", err)
		return
	}
	w.say("purge, unknown after %v", p.UnknownAfter) // how many are left to it depends on the backend's own sweeps
	for _, it := range w.parked {
		if it.call != nil && it.call.method == mClaim && res.Purged > 0 && it.call.key.vanished {
			w.count.see(s11)
		}
	}
	now := time.Now()
	for _, k := range w.keys {
		k.vanished = false
		if k.model.purge(&p, now) {
			w.note("%s is new: it was unknown for long", k.name)
			k.renew(now)
		}
	}
	w.settle()
}

// lateCopy delivers a copy of an older call: one that was answered, or one whose
// caller was told that it failed.
func (w *world) lateCopy() {
	if len(w.older) == 0 {
		return
	}
	c := pick(w.dice, w.older...)
	w.count.Faults[fCopy]++
	w.say("a copy of e%d's %v arrives late", c.e.n, c.method)
	w.mu.Unlock()
	w.send(w.base, c, c.e, true)
	w.mu.Lock()
	w.settle()
}

// hint delivers a hint, closes its channel, or loses it.
func (w *world) hint() {
	for _, wt := range w.watchers {
		select {
		case <-wt.inner:
			wt.hints++
		default:
		}
	}
	for i, wt := range w.watchers {
		if wt.hints == 0 || wt.ctx.Err() != nil {
			continue
		}
		wt.hints = 0
		switch w.dice.IntN(6) {
		case 0:
			w.say("a hint for e%d is lost", wt.e.n)
		case 1:
			w.say("the hints for e%d end", wt.e.n)
			wt.e.hinted = true
			close(wt.outer)
			w.watchers = append(w.watchers[:i], w.watchers[i+1:]...)
		default:
			w.say("a hint for e%d", wt.e.n)
			wt.e.hinted = true
			select {
			case wt.outer <- struct{}{}:
			default:
			}
		}
		w.settle()
		return
	}
}

// landOne makes a charge land that was sent earlier, or fall through.
func (w *world) landOne() {
	i := w.dice.IntN(len(w.ledger.pending))
	w.say("a charge lands late")
	w.land(i, w.dice.chance(0.6))
	w.settle()
}
