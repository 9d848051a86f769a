package sim

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
)

// judgeReturn judges what a delivery was told, against the ledger, the outcomes
// that the backend took, and what the delivery may have seen (A8, A12).
func (w *world) judgeReturn(e *exec) {
	w.count.judged(A8)
	if !e.ret.normal {
		w.judgeCrash(e)
		return
	}
	w.note("e%d returns %s%s", e.n, e.ret.step, resultText(e))
	w.seeReturn(e)
	for i, s := range w.sentinels {
		if errors.Is(e.ret.err, s) {
			w.count.Sentinels[i]++
		}
	}
	if e.saw.corrupt && !errors.Is(e.ret.err, idem.ErrCorrupt) {
		w.count.judged(A10)
		w.fail(A10, "%v: the record could not be read, and it is told %v", e, e.ret.err)
	}
	switch {
	case e.s.kind == kInvalid:
		w.judgeInvalid(e)
	case e.s.kind == kResolve || e.s.kind == kRedact || e.s.kind == kReset:
		w.judgeOperator(e)
	case e.s.kind == kSteps && e.ret.step != "Claim":
		w.judgeStep(e)
	case e.ret.err == nil:
		w.judgeSuccess(e)
	default:
		w.judgeError(e)
	}
	if w.calm {
		w.judgeWaited(e, w.calmed)
	}
	if e.s.kind < kResolve {
		w.judgeSilence(e)
	}
	w.scribble(e)
}

// scribble writes over what the caller was given: it is the caller's own.
func (w *world) scribble(e *exec) {
	for i := range e.ret.res.Value {
		e.ret.res.Value[i] = '#'
	}
}

func resultText(e *exec) string {
	var b strings.Builder
	if r := e.ret.res; r.Token != 0 || r.Value != nil || r.Replayed || r.Recovered || r.Unprotected {
		b.WriteString(" a result")
		for _, flag := range []struct {
			on   bool
			name string
		}{{r.Replayed, "replayed"}, {r.Recovered, "recovered"}, {r.Unprotected, "unprotected"}} {
			if flag.on {
				b.WriteString(", " + flag.name)
			}
		}
	}
	if e.ret.err != nil {
		b.WriteString(": " + e.ret.err.Error())
	}
	return b.String()
}

// judgeCrash: a panic goes on with its own value, and Goexit ends the goroutine.
func (w *world) judgeCrash(e *exec) {
	end := endNone
	if e.run != nil {
		end = e.run.end
	}
	recovering := e.recovered != nil && e.recovered.verdict == verdictPanic && e.run == nil
	var nilPanic *runtime.PanicNilError
	p, isErr := e.ret.panic.(error)
	switch {
	case e.ret.panic == opPanic{e} && (end == endPanic || recovering):
		w.count.see(s18Panic)
	case isErr && errors.As(p, &nilPanic) && end == endNilPanic:
		w.count.see(s18Nil)
	case e.ret.panic == nil && end == endGoexit:
		w.count.see(s18Goexit)
	default:
		w.fail(A8, "%v crashed with %v; its operation ended with %v", e, e.ret.panic, end)
	}
}

func (w *world) judgeInvalid(e *exec) {
	want := e.s.expected()
	if e.saw.closed && errors.Is(e.ret.err, idem.ErrClosed) || e.ctx.Err() != nil && errors.Is(e.ret.err, errCancelled) {
		return
	}
	if !errors.Is(e.ret.err, want) || e.run != nil {
		w.fail(A8, "%v: a wrong call was answered %v", e, e.ret.err)
	}
}

