package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/idem-go/idem/driver"
)

// txn is a transaction of one client.
type txn interface {
	querier
	exec(ctx context.Context, sql string) error
	// claim sends the statement that claims, between what keeps its lock_timeout
	// from staying and the savepoint before the operation: in one round trip where
	// the client can. xid becomes the transaction's, if it has one.
	claim(ctx context.Context, before []string, sql string, dest, args []any, id *identity) (found bool, err error)
	commit(ctx context.Context) error
	rollback(ctx context.Context) error
}

const (
	// restore brings back the transaction's own lock_timeout, if a statement of ours
	// has changed it, and tells the transaction's identity.
	restore = "SELECT pg_catalog.set_config('lock_timeout', COALESCE(NULLIF(pg_catalog.current_setting('idem.lock_timeout', true), ''), pg_catalog.current_setting('lock_timeout')), true)," +
		" COALESCE(pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text, ''), " + whereabouts
)

// identity of a transaction: its id, once it has written, and where it is.
type identity struct {
	setting, xid string
	location
}

func (i *identity) dest() []any { return []any{&i.setting, &i.xid, &i.database, &i.started} }

// pgxTxn is one of pgx.
type pgxTxn struct{ pgx.Tx }

func (t *pgxTxn) exec(ctx context.Context, sql string) error {
	_, err := t.Exec(ctx, sql)
	return err
}

func (t *pgxTxn) commit(ctx context.Context) error { return t.Commit(ctx) }

func (t *pgxTxn) rollback(ctx context.Context) error { return rolledBack(t.Rollback(ctx)) }

func (t *pgxTxn) claim(ctx context.Context, before []string, sql string, dest, args []any, id *identity) (found bool, err error) {
	var batch pgx.Batch
	for _, s := range before {
		batch.Queue(s)
	}
	batch.Queue(sql, args...)
	batch.Queue(restore)
	batch.Queue(saveOp)
	results := t.SendBatch(ctx, &batch)
	defer func() {
		if closed := results.Close(); err == nil {
			err = closed
		}
	}()
	for range before {
		if _, err := results.Exec(); err != nil {
			return false, err
		}
	}
	rows, err := results.Query()
	if err != nil {
		return false, err
	}
	if rows.Next() {
		found = true
		err = rows.Scan(dest...)
	}
	rows.Close()
	if err == nil {
		err = rows.Err()
	}
	if err != nil {
		return false, err
	}
	if err := results.QueryRow().Scan(id.dest()...); err != nil {
		return false, err
	}
	_, err = results.Exec()
	return found, err
}

// location tells databases apart: by the database's name and the server's start,
// in microseconds.
type location struct {
	database string
	started  int64
}

// whereabouts are the columns of a location.
const whereabouts = "pg_catalog.current_database()::pg_catalog.text," +
	" (pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint"

// home is where the table is. The first call asks, and the first one after a
// transaction was found to be elsewhere: the server may have been started anew.
func (b *Backend) home(ctx context.Context) (location, error) {
	if l := b.located.Load(); l != nil {
		return *l, nil
	}
	var l location
	if _, err := one(ctx, b.db, "SELECT "+whereabouts, []any{&l.database, &l.started}, nil); err != nil {
		return location{}, err
	}
	b.located.Store(&l)
	return l, nil
}

// stray is the error of a transaction that is not at home.
func (b *Backend) stray() error {
	b.located.Store(nil)
	return fmt.Errorf("pgstore: %w: %w", driver.ErrUnavailable, ErrOtherDatabase)
}
