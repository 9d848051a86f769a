package sim

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/idem-go/idem/driver"
)

var (
	_ driver.Backend = (*port)(nil)
	_ driver.Watcher = (*port)(nil)
	_ driver.Editor  = (*port)(nil)
	_ driver.Checker = (*checkedPort)(nil)
	_ driver.Reuser  = (*reusedPort)(nil)
)

// port is the backend as one process reaches it: every call parks.
type port struct {
	w *world
	p *proc
}

// checkedPort has a Checker too.
type checkedPort struct{ port }

// reusedPort answers claims into the Store's memory, which uses it again.
type reusedPort struct{ port }

func (b *reusedPort) ClaimInto(ctx context.Context, p *driver.ClaimParams, into *driver.ClaimResult) error {
	res, err := b.Claim(ctx, p)
	if err == nil {
		*into = *res
	}
	return err
}

func (b *reusedPort) Self() driver.Backend { return b }

// errDead is what a dead process's engine gets, so that its goroutines end: it is
// a sentinel that nothing is tried again after.
var errDead = driver.ErrLeaseLost

func (b *port) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	own := *p
	own.Fingerprints, own.Providers = slices.Clone(p.Fingerprints), slices.Clone(p.Providers)
	r := b.do(ctx, p.Key, &call{method: mClaim, ref: driver.Ref{Key: p.Key, Owner: p.Owner}, claim: &own})
	return r.claim, r.err
}

func (b *port) Renew(ctx context.Context, ref driver.Ref, p *driver.RenewParams) error {
	return b.do(ctx, ref.Key, &call{method: mRenew, ref: ref, renew: *p}).err
}

func (b *port) Annotate(ctx context.Context, ref driver.Ref, p *driver.AnnotateParams) error {
	own := *p
	own.Refs = slices.Clone(p.Refs)
	return b.do(ctx, ref.Key, &call{method: mAnnotate, ref: ref, annotate: own}).err
}

func (b *port) Complete(ctx context.Context, ref driver.Ref, p *driver.CompleteParams) error {
	own := *p
	own.Outcome.Value = bytes.Clone(p.Outcome.Value)
	return b.do(ctx, ref.Key, &call{method: mComplete, ref: ref, complete: own, value: p.Outcome.Value}).err
}

func (b *port) Release(ctx context.Context, ref driver.Ref, p *driver.ReleaseParams) error {
	return b.do(ctx, ref.Key, &call{method: mRelease, ref: ref, release: *p}).err
}

func (b *port) Inspect(ctx context.Context, key string) (*driver.Record, error) {
	r := b.do(ctx, key, &call{method: mInspect, ref: driver.Ref{Key: key}})
	return r.record, r.err
}

func (b *port) Watch(ctx context.Context, key string) (<-chan struct{}, error) {
	r := b.do(ctx, key, &call{method: mWatch, ref: driver.Ref{Key: key}})
	return r.hints, r.err
}

func (b *port) Redact(ctx context.Context, key string, p *driver.EditParams) error {
	return b.do(ctx, key, &call{method: mRedact, ref: driver.Ref{Key: key, Token: p.Token}, edit: *p}).err
}

func (b *port) Reset(ctx context.Context, key string, p *driver.EditParams) error {
	return b.do(ctx, key, &call{method: mReset, ref: driver.Ref{Key: key, Token: p.Token}, edit: *p}).err
}

func (b *checkedPort) Check(ctx context.Context) error {
	return b.do(ctx, "", &call{method: mCheck}).err
}

// do parks a call until the scheduler has decided what becomes of it.
func (b *port) do(ctx context.Context, stored string, c *call) reply {
	e := deliveryOf(ctx)
	c.e = e
	it := &item{e: e, p: b.p, ctx: ctx, call: c, resume: make(chan word)}
	b.w.mu.Lock()
	c.key = b.w.keyOf(stored)
	it.id = e.idFor(ctx, c)
	b.w.mu.Unlock()
	for {
		wd := b.w.park(it)
		for range wd.send {
			c.reply = b.w.send(ctx, c, e, false)
		}
		if wd.stay {
			continue
		}
		r := c.reply
		switch {
		case wd.err != nil:
			r = reply{err: wd.err}
		case wd.garble != 0:
			r = garbled(r, wd.garble)
		}
		b.w.told(it, r)
		return r
	}
}

// send applies a call to memstore. The backend's own context never ends: whether
// a call whose context has ended was applied is the scheduler's choice.
func (w *world) send(ctx context.Context, c *call, e *exec, late bool) reply {
	base := context.WithoutCancel(ctx)
	var r reply
	switch c.method {
	case mClaim:
		r.claim, r.err = w.b.Claim(base, c.claim)
	case mRenew:
		r.err = w.b.Renew(base, c.ref, &c.renew)
	case mAnnotate:
		r.err = w.b.Annotate(base, c.ref, &c.annotate)
	case mComplete:
		p := c.complete
		if !late { // with the caller's own bytes: what the backend keeps of them shows when the caller writes over them
			p.Outcome.Value = c.value
		}
		r.err = w.b.Complete(base, c.ref, &p)
	case mRelease:
		r.err = w.b.Release(base, c.ref, &c.release)
	case mInspect:
		r.record, r.err = w.b.Inspect(base, c.ref.Key)
	case mWatch:
		r.hints, r.err = w.watch(ctx, c, e)
	case mRedact:
		r.err = w.b.Redact(base, c.ref.Key, &c.edit)
	case mReset:
		r.err = w.b.Reset(base, c.ref.Key, &c.edit)
	case mCheck:
		if e.p.plan.refused {
			r.err = errors.Join(&driver.Finding{Severity: driver.Refuse, Code: "sim", Remedy: "none"})
		}
	case mStep, methods:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c.sent++
	w.sendings = append(w.sendings, sending{c, e, r, time.Now(), late})
	return r
}

// garbled is what a reader makes of a reply that it cannot read (I12): a fact, or
// a kind of body, that this release does not know.
func garbled(r reply, how int) reply {
	if r.claim == nil {
		return r
	}
	own := *r.claim
	if how == 1 || own.Fact != driver.Completed || own.Record.Outcome.Failed {
		own.Fact = 99
	} else {
		own.Record.Outcome.Body = 77
	}
	return reply{claim: &own}
}

// watcher is a delivery that waits for hints.
type watcher struct {
	e     *exec
	ctx   context.Context //nolint:containedctx // the watch's
	inner <-chan struct{} // memstore's
	outer chan struct{}   // the delivery's
	hints int             // that memstore gave and the scheduler has not delivered
}

// watch asks memstore for hints, and hands them on at steps of their own: a hint
// that woke its waiter inside the call that caused it would race with that call.
func (w *world) watch(ctx context.Context, c *call, e *exec) (chan struct{}, error) {
	inner, err := w.b.Watch(ctx, c.ref.Key)
	if err != nil {
		return nil, err
	}
	wt := &watcher{e: e, ctx: ctx, inner: inner, outer: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watchers = append(w.watchers, wt)
	return wt.outer, nil
}
