package idem

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idem-go/idem/backoff"
	"github.com/idem-go/idem/driver"
)

// run runs the operation under a claim and settles the claim, however the
// operation ends: by returning, by a panic (which goes on afterwards with its
// own value), or by Goexit.
func (s *Store) run(ctx context.Context, c *Claim, op operation) (Result, error) {
	settled := false // also false if a method of the operation's error panics
	defer func() {
		if !settled && !c.answered {
			_ = s.settleFailure(ctx, ctx, c, nil) // observed; the panic or Goexit goes on
		}
	}()
	under := &c.under
	under.claim = c
	defer under.end()
	c.keep(under)
	switch {
	case c.open:
		s.observe(ctx, c, Event{Kind: EventUnprotected})
	case c.takeover:
		s.observe(ctx, c, Event{Kind: EventTakeover})
	}
	if c.takeover && c.opts.recover != nil {
		var res Result
		var err error
		if settled, res, err = s.recover(under, c); settled {
			return res, err
		}
	}
	c.began.Store(true)
	started := c.clock()
	res, err := op(under, c)
	c.opTime.Store(int64(c.clock() - started))
	unkept := asNotEncoded(err)
	if err != nil && unkept == nil {
		err = s.settleFailure(ctx, under, c, err)
		settled = true
		return Result{}, err
	}
	res, err = s.settleSuccess(ctx, c, res, unkept)
	settled = true
	return res, err
}

// notEncoded is how Do says that the operation succeeded with a value that
// cannot be encoded.
type notEncoded struct{ err error }

func (e *notEncoded) Error() string { return e.err.Error() }

// asNotEncoded returns why the value has no encoding, if that is what err says.
func asNotEncoded(err error) error {
	if e, ok := err.(*notEncoded); ok { //nolint:errorlint // Do returns it bare
		return e.err
	}
	return nil
}

// clock reads the time for the observer, if it wants durations.
func (c *Claim) clock() time.Duration {
	if !c.store.timed {
		return 0
	}
	return c.store.now()
}

// settleSuccess records the result of an operation that succeeded. Once the
// operation has run, nothing releases the key: if the outcome cannot be
// recorded the claim stands until its lease ends.
func (s *Store) settleSuccess(ctx context.Context, c *Claim, res Result, encoding error) (Result, error) {
	if !c.open && c.finish() {
		return Result{}, s.lostWith(c, nil)
	}
	return s.recordSuccess(ctx, c, Result{Value: res.Value}, encoding)
}

// recordSuccess writes a success, with its body if that can be kept.
func (s *Store) recordSuccess(ctx context.Context, c *Claim, res Result, encoding error) (Result, error) {
	res.Token = c.token
	out := driver.Outcome{Value: res.Value, Codec: c.codec, Recovered: res.Recovered}
	var unkept *Error
	switch {
	case encoding != nil:
		out.Value, out.Body = nil, driver.BodyNotEncoded
		unkept = c.error(ErrNotEncoded, "", encoding)
	case len(res.Value) > s.opts.MaxValue:
		out.Value, out.Body = nil, driver.BodyTooLarge
		unkept = c.error(ErrTooLarge, fmt.Sprintf("%d bytes, MaxValue is %d", len(res.Value), s.opts.MaxValue), nil)
	}
	p := &c.final
	if !c.managed { // its caller may call Record from several goroutines
		p = new(driver.CompleteParams)
	}
	*p = driver.CompleteParams{Outcome: out, Retention: c.opts.retention}
	if c.open {
		s.settleOpen(ctx, c, p)
		return res, orNil(unkept)
	}
	err := s.complete(ctx, c, p)
	switch {
	case errors.Is(err, driver.ErrLeaseLost):
		return Result{}, s.lost(ctx, c)
	case err != nil:
		return res, s.notRecorded(ctx, c, err)
	}
	c.state.Store(uint32(driver.Succeeded))
	if unkept != nil {
		unkept.State = driver.Succeeded
	}
	kind := EventExecuted
	if res.Recovered {
		kind = EventRecovered
	}
	s.observe(ctx, c, Event{Kind: kind, Err: orNil(unkept)})
	return res, orNil(unkept)
}

// settleFailure settles a claim whose operation returned err, or did not return
// (err is nil). It returns what Execute returns. Only an explicit mark records
// a failure; what else becomes of the key stands in the table of the package
// documentation.
func (s *Store) settleFailure(ctx, opCtx context.Context, c *Claim, err error) error {
	if c.open {
		s.settleOpenFailure(ctx, c, err)
		return ended(ctx, opCtx, err)
	}
	if c.finish() {
		return s.lostWith(c, err)
	}
	if isPermanent(err) {
		if failed := s.recordFailure(ctx, c, failure(err), err); failed != nil {
			return &bothErrors{failed, err}
		}
		return err
	}
	p := c.opts.release(err)
	settled := s.giveUp(ctx, c, p)
	switch {
	case errors.Is(settled, ErrLeaseLost):
		return s.lostWith(c, err)
	case settled != nil && p.Held:
		e := c.error(ErrNotRecorded, "the key should be held, and that could not be written; it stays claimed until the lease ends, then the policy decides", &bothErrors{err, settled})
		e.Effect = EffectUnknown
		return e
	case p.Held:
		err = c.error(ErrOutcomeUnknown, "the key is held", err)
	}
	return ended(ctx, opCtx, err)
}

