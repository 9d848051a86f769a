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
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/tcpproxy"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/pgstore"
)

// counted is a place that is reached through one connection and a proxy that
// counts.
type counted struct {
	*ledger
	proxy *tcpproxy.Proxy
}

func newCounted(t *testing.T, m pgx.QueryExecMode) *counted {
	t.Helper()
	l := newLedger(t)
	proxy := tcpproxy.New(t, hostOf(t, l.url))
	l.pool = l.poolAt(t, through(t, proxy, l.url), conns(1), mode(m))
	return &counted{l, proxy}
}

// trips counts the round trips of f.
func (c *counted) trips(f func()) int64 {
	before := c.proxy.RoundTrips()
	f()
	return c.proxy.RoundTrips() - before
}

func TestRoundTripsOfExecute(t *testing.T) {
	t.Parallel()
	for name, m := range modes() {
		if m == pgx.QueryExecModeCacheDescribe {
			continue // like the one below, once it has described each statement
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCounted(t, m)
			s, other := c.store(t), c.store(t)
			execute := func(s *idem.Store, key string) func() {
				return func() {
					_, err := s.Execute(t.Context(), key, plain("x"))
					require.NoError(t, err)
				}
			}
			for _, w := range []*idem.Store{s, other} { // connect, check, prepare
				execute(w, "warm")()
				execute(w, "warm")()
			}
			require.Equal(t, int64(2), c.trips(execute(s, "k")), "a first execution")
			require.Equal(t, int64(1), c.trips(execute(s, "k")), "a replay of what this process knows")
			require.Equal(t, int64(1), c.trips(execute(other, "k")), "a replay of what it does not")
			require.Equal(t, int64(1), c.trips(func() {
				_, err := s.Execute(t.Context(), "k", plain("x"), idem.WithFingerprint([]byte("other")))
				require.NoError(t, err) // the first had none
			}))
			_, err := s.Execute(t.Context(), "busy", func(context.Context) (idem.Result, error) {
				require.Equal(t, int64(1), c.trips(func() {
					_, err := other.Execute(t.Context(), "busy", plain("x"))
					require.ErrorIs(t, err, idem.ErrInProgress)
				}), "a rejected duplicate")
				return idem.Result{}, nil
			})
			require.NoError(t, err)
		})
	}
}

// The count of a transaction: BEGIN, the claim with its savepoint, the effect,
// the outcome, COMMIT.
func TestRoundTripsOfATransaction(t *testing.T) {
	t.Parallel()
	c := newCounted(t, pgx.QueryExecModeCacheStatement)
	s := c.store(t)
	execute := func(key string) func() {
		return func() {
			_, err := pgstore.ExecuteTx(t.Context(), s, c.pool, key, func(ctx context.Context, tx pgx.Tx) (idem.Result, error) {
				_, err := tx.Exec(ctx, c.insert(), key)
				return idem.Result{}, err
			})
			require.NoError(t, err)
		}
	}
	bare := func() {
		tx, err := c.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), c.insert(), "bare")
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context()))
	}
	execute("warm")()
	execute("warm")()
	bare()
	require.Equal(t, int64(3), c.trips(bare), "the bare transaction")
	require.Equal(t, int64(5), c.trips(execute("k")), "BEGIN, claim, effect, outcome, COMMIT")
	require.Equal(t, int64(1), c.trips(execute("k")), "a replay of what this process knows")
	s = c.store(t)
	execute("warm")()
	require.Equal(t, int64(3), c.trips(execute("k")), "a replay of what it does not: BEGIN, claim, ROLLBACK")

	inTx := c.trips(func() {
		tx, err := c.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = pgstore.ExecuteInTx(t.Context(), s, tx, "mine", func(ctx context.Context, tx pgx.Tx) (idem.Result, error) {
			_, err := tx.Exec(ctx, c.insert(), "mine")
			return idem.Result{}, err
		})
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context()))
	})
	require.LessOrEqual(t, inTx, int64(7), "BEGIN, claim, effect, outcome, RELEASE, COMMIT, and one to prepare")

	db := stdlib.OpenDBFromPool(c.pool)
	t.Cleanup(func() { _ = db.Close() })
	sqlTx := func(key string) func() {
		return func() {
			_, err := pgstore.ExecuteSQLTx(t.Context(), s, db, key, func(ctx context.Context, tx *sql.Tx) (idem.Result, error) {
				_, err := tx.ExecContext(ctx, c.insert(), key)
				return idem.Result{}, err
			})
			require.NoError(t, err)
		}
	}
	sqlTx("warm sql")()
	require.LessOrEqual(t, c.trips(sqlTx("sql")), int64(10), "database/sql has no pipeline")
}

