package pgstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/idem-go/idem"
)

// SQLBeginner begins transactions of database/sql: a *sql.DB or a *sql.Conn.
type SQLBeginner interface {
	BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error)
}

// ExecuteSQLTx is [ExecuteTx] for a transaction of database/sql, with any driver
// for Postgres. Nothing keeps op from committing or rolling back tx, which it
// must not do; and each statement is a round trip of its own, as database/sql has
// no pipeline.
func ExecuteSQLTx(ctx context.Context, s *idem.Store, db SQLBeginner, key string,
	op func(ctx context.Context, tx *sql.Tx) (idem.Result, error), opts ...idem.ExecuteOption,
) (idem.Result, error) {
	b, err := backendOf(s, "ExecuteSQLTx", db == nil || op == nil)
	if err != nil {
		return idem.Result{}, err
	}
	t := &bound{b: b, begin: func(ctx context.Context) (txn, error) { return beginSQL(ctx, db) }}
	return t.execute(ctx, s, owning{t}, key, sqlOp(op), opts)
}

// ExecuteInSQLTx is [ExecuteInTx] for a transaction of database/sql. The context
// that tx was begun with rolls it back when it ends, as always.
func ExecuteInSQLTx(ctx context.Context, s *idem.Store, tx *sql.Tx, key string,
	op func(ctx context.Context, tx *sql.Tx) (idem.Result, error), opts ...idem.ExecuteOption,
) (idem.Result, error) {
	b, err := backendOf(s, "ExecuteInSQLTx", tx == nil || op == nil)
	if err != nil {
		return idem.Result{}, err
	}
	t := &bound{b: b, tx: &sqlTxn{tx: tx}}
	return t.execute(ctx, s, joining{t}, key, sqlOp(op), opts)
}

func sqlOp(op func(ctx context.Context, tx *sql.Tx) (idem.Result, error)) boundOp {
	return func(ctx context.Context, tx txn) (idem.Result, error) {
		t, ok := tx.(*sqlTxn)
		if !ok {
			panic("bug: the transaction is another client's")
		}
		return op(ctx, t.tx)
	}
}

// sqlTxn is a transaction of database/sql.
type sqlTxn struct {
	tx  *sql.Tx
	end context.CancelFunc // of the context that it was begun with; nil: the caller's
}

// beginSQL begins a transaction that ctx does not end once it has begun: the
// outcome is recorded also when the caller has gone.
func beginSQL(ctx context.Context, db SQLBeginner) (*sqlTxn, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	begun := context.AfterFunc(ctx, end)
	tx, err := db.BeginTx(life, nil)
	if err == nil && !begun() {
		err = errors.Join(context.Cause(ctx), tx.Rollback())
	}
	if err != nil {
		end()
		return nil, err
	}
	return &sqlTxn{tx: tx, end: end}, nil
}

func (t *sqlTxn) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	rows, err := t.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return &sqlRows{rows: rows, err: rows.Err()}, nil
}

func (t *sqlTxn) exec(ctx context.Context, text string) error {
	_, err := t.tx.ExecContext(ctx, text)
	return err
}

func (t *sqlTxn) claim(ctx context.Context, before []string, text string, dest, args []any, id *identity) (found bool, err error) {
	for _, s := range before {
		if err := t.exec(ctx, s); err != nil {
			return false, err
		}
	}
	if found, err = one(ctx, t, text, dest, args); err != nil {
		return false, err
	}
	if _, err := one(ctx, t, restore, id.dest(), nil); err != nil {
		return false, err
	}
	return found, t.exec(ctx, saveOp)
}

// commit ends with ctx as far as database/sql can: through the context that the
// transaction was begun with.
func (t *sqlTxn) commit(ctx context.Context) error {
	defer context.AfterFunc(ctx, t.end)()
	return t.tx.Commit()
}

func (t *sqlTxn) rollback(ctx context.Context) error {
	defer t.end()
	defer context.AfterFunc(ctx, t.end)()
	if err := t.tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

// sqlRows are the rows of database/sql, as far as this package reads rows.
type sqlRows struct {
	rows *sql.Rows
	err  error
}

var _ pgx.Rows = (*sqlRows)(nil)

func (r *sqlRows) Next() bool             { return r.rows.Next() }
func (r *sqlRows) Scan(dest ...any) error { return r.rows.Scan(dest...) }
func (r *sqlRows) Close() {
	r.err = r.rows.Err()
	if err := r.rows.Close(); r.err == nil {
		r.err = err
	}
}

func (r *sqlRows) Err() error { return r.err }

func (r *sqlRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (r *sqlRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (r *sqlRows) Values() ([]any, error)                       { return nil, errors.ErrUnsupported }
func (r *sqlRows) RawValues() [][]byte                          { return nil }
func (r *sqlRows) Conn() *pgx.Conn                              { return nil }
func (r *sqlRows) TypeMap() *pgtype.Map                         { return nil }