// release says how the key of a failed operation is given up.
func (o *callOptions) release(err error) *driver.ReleaseParams {
	switch {
	case isUnknown(err):
		return &driver.ReleaseParams{Held: true}
	case err != nil && backoff.NothingSent(err):
		return &driver.ReleaseParams{}
	case o.strict():
		return &driver.ReleaseParams{Held: true}
	}
	return &driver.ReleaseParams{Doubt: true}
}

// isPermanent reports whether err is marked [Permanent].
func isPermanent(err error) bool {
	class, ok := backoff.Marked(err)
	return ok && class == backoff.Permanent
}

// isUnknown reports whether err is marked [Unknown].
func isUnknown(err error) bool {
	class, ok := backoff.Marked(err)
	return ok && class == backoff.Ambiguous
}

// recordFailure writes a failure as the outcome.
func (s *Store) recordFailure(ctx context.Context, c *Claim, out driver.Outcome, failed error) error {
	err := s.complete(ctx, c, &driver.CompleteParams{Outcome: out, Retention: c.opts.retention})
	switch {
	case errors.Is(err, driver.ErrLeaseLost):
		return s.lost(ctx, c)
	case err != nil:
		return s.notRecorded(ctx, c, err)
	}
	c.state.Store(uint32(driver.Failed))
	kind := EventFailed
	if out.Recovered {
		kind = EventRecovered
	}
	s.observe(ctx, c, Event{Kind: kind, Err: failed})
	return nil
}

// complete writes an outcome and tells those who wait in this process.
func (s *Store) complete(ctx context.Context, c *Claim, p *driver.CompleteParams) error {
	err := s.retry(ctx, c, finalWrite{ref: c.ref(), complete: p})
	s.settled(c, err, leftRecorded)
	return err
}

// giveUp releases a claim and tells those who wait in this process. It returns
// an error that matches ErrLeaseLost, or one that matches ErrNotRecorded.
func (s *Store) giveUp(ctx context.Context, c *Claim, p *driver.ReleaseParams) error {
	p.Retention = c.opts.retention
	err := s.retry(ctx, c, finalWrite{ref: c.ref(), release: p})
	s.settled(c, err, leftFree)
	switch {
	case errors.Is(err, driver.ErrLeaseLost):
		return s.lost(ctx, c)
	case err != nil:
		kind := EventNotReleased
		if p.Held { // how it ended is an outcome, and is lost
			kind = EventNotRecorded
		}
		s.observe(ctx, c, Event{Kind: kind, Err: err})
		e := c.error(ErrNotRecorded, "the key could not be released; it stays claimed until the lease ends", mask(err))
		e.Effect = EffectUnknown
		return e
	}
	kind, state := EventReleased, driver.Released
	if p.Held {
		kind, state = EventHeld, driver.Unknown
	}
	c.state.Store(uint32(state))
	s.observe(ctx, c, Event{Kind: kind})
	return nil
}

// settled notes the answer to the final write. A claim that could not be
// settled may be settled again by its caller.
func (s *Store) settled(c *Claim, err error, how left) {
	if c.managed { // read by run alone; the caller of Store.Claim may settle from several goroutines
		c.answered = true
	}
	switch {
	case err == nil:
		c.finish()
		s.meeting.leave(c, how)
		c.trusted.Store(0)
	case errors.Is(err, driver.ErrLeaseLost):
		c.mu.Lock()
		c.lose(err)
		c.mu.Unlock()
	default:
		s.meeting.leave(c, leftNotRecorded)
	}
}

// lost is the error, and the event, for a lease that the store says is lost.
func (s *Store) lost(ctx context.Context, c *Claim) error {
	e := s.lostWith(c, nil)
	c.mu.Lock()
	first := c.tell()
	c.mu.Unlock()
	if first {
		s.observe(ctx, c, Event{Kind: EventLeaseLost, Err: e})
	}
	return e
}

// lostWith is the error for a lease that the store says is lost.
func (s *Store) lostWith(c *Claim, cause error) error {
	return c.error(ErrLeaseLost, "nothing was written", cause)
}

// notRecorded is the error, and the event, for an outcome that could not be
// written.
func (s *Store) notRecorded(ctx context.Context, c *Claim, err error) error {
	e := c.error(ErrNotRecorded, "the key stays claimed until the lease ends", withCause(ctx, mask(err)))
	s.observe(ctx, c, Event{Kind: EventNotRecorded, Err: e})
	return e
}
