package pgstore_test

import (
	"context"
	"crypto/x509"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/pgstore"
	"github.com/idem-go/idem/storetest"
)

func (p place) stats() string { return pgx.Identifier{p.schema, "idem_records_stats"}.Sanitize() }

// role makes a login role with exactly these rights on the table.
func (p place) role(t *testing.T, rights string) *pgxpool.Pool {
	t.Helper()
	name := "idem_role_" + testenv.Random(8)
	schema := pgx.Identifier{p.schema}.Sanitize()
	testenv.PostgresExec(t, p.url, "CREATE ROLE "+name+" LOGIN PASSWORD 'x'; GRANT USAGE ON SCHEMA "+schema+" TO "+name)
	if rights != "" {
		testenv.PostgresExec(t, p.url, "GRANT "+rights+" ON "+p.table+" TO "+name)
	}
	t.Cleanup(func() { testenv.PostgresExec(t, p.url, "DROP OWNED BY "+name+"; DROP ROLE "+name) })
	return p.pool(t, conns(8), func(c *poolConfig) { c.ConnConfig.User, c.ConnConfig.Password = name, "x" })
}

// K12: four verbs on one table are enough for everything but migrations.
func TestTheBackendConformsWithFourRights(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.role(t, "SELECT, INSERT, UPDATE, DELETE")
	h := p.harness(pool)
	admin := p.pool(t)
	h.Corrupt = func(tb testing.TB, _ driver.Backend, key string, kind storetest.CorruptKind) bool {
		tb.Helper()
		return p.corrupt(tb, admin, key, kind)
	}
	storetest.Run(t, h)
}

func TestOneRightFewerIsToldClearly(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for missing, rights := range map[string]string{
		"SELECT": "INSERT, UPDATE, DELETE", "INSERT": "SELECT, UPDATE, DELETE", "UPDATE": "SELECT, INSERT, DELETE", "DELETE": "SELECT, INSERT, UPDATE",
	} {
		pool := p.role(t, rights)
		b := p.backend(t, pool)
		var n atomic.Int64
		_, err := storeOver(t, b, nil).Execute(t.Context(), missing, counting(&n, "x"))
		require.ErrorIs(t, err, idem.ErrInvalidOption)
		var finding *driver.Finding
		require.ErrorAs(t, err, &finding)
		require.Equal(t, []string{"postgres_rights", driver.Refuse.String()}, []string{finding.Code, finding.Severity.String()})
		require.Contains(t, finding.Remedy, "lacks "+missing+":")
		require.Zero(t, n.Load())
		if missing != "DELETE" {
			_, err = b.Claim(t.Context(), &driver.ClaimParams{Key: "k", Owner: driver.Owner{1}, Lease: time.Second, Retention: time.Hour, Take: driver.TakeAbsent})
			if missing == "UPDATE" && err == nil {
				continue // a first claim needs none
			}
			require.ErrorIs(t, err, driver.ErrUnavailable, missing)
			require.ErrorContains(t, err, "the role needs SELECT, INSERT, UPDATE and DELETE")
		}
	}
}

func TestWhatIsNotSetUpIsToldClearly(t *testing.T) {
	t.Parallel()
	url, schema := testenv.PostgresSchema(t)
	p := place{url: url, schema: schema}
	pool := p.pool(t)
	b := p.backend(t, pool)
	_, err := storeOver(t, b, nil).Execute(t.Context(), "k", plain("x"))
	require.ErrorIs(t, err, idem.ErrInvalidOption)
	require.ErrorContains(t, err, "postgres_no_table")
	_, err = b.Inspect(t.Context(), "k")
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorContains(t, err, "run Migrate")
	require.NoError(t, b.Migrate(t.Context()))
	testenv.PostgresExec(t, url, "COMMENT ON TABLE "+schema+".idem_records IS NULL")
	require.ErrorContains(t, b.Check(t.Context()), "postgres_not_migrated")
	require.ErrorIs(t, b.Validate(t.Context()), pgstore.ErrNotMigrated)
}

func TestCheckWarnsOfWhatACrashMayLose(t *testing.T) {
	t.Parallel()
	s := testenv.OwnPostgres(t, testenv.PostgresConfig{Settings: []string{"fsync=off", "full_page_writes=off", "synchronous_commit=off"}})
	testenv.PostgresExec(t, s.URL(), "CREATE SCHEMA s")
	p := migrated(t, s.URL(), "s")
	err := p.backend(t, p.pool(t)).Check(t.Context())
	require.True(t, driver.OnlyWarnings(err))
	for _, code := range []string{"postgres_fsync_off", "postgres_full_page_writes_off", "postgres_synchronous_commit_off"} {
		require.ErrorContains(t, err, code)
	}
	_, err = storeOver(t, p.backend(t, p.pool(t)), nil).Execute(t.Context(), "k", plain("x"))
	require.NoError(t, err, "a warning is no refusal")
}

