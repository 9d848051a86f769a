package idem

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/idem-go/idem/driver"
)

// call is one call of a Store for a key, from its validation to the backend's
// answer.
type call struct {
	store   *Store
	ctx     context.Context //nolint:containedctx // the caller's: for its values, and for the claims it runs under
	key     string          // the caller's; a part of stored
	stored  string          // the backend's
	opts    callOptions
	managed bool   // Execute renews and settles the claim
	token   uint64 // that Resolve expects; 0 otherwise

	params  driver.ClaimParams
	first   bounded // context of the first question to the backend
	asked   bool    // first was used
	applied bool    // the claim may have been applied although it got no answer

	storeTime, opTime, waited atomic.Int64 // durations, for the observer
}

// begin validates a call, before anything else happens, and counts it as
// running. The caller must leave s.running if it returns no error.
func (s *Store) begin(ctx context.Context, key string, opts []ExecuteOption) (*Claim, error) {
	c := &Claim{call: call{store: s, ctx: ctx, opts: s.call}}
	if err := c.opts.apply(opts); err != nil {
		return nil, err
	}
	if err := s.checkKey(key); err != nil {
		return nil, err
	}
	every := s.opts.RenewEvery
	if c.opts.neverRenewed {
		every = 0
	}
	every, err := renewal(c.opts.lease, every)
	if err != nil {
		return nil, err
	}
	c.opts.renewEvery = every
	c.stored = driver.JoinKey(s.opts.Namespace, key)
	c.key = c.stored[len(c.stored)-len(key):] // a copy: the caller may reuse its bytes
	if ctx.Err() != nil {
		return nil, c.error(nil, "the caller's context had ended", withCause(ctx, nil))
	}
	if !s.running.enter() {
		return nil, newError(ErrClosed, s.label(key), "", nil)
	}
	return c, nil
}

// acquire makes c held, or finds what is recorded (replay is true, c.Result is
// set; err tells of a recorded failure or a value that was not kept), or
// returns what stands in the way.
func (s *Store) acquire(ctx context.Context, c *Claim) (replay bool, err error) {
	mayWait := c.opts.wait > 0
	if r := c.runsIn(ctx); r != nil {
		err, mayWait = s.busyHere(c, r), false // it would wait for itself
	} else if r := s.meeting.runner(c); r != nil {
		err = s.meets(c, r)
	} else {
		replay, err = s.ask(ctx, c)
	}
	if mayWait && errors.Is(err, ErrInProgress) {
		replay, err = s.wait(ctx, c, err)
	}
	if replay || err != nil && !s.failsOpen(ctx, c, err) {
		s.observeAnswer(ctx, c, replay, err)
	}
	return replay, err
}

// runsIn returns the claim under which the key is running in this very context,
// or nil. A context may outlive the claim it carries.
func (c *Claim) runsIn(ctx context.Context) *Claim {
	for r, ok := ClaimFrom(ctx); ok; r, ok = ClaimFrom(r.ctx) {
		if r.store.meeting == c.store.meeting && r.stored == c.stored && r.runs() {
			return r
		}
	}
	return nil
}

// busyHere is the error for a key that r runs in this process.
func (s *Store) busyHere(c, r *Claim) error {
	now := s.now()
	age, leaseLeft := now-r.claimed, time.Duration(r.trusted.Load())-now
	c.saw(r.attempt, r.ref.Token, driver.Claimed)
	return c.inProgress(age, max(leaseLeft, time.Millisecond))
}

// meets is the answer to c while r runs its key in this process; the backend is
// asked nothing.
func (s *Store) meets(c, r *Claim) error {
	switch equal, known := r.print.Match(c.opts.prints); {
	case equal:
		return s.busyHere(c, r)
	case !known:
		c.saw(r.attempt, r.ref.Token, driver.Claimed)
		return c.error(ErrCorrupt, fmt.Sprintf("its fingerprint was made with the key %q, which is not among FingerprintKeys", r.print.KeyID), nil)
	}
	c.saw(r.attempt, r.ref.Token, driver.Claimed)
	return c.error(ErrFingerprintMismatch, "it was used for another request", nil)
}

