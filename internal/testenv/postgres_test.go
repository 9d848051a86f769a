package testenv_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/internal/testenv"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func ask(t *testing.T, url, sql string) (answer string) {
	t.Helper()
	require.NoError(t, connect(t, url).QueryRow(t.Context(), sql).Scan(&answer))
	return answer
}

func TestEachTestHasASchemaOfItsOwn(t *testing.T) {
	t.Parallel()
	url, one := testenv.PostgresSchema(t)
	_, two := testenv.PostgresSchema(t)
	require.NotEqual(t, one, two)
	require.Equal(t, one, ask(t, url, "SELECT nspname FROM pg_namespace WHERE nspname = '"+one+"'"))
}

func TestAKilledServerComesBackWithWhatWasCommitted(t *testing.T) {
	t.Parallel()
	s := testenv.OwnPostgres(t, testenv.PostgresConfig{})
	testenv.PostgresExec(t, s.URL(), "CREATE TABLE t (x text); INSERT INTO t VALUES ('kept')")
	require.NoError(t, s.Kill(t.Context()))
	_, err := pgx.Connect(t.Context(), s.URL())
	require.Error(t, err)
	require.NoError(t, s.Start(t.Context()))
	require.Equal(t, "kept", ask(t, s.URL(), "SELECT x FROM t"))
	require.NoError(t, s.Stop())
	require.NoError(t, s.Start(t.Context()))
	require.Equal(t, "kept", ask(t, s.URL(), "SELECT x FROM t"))
}

func TestAStandbyFollowsWithItsDelay(t *testing.T) {
	t.Parallel()
	s := testenv.OwnPostgres(t, testenv.PostgresConfig{})
	standby, err := s.Standby(t.Context(), time.Hour)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Close()) })
	require.Equal(t, "true", ask(t, standby.URL(), "SELECT pg_is_in_recovery()::text"))
	testenv.PostgresExec(t, s.URL(), "CREATE TABLE t (x text)")
	require.Equal(t, "absent", ask(t, standby.URL(), "SELECT coalesce(to_regclass('t')::text, 'absent')"))
	require.NoError(t, standby.Promote(t.Context()))
	require.Equal(t, "false", ask(t, standby.URL(), "SELECT pg_is_in_recovery()::text"))
}

func TestAProxyPassesStatementsOn(t *testing.T) {
	t.Parallel()
	url := testenv.OwnPgBouncer(t, testenv.Postgres(t), testenv.PgBouncerConfig{})
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	var answer string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT 'yes'").Scan(&answer))
	require.Equal(t, "yes", answer)
	require.NoError(t, conn.Close(t.Context()))
}

func TestAServerWithTLSAsksForACertificate(t *testing.T) {
	t.Parallel()
	s := testenv.OwnPostgres(t, testenv.PostgresConfig{TLS: true})
	require.Equal(t, "true", ask(t, s.URL(), "SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()"))
	for _, plain := range []string{"sslmode=disable", "sslmode=require"} {
		_, err := pgx.Connect(t.Context(), "postgres://"+testenv.PostgresUser+"@"+s.Addr()+"/postgres?"+plain)
		require.Error(t, err, plain)
	}
}

func TestClosingAServerRemovesItsFolder(t *testing.T) {
	t.Parallel()
	s, err := testenv.StartPostgres(t.Context(), testenv.PostgresConfig{TLS: true})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = os.Stat(s.Certs)
	require.ErrorIs(t, err, os.ErrNotExist)
}