// Roles may change how values look as text, which two modes of pgx read.
func TestCheckWarnsOfTextThatTheClientCannotRead(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, value := range map[string]string{"datestyle": "German", "bytea_output": "escape"} {
		err := p.backend(t, p.pool(t, func(c *poolConfig) { c.ConnConfig.RuntimeParams[name] = value })).Check(t.Context())
		require.True(t, driver.OnlyWarnings(err))
		require.ErrorContains(t, err, "postgres_text_format")
	}
}

// I2: a server whose clock is behind the tokens that it holds must not issue
// more.
func TestCheckRefusesAClockBehindTheNewestToken(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	b := p.backend(t, pool)
	_, err := storeOver(t, b, nil).Execute(t.Context(), "k", plain("x"))
	require.NoError(t, err)
	require.NoError(t, b.Check(t.Context()))
	p.exec(t, pool, "UPDATE {records} SET token = token + 3600::bigint * 1000000")
	require.ErrorContains(t, b.Check(t.Context()), "postgres_clock_behind")
	var n atomic.Int64
	_, err = storeOver(t, b, nil).Execute(t.Context(), "k2", counting(&n, "x"))
	require.ErrorIs(t, err, idem.ErrInvalidOption)
	require.Zero(t, n.Load())
}

func TestAReadOnlySessionIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t, func(c *poolConfig) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" })
	b := p.backend(t, pool)
	require.ErrorContains(t, b.Check(t.Context()), "postgres_read_only")
	_, err := b.Claim(t.Context(), &driver.ClaimParams{Key: "k", Owner: driver.Owner{1}, Lease: time.Second, Retention: time.Hour, Take: driver.TakeAbsent})
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorContains(t, err, "connect to the primary")
}

// C62: a copy that lags behind must not decide. Promoted, it has lost what had not
// reached it, and says so by running again; tokens go on rising (I2).
func TestALaggingStandbyIsRefusedAndLosesWhatHadNotReachedIt(t *testing.T) {
	t.Parallel()
	primary := testenv.OwnPostgres(t, testenv.PostgresConfig{})
	testenv.PostgresExec(t, primary.URL(), "CREATE SCHEMA s")
	p := migrated(t, primary.URL(), "s")
	standby, err := primary.Standby(t.Context(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Close()) })
	testenv.PostgresExec(t, standby.URL(), "ALTER SYSTEM SET primary_conninfo = ''") // it follows no more
	testenv.PostgresExec(t, standby.URL(), "SELECT pg_reload_conf()")
	watching := p.pool(t)
	require.Eventually(t, func() bool {
		return value[int64](t, p, watching, "SELECT count(*) FROM pg_stat_replication") == 0
	}, 30*time.Second, 50*time.Millisecond)
	var n atomic.Int64
	s := storeOver(t, p.backend(t, p.pool(t)), nil)
	first, err := s.Execute(t.Context(), "k", counting(&n, "x"))
	require.NoError(t, err)

	copied := place{url: standby.URL(), schema: "s", table: p.table}
	b := copied.backend(t, copied.pool(t))
	for range 2 {
		_, err = storeOver(t, b, nil).Execute(t.Context(), "k", counting(&n, "x"))
		require.ErrorIs(t, err, idem.ErrInvalidOption)
		require.ErrorContains(t, err, "postgres_standby")
	}
	_, err = b.Claim(t.Context(), &driver.ClaimParams{Key: join("k"), Owner: driver.Owner{1}, Lease: time.Second, Retention: time.Hour, Take: driver.TakeAbsent})
	require.ErrorIs(t, err, driver.ErrUnavailable, "also without Check")
	require.Equal(t, int64(1), n.Load())

	// With several hosts the client can be told to look for the primary.
	either := p.poolAt(t, "postgres://"+testenv.PostgresUser+":"+testenv.PostgresPassword+"@"+standby.Addr()+","+primary.Addr()+
		"/postgres?sslmode=disable&target_session_attrs=read-write")
	res, err := storeOver(t, p.backend(t, either), nil).Execute(t.Context(), "k", counting(&n, "x"))
	require.NoError(t, err)
	require.True(t, res.Replayed)

	require.NoError(t, primary.Stop())
	require.NoError(t, standby.Promote(t.Context()))
	res, err = storeOver(t, b, nil).Execute(t.Context(), "k", counting(&n, "x"))
	require.NoError(t, err)
	require.Equal(t, int64(2), n.Load(), "the loss is visible")
	require.Greater(t, res.Token, first.Token)
}

