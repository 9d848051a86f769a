package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/pgstore"
	"github.com/idem-go/idem/storetest"
)

// harness reaches the records of one place through one pool.
func (p place) harness(pool *pgxpool.Pool) storetest.Harness {
	return storetest.Harness{
		New: func(tb testing.TB) driver.Backend { tb.Helper(); return p.backend(tb, pool) },
		Pair: func(tb testing.TB) (a, b driver.Backend) {
			tb.Helper()
			return p.backend(tb, pool), p.backend(tb, pool)
		},
		Pause: func(tb testing.TB, between func()) (paused, other driver.Backend) {
			tb.Helper()
			return p.backend(tb, &pausing{Pool: pool, p: p, between: between}), p.backend(tb, pool)
		},
		Unit:   200 * time.Millisecond, // a lease of a tenth must not end during a few statements
		Rounds: 10,
		Corrupt: func(tb testing.TB, _ driver.Backend, key string, kind storetest.CorruptKind) bool {
			tb.Helper()
			return p.corrupt(tb, pool, key, kind)
		},
		RawBytes: func(tb testing.TB, _ driver.Backend, key string) []byte { tb.Helper(); return p.raw(tb, pool, key) },
		Block:    func(tb testing.TB, _ driver.Backend, key string) func() { tb.Helper(); return p.block(tb, pool, key) },
		Capabilities: storetest.Capabilities{
			Checker: true, Editor: true, Lister: true, Purger: true, Retainer: true, Watcher: true,
		},
	}
}

// corrupt damages a record. What the columns' types and NOT NULL forbid cannot
// be there: an empty record, or something else in its place.
func (p place) corrupt(tb testing.TB, db querier, key string, kind storetest.CorruptKind) bool {
	tb.Helper()
	set := map[storetest.CorruptKind]string{
		storetest.Truncated:       "owner = substring(owner from 1 for 7), fingerprint = substring(fingerprint from 1 for 9)",
		storetest.UnknownState:    "state = 9",
		storetest.HigherFormat:    "format = 2",
		storetest.MissingDeadline: "lease_until = NULL",
		storetest.ZeroDeadline:    "lease_until = 'epoch'",
		storetest.MissingOutcome:  "outcome = NULL, code = NULL",
	}[kind]
	if set == "" {
		return false
	}
	p.exec(tb, db, "UPDATE {records} SET "+set+" WHERE key = $1", key)
	return true
}

func (p place) raw(tb testing.TB, db querier, key string) []byte {
	tb.Helper()
	if !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return nil // no column holds it
	}
	rows, err := db.Query(context.WithoutCancel(tb.Context()), "SELECT t::text FROM "+p.table+" t WHERE key = $1", key)
	require.NoError(tb, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(tb, err)
	return []byte(strings.Join(all, ""))
}

// block holds a record in a transaction of its own.
func (p place) block(tb testing.TB, pool *pgxpool.Pool, key string) (unblock func()) {
	tb.Helper()
	tx, err := pool.Begin(tb.Context())
	require.NoError(tb, err)
	p.exec(tb, tx, "SELECT 1 FROM {records} WHERE key = $1 FOR UPDATE", key)
	unblock = sync.OnceFunc(func() { _ = tx.Rollback(context.WithoutCancel(tb.Context())) })
	tb.Cleanup(unblock)
	return unblock
}

// pausing calls between before the statement that decides a claim: the UPDATE
// that takes a record, or, where there is none, the one that creates it.
type pausing struct {
	*pgxpool.Pool
	p       place
	between func()
}

func (d *pausing) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	switch {
	case strings.Contains(sql, "INSERT INTO"):
		var there bool
		if err := d.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+d.p.table+" WHERE key = $1)", args[0]).Scan(&there); err != nil {
			return nil, err
		}
		if !there {
			d.between()
		}
	case strings.Contains(sql, "attempt = $14"):
		d.between()
	}
	return d.Pool.Query(ctx, sql, args...)
}

var _ pgstore.DB = (*pausing)(nil)

// The modes in which users run pgx.
func modes() map[string]pgx.QueryExecMode {
	return map[string]pgx.QueryExecMode{
		"cached statements": pgx.QueryExecModeCacheStatement, "cached descriptions": pgx.QueryExecModeCacheDescribe,
		"exec": pgx.QueryExecModeExec, "simple protocol": pgx.QueryExecModeSimpleProtocol,
	}
}

func TestTheBackendConformsInEachModeOfItsClient(t *testing.T) {
	t.Parallel()
	for name, m := range modes() {
		if m == pgx.QueryExecModeCacheStatement {
			continue // TestTheBackendConformsOnAServerThatIsKilled
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			storetest.Run(t, p.harness(p.pool(t, mode(m), conns(8))))
		})
	}
}

// A transaction-pooling proxy gives each statement any connection: see Options
// in the package documentation for the two modes that work behind any of them
// (C44).
func TestTheBackendConformsBehindATransactionPoolingProxy(t *testing.T) {
	t.Parallel()
	for _, m := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			url := testenv.OwnPgBouncer(t, p.url, testenv.PgBouncerConfig{PoolSize: 6})
			pool := p.poolAt(t, url, mode(m), unbounded, conns(8))
			h := p.harness(pool)
			direct := func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, p.url) }
			h.New = func(tb testing.TB) driver.Backend {
				tb.Helper()
				b, err := pgstore.New(pool, &pgstore.Options{Schema: p.schema, Listen: direct})
				require.NoError(tb, err)
				return b
			}
			h.Pair = func(tb testing.TB) (a, b driver.Backend) { tb.Helper(); return h.New(tb), h.New(tb) }
			storetest.Run(t, h)
		})
	}
}

// On a server of its own, which a rule kills (I2, I10).
func TestTheBackendConformsOnAServerThatIsKilled(t *testing.T) {
	t.Parallel()
	s := testenv.OwnPostgres(t, testenv.PostgresConfig{})
	testenv.PostgresExec(t, s.URL(), "CREATE SCHEMA s")
	p := migrated(t, s.URL(), "s")
	pool := p.pool(t, conns(8))
	h := p.harness(pool)
	h.Rounds = 20 // the others vary the way to the server, not the statements
	h.Restart = func(tb testing.TB, _ driver.Backend) driver.Backend {
		tb.Helper()
		require.NoError(tb, s.Kill(tb.Context()))
		require.NoError(tb, s.Start(tb.Context()))
		pool.Reset()
		return p.backend(tb, pool)
	}
	storetest.Run(t, h)
}

// The hash partitions that docs/postgres.md describes keep the key unique.
func TestTheBackendConformsOnHashPartitions(t *testing.T) {
	t.Parallel()
	url, schema := testenv.PostgresSchema(t)
	p := place{url: url, schema: schema, table: pgx.Identifier{schema, "idem_records"}.Sanitize()}
	pool := p.pool(t, conns(8))
	const plain = ") WITH (fillfactor = 70);"
	for _, m := range p.backend(t, pool).Migrations() {
		require.True(t, m.Version != 1 || strings.Contains(m.SQL, plain))
		parts := ") PARTITION BY HASH (key);"
		for i := range 4 {
			parts += fmt.Sprintf("\nCREATE TABLE %s PARTITION OF %s FOR VALUES WITH (MODULUS 4, REMAINDER %d) WITH (fillfactor = 70);",
				pgx.Identifier{schema, fmt.Sprintf("idem_records_%d", i)}.Sanitize(), p.table, i)
		}
		testenv.PostgresExec(t, url, strings.Replace(m.SQL, plain, parts, 1))
	}
	storetest.Run(t, p.harness(pool))
}
