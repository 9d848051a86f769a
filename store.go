package idem

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idem-go/idem/driver"
)

// Store runs operations once per key over a backend. It is safe for concurrent
// use; one per process and namespace is enough, and lets duplicates meet in the
// process. It keeps no goroutine of its own.
type Store struct {
	b        driver.Backend
	opts     Options
	call     callOptions // of a call without options
	start    time.Time
	meeting  *meeting
	running  *tracker
	closing  chan struct{}
	checked  *atomic.Bool  // the backend has nothing to refuse, or was asked
	reuser   driver.Reuser // the backend, if it answers into the Store's memory
	calls    *sync.Pool    // of *call; for reuser
	observer Observer
	timed    bool // the observer wants durations
}

// New returns a Store over b. It returns [ErrInvalidOption] if b is nil or an
// option is out of its bounds; it does not touch the backend's server.
func New(b driver.Backend, opts *Options) (*Store, error) {
	if b == nil {
		return nil, invalidOption("New: the backend is nil")
	}
	o, err := opts.withDefaults(b)
	if err != nil {
		return nil, err
	}
	s := &Store{
		b: b, opts: o, start: time.Now(), checked: new(atomic.Bool),
		meeting: newMeeting(), running: newTracker(), closing: make(chan struct{}),
		reuser: reuser(b), calls: &sync.Pool{New: func() any { return new(call) }},
	}
	_, ok := driver.As[driver.Checker](b)
	s.checked.Store(!ok)
	s.observer, s.timed = o.Observer, o.Observer != nil && o.Observer != Discard
	if s.observer == nil {
		s.observer = defaultObserver{}
	}
	s.call = callOptions{lease: o.Lease, maxRun: o.MaxRun, retention: o.Retention, policy: o.OnUnknown, store: s}
	return s, nil
}

// Backend returns the backend that was given to [New].
func (s *Store) Backend() driver.Backend { return s.b }

// WithBackend returns a Store that is s over another view of the same records:
// it has the options of s, its calls and those of s meet in the process, and
// [Store.Close] of either closes both. It is for backends that bind one call to
// a transaction of the caller's: b must keep its records where s's backend does.
// FailOpen does not apply to it: without the backend there is no transaction to
// run in.
func (s *Store) WithBackend(b driver.Backend) *Store {
	bound := *s
	bound.b, bound.reuser, bound.opts.FailOpen = b, reuser(b), false
	bound.call.store = &bound
	return &bound
}

// reuser returns b if it answers claims into memory of the Store's. One that has
// the methods of a backend inside it is not meant: its own Claim must be called.
func reuser(b driver.Backend) driver.Reuser {
	if r, ok := b.(driver.Reuser); ok && r.Self() == b {
		return r
	}
	return nil
}

// Execute runs op once for key: the first call runs it and records its outcome,
// every later one gets that outcome back without running anything.
//
// In one sentence each: it claims the key; if an outcome is recorded it returns
// that; it runs op under the claim, renewing the lease; it records how op
// ended. The package documentation tells what each kind of end does to the key,
// and what each error says about the effect.
//
// ctx ends waiting, claiming, and op's own context; it does not end the
// bookkeeping after op, which has its own bound (Options.RecordTimeout). op
// runs in the caller's goroutine. A panic goes on, and Goexit ends the
// goroutine, after the bookkeeping.
func (s *Store) Execute(ctx context.Context, key string, op Op, opts ...ExecuteOption) (Result, error) {
	if op == nil {
		return Result{}, invalidOption("Execute: the operation is nil")
	}
	q, err := s.begin(ctx, key, opts)
	if err != nil {
		return Result{}, err
	}
	defer s.end(q)
	return s.execute(ctx, q, func(ctx context.Context, _ *Claim) (Result, error) { return op(ctx) })
}

// operation is what Execute and Do run.
type operation func(ctx context.Context, c *Claim) (Result, error)

// execute is Execute, once the call is validated, for an operation that gets its
// claim handed.
func (s *Store) execute(ctx context.Context, q *call, op operation) (res Result, err error) {
	if report := q.opts.report; report != nil {
		defer func() { *report = res }()
	}
	q.managed = true
	replay, err := s.acquire(ctx, q)
	switch {
	case replay:
		res = q.result
	case err == nil:
		res, err = s.run(ctx, q.claim, op)
	case s.failsOpen(ctx, q, err):
		res, err = s.runOpen(ctx, q, op)
	}
	if _, nested := ClaimFrom(ctx); nested {
		err = consume(err)
	}
	return res, err
}

