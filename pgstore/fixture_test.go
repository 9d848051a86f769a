package pgstore_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

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
	return poolOf(tb, p.url, changes...)
}

func poolOf(tb testing.TB, url string, changes ...change) *pgxpool.Pool {
	tb.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(tb, err)
	cfg.MaxConns = 8
	for _, c := range changes {
		c(cfg)
	}
	pool, err := pgxpool.NewWithConfig(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	return pool
}

func (p place) options() *pgstore.Options { return &pgstore.Options{Schema: p.schema} }

func (p place) backend(tb testing.TB, db pgstore.DB) *pgstore.Backend {
	tb.Helper()
	b, err := pgstore.New(db, p.options())
	require.NoError(tb, err)
	return b
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
