package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/idem-go/idem/driver"
)

func (r *reference) Renew(ctx context.Context, ref driver.Ref, p *driver.RenewParams) error {
	return r.change(ctx, ref, renewing, func(rec *stored, now time.Time) error {
		if r.bug == renewRefusedLate && rec.ended(now) {
			return driver.ErrLeaseLost
		}
		ends := now.Add(p.Lease)
		switch r.bug {
		case renewDoesNothing:
			return errNothing
		case renewAdds:
			ends = rec.LeaseEnds.Add(p.Lease)
		case renewNeverShorter:
			if ends.Before(*rec.LeaseEnds) {
				ends = *rec.LeaseEnds
			}
		case renewDropsHeld:
			rec.Held = false
		case renewIsAClaim:
			rec.ClaimedAt = now
		case renewRaisesToken:
			rec.Token = r.next(rec)
		}
		rec.LeaseEnds = &ends
		return nil
	})
}

func (r *reference) Annotate(ctx context.Context, ref driver.Ref, p *driver.AnnotateParams) error {
	return r.change(ctx, ref, annotating, func(rec *stored, now time.Time) error {
		had := len(rec.Refs)
		for _, x := range p.Refs {
			if !slices.Contains(rec.Refs, x) || r.bug == refsTwice {
				rec.Refs = append(rec.Refs, x)
			}
		}
		if r.bug == refsSorted {
			slices.SortFunc(rec.Refs, func(a, b driver.ProviderRef) int { return len(a.Ref) - len(b.Ref) + int(a.Ref[0]) - int(b.Ref[0]) })
		}
		if p.NotExecuted && r.bug != notExecutedIgnored {
			rec.Doubt, rec.Held = false, false
			for i := range rec.Providers {
				if r.bug != windowsGoOn {
					rec.Providers[i].Since = now
				}
			}
		}
		if r.bug == annotateRenews {
			ends := now.Add(time.Hour)
			rec.LeaseEnds = &ends
		}
		r.audit(rec, p.Audit, now)
		if !p.NotExecuted && p.Audit == nil && len(rec.Refs) == had && r.bug != annotateTouches && r.bug != annotateRenews && r.bug != auditForgotten {
			return errNothing
		}
		return nil
	})
}

func (r *reference) Complete(ctx context.Context, ref driver.Ref, p *driver.CompleteParams) error {
	return r.change(ctx, ref, completing, func(rec *stored, now time.Time) error {
		if len(r.data.watches[ref.Key]) > 10 {
			return errors.New("too many watches")
		}
		if r.bug == completeRefusedLate && rec.ended(now) {
			return driver.ErrLeaseLost
		}
		if rec.done() && !r.rewrites(rec, &p.Outcome) {
			if p.Outcome.Equal(rec.Outcome) && r.bug != completeNotIdempotent {
				return errNothing
			}
			if r.bug == errorsNameValues {
				return fmt.Errorf("%w: %s is recorded", driver.ErrLeaseLost, rec.Outcome.Value)
			}
			return driver.ErrLeaseLost
		}
		until := now.Add(p.Retention)
		if r.bug == retentionFromClaim {
			until = rec.ClaimedAt.Add(p.Retention)
		}
		if rec.KeptUntil == nil || r.bug != claimsRetention {
			rec.KeptUntil = &until
		}
		o := p.Outcome
		o.Value = slices.Clone(o.Value)
		rec.State, rec.Outcome, rec.Settled, rec.RecordedAt, rec.Held = "succeeded", &o, true, now, rec.Held && r.bug == heldStays
		if o.Failed {
			rec.State = "failed"
		}
		rec.Revision++
		r.data.kept[ref.Key] = p.Outcome.Value
		r.audit(rec, p.Audit, now)
		r.spoil(rec)
		r.settled(ref.Key)
		return nil
	})
}

// rewrites is for the bugs that let an outcome be written again.
func (r *reference) rewrites(rec *stored, o *driver.Outcome) bool {
	switch r.bug {
	case outcomeOverwritten, completeUnowned:
		return true
	case outcomeRewritten:
		return o.Equal(rec.Outcome)
	case redactUndone:
		return rec.Outcome.Body == driver.BodyRedacted
	}
	return false
}

