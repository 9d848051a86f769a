package sim

import (
	"errors"
	"time"

	"github.com/idem-go/idem/driver"
)

// judgeArrival judges a call that the engine, or an operation, wants to make.
func (w *world) judgeArrival(it *item, now time.Time) {
	e, c := it.e, it.call
	if e.p.dead {
		return
	}
	w.judgeLate(it, now)
	switch c.method {
	case mClaim:
		w.judgeClaim(e, c, now)
	case mRenew:
		w.judgeRenew(it, now)
	case mAnnotate:
		if it.id.origin == fromEngine {
			w.judgeBookkeeping(it, now)
		}
	case mComplete, mRelease:
		w.judgeBookkeeping(it, now)
		w.judgeSettling(e, c)
	default:
	}
}

// judgeLate: nothing but the final write goes on after a call has returned, and
// that no longer than RecordTimeout (A13).
func (w *world) judgeLate(it *item, now time.Time) {
	e := it.e
	if !e.finished {
		return
	}
	w.count.judged(A13)
	after := now.Sub(e.finishedAt)
	final := it.call.method == mComplete || it.call.method == mRelease
	if !final || after > e.recordTimeout() {
		w.fail(A13, "%v: %v is sent %v after the call has returned", e, it.call.method, after)
	}
}

// judgeClaim: a claim whose answer was lost is repeated with its own owner, and
// no other claim has an owner that was used (A7).
func (w *world) judgeClaim(e *exec, c *call, now time.Time) {
	last := e.ordinal(c.ref.Owner) == len(e.owners)-1
	again := e.owner == c.ref.Owner
	w.count.judged(A7)
	switch {
	case e.retrying && !again:
		w.fail(A7, "%v: the answer to its claim was lost, and it claims again as another owner", e)
	case !e.retrying && again || !last:
		w.fail(A7, "%v claims as an owner of an earlier claim", e)
	}
	if !e.retrying {
		e.owner, e.asked = c.ref.Owner, now
	}
	e.retrying = false
	e.signal(w)
	if e.s.kind < kResolve && (c.claim.Lease != e.lease() || c.claim.Retention != e.retention()) {
		w.fail(A11, "%v claims with a lease of %v and a retention of %v", e, c.claim.Lease, c.claim.Retention)
	}
}

// judgeRenew: no renewal once the operation has ended, or after MaxRun.
func (w *world) judgeRenew(it *item, now time.Time) {
	e, r := it.e, it.e.run
	if it.id.origin == fromOperation {
		return
	}
	w.count.judged(A13)
	if e.s.kind == kSteps || r != nil && r.ended {
		w.fail(A13, "%v: a renewal that nobody needs", e)
	}
	if now.Sub(e.asked) > e.maxRun() {
		w.fail(A9, "%v: a renewal %v after the claim; MaxRun is %v", e, now.Sub(e.asked), e.maxRun())
	}
	if e.lost {
		w.fail(A8, "%v: a renewal after the lease was lost", e)
	}
}

// judgeBookkeeping: what follows the effect does not end with the caller, and
// nothing is written once the store has said that the lease is lost.
func (w *world) judgeBookkeeping(it *item, now time.Time) {
	e := it.e
	w.count.judged(A8)
	if it.ctx.Err() != nil {
		w.fail(A8, "%v: %v is sent with a context that has ended", e, it.call.method)
	}
	if deadline, ok := it.ctx.Deadline(); ok && deadline.Sub(now) > e.recordTimeout() {
		w.fail(A13, "%v: %v may last %v", e, it.call.method, deadline.Sub(now))
	}
	if e.lost && e.owner == it.call.ref.Owner {
		w.fail(A8, "%v: %v is sent after the lease was lost", e, it.call.method)
	}
}

// judgeSettling compares the settling call with how the operation, or the
// recovery, ended: the table of states.
func (w *world) judgeSettling(e *exec, c *call) {
	w.count.judged(A8)
	if e.s.kind > kSteps {
		w.judgeResolving(e, c)
		return
	}
	want := e.settling()
	if want.method != c.method || want.release.Held != c.release.Held || want.release.Doubt != c.release.Doubt || c.release.NotExecuted {
		w.fail(A8, "%v ended with %s: %v %+v is sent, not %v %+v", e, e.ending(), c.method, c.release, want.method, want.release)
		return
	}
	if got := max(c.release.Retention, c.complete.Retention); got != e.retention() {
		w.fail(A11, "%v: the retention is %v", e, got)
	}
	if c.method == mComplete {
		w.judgeOutcome(e, &c.complete.Outcome, &want.complete.Outcome)
	}
}

