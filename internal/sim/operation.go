package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"github.com/idem-go/idem"
)

// run is one run of an operation, or of a caller's own work between Claim and
// Record. Guarded by world.mu.
type run struct {
	e        *exec
	epoch    int
	ctx      context.Context //nolint:containedctx // the operation's
	claim    *idem.Claim
	token    uint64
	attempt  int
	takeover bool
	open     bool // without a claim (FailOpen)
	// lostTrust: its context has ended because the trust window did.
	lostTrust bool
	pk        string
	began     time.Time

	live    bool // it may still charge
	ended   bool
	end     end
	err     error  // what the operation returned
	value   []byte // what it returned
	charged bool   // it knows that the effect happened
	effects int    // it had, also without knowing
	sent    bool   // a charge was sent that may have landed, or may land yet
	nth     int    // of its steps
}

// end is how an operation ended.
type end uint8

const (
	endNone end = iota
	endSuccess
	endNotEncoded
	endPlain
	endPermanent
	endUnknown
	endNotApplied
	endDial
	endContext
	endNote // SaveRef's own error
	endPanic
	endNilPanic
	endGoexit
	endKilled
)

func (e end) String() string {
	return [...]string{
		"none", "success", "not encoded", "an error", "Permanent", "Unknown", "NotApplied", "dial error", "its context's error",
		"SaveRef's error", "panic", "panic(nil)", "Goexit", "killed",
	}[e]
}

// opError is an error of one run.
type opError struct {
	e    *exec
	text string
	code string
}

func (o *opError) Error() string { return o.text }
func (o *opError) Code() string  { return o.code }

// errRevived is what Options.Errors has for a code.
var errRevived = errors.New("sim: revived")

// opPanic is what operations panic with.
type opPanic struct{ e *exec }

var errKilled = errors.New("sim: the process is dead")

// operation is the Op of a delivery.
func (e *exec) operation(ctx context.Context) (idem.Result, error) {
	c, _ := idem.ClaimFrom(ctx)
	r := e.w.begin(ctx, e, c)
	if e.work(r) { //nolint:contextcheck // the run has it
		e.conclude(r)
	}
	return e.leave(r)
}

// leave ends a run in the way that conclude chose.
func (e *exec) leave(r *run) (idem.Result, error) {
	e.w.mu.Lock()
	r.live, r.ended = false, true
	e.w.note("e%d's operation ends: %v", e.n, r.end)
	e.w.mu.Unlock()
	switch r.end {
	case endPanic:
		panic(opPanic{e})
	case endNilPanic:
		panic(nil) //nolint:govet // a nil panic is the case
	case endGoexit:
		runtime.Goexit()
	case endSuccess, endNotEncoded:
		return idem.Result{Value: bytes.Clone(r.value)}, nil
	default:
	}
	return idem.Result{}, r.err
}

// work makes the steps of an operation up to the point where it knows how it
// ends. It reports false if the process died.
func (e *exec) work(r *run) bool {
	op := &e.s.op
	if e.s.mutates {
		e.mutate()
	}
	for range op.pauses {
		if !e.step(r) {
			return false
		}
	}
	if op.nests != 0 {
		e.nest(r)
	}
	if op.renews {
		e.aside(mRenew, r.claim.Renew(context.WithValue(r.ctx, originKey{}, fromOperation)))
	}
	if !e.step(r) {
		return false
	}
	e.charge(r)
	if op.notes && r.charged {
		err := r.claim.SaveRef(context.WithValue(r.ctx, originKey{}, fromOperation), providerName, e.ref())
		e.aside(mAnnotate, err)
		if err != nil && op.unsure {
			r.end, r.err = endNote, err
			return true
		}
	}
	for range op.after {
		if !e.step(r) {
			return false
		}
	}
	return true
}

