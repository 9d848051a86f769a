package sim

import (
	"bytes"
	"context"
	"fmt"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
)

// recovery is a recovery that a delivery was asked for.
type recovery struct {
	ctx     context.Context //nolint:containedctx // the recovery's
	claim   *idem.Claim
	verdict verdict
	value   []byte
	err     error
	done    bool
}

type verdict uint8

const (
	verdictNone verdict = iota
	verdictSucceeded
	verdictFailed
	verdictNotExecuted
	verdictError
	verdictPanic
)

func (v verdict) String() string {
	return [...]string{"no verdict", "succeeded", "failed", "not executed", "error", "panic"}[v]
}

// opError of a recovery has its own text, so that it is not taken for the
// operation's.
func (e *exec) recoveryError() error {
	return &opError{e: e, text: fmt.Sprintf("sim: e%d's recovery", e.n), code: e.s.op.code}
}

// recovery is the RecoverFunc of a delivery. Its verdict is what the ledger says.
func (e *exec) recovery(ctx context.Context, c *idem.Claim) (idem.Recovery, error) {
	w := e.w
	w.mu.Lock()
	rec := &recovery{ctx: ctx, claim: c}
	e.recovered = rec
	w.recoveries = append(w.recoveries, e)
	it := &item{id: itemID{exec: e.n, nth: 1000}, e: e, p: e.p, ctx: ctx, resume: make(chan word)}
	w.mu.Unlock()
	if w.park(it).die {
		return idem.Recovery{}, errKilled
	}
	w.mu.Lock()
	e.judgeVerdict(rec)
	w.note("e%d's recovery: %v", e.n, rec.verdict)
	w.mu.Unlock()
	switch rec.verdict {
	case verdictPanic:
		panic(opPanic{e})
	case verdictSucceeded:
		return idem.Recovered(idem.Result{Value: bytes.Clone(rec.value)}), nil
	case verdictFailed:
		return idem.RecoveredFailure(rec.err), nil
	case verdictNotExecuted:
		return idem.NotExecuted(), nil
	case verdictError:
		return idem.Recovery{}, rec.err
	case verdictNone:
	}
	return idem.Recovery{}, nil
}

// judgeVerdict chooses a verdict that is true. The caller holds mu.
func (e *exec) judgeVerdict(rec *recovery) {
	rec.done = true
	known, value := e.w.truth(e)
	if e.s.giveUp && !e.w.calm {
		known = unsure
	}
	switch {
	case known == happened:
		rec.verdict, rec.value = verdictSucceeded, value
	case known == impossible && e.s.verdict < 0.3:
		rec.verdict, rec.err = verdictFailed, e.recoveryError()
	case known == impossible:
		rec.verdict = verdictNotExecuted
	case e.s.verdict < 0.4:
		rec.verdict, rec.err = verdictError, e.recoveryError()
	case e.s.verdict < 0.8:
		rec.verdict = verdictNone
	default:
		rec.verdict = verdictPanic
	}
}

// operator is what an operator does with a key: look, and after a while act on
// what was seen.
func (e *exec) operator() error {
	ctx, store, name := e.ctx, e.p.store, e.keyText()
	rec, err := store.Inspect(ctx, name)
	e.ret.step = "Inspect"
	if err != nil {
		return err
	}
	if !e.pause(1) {
		return errKilled
	}
	token := rec.Token
	if e.s.oldToken {
		token--
	}
	e.ret.step = e.s.kind.String()
	switch e.s.kind {
	case kRedact:
		return store.Redact(ctx, name, token, "sim")
	case kReset:
		return store.Reset(ctx, name, token, "sim")
	default:
	}
	r, ok := e.resolution()
	if !ok || rec.State == driver.Claimed && e.recovered.verdict != verdictSucceeded {
		// What was running when the operator looked may still have its effect.
		e.ret.step = "nothing"
		return nil
	}
	return store.Resolve(ctx, name, token, idem.Resolution{Recovery: r, By: "operator", Why: "sim"})
}

// resolution is an operator's verdict, if the ledger allows one.
func (e *exec) resolution() (idem.Recovery, bool) {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	e.recovered = &recovery{done: true}
	known, value := e.w.truth(e)
	switch {
	case known == happened:
		e.recovered.verdict, e.recovered.value = verdictSucceeded, value
		return idem.Recovered(idem.Result{Value: bytes.Clone(value)}), true
	case known == impossible && e.s.verdict < 0.3:
		e.recovered.verdict, e.recovered.err = verdictFailed, e.recoveryError()
		return idem.RecoveredFailure(e.recovered.err), true
	case known == impossible:
		e.recovered.verdict = verdictNotExecuted
		return idem.NotExecuted(), true
	}
	return idem.Recovery{}, false
}

// pause parks a caller's own program once. It reports false if the process died.
func (e *exec) pause(nth int) bool {
	it := &item{id: itemID{exec: e.n, nth: nth}, e: e, p: e.p, ctx: e.ctx, resume: make(chan word)}
	return !e.w.park(it).die
}

// invalids is how many wrong calls there are.
const invalids = 6

// invalid makes a call that must be refused before anything happens.
func (e *exec) invalid() error {
	op := e.operation
	switch store := e.p.store; e.s.invalid {
	case 0:
		_, err := store.Execute(e.ctx, "", op)
		return err
	case 1:
		_, err := store.Execute(e.ctx, "bad\x00key", op)
		return err
	case 2:
		_, err := store.Execute(e.ctx, e.key.name, op, idem.WithLease(-1))
		return err
	case 3:
		_, err := store.Execute(e.ctx, e.key.name, nil)
		return err
	case 4:
		return store.Resolve(e.ctx, e.key.name, 0, idem.Resolution{Recovery: idem.NotExecuted()})
	default:
		_, err := store.Claim(e.ctx, e.key.name, 0, idem.OnUnknown(9))
		return err
	}
}

// expected is the sentinel of a wrong call.
func (s *script) expected() error {
	if s.invalid < 2 {
		return idem.ErrInvalidKey
	}
	return idem.ErrInvalidOption
}