// judgeSuccess: no error is returned.
func (w *world) judgeSuccess(e *exec) {
	res := e.ret.res
	w.count.judged(A12)
	value := res.Value
	if e.ret.value != nil {
		value = e.ret.value.text
	}
	switch {
	case res.Unprotected:
		if e.run == nil || !e.run.open || e.run.end != endSuccess || !bytes.Equal(value, e.run.value) {
			w.fail(A8, "%v: an unprotected result %q", e, value)
		}
		return
	case res.Replayed:
		w.judgeReplay(e, value)
		return
	case res.Recovered:
		if e.run != nil || e.recovered == nil || e.recovered.verdict != verdictSucceeded || !bytes.Equal(value, e.recovered.value) {
			w.fail(A8, "%v: a recovered result %q, but no recovery gave it", e, value)
		}
	case e.run == nil || e.run.end != endSuccess:
		w.fail(A8, "%v: a result, and the operation ended with %s", e, e.ending())
		return
	case !bytes.Equal(value, e.run.value) || res.Token != e.run.token:
		w.fail(A12, "%v: the result is %q under token %d, the operation returned %q under %d", e, value, res.Token, e.run.value, e.run.token)
	}
	rec := e.key.outcome(res.Token)
	if rec == nil || rec.outcome.Body != driver.BodyKept || rec.e != e {
		w.fail(A8, "%v: a result without an error, and nothing is recorded under its token %d", e, res.Token)
	}
}

// outcome returns what was recorded under a token.
func (k *key) outcome(token uint64) *recorded {
	for _, o := range k.outcomes {
		if o.token == token {
			return o
		}
	}
	return nil
}

// judgeReplay: a replay is what was recorded, byte for byte, while it stood.
func (w *world) judgeReplay(e *exec, value []byte) {
	res := e.ret.res
	o := e.key.outcome(res.Token)
	switch {
	case e.run != nil:
		w.fail(A8, "%v: a replay, and its operation ran", e)
	case o == nil:
		w.fail(A12, "%v: a replay of token %d, under which nothing was recorded", e, res.Token)
	case !o.until.IsZero() && o.until.Before(e.began):
		w.fail(A5, "%v: a replay of an outcome that had ended before", e)
	case o.outcome.Failed || o.outcome.Body != driver.BodyKept:
		w.fail(A8, "%v: a replay with a value, and %+v was recorded", e, o.outcome)
	case !bytes.Equal(value, o.outcome.Value):
		w.fail(A12, "%v: the replay is %q, recorded was %q", e, value, o.outcome.Value)
	case res.Recovered != o.outcome.Recovered || !res.RecordedAt.Equal(o.at.Round(0)):
		w.fail(A12, "%v: the replay says recovered %v at %v; recorded was %v at %v", e, res.Recovered, res.RecordedAt, o.outcome.Recovered, o.at)
	case e.s.request != noRequest && o.request != noRequest && e.s.request != o.request:
		w.fail(A6, "%v: a replay of the outcome of another request", e)
	}
	w.count.judged(A5)
	if o != nil && o.e.notRecorded() {
		w.count.see(s7)
	}
}

// notRecorded reports whether the delivery was told ErrNotRecorded.
func (e *exec) notRecorded() bool { return e.finished && errors.Is(e.ret.err, idem.ErrNotRecorded) }

// judgeError: an error is returned, by Execute, Do or Claim.
func (w *world) judgeError(e *exec) {
	err := e.ret.err
	ran := e.run != nil
	var own *idem.Error
	typed := errors.As(err, &own)
	if !typed && (!ran || e.run.err == nil || !errors.Is(err, e.run.err)) {
		w.fail(A8, "%v: the error %T is neither idem's nor the operation's: %v", e, err, err)
	}
	if ran && e.run.err != nil && !errors.Is(err, e.run.err) {
		w.fail(A8, "%v: the operation's error %v is lost in %v", e, e.run.err, err)
	}
	if e.ret.res.Unprotected && (!ran || !e.run.open) || ran && e.run.open && !e.ret.res.Unprotected {
		w.fail(A8, "%v: Unprotected is %v", e, e.ret.res.Unprotected)
	}
	if typed && !e.carries(own) {
		w.judgeEffectOf(e, own)
	}
	w.judgeSentinels(e)
	w.judgeMismatch(e)
	w.judgeValue(e)
	if errors.Is(err, errCancelled) && e.ctx.Err() == nil {
		w.fail(A8, "%v: nobody gave up: %v", e, err)
	}
	if errors.Is(err, context.Canceled) && e.ctx.Err() == nil && (!ran || !errors.Is(e.run.err, context.Canceled)) {
		w.fail(A8, "%v: the context has not been cancelled: %v", e, err)
	}
}