// A server that is killed and comes back in the middle of everything.
func TestAKilledServerInTheMiddleDoublesAndLosesNothing(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t, testenv.PostgresConfig{})
	testenv.PostgresExec(t, server.URL(), "CREATE SCHEMA s")
	p := migrated(t, server.URL(), "s")
	pool := p.pool(t)
	testenv.PostgresExec(t, server.URL(), "CREATE TABLE s.effects (what text)")
	s := storeOver(t, p.backend(t, pool), &idem.Options{Lease: time.Second, RecordTimeout: 20 * time.Second})
	var killed atomic.Bool
	done := make(chan error, 4)
	limit, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	for range cap(done) {
		go func() {
			var errs error
			for i := range 60 {
				key := string(rune('A' + i))
				for {
					_, err := pgstore.ExecuteTx(limit, s, pool, key, func(ctx context.Context, tx pgx.Tx) (idem.Result, error) {
						_, err := tx.Exec(ctx, "INSERT INTO s.effects VALUES ($1)", key)
						return idem.Result{Value: []byte(key)}, err
					}, idem.WithWait(10*time.Second))
					if err == nil {
						break
					}
					if errors.Is(err, idem.ErrInvalidKey) || limit.Err() != nil {
						errs = errors.Join(errs, err)
						break
					}
				}
				if i == 20 && killed.CompareAndSwap(false, true) {
					errs = errors.Join(errs, server.Kill(t.Context()), server.Start(t.Context()))
				}
			}
			done <- errs
		}()
	}
	for range cap(done) {
		require.NoError(t, <-done, "until the limit")
	}
	require.True(t, killed.Load())
	require.Equal(t, int64(60), value[int64](t, p, pool, "SELECT count(*) FROM s.effects"))
	require.Equal(t, int64(60), value[int64](t, p, pool, "SELECT count(DISTINCT what) FROM s.effects"))
}

func certPool(t *testing.T, pem []byte) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(pem))
	return pool
}

// K13: with client certificates on both sides; a wrong authority fails closed.
func TestTheBackendConformsOverTLS(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t, testenv.PostgresConfig{TLS: true})
	testenv.PostgresExec(t, server.URL(), "CREATE SCHEMA s")
	p := migrated(t, server.URL(), "s")
	stranger, err := testenv.NewAuthority()
	require.NoError(t, err)
	wrong := p.pool(t, func(c *poolConfig) {
		c.ConnConfig.TLSConfig = c.ConnConfig.TLSConfig.Clone()
		c.ConnConfig.TLSConfig.RootCAs = certPool(t, stranger.PEM)
		c.ConnConfig.Fallbacks = nil
	})
	var n atomic.Int64
	_, err = storeOver(t, p.backend(t, wrong), nil).Execute(t.Context(), "k", counting(&n, "x"))
	require.ErrorIs(t, err, idem.ErrUnavailable)
	require.Zero(t, n.Load())
	pool := p.pool(t, conns(8))
	require.True(t, value[bool](t, p, pool, "SELECT ssl AND client_dn IS NOT NULL FROM pg_stat_ssl WHERE pid = pg_backend_pid()"))
	storetest.Run(t, p.harness(pool))
}

// References are compared whole: one without a part is not contained in another.
func TestAReferenceWithoutAPartIsItsOwn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	b := p.backend(t, p.pool(t))
	claim := &driver.ClaimParams{Key: "k", Owner: driver.Owner{1}, Lease: time.Hour, Retention: time.Hour, Take: driver.TakeAbsent}
	res, err := b.Claim(t.Context(), claim)
	require.NoError(t, err)
	want := []driver.ProviderRef{{Provider: "a", Ref: "x"}, {Provider: "a"}, {Ref: "x"}}
	for _, r := range append(want, want...) {
		ref := driver.Ref{Key: "k", Owner: claim.Owner, Token: res.Record.Token}
		require.NoError(t, b.Annotate(t.Context(), ref, &driver.AnnotateParams{Refs: []driver.ProviderRef{r}}))
	}
	rec, err := b.Inspect(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, want, rec.Refs)
}