// ask claims the key at the backend, once, and says what it found.
func (s *Store) ask(ctx context.Context, c *Claim) (replay bool, err error) {
	if err := s.check(ctx, c); err != nil {
		return false, err
	}
	started := s.now()
	res, err := s.claim(ctx, c, started)
	if err != nil {
		return false, s.claimError(ctx, c, err)
	}
	rec := &res.Record
	c.saw(rec.Attempt, rec.Token, rec.State)
	switch res.Fact {
	case driver.Acquired, driver.TakenOver:
		if rec.Token == 0 {
			return false, c.error(ErrCorrupt, "the backend granted a claim without a token", nil)
		}
		return false, s.acquired(ctx, c, rec, started)
	case driver.Completed:
		return s.replay(c, rec)
	case driver.InProgress:
		return false, c.inProgress(rec.ClaimAge, rec.LeaseLeft)
	case driver.Held:
		return false, c.error(ErrOutcomeUnknown, heldDetail(rec), nil)
	case driver.Mismatch:
		return false, c.error(ErrFingerprintMismatch, "it was used for another request", nil)
	}
	return false, c.error(ErrCorrupt, fmt.Sprintf("the backend answered with the fact %d", res.Fact), nil)
}

// saw notes what the call has seen of the key, for its errors and events.
func (c *Claim) saw(attempt int, token uint64, state driver.State) {
	c.attempt, c.found = attempt, token
	c.state.Store(uint32(state))
}

// heldDetail says why a record may not be taken.
func heldDetail(rec *driver.Record) string {
	switch {
	case rec.Held:
		return "an earlier attempt may have had its effect; the key is held"
	case len(rec.Providers) > 0:
		return "an earlier attempt may have had its effect, and the policy or the provider's window forbids another"
	}
	return "an earlier attempt may have had its effect, and the policy is Hold"
}

// takes says which records the call may take, by its policy.
func (o *callOptions) takes() driver.Take {
	t := driver.TakeAbsent | driver.TakeReleased
	switch {
	case o.recover != nil:
		t |= driver.TakeDoubtful | driver.TakeUnknown | driver.TakeHeld
	case o.policy == Rerun:
		t |= driver.TakeDoubtful | driver.TakeUnknown
	}
	return t
}

// claim asks the backend, and again with the same owner if the answer is lost
// (I8), for at most StoreTimeout in all. If it stays without an answer, the
// claim is given up by its owner.
func (s *Store) claim(ctx context.Context, c *Claim, started time.Duration) (*driver.ClaimResult, error) {
	bound := &c.first
	if c.asked { // a backend may still hold the first one's address
		bound = new(bounded)
	}
	c.asked, bound.parent, bound.timeout = true, ctx, s.opts.StoreTimeout
	defer bound.end()
	c.params = driver.ClaimParams{
		Key: c.stored, Lease: c.opts.lease, Retention: c.opts.retention,
		Fingerprints: c.opts.prints, Providers: c.opts.providers, Take: c.opts.takes(),
	}
	switch {
	case c.token > 0: // Resolve
		c.params.ExpectToken = c.token
		c.params.Take = driver.TakeDoubtful | driver.TakeUnknown | driver.TakeHeld
	case c.opts.recover == nil:
		c.params.MinWindow = c.opts.maxRun
	}
	if c.opts.wait > 0 { // it bounds the wait for a transaction too; time for the answer must remain
		c.params.LockWait = min(c.opts.wait, s.opts.StoreTimeout/2)
	}
	if _, err := rand.Read(c.params.Owner[:]); err != nil {
		return nil, fmt.Errorf("%w: no random bytes for the owner: %w", driver.ErrUnavailable, err)
	}
	for try := 1; ; try++ {
		res, err := s.b.Claim(bound, &c.params)
		switch {
		case err == nil:
			c.spent(started)
			return res, nil
		case driver.NoEffect(err):
			c.spent(started)
			return nil, err
		case try == tries || !pause(ctx, try, s.opts.StoreTimeout-(s.now()-started)):
			c.spent(started)
			c.applied = true
			return nil, err
		}
	}
}

