package pgstore

import (
	"context"
	"fmt"

	"github.com/idem-go/idem/driver"
)

// defaultBatch is about a tenth of a second's work.
const defaultBatch = 10_000

// Purge implements [driver.Purger]. Each step is one statement, and removes at
// most Batch records (0 is 10,000), oldest first. It skips what other
// transactions hold, so that it never waits for a claim, nor for another purge.
// ctx ends it between two steps, or the step under way; what was removed until
// then stays removed. VACUUM, automatic or not, gives the space back.
func (b *Backend) Purge(ctx context.Context, p *driver.PurgeParams) (*driver.PurgeResult, error) {
	res := &driver.PurgeResult{}
	if p.Batch < 0 {
		return res, fmt.Errorf("pgstore: a batch of %d records is not possible", p.Batch)
	}
	batch := int64(p.Batch)
	if batch == 0 {
		batch = defaultBatch
	}
	for {
		n, err := b.purgeEnded(ctx, batch)
		if err != nil {
			return res, err
		}
		tell(p, res, n)
		if n < batch {
			break // what is left is held by others; the next purge finds it
		}
	}
	if p.UnknownAfter <= 0 {
		return res, nil
	}
	for after := ""; ; {
		next, n, err := b.purgeUnknown(ctx, after, batch, toMicros(p.UnknownAfter))
		if err != nil {
			return res, err
		}
		tell(p, res, n)
		if next == "" {
			return res, nil
		}
		after = next
	}
}

// tell counts what a step removed.
func tell(p *driver.PurgeParams, res *driver.PurgeResult, n int64) {
	res.Purged += n
	if n > 0 && p.Progress != nil {
		p.Progress(res.Purged)
	}
}

// purgeEnded removes what has ended, and returns how many.
func (b *Backend) purgeEnded(ctx context.Context, batch int64) (n int64, err error) {
	if err := ended(ctx); err != nil {
		return 0, err
	}
	_, err = again(func() (bool, error) {
		n, err = 0, nil
		rows, err := b.db.Query(ctx, b.sql.purge, batch)
		if err != nil {
			return false, err
		}
		defer rows.Close()
		for rows.Next() {
			n++
		}
		rows.Close()
		return true, rows.Err()
	})
	if err != nil {
		return 0, fail(ctx, err)
	}
	return n, nil
}

// purgeUnknown removes what has long been unknown, among the next batch of
// records without an end. It returns the last key looked at, "" at the end: what
// needs no removal does not keep later records from being looked at (C23).
func (b *Backend) purgeUnknown(ctx context.Context, after string, batch, micros int64) (next string, n int64, err error) {
	if err := ended(ctx); err != nil {
		return "", 0, err
	}
	var last []byte
	_, err = again(func() (bool, error) {
		return one(ctx, b.db, b.sql.forget, []any{&last, &n}, []any{after, batch, micros})
	})
	if err != nil {
		return "", 0, fail(ctx, err)
	}
	return string(last), n, nil
}
