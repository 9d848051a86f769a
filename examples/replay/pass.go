package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backoff"
)

// pass runs one stream of deliveries to its end.
type pass struct {
	cfg      *config
	start    starter
	judge    *judge
	tally    *tally
	spent    *overheads
	progress *progress
	slow     slowest
	halfway  *disturbance // nil: none

	mu     sync.Mutex // guards held
	held   []*message // deliveries whose outcome is unknown, for the operator
	took   time.Duration
	before verdict
	after  verdict
}

// run delivers what src has, then lets the operator resolve what is unknown and
// delivers the rest, until nothing is left.
func (p *pass) run(ctx context.Context, src source, l *ledger, operator *operator) error {
	p.before = p.judge.verdict(l)
	begun := time.Now()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	wait := p.halfway.await(ctx, end)
	err := p.deliver(ctx, stream(src, func(m *message) {
		p.tally.deliveries.Add(1)
		if !m.unreadable && usable(m.Key) {
			p.judge.delivered(m.Key)
		}
	}))
	for err == nil && len(p.held) > 0 {
		held := p.held
		p.held = nil
		p.progress.say("%s deliveries wait for the operator: the outcome of their operation is unknown", grouped(int64(len(held))))
		var n int
		if n, err = operator.resolve(ctx, held); err == nil {
			p.tally.resolved.Add(int64(n))
			err = p.deliver(ctx, resend(held))
		}
	}
	p.took = time.Since(begun)
	wait()
	if err == nil {
		err = context.Cause(ctx) // of a disturbance that failed at the very end
	}
	p.after = p.judge.verdict(l)
	return err
}

// deliver runs the broker and its consumers until everything is settled or
// held.
func (p *pass) deliver(ctx context.Context, read feed) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := newBroker()
	var wg sync.WaitGroup
	for i := range p.cfg.processes {
		workers := p.cfg.workers / p.cfg.processes
		if i < p.cfg.workers%p.cfg.processes {
			workers++
		}
		wg.Go(func() {
			if err := runProcess(ctx, workers, b, p.start, p.settle); err != nil {
				cancel(err)
			}
		})
	}
	err := b.run(ctx, read)
	wg.Wait()
	return err
}

// settle tells the broker what becomes of a message.
func (p *pass) settle(b *broker, m *message, e ending) {
	p.halfway.reached(p.tally.count(e.kind))
	p.spent.add(e)
	switch {
	case e.kind.settled():
		p.slow.settled(m, time.Now())
		b.settle(m)
	case e.kind == unknownOutcome:
		p.mu.Lock()
		p.held = append(p.held, m)
		p.mu.Unlock()
		b.settle(m)
	default:
		pause, more := m.failed(e, time.Now())
		if more {
			b.again(m, pause)
			return
		}
		p.tally.givenUp.Add(1)
		p.progress.say("gave up delivery %s of key %s after %v and %v", m.ID, m.Key, time.Since(m.trouble.since).Round(time.Second), m.trouble)
		b.settle(m)
	}
}

// operator resolves keys whose outcome is unknown, by asking the provider: by
// what it has on its ledger, not by running anything.
type operator struct {
	store    *idem.Store
	provider *provider
}

// resolve returns the number of keys it resolved.
func (o *operator) resolve(ctx context.Context, held []*message) (int, error) {
	find := o.provider.search()
	seen := make(map[string]bool)
	n := 0
	for _, m := range held {
		if seen[m.Key] {
			continue
		}
		seen[m.Key] = true
		resolved, err := backoff.Do(ctx, &patient, func(ctx context.Context) (bool, error) { return o.resolveOne(ctx, m.Key, find) })
		if err != nil {
			return n, fmt.Errorf("operator: %w", err)
		}
		if resolved {
			n++
		}
	}
	return n, nil
}

// patient outlasts an outage of the store.
var patient = backoff.Policy{MaxAttempts: 400, Cap: growingMost} //nolint:gochecknoglobals // it is only read

// resolveOne resolves one key, unless somebody was faster: then the next delivery
// will tell.
func (o *operator) resolveOne(ctx context.Context, key string, find func(string) (receipt, bool)) (bool, error) {
	rec, err := o.store.Inspect(ctx, key)
	if err != nil {
		return false, err
	}
	r := idem.Resolution{By: "operator", Why: "the provider has no charge", Recovery: idem.NotExecuted()}
	if found, ok := find(key); ok {
		r.Why = "the provider has " + found.Charge
		r.Recovery = idem.Recovered(idem.Result{Value: found.json()})
	}
	err = o.store.Resolve(ctx, key, rec.Token, r)
	if errors.Is(err, idem.ErrConflict) || errors.Is(err, idem.ErrInProgress) {
		return false, nil
	}
	return err == nil, err
}