// carries reports whether the operation itself returned this error of idem's,
// which it had from a call inside it.
func (e *exec) carries(own *idem.Error) bool {
	if e.run == nil || e.run.err == nil {
		return false
	}
	var inner *idem.Error
	return errors.As(e.run.err, &inner) && inner == own
}

// judgeEffectOf compares what an error says about the effect with what happened.
func (w *world) judgeEffectOf(e *exec, own *idem.Error) {
	ran := e.run != nil
	lie := false
	switch own.Effect {
	case idem.EffectNotRun, idem.EffectElsewhere:
		lie = ran
	case idem.EffectRan:
		lie = !ran
	case idem.EffectEarlier:
		lie = ran || len(e.key.outcomes) == 0 && (e.recovered == nil || e.recovered.verdict != verdictSucceeded)
	case idem.EffectUnknown:
	}
	if lie {
		w.fail(A8, "%v: the error says %q; its operation ended with %s: %v", e, own.Effect, e.ending(), own)
	}
}

// judgeSentinels goes through the table of errors, row by row.
func (w *world) judgeSentinels(e *exec) {
	ran, end := e.run != nil, endNone
	if ran {
		end = e.run.end
	}
	o, recorded := e.last()
	none := !ran && (e.recovered == nil || !e.recovered.done)
	var late *idem.InProgressError
	for _, row := range []struct {
		sentinel error
		true     bool
	}{
		{idem.ErrAlreadyDone, none && e.s.kind == kSteps || e.recovered != nil && e.recovered.verdict == verdictSucceeded},
		{idem.ErrInProgress, none && (e.saw.live || e.parent != nil) && errors.As(e.ret.err, &late) && late.RetryAfter > 0 && late.RetryAfter <= late.LeaseLeft},
		{idem.ErrFingerprintMismatch, none && e.saw.mismatch},
		{idem.ErrOutcomeUnknown, !ran && e.saw.unknown || e.holds()},
		{idem.ErrLeaseLost, (ran || e.vague(idem.ErrLeaseLost)) && (!recorded || o.redacted || !o.until.IsZero())},
		{idem.ErrMaxRun, ran && e.run.ctx.Err() != nil || !ran && e.recovered != nil && e.recovered.ctx.Err() != nil},
		{idem.ErrNotRecorded, ran || e.vague(idem.ErrNotRecorded)},
		{idem.ErrNotEncoded, end == endNotEncoded || none && e.found(driver.BodyNotEncoded)},
		{idem.ErrTooLarge, end == endSuccess && len(e.run.value) > e.maxValue() || none && e.found(driver.BodyTooLarge)},
		{idem.ErrRedacted, none && e.foundRedacted()},
		{idem.ErrUnavailable, none || e.recovered != nil && !ran},
		{idem.ErrRecordedFailure, none && e.foundFailure() || !ran && e.recovered != nil && e.recovered.verdict == verdictFailed},
		{idem.ErrNotDecoded, none && e.s.kind == kDo || !ran && e.recovered != nil && e.key.plan.raw && e.s.kind == kDo},
		{idem.ErrCorrupt, !ran && (e.saw.unreadable || e.saw.foreignKey)},
		{idem.ErrInvalidKey, false},
		{idem.ErrInvalidOption, none && e.p.plan.refused},
		{idem.ErrClosed, none && e.saw.closed},
		{idem.ErrConflict, false},
		{idem.ErrNotFound, false},
	} {
		carried := ran && e.run.err != nil && errors.Is(e.run.err, row.sentinel) || errors.Is(context.Cause(e.ctx), row.sentinel)
		if errors.Is(e.ret.err, row.sentinel) && !row.true && !carried {
			w.fail(A8, "%v: %q is not true: its operation ended with %s, it saw %+v: %v", e, row.sentinel, e.ending(), e.saw, e.ret.err)
		}
	}
}

