package idem

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/idem-go/idem/driver"
)

// request is what a call asked for, and what it has seen of the key: the part
// of a call that the claim keeps.
type request struct {
	store   *Store
	ctx     context.Context //nolint:containedctx // the caller's: for its values, and for the claims it runs under
	key     string          // the caller's; a part of stored
	stored  string          // the backend's
	place   *meetingShard   // where calls for the key meet
	opts    callOptions
	owner   driver.Owner // of the claim that was sent last
	attempt int          // of the claim, or of the record that was found
	found   uint64       // token of the record that was found
	codec   string       // of the value to record, or recorded; "" is raw bytes
	managed bool         // Execute renews and settles the claim
	applied bool         // the claim may have been applied although it got no answer
}

// call is one call of a Store for a key, from its validation to the backend's
// answer. A duplicate needs no more than this, and a Store may use the memory
// again (see newCall): whatever runs under a claim has a Claim, which refers to
// no call.
type call struct {
	request
	expect uint64       // token that Resolve expects; 0 otherwise
	state  driver.State // the key's, as last seen
	result Result       // of a replay
	claim  *Claim       // what the backend granted

	storeTime, waited time.Duration // for the observer

	question
}

// question is what the backend is asked, and its answer if it answers into the
// Store's memory.
type question struct {
	bound  bounded // context of the first question
	asked  bool    // bound was used
	params driver.ClaimParams
	answer driver.ClaimResult
}

// newCall returns an empty call. Only with a backend that answers into the
// Store's memory, and so keeps nothing of a question, its memory is used again.
func (s *Store) newCall() *call {
	if s.reuser == nil {
		return new(call)
	}
	return s.calls.Get().(*call) //nolint:errcheck,forcetypeassert // there is nothing else in it
}

// begin validates a call, before anything else happens, and counts it as
// running. If it returns no error, the caller must end the call.
func (s *Store) begin(ctx context.Context, key string, opts []ExecuteOption) (*call, error) {
	q := s.newCall()
	q.store, q.ctx, q.opts = s, ctx, s.call
	if err := q.opts.apply(opts); err != nil {
		return nil, err
	}
	if err := s.checkKey(key); err != nil {
		return nil, err
	}
	every := s.opts.RenewEvery
	if q.opts.neverRenewed {
		every = 0
	}
	every, err := renewal(q.opts.lease, every)
	if err != nil {
		return nil, err
	}
	q.opts.renewEvery = every
	q.stored = driver.JoinKey(s.opts.Namespace, key)
	q.place = s.meeting.shard(q.stored)
	q.key = q.stored[len(q.stored)-len(key):] // a copy: the caller may reuse its bytes
	if ctx.Err() != nil {
		return nil, q.error(nil, "the caller's context had ended", withCause(ctx, nil))
	}
	if !s.running.enter() {
		return nil, newError(ErrClosed, s.label(key), "", nil)
	}
	return q, nil
}

// end counts a call as ended. Nothing may refer to it any more. The context of
// its question may be known to a timer: then the memory is not used again.
func (s *Store) end(q *call) {
	s.running.leave()
	if s.reuser != nil && !q.bound.made() {
		*q = call{}
		s.calls.Put(q)
	}
}

// acquire makes the key the call's (q.claim is set), or finds what is recorded
// (replay is true, q.result is set; err tells of a recorded failure or a value
// that was not kept), or returns what stands in the way.
func (s *Store) acquire(ctx context.Context, q *call) (replay bool, err error) {
	mayWait := q.opts.wait > 0
	if r := q.runsIn(ctx); r != nil {
		err, mayWait = s.busyHere(q, r), false // it would wait for itself
	} else if r := s.meeting.runner(&q.request); r != nil {
		err = s.meets(q, r)
	} else {
		replay, err = s.ask(ctx, q)
	}
	if mayWait && errors.Is(err, ErrInProgress) {
		replay, err = s.wait(ctx, q, err)
	}
	if replay || err != nil && !s.failsOpen(ctx, q, err) {
		s.observeAnswer(ctx, q, replay, err)
	}
	return replay, err
}

// runsIn returns the claim under which the key is running in this very context,
// or nil. A context may outlive the claim it carries.
func (q *request) runsIn(ctx context.Context) *Claim {
	r, ok := ClaimFrom(ctx)
	switch {
	case !ok:
		return nil
	case r.store.meeting == q.store.meeting && r.stored == q.stored && r.runs():
		return r
	}
	if around, ok := ctx.Value(aroundKey{}).(context.Context); ok {
		if r := q.runsIn(around); r != nil {
			return r
		}
	}
	return q.runsIn(r.ctx)
}