// judgeOutcome: what is recorded is what the operation, and so the ledger, said
// (A12).
func (w *world) judgeOutcome(e *exec, got, want *driver.Outcome) {
	w.count.judged(A12)
	if want.Body != driver.BodyKept {
		want.Value = nil
	}
	if got.Codec != "" {
		want.Codec = "json"
	}
	if want.Codec == "json" && e.s.kind != kDo {
		want.Codec = ""
	}
	if !got.Equal(want) {
		w.fail(A12, "%v ended with %s: %+v is recorded, not %+v", e, e.ending(), *got, *want)
	}
}

// ending says how the operation or the recovery of a delivery ended.
func (e *exec) ending() string {
	switch {
	case e.run != nil && e.run.ended:
		return e.run.end.String()
	case e.run != nil:
		return "nothing yet: its operation runs"
	case e.recovered != nil:
		return "the verdict " + e.recovered.verdict.String()
	}
	return "no run"
}

// settling is the call that the table of states asks for.
func (e *exec) settling() call {
	strict := e.s.strictly()
	unclear := call{method: mRelease, release: driver.ReleaseParams{Held: strict, Doubt: !strict}}
	r := e.run
	switch {
	case r == nil && e.recovered != nil && e.recovered.done:
		return e.recovered.settling()
	case r == nil:
		return call{method: mRelease} // a claim that was given up
	case !r.ended:
		return call{method: mInspect} // nothing
	}
	switch r.end {
	case endSuccess:
		out := driver.Outcome{Value: r.value}
		if len(r.value) > e.maxValue() {
			out.Body = driver.BodyTooLarge
		}
		return call{method: mComplete, complete: driver.CompleteParams{Outcome: out}}
	case endNotEncoded:
		return call{method: mComplete, complete: driver.CompleteParams{Outcome: driver.Outcome{Body: driver.BodyNotEncoded}}}
	case endPermanent:
		return call{method: mComplete, complete: driver.CompleteParams{Outcome: failed(r.err)}}
	case endUnknown:
		return call{method: mRelease, release: driver.ReleaseParams{Held: true}}
	case endNotApplied, endDial:
		return call{method: mRelease}
	default:
	}
	if e.s.kind != kSteps {
		return unclear
	}
	if r.sent { // the caller of the steps says so
		return call{method: mRelease, release: driver.ReleaseParams{Held: true}}
	}
	return call{method: mRelease}
}

func (rec *recovery) settling() call {
	switch rec.verdict {
	case verdictSucceeded:
		return call{method: mComplete, complete: driver.CompleteParams{Outcome: driver.Outcome{Value: rec.value, Recovered: true}}}
	case verdictFailed:
		out := failed(rec.err)
		out.Recovered = true
		return call{method: mComplete, complete: driver.CompleteParams{Outcome: out}}
	case verdictNotExecuted:
		return call{method: mRelease} // the verdict could not be recorded
	default:
	}
	return call{method: mRelease, release: driver.ReleaseParams{Held: true}}
}

// failed is the outcome that an operation's error is recorded as.
func failed(err error) driver.Outcome {
	code := "failed"
	var o *opError
	if errors.As(err, &o) && o.code != "" {
		code = o.code
	}
	return driver.Outcome{Failed: true, Code: code, Message: err.Error()}
}

// judgeResolving compares an operator's settling call with its verdict.
func (w *world) judgeResolving(e *exec, c *call) {
	want := e.recovered.settling()
	if e.recovered.verdict == verdictNotExecuted {
		want.release.NotExecuted = true
	}
	w.count.judged(A12)
	abandoned := c.method == mRelease && c.ref.Token == 0 && c.release == (driver.ReleaseParams{Retention: c.release.Retention})
	switch {
	case abandoned: // its claim got no answer
	case want.method != c.method || want.release.NotExecuted != c.release.NotExecuted || !want.complete.Outcome.Equal(&c.complete.Outcome):
		w.fail(A12, "%v: the verdict is %v, and %v is sent", e, e.recovered.verdict, c.method)
	}
}