// judgeMismatch: a request for which the key does not stand is told so, in every
// state (A6). One that meets a run of its own request in its process is answered by
// that: the run may have lost the key without knowing it yet. A run without a claim
// knows its own request only.
func (w *world) judgeMismatch(e *exec) {
	k := e.key
	if !e.other || !e.s.differs(k.request) || e.epoch != k.epoch || e.saw.company || e.run != nil && e.run.open {
		return
	}
	w.count.judged(A6)
	for _, s := range []error{idem.ErrInProgress, idem.ErrOutcomeUnknown, idem.ErrRecordedFailure, idem.ErrTooLarge, idem.ErrNotEncoded} {
		if errors.Is(e.ret.err, s) {
			w.fail(A6, "%v: the key stands for another request, and it is told %q", e, s)
		}
	}
}

// vague reports whether the error that has this sentinel says itself that the
// effect is unknown: so it must, when only a recovery ran.
func (e *exec) vague(sentinel error) bool {
	own := holder(e.ret.err, sentinel)
	return own != nil && own.Effect == idem.EffectUnknown && e.recovered != nil
}

// holder finds the idem.Error whose own sentinel it is.
func holder(err, sentinel error) *idem.Error {
	var under []error
	switch u := err.(type) { //nolint:errorlint // the tree is walked here, node by node
	case interface{ Unwrap() []error }:
		under = u.Unwrap()
	case interface{ Unwrap() error }:
		under = []error{u.Unwrap()}
	}
	for _, child := range under {
		own, ok := err.(*idem.Error) //nolint:errorlint // this node
		if ok && child == sentinel { //nolint:errorlint // the sentinel itself
			return own
		}
		if found := holder(child, sentinel); found != nil {
			return found
		}
	}
	return nil
}

// last returns what was recorded by this delivery.
func (e *exec) last() (*recorded, bool) {
	for _, o := range e.key.outcomes {
		if o.e == e {
			return o, true
		}
	}
	return nil, false
}

// stood returns the outcomes that stood at some time during the delivery.
func (e *exec) stood(ok func(*recorded) bool) bool {
	for _, o := range e.key.outcomes {
		if (o.until.IsZero() || !o.until.Before(e.began)) && ok(o) {
			return true
		}
	}
	return false
}

func (e *exec) found(b driver.Body) bool {
	return e.stood(func(o *recorded) bool { return o.outcome.Body == b && !o.outcome.Failed })
}

func (e *exec) foundRedacted() bool {
	return e.stood(func(o *recorded) bool { return o.redacted && !o.outcome.Failed })
}

func (e *exec) foundFailure() bool {
	var f *idem.RecordedError
	if !errors.As(e.ret.err, &f) {
		return false
	}
	return e.stood(func(o *recorded) bool {
		message := o.outcome.Message == f.Message || o.redacted && f.Message == ""
		return o.outcome.Failed && o.outcome.Code == f.Code && message && f.RecordedAt.Equal(o.at.Round(0)) &&
			(f.Code != "revivable" || errors.Is(f, errRevived))
	})
}

// holds reports whether this delivery left the key held.
func (e *exec) holds() bool {
	return e.settled != nil && e.settled.method == mRelease && e.settled.release.Held
}

