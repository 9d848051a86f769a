package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

const (
	// sliceWait is how long a slice waits for a record that somebody else holds,
	// before what is held is looked for and skipped. It is the least that the
	// server knows.
	sliceWait = time.Millisecond

	// stateCanceled is the SQLSTATE of a statement that the server ended: for
	// statement_timeout, or because somebody asked for it.
	stateCanceled = "57014"
)

// step is what one transaction of a purge did.
type step struct {
	removed int64
	next    pgtype.Timestamptz // where the next one begins
	last    bool               // there is none
}

// slice removes at most a batch of the records whose retention ended at from or
// later.
//
// The cheap way is one DELETE of all that ended before the batch's edge: the
// instant of the record that comes after so many others. It takes no row locks
// beforehand, and so would wait for a record that another transaction holds; it
// is given up instead, and the batch is picked record by record, without those.
func (u *purger) slice(ctx context.Context, from pgtype.Timestamptz) (step, error) {
	var s step
	var edge pgtype.Timestamptz
	err := u.shrinking(ctx, sliceWait, func() (string, []any, []any) {
		return u.sql.slice, []any{&edge, &s.removed}, []any{from, u.batch}
	})
	switch {
	case sqlState(err) == stateLockTimeout:
		return u.pick(ctx, from, false)
	case err != nil:
		return step{}, err
	case !edge.Valid:
		s.last = true
		return s, nil
	case edge.InfinityModifier == from.InfinityModifier && edge.Time.Equal(from.Time):
		return u.pick(ctx, from, true) // more than a batch that ended at one instant
	}
	s.next = edge
	return s, nil
}

// pick removes at most a batch of the records whose retention ended at from or
// later, or only of those that ended at that very instant, but those that others
// hold.
func (u *purger) pick(ctx context.Context, from pgtype.Timestamptz, same bool) (step, error) {
	var s step
	var last, after pgtype.Timestamptz
	err := u.shrinking(ctx, u.b.lockWait, func() (string, []any, []any) {
		return u.sql.pick, []any{&last, &after, &s.removed}, []any{from, u.batch, same}
	})
	switch {
	case err != nil:
		return step{}, err
	case s.removed == u.batch:
		s.next = last // there may be more
	case same:
		s.next = after // all that ended at from are gone, or held
	default:
		s.last = true // what is left is held; the next purge finds it
	}
	return s, nil
}

// page removes what has long been unknown among the next batch of records
// without an end. It returns the last key looked at, "" at the end.
func (u *purger) page(ctx context.Context, after string) (next string, n int64, err error) {
	var last []byte
	err = u.shrinking(ctx, u.b.lockWait, func() (string, []any, []any) {
		return u.sql.page, []any{&last, &n}, []any{after, u.batch, toMicros(u.params.UnknownAfter)}
	})
	return string(last), n, err
}

// shrinking sends a step until it is done, with smaller batches while the server
// ends it for its length (C40). statement tells the text, where the answer goes,
// and the arguments.
func (u *purger) shrinking(ctx context.Context, wait time.Duration, statement func() (sql string, dest, args []any)) error {
	for {
		_, err := again(func() (bool, error) {
			sql, dest, args := statement()
			return true, u.transact(ctx, wait, sql, dest, args)
		})
		if err == nil {
			return nil
		}
		if sqlState(err) != stateCanceled || ctx.Err() != nil || u.batch <= 1 {
			return fail(ctx, err)
		}
		u.batch /= 2
	}
}

// transact sends one statement in a transaction of its own, with the settings of
// a purge.
func (u *purger) transact(ctx context.Context, wait time.Duration, sql string, dest, args []any) (err error) {
	tx, err := u.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = tx.Rollback(closing) // the first error tells more
		}
	}()
	var batch pgx.Batch
	batch.Queue(purgeSettings, millis(wait))
	batch.Queue(sql, args...)
	results := tx.SendBatch(ctx, &batch)
	if _, err = results.Exec(); err == nil {
		err = results.QueryRow().Scan(dest...)
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return tx.Commit(ctx)
}