// Claim claims the key for lease; zero is Options.Lease. It is the first step
// of [Store.Execute], for callers who cannot hand over a function: it must be
// followed by [Store.Record], [Store.RecordFailure] or [Store.Release], and by
// [Claim.Renew] if the work takes longer than the lease.
//
// With [ErrAlreadyDone] the claim is not held, and its Result is the recorded
// outcome. With any other error the claim is nil. With WithRecover, the
// recovery runs inside Claim, before it returns. FailOpen does not apply.
//
// ctx ends waiting and claiming.
func (s *Store) Claim(ctx context.Context, key string, lease time.Duration, opts ...ExecuteOption) (*Claim, error) {
	q, err := s.begin(ctx, key, append(slices.Clip(opts), claimLease(lease)))
	if err != nil {
		return nil, err
	}
	defer s.end(q)
	replay, err := s.acquire(ctx, q)
	switch {
	case err != nil:
		return nil, err
	case replay:
		c := q.newClaim()
		c.Result = q.result
		return c, c.error(ErrAlreadyDone, "", nil)
	}
	return s.hold(ctx, q.claim)
}

// hold hands a claim that the backend granted to the caller of Claim, unless a
// recovery has settled it.
func (s *Store) hold(ctx context.Context, c *Claim) (*Claim, error) {
	c.keep(nil)
	if c.takeover {
		s.observe(ctx, c, Event{Kind: EventTakeover})
	}
	if c.takeover && c.opts.recover != nil {
		switch done, err := s.recoverClaim(ctx, c); {
		case err != nil:
			return nil, err
		case done:
			return c, c.error(ErrAlreadyDone, "", nil)
		}
	}
	c.began.Store(true)
	return c, nil
}

// Record records res as the outcome of a claim from [Store.Claim]. Only
// res.Value is kept. The write is retried for Options.RecordTimeout, also after
// ctx has ended and after the Store was closed.
//
// It returns [ErrLeaseLost] if somebody took the key over (nothing is written),
// [ErrNotRecorded] if the store did not answer (call Record again; the key
// stays claimed until the lease ends, and is then unknown), [ErrTooLarge] if
// the value is not kept but the key is done.
func (s *Store) Record(ctx context.Context, c *Claim, res Result) error {
	if err := s.owns(c); err != nil {
		return err
	}
	_, err := s.recordSuccess(ctx, c, Result{Value: res.Value}, nil)
	return err
}

// RecordFailure settles a claim from [Store.Claim] whose work failed: with
// [Unknown](err) the key is held until a recovery or [Store.Resolve] tells;
// any other error is recorded as the outcome, and replayed. If the work did not
// happen, use [Store.Release]. Bounds and errors are those of [Store.Record].
func (s *Store) RecordFailure(ctx context.Context, c *Claim, err error) error {
	if err == nil {
		return invalidOption("RecordFailure: the error is nil")
	}
	if refused := s.owns(c); refused != nil {
		return refused
	}
	if isUnknown(err) {
		return s.giveUp(ctx, c, &driver.ReleaseParams{Held: true})
	}
	return s.recordFailure(ctx, c, failure(err), err)
}

// Release gives a claim from [Store.Claim] up: the work did not happen, or is
// safe to repeat. The key may be claimed again at once; what was in doubt
// before stays in doubt, and a held key is held again. If the effect may have
// happened, use [Store.RecordFailure] with [Unknown]. Bounds and errors are
// those of [Store.Record].
func (s *Store) Release(ctx context.Context, c *Claim) error {
	if err := s.owns(c); err != nil {
		return err
	}
	return s.giveUp(ctx, c, &driver.ReleaseParams{})
}

// Close refuses new calls with [ErrClosed], sends waiting ones away with the
// same error, and waits until the running ones have returned and their
// bookkeeping is done. It returns the cause if ctx ends sooner; the calls go
// on. Claims from [Store.Claim] may still be settled afterwards. Close may be
// called again. It does not close the backend's client.
func (s *Store) Close(ctx context.Context) error {
	idle, first := s.running.close()
	if first {
		close(s.closing)
	}
	select {
	case <-idle:
		return nil
	default: // idle is asked first: with both ready, select throws a coin
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return withCause(ctx, nil)
	}
}

// owns returns an error if c is not a held claim of this Store that its caller
// has to settle.
func (s *Store) owns(c *Claim) error {
	switch {
	case c == nil:
		return invalidOption("the claim is nil")
	case c.store != s:
		return invalidOption("the claim is another Store's")
	case c.managed:
		return invalidOption("Execute settles the claim of key %s itself", s.label(c.key))
	}
	return c.usable()
}

// now is the time since the Store was made, by the monotonic clock.
func (s *Store) now() time.Duration { return time.Since(s.start) }

// check asks a backend that can for reasons to refuse it, once, before the
// first claim.
func (s *Store) check(ctx context.Context, q *call) error {
	if s.checked.Load() {
		return nil
	}
	bound := &bounded{parent: ctx, timeout: s.opts.StoreTimeout}
	defer bound.end()
	err := s.checkBackend(bound)
	var finding *driver.Finding
	switch {
	case driver.OnlyWarnings(err):
		s.checked.Store(true)
		return nil
	case errors.As(err, &finding):
		return q.error(ErrInvalidOption, "the backend's server is refused", mask(err))
	}
	return q.error(ErrUnavailable, "the backend could not be checked", withCause(ctx, err))
}

func (s *Store) checkBackend(ctx context.Context) error {
	checker, ok := driver.As[driver.Checker](s.b)
	if !ok {
		return nil
	}
	return checker.Check(ctx)
}
