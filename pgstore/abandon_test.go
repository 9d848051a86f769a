package pgstore_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/pgstore"
)

// shortLease is over before a slow transaction has claimed.
const shortLease = 4 * time.Millisecond

func dawdle() { <-time.NewTimer(2 * shortLease).C }

type slowBeginner struct{ pgstore.Beginner }

func (s slowBeginner) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	dawdle()
	return s.Beginner.BeginTx(ctx, o)
}

type slowSQLBeginner struct{ *sql.DB }

func (s slowSQLBeginner) BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error) {
	dawdle()
	return s.DB.BeginTx(ctx, o)
}

type slowTx struct{ pgx.Tx }

func (s slowTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	dawdle()
	return s.Tx.SendBatch(ctx, b)
}

// A claim that took longer than its lease is given up in the background, which
// must meet neither a transaction that is gone nor the caller's, which is in use
// again.
func TestAClaimThatIsGivenUpLeavesTheTransactionAlone(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	never := func(do) (idem.Result, error) {
		t.Error("the operation ran")
		return idem.Result{}, nil
	}
	db := stdlib.OpenDBFromPool(l.pool)
	t.Cleanup(func() { _ = db.Close() })
	for range 20 {
		s := l.storeWith(t, &idem.Options{Lease: shortLease, RenewEvery: time.Millisecond})
		require.NoError(t, s.Check(t.Context()))
		_, err := pgstore.ExecuteTx(t.Context(), s, slowBeginner{l.pool}, "pgx", func(context.Context, pgx.Tx) (idem.Result, error) { return never(nil) })
		require.ErrorIs(t, err, idem.ErrUnavailable)
		_, err = pgstore.ExecuteSQLTx(t.Context(), s, slowSQLBeginner{db}, "sql", func(context.Context, *sql.Tx) (idem.Result, error) { return never(nil) })
		require.ErrorIs(t, err, idem.ErrUnavailable)

		tx, err := l.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = pgstore.ExecuteInTx(t.Context(), s, slowTx{tx}, "mine", func(context.Context, pgx.Tx) (idem.Result, error) { return never(nil) })
		require.ErrorIs(t, err, idem.ErrUnavailable)
		for range 5 {
			_, err = tx.Exec(t.Context(), l.insert(), "mine")
			require.NoError(t, err)
		}
		require.NoError(t, s.Close(t.Context()), "what goes on in the background ends")
		require.NoError(t, tx.Commit(t.Context()))
	}
	require.Equal(t, 100, l.happened(t, "mine"))
	for _, key := range []string{"pgx", "sql", "mine"} {
		_, err := l.store(t).Execute(t.Context(), key, plain("x"))
		require.NoError(t, err, "the key is free")
	}
}