// busyHere is the error for a key that r runs in this process.
func (s *Store) busyHere(q *call, r *Claim) error {
	now := s.now()
	age, leaseLeft := now-r.claimed, time.Duration(r.trusted.Load())-now
	q.saw(r.attempt, r.token, driver.Claimed)
	return q.inProgress(age, max(leaseLeft, time.Millisecond))
}

// meets is the answer to a call while r runs its key in this process; the backend is
// asked nothing.
func (s *Store) meets(q *call, r *Claim) error {
	switch equal, known := r.print.Match(q.opts.prints); {
	case equal:
		return s.busyHere(q, r)
	case !known:
		q.saw(r.attempt, r.token, driver.Claimed)
		return q.error(ErrCorrupt, fmt.Sprintf("its fingerprint was made with the key %q, which is not among FingerprintKeys", r.print.KeyID), nil)
	}
	q.saw(r.attempt, r.token, driver.Claimed)
	return q.error(ErrFingerprintMismatch, "it was used for another request", nil)
}

// ask claims the key at the backend, once, and says what it found.
func (s *Store) ask(ctx context.Context, q *call) (replay bool, err error) {
	if err := s.check(ctx, q); err != nil {
		return false, err
	}
	started := s.now()
	res, err := s.claim(ctx, q, started)
	if err != nil {
		return false, s.claimError(ctx, q, err)
	}
	rec := &res.Record
	q.saw(rec.Attempt, rec.Token, rec.State)
	switch res.Fact {
	case driver.Acquired, driver.TakenOver:
		return false, s.acquired(ctx, q, rec, started)
	case driver.Completed:
		return s.replay(q, rec)
	case driver.InProgress:
		return false, q.inProgress(rec.ClaimAge, rec.LeaseLeft)
	case driver.Held:
		return false, q.error(ErrOutcomeUnknown, heldDetail(rec), nil)
	case driver.Mismatch:
		return false, q.error(ErrFingerprintMismatch, "it was used for another request", nil)
	}
	return false, q.unreadable(res.Fact)
}

// unreadable is the error for an answer that this release does not know (I12).
func (q *call) unreadable(f driver.Fact) error {
	return q.error(ErrCorrupt, fmt.Sprintf("the backend answered with the fact %d", f), nil)
}

