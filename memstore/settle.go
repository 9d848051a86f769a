package memstore

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/idem-go/idem/driver"
)

// Renew implements [driver.Backend].
func (b *Backend) Renew(ctx context.Context, ref driver.Ref, p *driver.RenewParams) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := errors.Join(checkKey(ref.Key), checkLease(p.Lease), checkRetention(p.Retention)); err != nil {
		return err
	}
	sh := b.shard(ref.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := time.Now()
	r, err := sh.standing(ref, now)
	if err != nil {
		return err
	}
	r.leaseUntil = now.Add(p.Lease)
	sh.changed(r, now)
	return nil
}

// Annotate implements [driver.Backend].
func (b *Backend) Annotate(ctx context.Context, ref driver.Ref, p *driver.AnnotateParams) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := checkKey(ref.Key); err != nil {
		return err
	}
	sh := b.shard(ref.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := time.Now()
	r, err := sh.standing(ref, now)
	if err != nil {
		return err
	}
	added := r.addRefs(p.Refs)
	if !added && !p.NotExecuted && p.Audit == nil {
		return nil // said again
	}
	if p.NotExecuted {
		r.doubt, r.held = false, false
		r.restartWindows(now)
	}
	r.setAudit(p.Audit, now)
	sh.changed(r, now)
	return nil
}

// Complete implements [driver.Backend].
func (b *Backend) Complete(ctx context.Context, ref driver.Ref, p *driver.CompleteParams) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := errors.Join(checkKey(ref.Key), checkRetention(p.Retention)); err != nil {
		return err
	}
	outcome := cloneOutcome(&p.Outcome) // before the mutex: a value may be large
	sh := b.shard(ref.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := time.Now()
	r, err := sh.last(ref, now)
	switch {
	case err != nil:
		return err
	case r.phase == completed && r.outcome.Equal(&outcome):
		return nil // said again (I6)
	case r.phase == completed:
		return errLeaseLost("another outcome is recorded")
	case r.phase == released:
		return errLeaseLost("the claim was released")
	}
	r.phase, r.held = completed, false
	r.outcome, r.revision = outcome, 1
	r.recordedAt, r.expiresAt = now, now.Add(p.Retention)
	r.leaseUntil = time.Time{}
	r.setAudit(p.Audit, now)
	sh.changed(r, now)
	sh.hint(ref.Key)
	return nil
}

// Release implements [driver.Backend].
func (b *Backend) Release(ctx context.Context, ref driver.Ref, p *driver.ReleaseParams) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := errors.Join(checkKey(ref.Key), checkRelease(p)); err != nil {
		return err
	}
	sh := b.shard(ref.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := time.Now()
	r, err := sh.last(ref, now)
	switch {
	case err != nil:
		return err
	case r.phase == released:
		return nil // said again (I6)
	case r.phase == completed:
		return errLeaseLost("an outcome is recorded")
	}
	switch {
	case p.NotExecuted:
		r.doubt, r.held, r.providers = false, false, nil
	case p.Held:
		r.doubt, r.held = true, true
	case p.Doubt:
		r.doubt = true
	}
	r.phase, r.expiresAt = released, now.Add(p.Retention) // which a held record does not look at
	r.leaseUntil = time.Time{}
	r.setAudit(p.Audit, now)
	sh.changed(r, now)
	sh.hint(ref.Key)
	return nil
}

// last returns the record whose last claim is ref's, settled or not (I3). Token
// 0 stands for whatever token the owner holds. It needs mu.
func (sh *shard) last(ref driver.Ref, now time.Time) (*record, error) {
	r := sh.find(ref.Key, now)
	switch {
	case r == nil:
		return nil, errLeaseLost("there is no record")
	case ref.Owner == driver.Owner{}: // which is what a Reset leaves
		return nil, errLeaseLost("the owner is zero")
	case r.owner != ref.Owner:
		return nil, errLeaseLost("another owner holds it, or nobody")
	case r.token != ref.Token && ref.Token != 0:
		return nil, errLeaseLost("the owner holds another token")
	}
	return r, nil
}

// standing returns the record whose last claim is ref's, by owner and token, and
// is not settled (I3). It needs mu.
func (sh *shard) standing(ref driver.Ref, now time.Time) (*record, error) {
	if ref.Token == 0 {
		return nil, errLeaseLost("this step needs the token")
	}
	r, err := sh.last(ref, now)
	if err == nil && r.phase != claimed {
		return nil, errLeaseLost("the claim was settled")
	}
	return r, err
}

func cloneOutcome(o *driver.Outcome) driver.Outcome {
	c := *o
	c.Value = bytes.Clone(o.Value)
	c.Codec, c.Code, c.Message = strings.Clone(o.Codec), strings.Clone(o.Code), strings.Clone(o.Message)
	return c
}
