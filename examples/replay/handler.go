package main

import (
	"context"
	"errors"
	"time"
)

// handler does what the messages ask for. It is the same with idem and without.
type handler struct {
	seed     uint64
	crash    float64
	provider *provider
	judge    *judge
}

// pay has the effect. key is the idempotency key for the provider, or ""; until
// is the last instant at which the provider may be asked, or zero.
func (h *handler) pay(ctx context.Context, m *message, key string, until time.Time) (receipt, error) {
	if err := m.validate(); err != nil {
		h.judge.refused(m.Key)
		return receipt{}, err
	}
	r, err := h.provider.charge(ctx, request{
		key: key, reference: m.Key, source: m.Source, amount: m.Amount,
		delivery: m.number, nonce: m.ID, try: m.try, until: until,
	})
	if errors.Is(err, errDeclined) {
		h.judge.refused(m.Key)
	}
	return r, err
}

// final reports whether no further attempt can succeed.
func final(err error) bool {
	return errors.Is(err, errDeclined) || errors.Is(err, errNoType) || errors.Is(err, errNoAmount) || errors.Is(err, errOtherUse)
}

// dies decides whether this attempt is killed at the worst moment.
func (h *handler) dies(m *message) bool {
	return throw(h.seed, "crash", m.ID, m.try).hits(h.crash)
}

var errKilled = errors.New("the process died after the provider charged")

// without handles messages without idem: what a consumer does that trusts its
// queue. There is nothing to know a duplicate by, and each request to the
// provider is a new one.
type without struct {
	handler
	process *process
}

func (w *without) handle(ctx context.Context, m *message) ending {
	if m.unreadable || !usable(m.Key) {
		return ending{kind: unreadable}
	}
	_, err := w.pay(ctx, m, "", time.Time{})
	switch {
	case err == nil && w.dies(m):
		w.process.kill()
		return ending{kind: killed}
	case final(err):
		w.judge.failed(m.Key)
		return ending{kind: executed}
	case err != nil:
		return ending{kind: broken, err: err}
	}
	return ending{kind: executed}
}

func (w *without) close(context.Context) error { return nil }
