package testenv

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// PostgresEnv names the variable with the connection string, as a URL of a user
// who may create schemas and roles, of a server to use instead of a local one.
const PostgresEnv = "IDEM_TEST_POSTGRES_URL"

// shared is the server that all tests of this process use.
var shared struct { //nolint:gochecknoglobals // one server for a process is the point
	once   sync.Once
	url    string
	err    error
	server *PostgresServer // nil with PostgresEnv
}

// PostgresURL returns the connection string of the server that this process's
// tests share, and starts it the first time: the one that PostgresEnv names,
// else a local one. [StopPostgres] ends it.
func PostgresURL(ctx context.Context) (string, error) {
	shared.once.Do(func() {
		if shared.url = os.Getenv(PostgresEnv); shared.url != "" {
			return
		}
		shared.server, shared.err = StartPostgres(context.WithoutCancel(ctx), PostgresConfig{})
		if shared.err == nil {
			shared.url = shared.server.URL()
		}
	})
	return shared.url, shared.err
}

// StopPostgres stops the shared server, if this process has started one. Call it
// at the end of TestMain.
func StopPostgres() error {
	if shared.server == nil {
		return nil
	}
	return shared.server.Close()
}

// Postgres returns the connection string of the shared server. It fails the
// test, and says what to install, if there is none: it never skips.
func Postgres(tb testing.TB) string {
	tb.Helper()
	url, err := PostgresURL(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return url
}

// PostgresSchema makes a schema of the test's own on the shared server and drops
// it, with all that is in it, when the test ends. Connections that the test opens
// carry the schema's name as their application_name: those that still hold
// something of it then are ended, and nobody else's.
func PostgresSchema(tb testing.TB) (url, schema string) {
	tb.Helper()
	url, schema = Postgres(tb), "idem_test_"+Random(8)
	PostgresExec(tb, url, "CREATE SCHEMA "+schema)
	tb.Cleanup(func() {
		PostgresExec(tb, url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '"+schema+"'")
		PostgresExec(tb, url, "SET lock_timeout = '20s'; DROP SCHEMA "+schema+" CASCADE")
	})
	return url, schema
}

// PostgresExec runs SQL text on a connection of its own, also while a test is
// cleaning up.
func PostgresExec(tb testing.TB, url, sql string) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		tb.Fatalf("connect: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		tb.Fatalf("%.200s: %v", sql, err)
	}
}

// OwnPostgres starts a server for one test, which may kill it. It needs the
// binaries, also with PostgresEnv.
func OwnPostgres(tb testing.TB, cfg PostgresConfig) *PostgresServer {
	tb.Helper()
	s, err := StartPostgres(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the server's log:\n%s", s.Log())
		}
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// OwnPgBouncer starts a proxy for one test and returns its connection string.
func OwnPgBouncer(tb testing.TB, target string, cfg PgBouncerConfig) string {
	tb.Helper()
	b, err := StartPgBouncer(tb.Context(), target, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Error(err)
		}
	})
	url, err := b.URL(target)
	if err != nil {
		tb.Fatal(err)
	}
	return url
}

// Random returns n random bytes in hexadecimal, for names.
func Random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
