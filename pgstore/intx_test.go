package pgstore_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/pgstore"
)

// callersTx is a transaction that the caller has begun, of either client.
type callersTx struct {
	execute  func(ctx context.Context, s *idem.Store, key string, op txOp, opts ...idem.ExecuteOption) (idem.Result, error)
	do       do
	commit   func() error
	rollback func() error
}

// callers begin a transaction of each client.
func (l *ledger) callers(t *testing.T) map[string]func(iso string) *callersTx {
	t.Helper()
	return map[string]func(iso string) *callersTx{
		"pgx": func(iso string) *callersTx {
			tx, err := l.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(iso)})
			require.NoError(t, err)
			return &callersTx{
				execute: func(ctx context.Context, s *idem.Store, key string, op txOp, opts ...idem.ExecuteOption) (idem.Result, error) {
					return pgstore.ExecuteInTx(ctx, s, tx, key, func(ctx context.Context, tx pgx.Tx) (idem.Result, error) {
						return op(ctx, pgxDo(ctx, tx))
					}, opts...)
				},
				do: pgxDo(t.Context(), tx), commit: func() error { return tx.Commit(t.Context()) }, rollback: func() error { return tx.Rollback(t.Context()) },
			}
		},
		"database/sql": func(iso string) *callersTx {
			db := stdlib.OpenDBFromPool(l.pool)
			t.Cleanup(func() { _ = db.Close() })
			levels := map[string]sql.IsolationLevel{"repeatable read": sql.LevelRepeatableRead, "serializable": sql.LevelSerializable}
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: levels[iso]})
			require.NoError(t, err)
			return &callersTx{
				execute: func(ctx context.Context, s *idem.Store, key string, op txOp, opts ...idem.ExecuteOption) (idem.Result, error) {
					return pgstore.ExecuteInSQLTx(ctx, s, tx, key, func(ctx context.Context, tx *sql.Tx) (idem.Result, error) {
						return op(ctx, sqlDo(ctx, tx))
					}, opts...)
				},
				do: sqlDo(t.Context(), tx), commit: tx.Commit, rollback: tx.Rollback,
			}
		},
	}
}

func TestInTheCallersTransactionEverythingIsTheCallersToCommit(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for name, begin := range l.callers(t) {
		for _, commit := range []bool{false, true} {
			tx, s := begin(""), l.store(t)
			require.NoError(t, tx.do(l.insert(), name+" before"))
			for range 2 { // the second time it replays
				res, err := tx.execute(t.Context(), s, name, l.pay(name))
				require.NoError(t, err, name)
				require.Equal(t, "paid "+name, string(res.Value))
			}
			require.Zero(t, l.happened(t, name))
			if !commit {
				require.NoError(t, tx.rollback())
				_, err := s.Inspect(t.Context(), name)
				require.ErrorIs(t, err, idem.ErrNotFound, "as if there had been no call")
				continue
			}
			require.NoError(t, tx.commit())
			require.Equal(t, []int{1, 1}, []int{l.happened(t, name), l.happened(t, name+" before")})
			res, err := s.Execute(t.Context(), name, plain("other"))
			require.NoError(t, err)
			require.True(t, res.Replayed)
		}
	}
}

// The caller's transaction is never left aborted by us, whatever happened.
func TestTheCallersTransactionStaysUsable(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for name, begin := range l.callers(t) {
		for how, fails := range map[string]struct {
			op   txOp
			want error
			left driver.State // once the caller commits; 0: no record
		}{
			"failed statement": {func(_ context.Context, do do) (idem.Result, error) { return idem.Result{}, do("SELECT 1/0") }, nil, 0},
			"plain error": {func(_ context.Context, do do) (idem.Result, error) {
				_ = do(l.insert(), "undone")
				return idem.Result{}, errDeclined
			}, errDeclined, 0},
			"permanent": {func(_ context.Context, do do) (idem.Result, error) {
				return idem.Result{}, idem.Permanent(do("SELECT 1/0"))
			}, nil, driver.Failed},
			"unknown": {func(_ context.Context, do do) (idem.Result, error) {
				return idem.Result{}, idem.Unknown(do("SELECT 1/0"))
			}, idem.ErrOutcomeUnknown, driver.Unknown},
			"swallowed error": {func(_ context.Context, do do) (idem.Result, error) { _ = do("SELECT 1/0"); return idem.Result{}, nil }, idem.ErrUnavailable, 0},
			"panic":           {func(context.Context, do) (idem.Result, error) { panic("boom") }, nil, 0},
		} {
			tx, s, key := begin(""), l.store(t), name+"/"+how
			require.NoError(t, tx.do(l.insert(), key+" before"))
			var err error
			if how == "panic" {
				require.Panics(t, func() { _, err = tx.execute(t.Context(), s, key, fails.op) })
			} else if _, err = tx.execute(t.Context(), s, key, fails.op); fails.want != nil {
				require.ErrorIs(t, err, fails.want, key)
			} else {
				require.ErrorContains(t, err, "division by zero", key)
			}
			require.NoError(t, tx.do(l.insert(), key+" after"), key)
			require.NoError(t, tx.commit())
			require.Equal(t, []int{1, 1, 0}, []int{l.happened(t, key+" before"), l.happened(t, key+" after"), l.happened(t, "undone")}, key)
			rec, err := s.Inspect(t.Context(), key)
			if fails.left == 0 {
				require.ErrorIs(t, err, idem.ErrNotFound, key)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, fails.left, rec.State, key)
		}
	}
}

