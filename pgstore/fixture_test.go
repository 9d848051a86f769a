package pgstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/pgstore"
)

// The tests wait for servers and leases more than they compute: more of them than
// processors may run side by side.
func TestMain(m *testing.M) {
	if schema := os.Getenv(childEnv); schema != "" {
		fmt.Fprintln(os.Stderr, child(schema))
		os.Exit(1)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := testenv.StopPostgres(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// place is a schema with the table, and how to get there.
type place struct {
	url    string
	schema string
	table  string // quoted, with the schema
}

// newPlace makes a schema on the shared server and migrates it.
func newPlace(tb testing.TB) place {
	tb.Helper()
	url, schema := testenv.PostgresSchema(tb)
	return migrated(tb, url, schema)
}

func migrated(tb testing.TB, url, schema string) place {
	tb.Helper()
	p := place{url: url, schema: schema, table: pgx.Identifier{schema, "idem_records"}.Sanitize()}
	require.NoError(tb, p.backend(tb, p.pool(tb)).Migrate(tb.Context()))
	return p
}

// change adjusts a pool's configuration.
type change func(*pgxpool.Config)

func mode(m pgx.QueryExecMode) change {
	return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = m }
}

type poolConfig = pgxpool.Config

func database(name string) change {
	return func(c *pgxpool.Config) { c.ConnConfig.Database = name }
}

func conns(n int32) change { return func(c *pgxpool.Config) { c.MaxConns = n } }

func (p place) pool(tb testing.TB, changes ...change) *pgxpool.Pool {
	tb.Helper()
	return p.poolAt(tb, p.url, changes...)
}

// poolAt is pool by another way: a proxy, a standby. Its connections carry the
// schema's name, so that a test finds its own ones among all on the server.
func (p place) poolAt(tb testing.TB, url string, changes ...change) *pgxpool.Pool {
	tb.Helper()
	return poolOf(tb, url, append([]change{p.named, bounded}, changes...)...)
}

func (p place) named(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = p.schema }

// patience bounds what a test waits for, so that one that fails frees what it
// holds and says why. It is no measure of speed.
const patience = 20 * time.Second

// bounded makes the server end what a failed test would leave hanging. A
// transaction-pooling proxy knows no such settings.
func bounded(c *pgxpool.Config) {
	c.ConnConfig.RuntimeParams["statement_timeout"] = "60s"
	c.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "60s"
}

func unbounded(c *pgxpool.Config) {
	delete(c.ConnConfig.RuntimeParams, "statement_timeout")
	delete(c.ConnConfig.RuntimeParams, "idle_in_transaction_session_timeout")
}

func poolOf(tb testing.TB, url string, changes ...change) *pgxpool.Pool {
	tb.Helper()
	pool, err := openPool(tb.Context(), url, changes...)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			pool.Close()
		}()
		select {
		case <-closed:
		case <-time.After(patience):
			tb.Errorf("the pool does not close: %d connections are in use", pool.Stat().AcquiredConns())
		}
	})
	return pool
}

func openPool(ctx context.Context, url string, changes ...change) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 4 // many tests share the server
	for _, c := range changes {
		c(cfg)
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

// receive waits for what comes from ch.
func receive[T any](tb testing.TB, ch <-chan T, what string) (v T) {
	tb.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v = <-ch:
	case <-timer.C:
		tb.Fatalf("%s did not happen within %v", what, patience)
	}
	return v
}

// hold blocks an operation until ch is closed, or the test is over.
func hold(ctx context.Context, ch <-chan struct{}) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return errors.New("held for too long")
	}
}

func (p place) options() *pgstore.Options { return &pgstore.Options{Schema: p.schema} }

func (p place) backend(tb testing.TB, db pgstore.DB) *pgstore.Backend {
	tb.Helper()
	b, err := newBackend(db, p)
	require.NoError(tb, err)
	return b
}

func newBackend(db pgstore.DB, p place) (*pgstore.Backend, error) {
	return pgstore.New(db, p.options())
}

// exec runs SQL with the table's name in the place of {records}.
func (p place) exec(tb testing.TB, db querier, sql string, args ...any) {
	tb.Helper()
	rows, err := db.Query(context.WithoutCancel(tb.Context()), strings.ReplaceAll(sql, "{records}", p.table), args...)
	require.NoError(tb, err)
	rows.Close()
	require.NoError(tb, rows.Err())
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// value asks for one value.
func value[T any](tb testing.TB, p place, db querier, sql string, args ...any) (v T) {
	tb.Helper()
	rows, err := db.Query(tb.Context(), strings.ReplaceAll(sql, "{records}", p.table), args...)
	require.NoError(tb, err)
	v, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(tb, err)
	return v
}

func join(key string) string { return driver.JoinKey("", key) }
