package idem

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem/driver"
)

// runOpen runs the operation without a claim: FailOpen was chosen and the store
// is unavailable. The claim it sees is real enough to use: ProviderKey works,
// Token is 0, Takeover is true because nothing is known. Calls of this process
// for the same key still meet.
func (s *Store) runOpen(ctx context.Context, q *call, op operation) (Result, error) {
	c := q.newClaim()
	c.attempt, c.takeover = 1, true
	if len(c.opts.prints) > 0 {
		c.print = c.opts.prints[0]
	}
	c.claimed = s.now()
	c.granted = c.claimed
	c.opts.window = windowLeft(c.opts.providers, func(p driver.ProviderWindow) time.Duration { return p.Window })
	c.trust(c.claimed)
	if r := s.meeting.enter(c); r != nil { // somebody runs the key here by now
		if !c.applied {
			return s.execute(ctx, q, op)
		}
		err := s.meets(q, r)
		s.observeAnswer(ctx, q, false, err)
		s.abandon(ctx, c) // and not claim again: its own claim may stand in the way
		return Result{}, err
	}
	c.open = true
	res, err := s.run(ctx, c, op)
	res.Unprotected = true
	return res, err
}

// settleOpen ends a run without a claim. If the claim may have been applied all
// the same, the outcome is recorded by owner.
func (s *Store) settleOpen(ctx context.Context, c *Claim, p *driver.CompleteParams) {
	p.Outcome.Value = bytes.Clone(p.Outcome.Value)
	s.writeOpen(ctx, c, finalWrite{ref: c.ref(), complete: p}, leftNotRecorded)
}

// settleOpenFailure is settleOpen for an operation that failed.
func (s *Store) settleOpenFailure(ctx context.Context, c *Claim, err error) {
	if isPermanent(err) {
		s.settleOpen(ctx, c, &driver.CompleteParams{Outcome: failure(err), Retention: c.opts.retention})
		return
	}
	p := c.opts.release(err)
	p.Retention = c.opts.retention
	s.writeOpen(ctx, c, finalWrite{ref: c.ref(), release: p}, leftFree)
}

// writeOpen makes the final write, if there may be a claim to settle: one try
// before the caller has its result, the others in the background, because the
// store was unavailable a moment ago.
func (s *Store) writeOpen(ctx context.Context, c *Claim, w finalWrite, how left) {
	c.finish()
	s.meeting.leave(c, how)
	if !c.applied {
		return
	}
	c.answered = true
	bound := &bounded{parent: ctx, timeout: min(s.opts.StoreTimeout, s.opts.RecordTimeout), detached: true}
	defer bound.end()
	if err := w.send(bound, s.b); driver.NoEffect(err) && !errors.Is(err, driver.ErrUnavailable) {
		s.observe(ctx, c, Event{Kind: EventNotRecorded, Err: err})
		return
	} else if err == nil {
		return
	}
	s.running.add()
	go func() {
		defer s.running.leave()
		if err := s.retry(ctx, c, w); err != nil {
			s.observe(ctx, c, Event{Kind: EventNotRecorded, Err: err})
		}
	}()
}
