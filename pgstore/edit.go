package pgstore

import (
	"context"
	"fmt"

	"github.com/idem-go/idem/driver"
)

// Redact implements [driver.Editor]. The codec's id, the providers and the
// fingerprint stay. What was removed stays in the table's dead rows until
// VACUUM, and in the WAL and backups as long as those are kept.
func (b *Backend) Redact(ctx context.Context, key string, p *driver.EditParams) error {
	return b.edit(ctx, key, p, func(r *row) (bool, error) {
		switch {
		case r.state != stateCompleted:
			return false, errConflict("no outcome is recorded")
		case r.body == int64(driver.BodyRedacted):
			return true, nil
		}
		return b.pool.affect(ctx, b.sql.redact, key, r.version, r.token, storable(p.Audit.By), storable(p.Audit.Why))
	})
}

// Reset implements [driver.Editor]. The fingerprint, the references and the
// providers with their windows stay: a reset says that the key may run again, not
// that nothing happened.
func (b *Backend) Reset(ctx context.Context, key string, p *driver.EditParams) error {
	if err := checkRetention(p.Retention); err != nil {
		return err
	}
	return b.edit(ctx, key, p, func(r *row) (bool, error) {
		if r.unexpired() {
			return false, errConflict("a claim is in progress")
		}
		nobody := driver.Owner{}
		return b.pool.affect(ctx, b.sql.reset, key, r.version, r.token, storable(p.Audit.By), storable(p.Audit.Why),
			nobody[:], toMicros(p.Retention), b.sql.channel, b.payload(key))
	})
}

// edit reads the record and changes it if it is still what was read; else it
// begins anew.
func (b *Backend) edit(ctx context.Context, key string, p *driver.EditParams, change func(*row) (bool, error)) error {
	if err := ended(ctx); err != nil {
		return err
	}
	for range maxTries {
		r, err := b.look(ctx, b.pool, key)
		switch {
		case err != nil:
			return err
		case p.Token != r.fencing():
			return errConflict("it has another token than expected")
		}
		done, err := change(r)
		if err != nil && !driver.NoEffect(err) {
			return fail(ctx, err)
		}
		if err != nil || done {
			return err
		}
	}
	return fmt.Errorf("pgstore: %w: the record changed %d times under the edit", driver.ErrUnavailable, maxTries)
}