// A key that is to be held is held although the caller's transaction is gone: the
// operation may have had an effect elsewhere.
func TestAHeldKeyIsHeldAlthoughTheCallersTransactionIsGone(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for name, begin := range l.callers(t) {
		tx, s := begin(""), l.store(t)
		_, err := tx.execute(t.Context(), s, name, func(_ context.Context, do do) (idem.Result, error) {
			return idem.Result{}, idem.Unknown(do("SELECT pg_terminate_backend(pg_backend_pid())"))
		})
		require.ErrorIs(t, err, idem.ErrOutcomeUnknown, name)
		_ = tx.rollback() // there is nothing left of it
		rec, err := s.Inspect(t.Context(), name)
		require.NoError(t, err, name)
		require.Equal(t, []any{driver.Unknown, true}, []any{rec.State, rec.Held}, name)
		_, err = l.store(t).Execute(t.Context(), name, plain("again"))
		require.ErrorIs(t, err, idem.ErrOutcomeUnknown, name)
	}
}

// Another transaction has the key: the wait is bounded, and the caller's own
// transaction goes on.
func TestTheCallersTransactionWaitsNoLongerThanItsBound(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for name, begin := range l.callers(t) {
		one, two := begin(""), begin("")
		_, err := one.execute(t.Context(), l.store(t), name, l.pay(name))
		require.NoError(t, err)
		began := time.Now()
		for _, opts := range [][]idem.ExecuteOption{nil, {idem.WithWait(20 * time.Millisecond)}} {
			_, err = two.execute(t.Context(), l.store(t), name, l.pay("second"), opts...)
			require.ErrorIs(t, err, idem.ErrInProgress, name)
		}
		require.Less(t, time.Since(began), 3*patience)
		require.NoError(t, two.do("SELECT 1/(CASE WHEN current_setting('lock_timeout') = '0' THEN 1 ELSE 0 END)"), "and has its own settings")
		require.NoError(t, one.commit())
		res, err := two.execute(t.Context(), l.store(t), name, l.pay("second"))
		require.NoError(t, err)
		require.True(t, res.Replayed)
		require.NoError(t, two.commit())
		require.Zero(t, l.happened(t, "second"))
	}
}

// At the higher levels a record may be newer than the transaction's snapshot:
// then nothing runs, and the caller learns why.
func TestAllIsolationLevelsRunOnce(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for name, begin := range l.callers(t) {
		for _, iso := range []string{"read committed", "repeatable read", "serializable"} {
			key := name + "/" + iso
			tx := begin(iso)
			require.NoError(t, tx.do("SELECT 1")) // the snapshot
			_, err := l.store(t).Execute(t.Context(), key, plain("first"))
			require.NoError(t, err)
			res, err := tx.execute(t.Context(), l.store(t), key, l.pay("second"))
			if iso == "read committed" {
				require.NoError(t, err, key)
				require.True(t, res.Replayed)
			} else {
				require.ErrorIs(t, err, idem.ErrUnavailable, key)
				var pg *pgconn.PgError
				require.ErrorAs(t, err, &pg)
				require.Equal(t, "40001", pg.Code)
			}
			require.NoError(t, tx.do(l.insert(), key), "the transaction goes on")
			require.NoError(t, tx.commit())
			fresh := begin(iso)
			res, err = fresh.execute(t.Context(), l.store(t), key, l.pay("second"))
			require.NoError(t, err)
			require.True(t, res.Replayed)
			require.NoError(t, fresh.commit())

			fresh = begin(iso)
			_, err = fresh.execute(t.Context(), l.store(t), key+"/new", l.pay(key+"/new"))
			require.NoError(t, err)
			require.NoError(t, fresh.commit())
			require.Equal(t, 1, l.happened(t, key+"/new"))
		}
	}
	require.Zero(t, l.happened(t, "second"))
}

// A role's default may be any level: the store's own statements repeat what the
// server took back.
func TestASerializableSessionRunsOnce(t *testing.T) {
	t.Parallel()
	for _, iso := range []string{"repeatable read", "serializable"} {
		l := newLedger(t, func(c *poolConfig) { c.ConnConfig.RuntimeParams["default_transaction_isolation"] = iso })
		done := make(chan error, 20)
		for i := range cap(done) {
			s := l.store(t)
			go func() {
				_, err := pgstore.ExecuteTx(t.Context(), s, l.pool, "k", func(ctx context.Context, tx pgx.Tx) (idem.Result, error) {
					return idem.Result{Value: []byte("x")}, pgxDo(ctx, tx)(l.insert(), "tx")
				}, idem.WithWait(time.Minute))
				if i%2 == 0 && err == nil {
					_, err = s.Execute(t.Context(), "plain", plain("x"), idem.WithWait(time.Minute))
				}
				done <- err
			}()
		}
		for range cap(done) {
			require.NoError(t, receive(t, done, "a call's end"), iso)
		}
		require.Equal(t, 1, l.happened(t, "tx"))
	}
}
