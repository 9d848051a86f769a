package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/pace"
)

// defaultBatch is some hundredths of a second's work.
const defaultBatch = 10_000

// Purge implements [driver.Purger]. It goes along the index of the retentions'
// ends, oldest first, in steps of at most Batch records (0 is 10,000, or a tenth
// of a second's at the Rate), each a transaction of its own. A step never waits
// for a claim or for another purge: what they hold is skipped, and left to the
// next purge. A claim of a record that a step is just removing waits for the end
// of that step. Where the server ends a step because it took too long
// (statement_timeout), smaller ones follow.
//
// ctx ends it between two steps, or the step under way; what was removed until
// then stays removed. An error, too, leaves what was removed before it. VACUUM,
// automatic or not, gives the space back.
//
// [Backend.PurgeLoop] calls it for as long as the program runs.
func (b *Backend) Purge(ctx context.Context, p *driver.PurgeParams) (*driver.PurgeResult, error) {
	u, err := b.newPurger(b.db, p)
	if err == nil {
		err = u.run(ctx)
	}
	return &u.res, err
}

// purger is one purge. One goroutine uses it.
type purger struct {
	b      *Backend
	db     DB
	sql    purgeTexts
	params driver.PurgeParams
	batch  int64 // shrinks while the server ends steps for their length
	pace   *pace.Pace
	res    driver.PurgeResult
}

// newPurger checks p. The purger is there beside an error, for its empty result.
func (b *Backend) newPurger(db DB, p *driver.PurgeParams) (*purger, error) {
	u := &purger{b: b, db: db, params: *p, batch: int64(p.Batch)}
	switch {
	case p.Batch < 0:
		return u, fmt.Errorf("pgstore: a batch of %d records is not possible", p.Batch)
	case p.Rate < 0:
		return u, fmt.Errorf("pgstore: a rate of %d records a second is not possible", p.Rate)
	case p.UnknownAfter < 0:
		return u, fmt.Errorf("pgstore: unknown after %v is not possible", p.UnknownAfter)
	}
	if p.Batch == 0 {
		u.batch = defaultBatch
		if p.Rate > 0 {
			u.batch = int64(min(defaultBatch, max(1, p.Rate/10)))
		}
	}
	u.sql, u.pace = newPurgeTexts(&b.names), pace.New(p.Rate)
	return u, nil
}

func (u *purger) run(ctx context.Context) error {
	if err := u.ended(ctx); err != nil {
		return err
	}
	if u.params.UnknownAfter <= 0 {
		return nil
	}
	return u.unknown(ctx)
}

// ended removes what has ended, slice by slice: each begins where the one before
// it stopped, so that no step reads again what the steps before it removed.
func (u *purger) ended(ctx context.Context) error {
	from := pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	for {
		if err := ended(ctx); err != nil {
			return err
		}
		s, err := u.slice(ctx, from)
		if err != nil {
			return err
		}
		u.tell(s.removed)
		if s.last {
			return nil
		}
		from = s.next
		u.pace.Wait(ctx, s.removed)
	}
}

// unknown removes what has long been unknown, page by page of the records
// without an end: what needs no removal does not keep later records from being
// looked at (C23).
func (u *purger) unknown(ctx context.Context) error {
	for after := ""; ; {
		if err := ended(ctx); err != nil {
			return err
		}
		next, n, err := u.page(ctx, after)
		if err != nil {
			return err
		}
		u.tell(n)
		if next == "" {
			return nil
		}
		after = next
		u.pace.Wait(ctx, n)
	}
}

// tell counts what a step removed.
func (u *purger) tell(n int64) {
	u.res.Purged += n
	if n > 0 && u.params.Progress != nil {
		u.params.Progress(u.res.Purged)
	}
}
