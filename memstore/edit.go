package memstore

import (
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem/driver"
)

// Redact implements [driver.Editor]. The codec's id, the providers and the
// fingerprint stay.
func (b *Backend) Redact(ctx context.Context, key string, p *driver.EditParams) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := checkKey(key); err != nil {
		return err
	}
	sh := b.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := time.Now()
	r, err := sh.expect(key, p.Token, now)
	switch {
	case err != nil:
		return err
	case r.phase != completed:
		return errConflict("no outcome is recorded")
	case r.outcome.Body == driver.BodyRedacted:
		return nil
	}
	r.outcome.Value, r.outcome.Message, r.refs = nil, "", nil
	r.outcome.Body = driver.BodyRedacted
	r.revision++
	r.setAudit(&p.Audit, now)
	sh.changed(r, now)
	return nil
}

// Reset implements [driver.Editor]. The fingerprint, the references and the
// providers with their windows stay: a reset says that the key may run again, not
// that nothing happened.
func (b *Backend) Reset(ctx context.Context, key string, p *driver.EditParams) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := errors.Join(checkKey(key), checkRetention(p.Retention)); err != nil {
		return err
	}
	sh := b.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := time.Now()
	r, err := sh.expect(key, p.Token, now)
	switch {
	case err != nil:
		return err
	case r.unexpired(now):
		return errConflict("a claim is in progress")
	}
	r.phase, r.doubt, r.held = released, false, false
	r.owner, r.token = driver.Owner{}, b.nextToken()
	r.outcome, r.revision = driver.Outcome{}, 0
	r.leaseUntil, r.recordedAt, r.expiresAt = time.Time{}, time.Time{}, now.Add(p.Retention)
	r.setAudit(&p.Audit, now)
	sh.changed(r, now)
	sh.hint(key)
	return nil
}

// expect returns the record of key if it has that token. It needs mu.
func (sh *shard) expect(key string, token uint64, now time.Time) (*record, error) {
	r := sh.find(key, now)
	switch {
	case r == nil:
		return nil, errNotFound()
	case r.token != token:
		return nil, errConflict("it has another token than expected")
	}
	return r, nil
}
