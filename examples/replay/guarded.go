package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/idem-go/idem"
)

// paymentsWindow is how long the provider says that it remembers keys.
const paymentsWindow = 24 * time.Hour

// guarded handles messages with idem.
type guarded struct {
	handler
	process *process
	store   *idem.Store
	policy  idem.UnknownPolicy
	wait    time.Duration
	tally   *tally
}

// handle runs the operation once per key, whatever the broker delivers. What is
// unreadable has no key, which idem refuses.
func (g *guarded) handle(ctx context.Context, m *message) ending {
	var c call
	body := m.body()
	ctx = context.WithValue(ctx, callKey{}, &c)
	started := time.Now()
	res, err := g.store.Execute(ctx, m.Key, func(ctx context.Context) (idem.Result, error) {
		began := time.Now()
		defer func() { c.inOperation = time.Since(began) }()
		return g.operation(ctx, m)
	},
		idem.WithFingerprint(body),
		idem.WithProvider("payments", paymentsWindow),
		idem.OnUnknown(g.policy),
		idem.WithWait(g.wait))
	overhead := time.Since(started) - c.inOperation
	if g.process.dead.Load() {
		return ending{kind: killed}
	}
	e := g.ending(m, res, err)
	if e.kind == executed || e.kind == replayed {
		g.judge.told(m.Key)
	}
	if c.waited && e.kind != waiting {
		g.tally.waits.Add(1) // the call waited, and then went on
	} else {
		e.overhead, e.measured = overhead, true
	}
	return e
}

// call is what is noted of one call of Execute.
type call struct {
	inOperation time.Duration
	waited      bool
}

type callKey struct{}

// noteWaits is an observer that tells which calls waited for a running
// duplicate: their time is not the store's.
type noteWaits struct{}

// Observe implements idem.Observer.
func (noteWaits) Observe(ctx context.Context, e idem.Event) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok || e.Waited == 0 {
		return
	}
	switch e.Kind { //nolint:exhaustive // these tell how a wait ended, in the goroutine of the call
	case idem.EventReplayed, idem.EventExecuted, idem.EventFailed:
		c.waited = true
	}
}

// operation is what idem runs: at most one attempt at a time for each key, and
// none once an outcome is recorded.
func (g *guarded) operation(ctx context.Context, m *message) (idem.Result, error) {
	claim, ok := idem.ClaimFrom(ctx)
	if !ok {
		return idem.Result{}, errors.New("bug: an operation has a claim")
	}
	g.judge.begins(m.Key, func() bool { return claim.Remaining() > 0 })
	if claim.Takeover() {
		g.tally.takeovers.Add(1)
	}
	// The context ends with the trust window; the clock is looked at besides,
	// because a timer is late on a machine that has too much to do.
	r, err := g.pay(ctx, m, claim.ProviderKey("payments"), time.Now().Add(claim.Remaining()))
	switch {
	case err == nil && g.dies(m):
		g.process.kill() // charged, and nobody will ever record it
		return idem.Result{}, errKilled
	case errors.Is(err, errRefused):
		return idem.Result{}, idem.NotApplied(err)
	case final(err):
		return idem.Result{}, idem.Permanent(err)
	case err != nil:
		return idem.Result{}, err // it may have charged: the policy decides
	}
	return idem.Result{Value: r.json()}, nil
}

// ending tells what a call of Execute means for the message.
func (g *guarded) ending(m *message, res idem.Result, err error) ending {
	var progress *idem.InProgressError
	switch {
	case err == nil && !res.Replayed:
		return ending{kind: executed}
	case err == nil:
		g.compare(m, res.Value)
		return ending{kind: replayed}
	case errors.Is(err, idem.ErrRecordedFailure):
		g.judge.failed(m.Key)
		return ending{kind: replayed}
	case errors.Is(err, idem.ErrFingerprintMismatch):
		return ending{kind: otherBody}
	case errors.Is(err, idem.ErrInvalidKey):
		return ending{kind: unreadable}
	case errors.Is(err, idem.ErrOutcomeUnknown):
		return ending{kind: unknownOutcome}
	case errors.As(err, &progress):
		return ending{kind: waiting, after: progress.RetryAfter, err: err}
	case final(err) && !errors.Is(err, idem.ErrNotRecorded) && !errors.Is(err, idem.ErrLeaseLost):
		if errors.Is(err, errOtherUse) {
			g.tally.wrong.Add(1) // the store has let another request have the key
		}
		g.judge.failed(m.Key)
		return ending{kind: executed}
	}
	return ending{kind: broken, err: err}
}

// compare checks that a replay is the answer to this very operation.
func (g *guarded) compare(m *message, value []byte) {
	var r receipt
	if err := json.Unmarshal(value, &r); err != nil || r.Reference != m.Key || r.Amount != m.Amount {
		g.tally.wrong.Add(1)
	}
}

func (g *guarded) close(ctx context.Context) error { return g.store.Close(ctx) }