// A replay writes nothing: no WAL, no transaction id. It is asked of a server that
// nobody else uses; what that does by itself, now and then, is not in each of some
// tries.
func TestAReplayWritesNothing(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t, testenv.PostgresConfig{Settings: []string{"autovacuum=off"}})
	testenv.PostgresExec(t, server.URL(), "CREATE SCHEMA s")
	p := migrated(t, server.URL(), "s")
	l := &ledger{place: p, pool: p.pool(t)}
	s, other := l.store(t), l.store(t)
	_, err := s.Execute(t.Context(), "k", plain("x"), idem.WithFingerprint([]byte("r")))
	require.NoError(t, err)
	for name, call := range map[string]func(s *idem.Store) error{
		"replay": func(s *idem.Store) error {
			_, err := s.Execute(t.Context(), "k", plain("x"))
			return err
		},
		"mismatch": func(s *idem.Store) error {
			_, err := s.Execute(t.Context(), "k", plain("x"), idem.WithFingerprint([]byte("other")))
			require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
			return nil
		},
		"replay in a transaction": func(s *idem.Store) error {
			_, err := pgstore.ExecuteTx(t.Context(), s, l.pool, "k", func(context.Context, pgx.Tx) (idem.Result, error) { return idem.Result{}, nil })
			return err
		},
	} {
		for _, s := range []*idem.Store{s, other} { // by the shortcut, and by the statement that could create
			require.NoError(t, call(s)) // Check, prepare
		}
		wal, xids := int64(1), int64(1)
		for try := 0; try < 50 && wal+xids > 0; try++ {
			fresh := l.store(t)
			require.NoError(t, fresh.Check(t.Context()))
			w, x := l.written(t)
			require.NoError(t, call(s))
			require.NoError(t, call(fresh))
			w2, x2 := l.written(t)
			wal, xids = min(wal, w2-w), min(xids, x2-x)
		}
		require.Zero(t, wal, "%s: bytes of WAL", name)
		require.Zero(t, xids, "%s: transaction ids", name)
	}
}

// written is how much the server has written so far, and how many transaction ids
// it has given.
func (l *ledger) written(t *testing.T) (wal, xids int64) {
	t.Helper()
	return value[int64](t, l.place, l.pool, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"),
		value[int64](t, l.place, l.pool, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
}

// Only the server's clock counts (I7, C37): no statement carries a time of the
// process's, so that no clock of a process can matter.
func TestNoTimeOfTheProcessReachesTheServer(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	spy := &spying{DB: l.pool}
	b := l.backend(t, spy)
	s := storeOver(t, b, &idem.Options{Namespace: "n"})
	_, err := s.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
		c, _ := idem.ClaimFrom(ctx)
		require.NoError(t, c.SaveRef(ctx, "p", "r"))
		require.NoError(t, c.Renew(ctx))
		return idem.Result{}, errDeclined
	}, idem.WithProvider("p", time.Hour))
	require.ErrorIs(t, err, errDeclined)
	_, err = s.Execute(t.Context(), "k", plain("x"), idem.WithProvider("q", 48*time.Hour))
	require.NoError(t, err)
	rec, err := s.Inspect(t.Context(), "k")
	require.NoError(t, err)
	require.NoError(t, s.Redact(t.Context(), "k", rec.Token, "test"))
	require.NoError(t, s.Reset(t.Context(), "k", rec.Token, "test"))
	_, err = b.Purge(t.Context(), &driver.PurgeParams{UnknownAfter: time.Hour})
	require.NoError(t, err)
	require.NotEmpty(t, spy.seen)
	now := time.Now()
	for _, arg := range spy.seen {
		_, isTime := arg.(time.Time)
		require.False(t, isTime)
		n, isInt := arg.(int64)
		for _, unit := range []int64{now.Unix(), now.UnixMilli(), now.UnixNano()} {
			require.False(t, isInt && n > unit-unit/1000 && n < unit+unit/1000, "%d looks like a time", n)
		}
	}
}

type spying struct {
	pgstore.DB
	seen []any
}

func (s *spying) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	s.seen = append(s.seen, args...)
	return s.DB.Query(ctx, sql, args...)
}