// saw notes what the call has seen of the key, for its errors and events.
func (q *call) saw(attempt int, token uint64, state driver.State) {
	q.attempt, q.found, q.state = attempt, token, state
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
func (s *Store) claim(ctx context.Context, q *call, started time.Duration) (*driver.ClaimResult, error) {
	bound := &q.bound
	if q.asked { // a backend may still hold the first one's address
		bound = new(bounded)
	}
	q.asked, bound.parent, bound.timeout = true, ctx, s.opts.StoreTimeout
	defer bound.end()
	if _, err := rand.Read(q.owner[:]); err != nil {
		return nil, fmt.Errorf("%w: no random bytes for the owner: %w", driver.ErrUnavailable, err)
	}
	q.fill()
	for try := 1; ; try++ {
		res, err := s.send(bound, q)
		switch {
		case err == nil:
			q.spent(started)
			return res, unusable(res)
		case driver.NoEffect(err):
			q.spent(started)
			q.applied = try > 1 // the tries before it had no answer
			return nil, err
		case try == tries || !pause(ctx, try, s.opts.StoreTimeout-(s.now()-started)):
			q.spent(started)
			q.applied = true
			return nil, err
		}
	}
}

// unusable says why an answer without an error is none (I12).
func unusable(res *driver.ClaimResult) error {
	switch {
	case res == nil:
		return fmt.Errorf("%w: the backend answered nothing", driver.ErrCorrupt)
	case (res.Fact == driver.Acquired || res.Fact == driver.TakenOver) && res.Record.Token == 0:
		return fmt.Errorf("%w: the backend granted a claim without a token", driver.ErrCorrupt)
	}
	return nil
}

// fill writes the parameters of the claim.
func (q *call) fill() {
	p := &q.params
	*p = driver.ClaimParams{
		Key: q.stored, Owner: q.owner, Lease: q.opts.lease, Retention: q.opts.retention,
		Fingerprints: q.opts.prints, Providers: q.opts.providers, Take: q.opts.takes(),
	}
	switch {
	case q.expect > 0: // Resolve
		p.ExpectToken = q.expect
		p.Take = driver.TakeDoubtful | driver.TakeUnknown | driver.TakeHeld
	case q.opts.recover == nil:
		p.MinWindow = q.opts.maxRun
	}
	if q.opts.wait > 0 { // it bounds the wait for a transaction too; time for the answer must remain
		p.LockWait = min(q.opts.wait, q.store.opts.StoreTimeout/2)
	}
}

// send asks once.
func (s *Store) send(ctx context.Context, q *call) (*driver.ClaimResult, error) {
	if s.reuser == nil {
		return s.b.Claim(ctx, &q.params)
	}
	if err := s.reuser.ClaimInto(ctx, &q.params, &q.answer); err != nil {
		return nil, err
	}
	return &q.answer, nil
}

// newClaim returns a claim for the call, which is not held yet.
func (q *call) newClaim() *Claim {
	c := &Claim{request: q.request}
	c.state.Store(uint32(q.state))
	c.storeTime.Store(int64(q.storeTime))
	c.waited = q.waited
	return c
}

// acquired makes the caller the holder of what the backend gave it.
func (s *Store) acquired(ctx context.Context, q *call, rec *driver.Record, started time.Duration) error {
	c := q.newClaim()
	q.claim = c
	c.token = rec.Token
	c.takeover = rec.Doubt
	c.print = rec.Fingerprint
	c.refs, c.providers = rec.Refs, rec.Providers
	c.claimed, c.granted = started, s.now()
	if !c.takeover || c.opts.recover == nil {
		c.opts.window = windowLeft(rec.Providers, driver.Provider.Left)
	}
	c.trust(started)
	if !c.trustedAt(c.granted) {
		s.abandon(ctx, c)
		return q.error(ErrUnavailable, fmt.Sprintf("claiming took longer than the lease of %v", c.opts.lease), nil)
	}
	c.held = true
	s.meeting.run(c)
	return nil
}

// claimError is what a claim that got no answer, or was refused, returns. A
// claim that may have been applied is given up, unless FailOpen goes on with it.
func (s *Store) claimError(ctx context.Context, q *call, err error) error {
	out := q.error(ErrUnavailable, "", withCause(ctx, err))
	switch {
	case errors.Is(err, driver.ErrCorrupt):
		out = q.error(ErrCorrupt, "", mask(err))
	case errors.Is(err, driver.ErrInvalidKey):
		out = q.error(ErrInvalidKey, "the backend cannot store it", mask(err))
	}
	if q.applied && !s.failsOpen(ctx, q, out) {
		s.abandon(ctx, q.newClaim())
	}
	return out
}

// failsOpen reports whether the operation may run without a claim although
// claiming failed with err.
func (s *Store) failsOpen(ctx context.Context, q *call, err error) bool {
	if !s.opts.FailOpen || !q.managed || q.opts.strict() || ctx.Err() != nil || q.claim != nil {
		return false
	}
	var own *Error                                              // its reason alone decides: a store's error may match several sentinels
	return errors.As(err, &own) && own.reason == ErrUnavailable //nolint:errorlint // the sentinel itself
}

// abandon releases a claim that nobody will use, by owner, in the background
// and for at most RecordTimeout: the caller does not wait for a store that does
// not answer.
func (s *Store) abandon(ctx context.Context, c *Claim) {
	ref := driver.Ref{Key: c.stored, Owner: c.owner} // whatever its token
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
func (q *call) inProgress(age, leaseLeft time.Duration) error {
	after := max(100*time.Millisecond, age)
	if leaseLeft > 0 {
		after = min(after, leaseLeft)
	}
	q.state = driver.Claimed
	e := q.error(ErrInProgress, fmt.Sprintf("retry after %v", after.Round(time.Millisecond)), nil)
	return &InProgressError{RetryAfter: after, LeaseLeft: leaseLeft, detail: e}
}

// spent adds the time since started to what the observer is told, if it asks.
func (q *call) spent(started time.Duration) {
	if q.store.timed {
		q.storeTime += q.store.now() - started
	}
}

// error builds an error about the key.
func (q *call) error(reason error, detail string, cause error) *Error {
	return q.errorIn(q.state, false, reason, detail, cause)
}

// errorIn builds an error about the key, which is in the given state; began says
// whether the operation has begun.
func (q *request) errorIn(state driver.State, began bool, reason error, detail string, cause error) *Error {
	e := newError(reason, q.store.label(q.key), detail, cause)
	if e.Effect == EffectRan && !began {
		e.Effect = EffectUnknown // a recovery ran, and not the operation
	}
	e.Attempt, e.State = q.attempt, state
	return e
}