func (r *reference) Release(ctx context.Context, ref driver.Ref, p *driver.ReleaseParams) error {
	return r.change(ctx, ref, releasing, func(rec *stored, now time.Time) error {
		if rec.done() && r.bug != releaseUnowned {
			return driver.ErrLeaseLost
		}
		if rec.Settled && r.bug != releaseUnowned {
			if r.bug == releaseNotIdempotent {
				return driver.ErrLeaseLost
			}
			return errNothing
		}
		if r.bug == releaseRefusedLate && rec.ended(now) {
			return driver.ErrLeaseLost
		}
		rec.Held = (rec.Held && r.bug != heldClearedByRelease || p.Held) && !p.NotExecuted
		rec.Doubt = (rec.Doubt && r.bug != doubtClearedByRelease || p.Doubt && r.bug != doubtNotSet || rec.Held) && !p.NotExecuted
		rec.State, rec.Settled, rec.LeaseEnds, rec.Outcome = "released", true, nil, nil
		rec.KeptUntil = r.keep(now, p.Retention)
		if rec.Held {
			rec.State, rec.KeptUntil = "held", nil
			if r.bug == unknownExpires {
				rec.KeptUntil = r.keep(now, p.Retention)
			}
		}
		if p.NotExecuted && r.bug != providersStay {
			rec.Providers = nil
		}
		if r.bug == releaseForgetsOwner {
			rec.Owner = driver.Owner{}
		}
		r.audit(rec, p.Audit, now)
		r.settled(ref.Key)
		return nil
	})
}

func (r *reference) keep(now time.Time, d time.Duration) *time.Time {
	if r.bug == releasedNotKept {
		d = time.Millisecond
	}
	until := now.Add(d)
	return &until
}

// change is what the four methods of an owner have in common.
func (r *reference) change(ctx context.Context, ref driver.Ref, what action, f func(*stored, time.Time) error) error {
	if err := r.usable(ctx, ref.Key); err != nil {
		return err
	}
	r.data.mu.Lock()
	defer r.data.mu.Unlock()
	ends := what == completing || what == releasing
	rec, err := r.current(ref, ends && r.bug != zeroRefused || r.bug == zeroEverywhere, ends)
	if err != nil && (rec == nil || !r.unowned(rec, ref, what)) {
		switch {
		case rec == nil && r.bug == absentIsNotFound:
			return driver.ErrNotFound
		case r.bug == errorsNameKeys:
			return fmt.Errorf("%s: %w", ref.Key, err)
		}
		return err
	}
	if r.bug == lostUpdates && what == annotating {
		r.data.mu.Unlock()
		time.Sleep(time.Millisecond) // in a bubble
		r.data.mu.Lock()
	}
	if what == completing && rec.Settled && !rec.done() && r.bug != completeUnowned {
		return driver.ErrLeaseLost
	}
	if err := f(rec, time.Now()); err != nil {
		if err == errNothing { //nolint:errorlint // never wrapped
			return nil
		}
		return err
	}
	r.save(ref.Key, rec)
	return r.lie(ctx)
}

// unowned is for the bugs that do not ask who calls.
func (r *reference) unowned(rec *stored, ref driver.Ref, what action) bool {
	switch r.bug {
	case completeUnowned:
		return what == completing
	case releaseUnowned:
		return what == releasing
	case renewUnowned:
		return what == renewing && rec.LeaseEnds != nil && !rec.done()
	case annotateUnowned:
		return what == annotating
	case tokenUnchecked:
		return rec.Owner == ref.Owner && !rec.Settled
	case ownerUnchecked:
		return rec.Token == ref.Token && !rec.Settled
	case settledStillActs:
		return rec.Owner == ref.Owner && rec.Token == ref.Token && rec.State == "released" && what == annotating
	}
	return false
}

func (r *reference) audit(rec *stored, a *driver.Audit, now time.Time) {
	if a == nil {
		if r.bug == auditForgotten {
			rec.Audit = driver.Audit{}
		}
		return
	}
	rec.Audit = driver.Audit{By: a.By, Why: a.Why, At: now}
	if r.bug == auditByCaller {
		rec.Audit.At = a.At
	}
}

// settled wakes those who watch.
func (r *reference) settled(key string) {
	if r.bug == watchSilent {
		return
	}
	for c := range r.data.watches[key] {
		close(c)
	}
	delete(r.data.watches, key)
}
