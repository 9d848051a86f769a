package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/idem-go/idem"
)

// observed is one event of a delivery.
type observed struct {
	e  *exec
	ev idem.Event
}

// judgeObserved: an event is told after the fact, and is true (A8).
func (w *world) judgeObserved() {
	for _, o := range w.observed {
		if o.e.p.dead {
			continue
		}
		w.count.judged(A8)
		if !o.true() {
			w.fail(A8, "%v: the event %q is not true: its operation ended with %s", o.e, o.ev.Kind, o.e.ending())
		}
	}
	w.observed = w.observed[:0]
}

func (o *observed) true() bool {
	e := o.e
	last, recorded := e.last()
	released := e.settled != nil && e.settled.method == mRelease
	switch o.ev.Kind {
	case idem.EventExecuted:
		return recorded && !last.outcome.Failed && !last.outcome.Recovered
	case idem.EventFailed:
		return recorded && last.outcome.Failed && !last.outcome.Recovered
	case idem.EventRecovered:
		return recorded && last.outcome.Recovered
	case idem.EventReplayed:
		return e.run == nil && len(e.key.outcomes) > 0
	case idem.EventReleased:
		return released && !e.settled.release.Held
	case idem.EventHeld:
		return released && e.settled.release.Held
	case idem.EventInProgress, idem.EventMismatch, idem.EventOutcomeUnknown, idem.EventUnavailable, idem.EventCorrupt:
		return e.run == nil
	case idem.EventUnprotected:
		return e.p.plan.opts.FailOpen && !e.s.strictly()
	case idem.EventNotExecuted:
		return e.recovered != nil && e.recovered.verdict == verdictNotExecuted
	case idem.EventResolved, idem.EventRedacted, idem.EventReset:
		return e.s.kind >= kResolve
	default:
		return true
	}
}

// judgeSilence: nothing is silent. What a call came to, and an operator should
// know, was told as an event.
func (w *world) judgeSilence(e *exec) {
	r := e.run
	for _, row := range []struct {
		happened bool
		told     []idem.EventKind
	}{
		{e.ret.err == nil && e.ret.res.Replayed, []idem.EventKind{idem.EventReplayed}},
		{r == nil && errors.Is(e.ret.err, idem.ErrInProgress), []idem.EventKind{idem.EventInProgress}},
		{r == nil && errors.Is(e.ret.err, idem.ErrFingerprintMismatch), []idem.EventKind{idem.EventMismatch}},
		{r != nil && r.takeover && !r.open, []idem.EventKind{idem.EventTakeover}},
		{r != nil && r.open, []idem.EventKind{idem.EventUnprotected}},
		{r != nil && errors.Is(e.ret.err, idem.ErrNotRecorded), []idem.EventKind{idem.EventNotRecorded, idem.EventNotReleased}},
		{r != nil && e.lost && !r.open, []idem.EventKind{idem.EventLeaseLost}},
	} {
		if row.happened && !slices.ContainsFunc(row.told, func(k idem.EventKind) bool { return e.events[k] > 0 }) {
			w.fail(A8, "%v: no event %v was told; it returned %v", e, row.told, e.ret.err)
		}
	}
}

// aside is what an operation was told by a call that it made by its claim.
type aside struct {
	e      *exec
	method method
	err    error
}

func (e *exec) aside(m method, err error) {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	e.w.asides = append(e.w.asides, aside{e, m, err})
}

// ref is the provider's reference of the delivery.
func (e *exec) ref() string { return fmt.Sprintf("ref of e%d", e.n) }

// judgeAsides: what an operation was told is true, and every error is idem's.
func (w *world) judgeAsides() {
	for _, a := range w.asides {
		if a.e.p.dead {
			continue
		}
		w.count.judged(A8)
		m := &a.e.key.model
		saved := slices.Contains(m.refs, idem.ProviderRef{Provider: providerName, Ref: a.e.ref()})
		var own *idem.Error
		switch {
		case a.err == nil && m.phase == claimed && a.e.owns(m.owner) && a.method == mAnnotate && !saved:
			w.fail(A8, "%v: SaveRef returned nil, and the record has %v", a.e, m.refs)
		case a.err != nil && !errors.As(a.err, &own):
			w.fail(A8, "%v: %v returned %T: %v", a.e, a.method, a.err, a.err)
		case errors.Is(context.Cause(a.e.run.ctx), idem.ErrLeaseLost): // that says it
		case errors.Is(a.err, idem.ErrLeaseLost) && m.phase == claimed && a.e.owns(m.owner):
			w.fail(A8, "%v: %v returned ErrLeaseLost, and the record is its own", a.e, a.method)
		case a.err != nil && own.Effect == idem.EffectNotRun && !errors.Is(a.err, idem.ErrInvalidOption):
			w.fail(A8, "%v: %v, inside the operation, says that it did not run: %v", a.e, a.method, a.err)
		}
	}
	w.asides = w.asides[:0]
}
