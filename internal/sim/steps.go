package sim

import (
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem"
)

// steps is a delivery by a caller who cannot hand over a function: Claim, some
// work, and Record, RecordFailure or Release, as the work's end demands.
func (e *exec) steps() {
	store := e.p.store
	e.ret.step = "Claim"
	c, err := store.Claim(e.ctx, e.keyText(), e.s.lease, e.options()...)
	if err != nil {
		e.ret.err = err
		switch {
		case errors.Is(err, idem.ErrAlreadyDone) && c != nil:
			e.ret.res = c.Result
		case c != nil:
			e.w.mu.Lock()
			e.w.fail(A8, "%v: Claim returned a claim beside %v", e, err)
			e.w.mu.Unlock()
		}
		return
	}
	ctx, cancel := c.Context(e.ctx)
	defer cancel()
	r := e.w.begin(ctx, e, c)
	if !e.work(r) {
		return
	}
	e.conclude(r)
	if r.end == endPanic || r.end == endNilPanic || r.end == endGoexit {
		// The caller forgets the claim: its lease runs out.
		e.w.mu.Lock()
		r.live, r.ended = false, true
		e.w.mu.Unlock()
		e.ret.step = "forgotten"
		return
	}
	res, opErr := e.leave(r)
	if e.s.settleLate && !e.pause(2) {
		return
	}
	e.ret.step, e.ret.err = e.settle(c, res, opErr)
	if errors.Is(e.ret.err, idem.ErrNotRecorded) && e.s.settleLate && e.pause(3) {
		e.ret.step, e.ret.err = e.settle(c, res, opErr) // "call Record again"
	}
}

// settle is the last of the three steps. ctx may have ended: that must not
// matter.
func (e *exec) settle(c *idem.Claim, res idem.Result, opErr error) (step string, err error) {
	store, ctx := e.p.store, e.ctx
	switch e.run.end {
	case endSuccess:
		return "Record", store.Record(ctx, c, res)
	case endNotApplied, endDial:
		return "Release", store.Release(ctx, c)
	case endContext:
		return "Release", store.Release(ctx, c) // nothing was sent
	case endPermanent:
		return "RecordFailure", store.RecordFailure(ctx, c, opErr)
	case endPlain, endNote, endUnknown:
		if !e.run.sent {
			return "Release", store.Release(ctx, c)
		}
		return "RecordFailure", store.RecordFailure(ctx, c, idem.Unknown(opErr))
	default:
	}
	return "nothing", nil
}

// begin notes that an operation runs, and under what.
func (w *world) begin(ctx context.Context, e *exec, c *idem.Claim) *run {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &run{e: e, ctx: ctx, claim: c, live: !e.p.dead, epoch: e.key.epoch, began: time.Now()}
	if c != nil {
		r.token, r.attempt, r.takeover, r.pk = c.Token(), c.Attempt(), c.Takeover(), c.ProviderKey(providerName)
		r.open = c.Token() == 0
	}
	if e.run != nil {
		w.fail(A1, "%v: its operation ran twice in one call", e)
	}
	e.run = r
	w.begun = append(w.begun, r)
	w.note("e%d's operation begins: token %d", e.n, r.token)
	return r
}
