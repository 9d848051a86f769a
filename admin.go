package idem

import (
	"context"
	"errors"
	"fmt"

	"github.com/idem-go/idem/driver"
)

// Record is a snapshot of what the store keeps for a key.
type Record = driver.Record

// Resolution is an operator's word on how an attempt ended whose end was
// unknown.
type Resolution struct {
	// Recovery is the verdict: [Recovered], [RecoveredFailure] or [NotExecuted].
	Recovery Recovery
	// By and Why are stored with the record.
	By  string
	Why string
}

// Inspect returns the record of a key without changing anything. It returns
// [ErrNotFound] if there is none, [ErrCorrupt] if it cannot be read, and
// [ErrUnavailable] if the store did not answer within Options.StoreTimeout or
// before ctx ended.
func (s *Store) Inspect(ctx context.Context, key string) (*Record, error) {
	q, err := s.begin(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	defer s.end(q)
	bound := &bounded{parent: ctx, timeout: s.opts.StoreTimeout}
	defer bound.end()
	rec, err := s.b.Inspect(bound, q.stored)
	if err == nil && rec == nil {
		err = fmt.Errorf("%w: the backend answered nothing", driver.ErrCorrupt)
	}
	if err != nil {
		return nil, adminError(ctx, q.error, "", err)
	}
	own := *rec
	own.Key = q.key
	return &own, nil
}

// Resolve settles a key whose outcome is unknown, held or not, or that was
// released in doubt. token is the one that Inspect showed: if the record has
// another one, somebody else has acted and Resolve returns [ErrConflict]. It
// fences the old owner. It also returns [ErrConflict] for a key that is settled,
// [ErrInProgress] for one whose lease has not ended, [ErrNotFound] for an unknown
// one, [ErrTooLarge] if the key is done but the value too large to keep, and
// [ErrUnavailable] if the store did not answer. ctx ends the call up to the
// point where the key is claimed; the outcome is then written all the same.
func (s *Store) Resolve(ctx context.Context, key string, token uint64, r Resolution) error {
	if r.Recovery.verdict == verdictNone {
		return invalidOption("Resolve: the Recovery is empty")
	}
	q, err := s.beginEdit(ctx, key, token)
	if err != nil {
		return err
	}
	defer s.end(q)
	if err := s.check(ctx, q); err != nil {
		return err
	}
	q.expect = token
	res, err := s.claim(ctx, q, s.now())
	if err != nil {
		if q.applied {
			s.abandon(ctx, q.newClaim())
		}
		return adminError(ctx, q.error, "", err)
	}
	rec := &res.Record
	q.saw(rec.Attempt, rec.Token, rec.State)
	switch res.Fact {
	case driver.Acquired, driver.TakenOver:
		c := q.newClaim()
		c.token = rec.Token
		c.held = true
		return s.resolve(ctx, c, r)
	case driver.InProgress:
		return q.inProgress(rec.ClaimAge, rec.LeaseLeft)
	case driver.Completed:
		if _, err := s.replay(q, rec); errors.Is(err, ErrCorrupt) {
			return err
		}
		return adminError(ctx, q.error, "it is "+rec.State.String(), driver.ErrConflict)
	case driver.Held, driver.Mismatch:
		return adminError(ctx, q.error, "it is "+rec.State.String(), driver.ErrConflict)
	}
	return q.unreadable(res.Fact)
}

// resolve writes the verdict.
func (s *Store) resolve(ctx context.Context, c *Claim, r Resolution) error {
	audit := &driver.Audit{By: clean(r.By), Why: clean(r.Why)}
	w := finalWrite{ref: c.ref()}
	var unkept error
	switch v := r.Recovery; v.verdict {
	case verdictSucceeded:
		out := driver.Outcome{Value: v.res.Value, Recovered: true}
		if len(out.Value) > s.opts.MaxValue {
			out.Value, out.Body = nil, driver.BodyTooLarge
			unkept = c.error(ErrTooLarge, fmt.Sprintf("%d bytes, MaxValue is %d", len(v.res.Value), s.opts.MaxValue), nil)
		}
		w.complete = &driver.CompleteParams{Outcome: out, Retention: c.opts.retention, Audit: audit}
	case verdictFailed:
		out := failure(v.err)
		out.Recovered = true
		w.complete = &driver.CompleteParams{Outcome: out, Retention: c.opts.retention, Audit: audit}
	case verdictNotExecuted, verdictNone:
		w.release = &driver.ReleaseParams{NotExecuted: true, Retention: c.opts.retention, Audit: audit}
	}
	if err := s.retry(ctx, c, w); err != nil {
		return adminError(ctx, c.error, "the key is claimed, and in doubt again when the lease ends", err)
	}
	s.observe(ctx, c, Event{Kind: EventResolved})
	return unkept
}

// Redact removes the recorded value, or message, of a key and leaves a
// tombstone: the key stays done until its retention ends, and later calls get
// [ErrRedacted], or the recorded failure without its message. token is the one
// that Inspect showed. It returns [ErrConflict] if the record has another token
// or no outcome, [ErrNotFound], [ErrUnavailable] (call again), and
// errors.ErrUnsupported if the backend cannot edit records. Copies in other
// tiers follow within their stated bound.
func (s *Store) Redact(ctx context.Context, key string, token uint64, why string) error {
	return s.edit(ctx, key, token, why, EventRedacted, driver.Editor.Redact)
}

// Reset lets a key run again, whatever is recorded: the outcome is forgotten,
// the token rises, and an old claim is fenced. The effect of the earlier
// attempts is not undone. It returns [ErrConflict] if the record has another
// token or its lease has not ended, and else what Redact returns.
func (s *Store) Reset(ctx context.Context, key string, token uint64, why string) error {
	return s.edit(ctx, key, token, why, EventReset, driver.Editor.Reset)
}

// edit makes one change by an operator.
func (s *Store) edit(ctx context.Context, key string, token uint64, why string, kind EventKind,
	change func(driver.Editor, context.Context, string, *driver.EditParams) error,
) error {
	q, err := s.beginEdit(ctx, key, token)
	if err != nil {
		return err
	}
	defer s.end(q)
	editor, ok := driver.As[driver.Editor](s.b)
	if !ok {
		return q.error(ErrInvalidOption, "the backend cannot edit records", errors.ErrUnsupported)
	}
	bound := &bounded{parent: ctx, timeout: s.opts.StoreTimeout}
	defer bound.end()
	p := &driver.EditParams{Token: token, Audit: driver.Audit{Why: clean(why)}, Retention: q.opts.retention}
	if err := change(editor, bound, q.stored, p); err != nil {
		return adminError(ctx, q.error, "", err)
	}
	s.observeCall(ctx, q, Event{Kind: kind, Token: token})
	return nil
}

// beginEdit is begin for a call that expects a token.
func (s *Store) beginEdit(ctx context.Context, key string, token uint64) (*call, error) {
	if token == 0 {
		return nil, invalidOption("the token is 0; Inspect shows the record's")
	}
	return s.begin(ctx, key, nil)
}

// Check looks at the backend's server and its settings, and returns what it
// finds, joined: each a *driver.Finding. driver.OnlyWarnings tells whether any
// of them is a refusal. It returns nil if nothing was found or the backend
// checks nothing, and [ErrUnavailable] if the server did not answer.
func (s *Store) Check(ctx context.Context) error {
	bound := &bounded{parent: ctx, timeout: s.opts.StoreTimeout}
	defer bound.end()
	err := s.checkBackend(bound)
	if driver.OnlyWarnings(err) {
		s.checked.Store(true) // the first call need not ask again
	}
	var finding *driver.Finding
	if err == nil || errors.As(err, &finding) {
		return err
	}
	return newError(ErrUnavailable, "", "the backend could not be checked", withCause(ctx, err))
}

// adminError is the error of an operator's call; about builds it.
func adminError(ctx context.Context, about func(reason error, detail string, cause error) *Error, detail string, err error) error {
	if errors.Is(err, driver.ErrLeaseLost) { // of a claim made by Resolve
		return about(ErrConflict, detail, mask(err))
	}
	for _, reason := range [...]error{ErrConflict, ErrNotFound, ErrCorrupt, ErrInvalidKey} {
		if errors.Is(err, reason) {
			return about(reason, detail, mask(err))
		}
	}
	if errors.Is(err, errors.ErrUnsupported) { // of a wrapper whose inner backend lacks the interface
		return about(ErrInvalidOption, "the backend cannot edit records", err)
	}
	return about(ErrUnavailable, detail, withCause(ctx, err))
}
