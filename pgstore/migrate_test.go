package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/pgstore"
)

func TestMigrateMayRunInManyProcessesAtOnce(t *testing.T) {
	t.Parallel()
	url, schema := testenv.PostgresSchema(t)
	p := place{url: url, schema: schema}
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		b := p.backend(t, p.pool(t, conns(1)))
		wg.Go(func() { errs[i] = errors.Join(b.Migrate(t.Context()), b.Validate(t.Context())) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

func TestMigrateCreatesTheSchemaAndDoesNothingASecondTime(t *testing.T) {
	t.Parallel()
	p := place{url: testenv.Postgres(t), schema: "idem_test_" + testenv.Random(8)}
	t.Cleanup(func() { testenv.PostgresExec(t, p.url, "DROP SCHEMA IF EXISTS "+p.schema+" CASCADE") })
	pool := p.pool(t)
	b := p.backend(t, pool)
	require.ErrorIs(t, b.Validate(t.Context()), pgstore.ErrNotMigrated)
	require.NoError(t, b.Migrate(t.Context()))
	before := value[string](t, p, pool, "SELECT string_agg(c.oid::text, ',' ORDER BY c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1", p.schema)
	require.NoError(t, b.Migrate(t.Context()))
	require.NoError(t, b.Validate(t.Context()))
	require.Equal(t, before, value[string](t, p, pool, "SELECT string_agg(c.oid::text, ',' ORDER BY c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1", p.schema))
	require.Equal(t, int64(1), value[int64](t, p, pool, "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'", p.schema), "one table")
}

func TestAMigrationBesideTrafficDisturbsNobody(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	s := storeOver(t, p.backend(t, pool), nil)
	ctx, cancel := context.WithCancel(t.Context())
	migrating := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = p.backend(t, pool).Migrate(t.Context())
		}
		migrating <- err
	}()
	for i := range 50 {
		_, err := s.Execute(t.Context(), fmt.Sprint(i), plain("x"))
		require.NoError(t, err)
	}
	cancel()
	require.NoError(t, receive(t, migrating, "the end of the migrations"))
}

// The exported files are plain SQL, for a tool of the user's own.
func TestTheExportedFilesMakeTheSameSchema(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(pgstore.Migrations(), "*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	name := "idem_test_" + testenv.Random(8)
	testenv.PostgresExec(t, testenv.Postgres(t), "CREATE DATABASE "+name)
	t.Cleanup(func() { testenv.PostgresExec(t, testenv.Postgres(t), "DROP DATABASE "+name+" WITH (FORCE)") })
	pool := poolOf(t, testenv.Postgres(t), database(name))
	for _, f := range files {
		text, err := fs.ReadFile(pgstore.Migrations(), f)
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), string(text))
		require.NoError(t, err)
	}
	b, err := pgstore.New(pool, nil)
	require.NoError(t, err)
	require.NoError(t, b.Validate(t.Context()))
	s := storeOver(t, b, nil)
	_, err = s.Execute(t.Context(), "k", plain("x"))
	require.NoError(t, err)
	for _, m := range b.Migrations() {
		require.Contains(t, m.SQL, `CREATE TABLE "public"."idem_records"`)
	}
}

// Names are quoted, and refused where Postgres would change them (K11).
func TestHostileNamesAreQuotedOrRefused(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, testenv.Postgres(t))
	hostile := `x"; DROP TABLE t; --`
	suffix := testenv.Random(4)
	for schema, table := range map[string]string{
		hostile + suffix: hostile, "Ünï " + suffix: "tàble 🙂", "{x} " + suffix: "a.b", "new\nline" + suffix: "'", "$1" + suffix: strings.Repeat("t", 55),
	} {
		t.Cleanup(func() {
			testenv.PostgresExec(t, testenv.Postgres(t), "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
		})
		b, err := pgstore.New(pool, &pgstore.Options{Schema: schema, Table: table})
		require.NoError(t, err)
		require.NoError(t, b.Migrate(t.Context()), "%q.%q", schema, table)
		require.NoError(t, b.Validate(t.Context()))
		require.True(t, driver.OnlyWarnings(b.Check(t.Context())), "%v", b.Check(t.Context()))
		s := storeOver(t, b, nil)
		for range 2 {
			res, err := s.Execute(t.Context(), hostile, plain("x"))
			require.NoError(t, err)
			require.Equal(t, "x", string(res.Value))
		}
		var held int64
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT records FROM "+pgx.Identifier{schema, table + "_stats"}.Sanitize()).Scan(&held))
		require.Equal(t, int64(1), held)
	}
	for _, o := range []pgstore.Options{
		{Schema: "a\x00b"},
		{Table: "a\x00b"},
		{Schema: "\xff"},
		{Table: "\xff"},
		{Schema: strings.Repeat("s", 64)},
		{Table: strings.Repeat("t", 56)},
		{Retention: -1},
		{LockWait: -time.Second},
	} {
		_, err := pgstore.New(pool, &o)
		require.Error(t, err, "%+v", o)
	}
	_, err := pgstore.New(nil, nil)
	require.Error(t, err)
}

// Nothing is looked up in a schema that the search_path puts first (K11).
func TestAHostileSearchPathChangesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	evil := p.schema + "_evil"
	testenv.PostgresExec(t, p.url, "CREATE SCHEMA "+evil)
	t.Cleanup(func() { testenv.PostgresExec(t, p.url, "DROP SCHEMA "+evil+" CASCADE") })
	testenv.PostgresExec(t, p.url, `
		CREATE TABLE `+evil+`.idem_records (key text);
		CREATE DOMAIN `+evil+`.text AS pg_catalog.int4;
		CREATE DOMAIN `+evil+`.bytea AS pg_catalog.int4;
		CREATE DOMAIN `+evil+`.jsonb AS pg_catalog.int4;
		CREATE DOMAIN `+evil+`.timestamptz AS pg_catalog.int4;
		CREATE FUNCTION `+evil+`.clock_timestamp() RETURNS pg_catalog.timestamptz LANGUAGE sql AS $$ SELECT 'epoch'::pg_catalog.timestamptz $$;
		CREATE FUNCTION `+evil+`.set_config(pg_catalog.text, pg_catalog.text, boolean) RETURNS pg_catalog.text LANGUAGE sql AS $$ SELECT NULL::pg_catalog.text $$;
		CREATE FUNCTION `+evil+`.octet_length(pg_catalog.bytea) RETURNS integer LANGUAGE sql AS $$ SELECT 0 $$;
		CREATE FUNCTION `+evil+`.pg_notify(pg_catalog.text, pg_catalog.text) RETURNS void LANGUAGE sql AS $$ SELECT 1/0 $$;`)
	for _, path := range []string{"", evil + ", pg_catalog"} {
		pool := p.pool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = path })
		s := storeOver(t, p.backend(t, pool), nil)
		key := "path " + path
		for range 2 {
			res, err := s.Execute(t.Context(), key, plain("x"), idem.WithFingerprint([]byte("r")))
			require.NoError(t, err, path)
			require.Equal(t, "x", string(res.Value))
		}
		_, err := pgstore.ExecuteTx(t.Context(), s, pool, key+"/tx", func(context.Context, pgx.Tx) (idem.Result, error) { return idem.Result{}, nil })
		require.NoError(t, err)
		require.NoError(t, p.backend(t, pool).Migrate(t.Context()))
		_, err = p.backend(t, pool).Purge(t.Context(), &driver.PurgeParams{UnknownAfter: time.Hour})
		require.NoError(t, err)
		_, err = p.backend(t, pool).List(t.Context(), &driver.ListParams{})
		require.NoError(t, err)
	}
}
