package pgstore_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/pgstore"
)

// do runs one statement of an operation.
type do func(sql string, args ...any) error

// txOp is an operation for each client.
type txOp func(ctx context.Context, do do) (idem.Result, error)

// txClient is a client's transaction mode.
type txClient struct {
	name    string
	execute func(ctx context.Context, s *idem.Store, key string, op txOp, opts ...idem.ExecuteOption) (idem.Result, error)
}

func pgxDo(ctx context.Context, tx pgx.Tx) do {
	return func(sql string, args ...any) error { _, err := tx.Exec(ctx, sql, args...); return err }
}

func sqlDo(ctx context.Context, tx *sql.Tx) do {
	return func(sql string, args ...any) error { _, err := tx.ExecContext(ctx, sql, args...); return err }
}

// txClients are the two clients, each through one pool.
func txClients(pool *pgxpool.Pool) []txClient {
	return []txClient{
		{"pgx", func(ctx context.Context, s *idem.Store, key string, op txOp, opts ...idem.ExecuteOption) (idem.Result, error) {
			return pgstore.ExecuteTx(ctx, s, pool, key, func(ctx context.Context, tx pgx.Tx) (idem.Result, error) {
				return op(ctx, pgxDo(ctx, tx))
			}, opts...)
		}},
		{"database/sql", func(ctx context.Context, s *idem.Store, key string, op txOp, opts ...idem.ExecuteOption) (idem.Result, error) {
			db := stdlib.OpenDBFromPool(pool)
			defer func() { _ = db.Close() }()
			return pgstore.ExecuteSQLTx(ctx, s, db, key, func(ctx context.Context, tx *sql.Tx) (idem.Result, error) {
				return op(ctx, sqlDo(ctx, tx))
			}, opts...)
		}},
	}
}

// storeOver is a Store that a slow machine does not hurry: what is tested with a
// bound sets its own.
func storeOver(tb testing.TB, b driver.Backend, o *idem.Options) *idem.Store {
	tb.Helper()
	var all idem.Options
	if o != nil {
		all = *o
	}
	if all.StoreTimeout == 0 {
		all.StoreTimeout = time.Minute
	}
	if all.RecordTimeout == 0 {
		all.RecordTimeout = time.Minute
	}
	if all.Observer == nil {
		all.Observer = idem.Discard
	}
	s, err := idem.New(b, &all)
	require.NoError(tb, err)
	return s
}

// ledger is a place with a table of effects.
type ledger struct {
	place
	pool    *pgxpool.Pool
	effects string
}

func newLedger(t *testing.T, changes ...change) *ledger {
	t.Helper()
	p := newPlace(t)
	l := &ledger{place: p, pool: p.pool(t, changes...), effects: pgx.Identifier{p.schema, "effects"}.Sanitize()}
	p.exec(t, l.pool, "CREATE TABLE "+l.effects+" (what text)")
	return l
}

// store is one process's Store.
func (l *ledger) store(t *testing.T) *idem.Store { t.Helper(); return l.storeWith(t, nil) }

func (l *ledger) storeWith(t *testing.T, o *idem.Options) *idem.Store {
	t.Helper()
	return storeOver(t, l.backend(t, l.pool), o)
}

func (l *ledger) insert() string { return "INSERT INTO " + l.effects + " VALUES ($1)" }

// happened counts the effects that are there.
func (l *ledger) happened(t *testing.T, what string) int {
	t.Helper()
	return int(value[int64](t, l.place, l.pool, "SELECT count(*) FROM "+l.effects+" WHERE what = $1", what))
}

// pay is an operation with an effect.
func (l *ledger) pay(what string) txOp {
	return func(_ context.Context, do do) (idem.Result, error) {
		return idem.Result{Value: []byte("paid " + what)}, do(l.insert(), what)
	}
}