// acquired makes c the holder of what the backend gave it.
func (s *Store) acquired(ctx context.Context, c *Claim, rec *driver.Record, started time.Duration) error {
	c.ref = driver.Ref{Key: c.stored, Owner: c.params.Owner, Token: rec.Token}
	c.takeover = rec.Doubt
	c.print = rec.Fingerprint
	c.refs, c.providers = rec.Refs, rec.Providers
	c.claimed = started
	if !c.takeover || c.opts.recover == nil {
		c.opts.window = windowLeft(rec.Providers, driver.Provider.Left)
	}
	c.trust(started)
	if !c.trustedAt(s.now()) {
		s.abandon(ctx, c)
		return c.error(ErrUnavailable, fmt.Sprintf("claiming took longer than the lease of %v", c.opts.lease), nil)
	}
	c.held = true
	s.meeting.run(c)
	if c.takeover {
		s.observe(ctx, c, Event{Kind: EventTakeover})
	}
	return nil
}

// claimError is what a claim that got no answer, or was refused, returns. A
// claim that may have been applied is given up, unless FailOpen goes on with it.
func (s *Store) claimError(ctx context.Context, c *Claim, err error) error {
	switch {
	case errors.Is(err, driver.ErrCorrupt):
		return c.error(ErrCorrupt, "", err)
	case errors.Is(err, driver.ErrInvalidKey):
		return c.error(ErrInvalidKey, "the backend cannot store it", err)
	}
	out := c.error(ErrUnavailable, "", withCause(ctx, err))
	if c.applied && !s.failsOpen(ctx, c, out) {
		s.abandon(ctx, c)
	}
	return out
}

// failsOpen reports whether the operation may run without a claim although
// claiming failed with err.
func (s *Store) failsOpen(ctx context.Context, c *Claim, err error) bool {
	return s.opts.FailOpen && c.managed && !c.opts.strict() && ctx.Err() == nil &&
		errors.Is(err, ErrUnavailable) && c.ref.Token == 0
}

// abandon releases a claim that nobody will use, by owner, in the background
// and for at most RecordTimeout: the caller does not wait for a store that does
// not answer.
func (s *Store) abandon(ctx context.Context, c *Claim) {
	ref := driver.Ref{Key: c.stored, Owner: c.params.Owner}
	c.applied = false
	s.running.add()
	go func() {
		defer s.running.leave()
		err := s.retry(ctx, c, finalWrite{ref: ref, release: &driver.ReleaseParams{Retention: c.opts.retention}})
		if err != nil && !errors.Is(err, driver.ErrLeaseLost) && !errors.Is(err, driver.ErrNotFound) {
			s.observe(ctx, c, Event{Kind: EventNotReleased, Err: err})
		}
	}()
}

// inProgress is the error for a live claim elsewhere. leaseLeft is not positive
// if the backend does not know it, because a transaction holds the record.
func (c *Claim) inProgress(age, leaseLeft time.Duration) error {
	after := max(100*time.Millisecond, age)
	if leaseLeft > 0 {
		after = min(after, leaseLeft)
	}
	c.state.Store(uint32(driver.Claimed))
	e := c.error(ErrInProgress, fmt.Sprintf("retry after %v", after.Round(time.Millisecond)), nil)
	return &InProgressError{RetryAfter: after, LeaseLeft: leaseLeft, detail: e}
}

// spent adds the time since started to what the observer is told, if it asks.
func (c *Claim) spent(started time.Duration) {
	if c.store.timed {
		c.storeTime.Add(int64(c.store.now() - started))
	}
}