// judgeValue: a value beside an error is the operation's own, and only with the
// errors that promise it.
func (w *world) judgeValue(e *exec) {
	res := e.ret.res
	value := res.Value
	if e.ret.value != nil {
		value = e.ret.value.text
	}
	promised := false
	for _, s := range []error{idem.ErrNotRecorded, idem.ErrNotEncoded, idem.ErrTooLarge, idem.ErrAlreadyDone} {
		promised = promised || errors.Is(e.ret.err, s)
	}
	w.count.judged(A12)
	switch {
	case errors.Is(e.ret.err, idem.ErrAlreadyDone):
		w.judgeAlreadyDone(e)
	case len(value) > 0 && !promised:
		w.fail(A8, "%v: a value beside %v", e, e.ret.err)
	case len(value) > 0 && e.run == nil && e.recovered != nil && e.recovered.verdict == verdictSucceeded:
		if !bytes.Equal(value, e.recovered.value) && e.s.kind != kDo {
			w.fail(A12, "%v: the value %q beside %v is not its recovery's", e, value, e.ret.err)
		}
	case len(value) > 0 && (e.run == nil || !bytes.Equal(value, e.run.value)):
		w.fail(A12, "%v: the value %q beside %v is not its operation's", e, value, e.ret.err)
	case promised && e.run != nil && e.run.end == endSuccess && !bytes.Equal(value, e.run.value):
		w.fail(A8, "%v: %v came without its value", e, e.ret.err)
	}
}

func (w *world) judgeAlreadyDone(e *exec) {
	if e.ret.res.Replayed {
		w.judgeReplay(e, e.ret.res.Value)
		return
	}
	o, ok := e.last()
	if !ok || !e.ret.res.Recovered || !bytes.Equal(o.outcome.Value, e.ret.res.Value) {
		w.fail(A12, "%v: ErrAlreadyDone with %+v", e, e.ret.res)
	}
}

// judgeStep judges the last of the three steps.
func (w *world) judgeStep(e *exec) {
	o, recorded := e.last()
	err := e.ret.err
	var own *idem.Error
	switch {
	case e.ret.step == "nothing" || e.ret.step == "forgotten":
	case err != nil && !errors.As(err, &own):
		w.fail(A8, "%v: %s returned %T: %v", e, e.ret.step, err, err)
	case err == nil && e.settled == nil:
		w.fail(A8, "%v: %s returned nil, and the backend took nothing", e, e.ret.step)
	case err == nil && e.ret.step == "Record" && (!recorded || o.outcome.Failed):
		w.fail(A8, "%v: Record returned nil, and nothing is recorded", e)
	case errors.Is(err, idem.ErrLeaseLost) && recorded && !o.redacted && o.until.IsZero():
		w.fail(A8, "%v: %s returned ErrLeaseLost, and its outcome is recorded", e, e.ret.step)
	case errors.Is(err, idem.ErrTooLarge) && (!recorded || o.outcome.Body != driver.BodyTooLarge):
		w.fail(A8, "%v: ErrTooLarge, and nothing is recorded", e)
	}
}

// judgeOperator judges what an operator was told.
func (w *world) judgeOperator(e *exec) {
	err := e.ret.err
	var own *idem.Error
	switch {
	case err == nil:
	case !errors.As(err, &own):
		w.fail(A8, "%v: %s returned %T: %v", e, e.ret.step, err, err)
	case errors.Is(err, idem.ErrNotFound) && !e.saw.absent:
		w.fail(A10, "%v: %s returned ErrNotFound, and there was a record all the time", e, e.ret.step)
	case errors.Is(err, idem.ErrCorrupt) && !e.saw.unreadable && !e.saw.foreignKey:
		w.fail(A8, "%v: %s: %v", e, e.ret.step, err)
	case errors.Is(err, idem.ErrInProgress) && !e.saw.live:
		w.fail(A8, "%v: %s: %v", e, e.ret.step, err)
	}
	if err == nil && e.ret.step == kResolve.String() && e.settled == nil {
		w.fail(A8, "%v: Resolve returned nil, and the backend took nothing", e)
	}
}
