package sim

import "time"

// rehearse plays the first delivery with its faults, and the next one: after it,
// or as soon as the lease is over for which a call is held back.
func (r *rehearsal) rehearse() {
	for limit := time.Now().Add(10 * time.Minute); !r.broken(); {
		r.nudge()
		switch {
		case r.broken():
			return
		case time.Now().After(limit):
			r.fail(E2, "the case does not end: %v", &r.c)
			return
		case r.held != nil && time.Now().After(r.until):
			r.wake()
		case r.next == nil && (r.first.over() && r.held == nil || r.along()):
			r.follow()
		case r.first.over() && r.next.over() && r.held == nil:
			return
		default:
			r.stepOn()
		}
	}
}

// along reports whether the next delivery is to come now, beside the first one's
// operation.
func (r *rehearsal) along() bool {
	return r.c.Next >= Waiter && r.c.Next != OtherInput && r.first.run != nil && !r.first.run.ended
}

// over reports whether a delivery has returned, or died.
func (e *exec) over() bool { return e != nil && (e.finished || e.p.dead) }

// follow begins the next delivery.
func (r *rehearsal) follow() {
	p, s := r.procs[0], r.script(sameRequest)
	switch r.c.Next {
	case OtherInput, OtherAlong:
		s.request = otherRequest
	case NewProcess:
		p = r.fresh()
	case Waiter:
		s.wait = time.Minute + 13*time.Microsecond
	case SameAgain, Nexts:
	}
	if r.c.End == Overruns {
		s.op = opScript{}
	}
	r.next = r.start1(r.keys[0], p, s)
}

// wake ends the holding back of a call: the lease is over. The next delivery has
// come first: it is over if it is at a new process, else its operation runs.
func (r *rehearsal) wake() {
	if r.next == nil {
		r.follow()
		return
	}
	begun := r.next.run != nil && r.c.Next != NewProcess
	if !begun && !r.next.over() && r.busy() {
		r.stepOn()
		return
	}
	it := r.held
	r.held = nil
	r.say("%v is held back no longer", it.id)
	r.resume(it, r.word)
}

// busy reports whether anything but the held call is parked.
func (r *rehearsal) busy() bool {
	for _, it := range r.parked {
		if it != r.held {
			return true
		}
	}
	return false
}

// stepOn takes the next step: a call, else a step of an operation, else time. The
// first operation waits for a renewal before its first step.
func (r *rehearsal) stepOn() {
	var step *item
	waits := false
	for _, it := range r.parked {
		switch {
		case it == r.held:
		case it.call != nil:
			r.call(it)
			return
		case it.run != nil && it.e.s.op.pauses == 100: // it only holds the key
		case it.e == r.first && !r.ripe():
			waits = true
		case step == nil:
			step = it
		}
	}
	if step != nil {
		r.meetCalm(step)
		return
	}
	d := time.Second
	if r.held != nil {
		d = max(time.Until(r.until)+time.Microsecond, time.Microsecond)
	}
	if waits && !r.waited {
		d = min(d, caseRenew+time.Millisecond)
	}
	r.waited = r.waited || waits
	r.sleep(d)
	r.settle()
}

// ripe reports whether the first operation may go on: it has waited for a
// renewal, and for the end of its context if it is to overrun.
func (r *rehearsal) ripe() bool {
	overrun := r.c.End != Overruns || r.first.run == nil || r.first.run.ctx.Err() != nil
	free := r.held == nil || r.c.End != Succeeds // else a renewal may be held back while it runs
	return r.waited && overrun && free
}

// call answers a call, with the fault that stands for it.
func (r *rehearsal) call(it *item) {
	if it.e != r.first {
		r.meetCalm(it)
		return
	}
	if it.call.sent > 0 { // its reply waited
		r.answer(it, nil)
		return
	}
	r.calls++
	for _, f := range r.c.Faults {
		if f.Call == r.calls {
			r.strike(it, f.Fault)
			return
		}
	}
	r.meetCalm(it)
}

// strike makes a fault happen. A process that is to be replaced dies with it.
func (r *rehearsal) strike(it *item, f Fault) {
	r.fired++
	if it.ctx.Err() != nil {
		r.meetCalm(it)
		return
	}
	if r.c.Next == NewProcess && r.fired == len(r.c.Faults) {
		defer func() {
			if !r.first.p.dead && !r.broken() && r.held == nil {
				r.kill(r.first.p)
			}
		}()
	}
	switch f {
	case NotApplied:
		r.meet(it, fLost, 0)
	case ReplyLost:
		r.meet(it, fApplied, 0)
	case Twice:
		r.meet(it, fTwice, 0)
	case ReplyAfterLease:
		r.meet(it, fLate, 0)
		r.holdBack(it, word{})
	case SentAfterLease:
		r.holdBack(it, word{send: 1})
	case NeverAnswered:
		r.holdBack(it, word{err: failure(3)})
		r.until = time.Now().Add(10 * time.Second)
	case ContextEndsBefore:
		r.meet(it, fEndBefore, 0)
	case ContextEndsDuring:
		r.meet(it, fEndDuring, 0)
	case ContextEndsAfter:
		r.meet(it, fEndAfter, 0)
	case OddError:
		r.meet(it, fApplied, 1)
	case OldCallAgain:
		r.meet(it, fNone, 0)
		r.again(0)
	case LastCallAgain:
		r.meet(it, fNone, 0)
		r.again(len(r.older) - 2)
	case Refused:
		r.meet(it, fRefused, 0)
	case Unreadable:
		r.meet(it, fCorrupt, 0)
	case Garbled:
		if it.call.method != mClaim { // only its reply says so much
			r.fired--
			r.meetCalm(it)
			return
		}
		r.meet(it, fGarbled, 1)
	case Faults:
	}
}

// holdBack keeps a call, or its reply, until a lease has passed.
func (r *rehearsal) holdBack(it *item, wd word) {
	if r.held != nil { // one is enough: this one goes on
		r.resume(it, wd)
		return
	}
	r.held, r.word, r.until = it, wd, time.Now().Add(2*caseLease)
	r.say("%v is held back", it.id)
}

// again lets a copy of an older call arrive.
func (r *rehearsal) again(i int) {
	if r.broken() || i < 0 || i >= len(r.older) {
		return
	}
	c := r.older[i]
	r.count.Faults[fCopy]++
	r.say("a copy of e%d's %v arrives late", c.e.n, c.method)
	r.mu.Unlock()
	r.send(r.base, c, c.e, true)
	r.mu.Lock()
	r.settle()
}