// step parks the operation once. It reports false if the process died.
func (e *exec) step(r *run) bool {
	e.w.mu.Lock()
	r.nth++
	it := &item{id: itemID{exec: e.n, origin: fromOperation, nth: r.nth}, e: e, p: e.p, ctx: r.ctx, run: r, resume: make(chan word)}
	e.w.mu.Unlock()
	if e.w.park(it).die {
		r.end, r.err = endKilled, errKilled
		return false
	}
	return true
}

// charge has the effect, or not. An operation that looks at its context, and
// finds it ended, sends nothing.
func (e *exec) charge(r *run) {
	w := e.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.p.dead {
		return
	}
	if !e.s.op.ignores && r.ctx.Err() != nil {
		r.end, r.err = endContext, fmt.Errorf("sim: not sent: %w", r.ctx.Err())
		return
	}
	switch e.s.op.charge {
	case chargeOK:
		r.value, r.charged, r.sent = w.ledger.charge(w, r), true, true
	case chargeLost:
		w.ledger.charge(w, r)
		r.sent = true
	case chargeLands:
		w.ledger.pending = append(w.ledger.pending, r)
		r.sent = true
	case chargeDeclined, chargeNone:
	}
}

// conclude chooses how the operation ends, of the ways that are truthful for
// what it knows.
func (e *exec) conclude(r *run) {
	if r.end != endNone {
		return
	}
	op := &e.s.op
	switch {
	case op.crash == 1:
		r.end = endPanic
	case op.crash == 2:
		r.end = endNilPanic
	case op.crash == 3:
		r.end = endGoexit
	case !r.sent: // certainly no effect
		e.fails(r, endNotApplied, endNotApplied, endDial, endPlain, endPermanent)
	case !r.charged: // the effect may have happened
		e.fails(r, endUnknown, endPlain, endPlain)
	case op.fails:
		e.fails(r, endUnknown, endPlain, endPermanent)
	case e.s.kind == kDo && (op.encoding || e.key.plan.raw):
		r.end = endNotEncoded
	default:
		r.end = endSuccess
		if op.large && e.maxValue() < 1024 {
			r.value = enlarge(r.value, e.maxValue())
		}
	}
}

// fails ends the operation with an error of one of the kinds.
func (e *exec) fails(r *run, of ...end) {
	r.end = of[int(e.s.op.end*float64(len(of)))]
	err := error(&opError{e: e, text: fmt.Sprintf("sim: e%d failed", e.n), code: e.s.op.code})
	switch r.end {
	case endPermanent:
		err = fmt.Errorf("sim: wrapped: %w", idem.Permanent(err))
	case endUnknown:
		err = idem.Unknown(err)
	case endNotApplied:
		err = idem.NotApplied(err)
	case endDial:
		err = &net.OpError{Op: "dial", Net: "tcp", Err: err}
	default:
	}
	r.err = err
}

// nest makes a delivery inside the operation: of the same key, which must be
// refused at once, or of another one.
func (e *exec) nest(r *run) {
	if e.parent != nil {
		return // one level is enough
	}
	w := e.w
	w.mu.Lock()
	k := e.key
	if e.s.op.nests == 2 {
		k = w.keys[(k.n+1)%len(w.keys)]
	}
	inner := w.deliver(r.ctx, k, e.p, w.nested(e, k), e)
	w.note("e%d begins inside e%d", inner.n, e.n)
	w.mu.Unlock()
	done := make(chan struct{})
	go func() { // Goexit of the inner one must not be ours
		defer close(done)
		inner.main()
	}()
	<-done
}

// nested is the script of a delivery inside e's operation. It throws no dice: it
// is not made by the scheduler.
func (w *world) nested(e *exec, k *key) script {
	s := script{kind: kExecute, hold: e.s.hold, recover: k.plan.family == strict && !e.s.hold, wait: e.s.wait, verdict: e.s.verdict}
	s.provider = k.plan.family == windowed
	s.hold = s.hold && k.plan.family != windowed && k.plan.family != dedup || k.plan.family == strict && !s.recover
	return s
}
