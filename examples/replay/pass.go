package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/idem-go/idem"
)

// A message that was handed out this often and never settled is given up.
const maxTries = 200

// pass runs one stream of deliveries to its end.
type pass struct {
	cfg      *config
	start    starter
	judge    *judge
	tally    *tally
	spent    *overheads
	progress *progress

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
	p.tally.count(e.kind)
	p.spent.add(e)
	switch {
	case e.kind.settled():
		b.settle(m)
	case e.kind == unknownOutcome:
		p.mu.Lock()
		p.held = append(p.held, m)
		p.mu.Unlock()
		b.settle(m)
	case m.try >= maxTries:
		p.tally.givenUp.Add(1)
		b.settle(m)
	default:
		b.again(m, e.after)
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
		rec, err := o.store.Inspect(ctx, m.Key)
		if err != nil {
			return n, fmt.Errorf("operator: %w", err)
		}
		r := idem.Resolution{By: "operator", Why: "the provider has no charge", Recovery: idem.NotExecuted()}
		if found, ok := find(m.Key); ok {
			r.Why = "the provider has " + found.Charge
			r.Recovery = idem.Recovered(idem.Result{Value: found.json()})
		}
		err = o.store.Resolve(ctx, m.Key, rec.Token, r)
		switch {
		case err == nil:
			n++
		case errors.Is(err, idem.ErrConflict) || errors.Is(err, idem.ErrInProgress):
			// Somebody was faster; the next delivery will tell.
		default:
			return n, fmt.Errorf("operator: %w", err)
		}
	}
	return n, nil
}
