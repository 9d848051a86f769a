package pqtest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/tcpproxy"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/pgstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := testenv.StopPostgres(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var errDeclined = errors.New("declined")

// place is a Store whose records are reached through pgx, and a database/sql pool
// of lib/pq for the same schema.
type place struct {
	schema  string
	url     string
	pool    *pgxpool.Pool
	backend *pgstore.Backend
	store   *idem.Store
	db      *sql.DB
}

func newPlace(t *testing.T) *place {
	t.Helper()
	target, schema := testenv.PostgresSchema(t)
	p := &place{schema: schema, url: target}
	cfg, err := pgxpool.ParseConfig(target)
	require.NoError(t, err)
	cfg.ConnConfig.RuntimeParams["application_name"] = schema
	p.pool, err = pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(p.pool.Close)
	p.backend, err = pgstore.New(p.pool, &pgstore.Options{Schema: schema})
	require.NoError(t, err)
	require.NoError(t, p.backend.Migrate(t.Context()))
	p.store = p.open(t)
	p.db = p.connect(t, target)
	_, err = p.db.ExecContext(t.Context(), "CREATE TABLE "+p.table()+" (what text UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	require.NoError(t, err)
	return p
}

// open is another process's Store.
func (p *place) open(t *testing.T) *idem.Store {
	t.Helper()
	s, err := idem.New(p.backend, &idem.Options{Namespace: "pq", StoreTimeout: time.Minute, RecordTimeout: time.Minute, Observer: idem.Discard})
	require.NoError(t, err)
	return s
}

func (p *place) connect(t *testing.T, target string) *sql.DB {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	q := u.Query()
	q.Set("application_name", p.schema)
	q.Set("statement_timeout", "60000")
	u.RawQuery = q.Encode()
	db, err := sql.Open("postgres", u.String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (p *place) table() string { return pgx.Identifier{p.schema, "effects"}.Sanitize() }

func (p *place) happened(t *testing.T, what string) (n int) {
	t.Helper()
	require.NoError(t, p.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+p.table()+" WHERE what = $1", what).Scan(&n))
	return n
}

// pay is an operation with an effect.
func (p *place) pay(ctx context.Context, tx *sql.Tx, what string) (idem.Result, error) {
	_, err := tx.ExecContext(ctx, "INSERT INTO "+p.table()+" VALUES ($1)", what)
	return idem.Result{Value: []byte("paid\x00 " + what)}, err
}

func (p *place) execute(t *testing.T, s *idem.Store, db pgstore.SQLBeginner, key string, then error, opts ...idem.ExecuteOption) (idem.Result, error) {
	t.Helper()
	return pgstore.ExecuteSQLTx(t.Context(), s, db, key, func(ctx context.Context, tx *sql.Tx) (idem.Result, error) {
		res, err := p.pay(ctx, tx, key)
		return res, errors.Join(err, then)
	}, opts...)
}

func TestEffectAndOutcomeCommitTogether(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for try, s := range []*idem.Store{p.store, p.store, p.open(t)} {
		res, err := p.execute(t, s, p.db, "k", nil, idem.WithFingerprint([]byte("r")), idem.WithProvider("p", time.Hour))
		require.NoError(t, err)
		require.Equal(t, "paid\x00 k", string(res.Value))
		require.Equal(t, try > 0, res.Replayed)
	}
	_, err := p.execute(t, p.store, p.db, "k", nil, idem.WithFingerprint([]byte("other")))
	require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
	require.Equal(t, 1, p.happened(t, "k"))
}

func TestAFailureUndoesTheEffectAndSettlesTheKey(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for key, how := range map[string]struct {
		err   error
		state driver.State
	}{
		"permanent": {idem.Permanent(errDeclined), driver.Failed}, "plain": {errDeclined, driver.Released},
		"unknown": {idem.Unknown(errDeclined), driver.Unknown},
	} {
		_, err := p.execute(t, p.store, p.db, key, how.err)
		require.ErrorIs(t, err, errDeclined)
		require.Zero(t, p.happened(t, key))
		rec, err := p.store.Inspect(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, how.state, rec.State, key)
	}
}

// lib/pq has an error of its own for the COMMIT of a failed transaction.
func TestAnAbortedTransactionIsNoSuccess(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, err := pgstore.ExecuteSQLTx(t.Context(), p.store, p.db, "k", func(ctx context.Context, tx *sql.Tx) (idem.Result, error) {
		_, err := p.pay(ctx, tx, "k")
		_, _ = tx.ExecContext(ctx, "SELECT 1/0")
		return idem.Result{}, err
	})
	require.ErrorIs(t, err, idem.ErrUnavailable)
	require.Zero(t, p.happened(t, "k"))
	_, err = p.execute(t, p.store, p.db, "k", nil)
	require.NoError(t, err, "the key is free")
	require.Equal(t, 1, p.happened(t, "k"))
}

func TestARefusedCommitIsNoSuccess(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, err := pgstore.ExecuteSQLTx(t.Context(), p.store, p.db, "k", func(ctx context.Context, tx *sql.Tx) (idem.Result, error) {
		_, one := p.pay(ctx, tx, "k")
		_, two := p.pay(ctx, tx, "k")
		return idem.Result{}, errors.Join(one, two)
	})
	require.ErrorIs(t, err, idem.ErrUnavailable)
	var refused *pq.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, pq.ErrorCode("23505"), refused.Code)
	require.Zero(t, p.happened(t, "k"))
}

// C10: the acknowledgement of the commit is lost, or the commit itself.
func TestAnAmbiguousCommitIsSettledByLooking(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u, err := url.Parse(p.url)
	require.NoError(t, err)
	for _, applied := range []bool{true, false} {
		proxy := tcpproxy.New(t, u.Host)
		through := *u
		through.Host = proxy.Addr()
		db, key := p.connect(t, through.String()), fmt.Sprint(applied)
		res, err := pgstore.ExecuteSQLTx(t.Context(), p.store, db, key, func(ctx context.Context, tx *sql.Tx) (idem.Result, error) {
			res, err := p.pay(ctx, tx, key)
			if applied {
				proxy.LoseReply("COMMIT")
			} else {
				proxy.LoseRequest("COMMIT")
			}
			return res, err
		})
		if applied {
			require.NoError(t, err)
			require.False(t, res.Replayed)
		} else {
			require.ErrorIs(t, err, idem.ErrUnavailable)
			require.Zero(t, p.happened(t, key))
		}
		res, err = p.execute(t, p.store, p.db, key, nil)
		require.NoError(t, err)
		require.Equal(t, applied, res.Replayed)
		require.Equal(t, 1, p.happened(t, key))
	}
}

// A connection that ends in the middle has undone the effect.
func TestATerminatedConnectionLeavesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, err := pgstore.ExecuteSQLTx(t.Context(), p.store, p.db, "k", func(ctx context.Context, tx *sql.Tx) (idem.Result, error) {
		_, err := p.pay(ctx, tx, "k")
		_, gone := tx.ExecContext(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
		return idem.Result{}, errors.Join(err, gone)
	})
	require.Error(t, err)
	require.Zero(t, p.happened(t, "k"))
	_, err = p.execute(t, p.store, p.db, "k", nil)
	require.NoError(t, err)
}

func TestADuplicateWaitsNoLongerThanItsBound(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, err := pgstore.ExecuteSQLTx(t.Context(), p.store, p.db, "k", func(ctx context.Context, tx *sql.Tx) (idem.Result, error) {
		_, err := p.execute(t, p.open(t), p.db, "k", nil, idem.WithWait(50*time.Millisecond))
		require.ErrorIs(t, err, idem.ErrInProgress)
		return p.pay(ctx, tx, "k")
	})
	require.NoError(t, err)
	require.Equal(t, 1, p.happened(t, "k"))
}

// The caller's own transaction is as usable after a failure as it was before, at
// each level.
func TestTheCallersTransactionGoesOn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		tx, err := p.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		require.NoError(t, err)
		failing, paid := level.String()+" failing", level.String()+" paid"
		_, err = pgstore.ExecuteInSQLTx(t.Context(), p.store, tx, failing, func(ctx context.Context, tx *sql.Tx) (idem.Result, error) {
			_, err := p.pay(ctx, tx, failing)
			_, broken := tx.ExecContext(ctx, "SELECT 1/0")
			return idem.Result{}, errors.Join(err, broken)
		})
		require.ErrorContains(t, err, "division by zero")
		res, err := pgstore.ExecuteInSQLTx(t.Context(), p.store, tx, paid, func(ctx context.Context, tx *sql.Tx) (idem.Result, error) { return p.pay(ctx, tx, paid) })
		require.NoError(t, err)
		require.Equal(t, "paid\x00 "+paid, string(res.Value))
		require.NoError(t, tx.Commit())
		require.Equal(t, []int{0, 1}, []int{p.happened(t, failing), p.happened(t, paid)})
		res, err = p.store.Execute(t.Context(), paid, func(context.Context) (idem.Result, error) { return idem.Result{}, errDeclined })
		require.NoError(t, err)
		require.True(t, res.Replayed)
	}
}
