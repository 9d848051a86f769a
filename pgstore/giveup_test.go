package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
)

// A caller that gives up closes its connection, unless pgx is told otherwise as
// docs/postgres.md says; either way nothing of its claim stands.
func TestACallerThatGivesUpKeepsItsConnectionWithTheDocumentedHandlers(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct {
		handler func(conn *pgconn.PgConn) ctxwatch.Handler
		wait    time.Duration // of the claim for the record
		kept    bool
	}{
		"default": {wait: time.Minute},
		"cancel request": {handler: func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: patience}
		}, wait: time.Minute, kept: true},
		"deadline": {handler: func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn(), DeadlineDelay: patience}
		}, wait: 500 * time.Millisecond, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			admin := p.pool(t, func(c *poolConfig) { c.ConnConfig.RuntimeParams["application_name"] = p.schema + "_admin" })
			pool := p.pool(t, conns(1), func(c *poolConfig) {
				if how.handler != nil {
					c.ConnConfig.BuildContextWatcherHandler = how.handler
				}
			})
			b := p.backend(t, pool)
			params := &driver.ClaimParams{Key: "k", Owner: driver.Owner{1}, Lease: time.Millisecond, Retention: time.Hour, Take: driver.TakeAbsent}
			res, err := b.Claim(t.Context(), params)
			require.NoError(t, err)
			before := value[int32](t, p, pool, "SELECT pg_backend_pid()")
			unblock := p.block(t, admin, "k")

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			claimed := make(chan error, 1)
			go func() {
				_, err := b.Claim(ctx, &driver.ClaimParams{
					Key: "k", Owner: driver.Owner{2}, Lease: time.Hour, Retention: time.Hour, Take: driver.TakeAbsent | driver.TakeUnknown, LockWait: how.wait,
				})
				claimed <- err
			}()
			waiting := func(n int64) {
				require.Eventually(t, func() bool {
					return n == value[int64](t, p, admin, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'", p.schema)
				}, patience, time.Millisecond)
			}
			waiting(1)
			cancel()
			require.ErrorIs(t, receive(t, claimed, "the claim's end"), context.Canceled)
			require.Equal(t, how.kept, before == value[int32](t, p, pool, "SELECT pg_backend_pid()"), "the same connection")
			waiting(0) // pgx asks the server to end it, also where it closes the connection
			unblock()
			rec, err := b.Inspect(t.Context(), "k")
			require.NoError(t, err)
			require.Equal(t, res.Record.Token, rec.Token)
		})
	}
}
