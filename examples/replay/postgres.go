package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// postgresEnv names the server where the command line does not, as for the
	// tests.
	postgresEnv = "IDEM_TEST_POSTGRES_URL"

	// A call whose context has ended may take this much longer before its
	// connection is given up. By default a connection is closed with the context of
	// the call on it: each killed attempt would cost a new one, which is dearer than
	// the call.
	connectionGrace = 500 * time.Millisecond
)

// postgresPool opens connections to the server that the command line or the
// environment names, else to one that is started here. schema is the run's own;
// it is not made here, and close drops it.
func (o *opened) postgresPool(ctx context.Context, cfg *config, tell say) (pool *pgxpool.Pool, schema string, err error) {
	schema = "idem_replay_" + strings.ToLower(rand.Text())
	address := cmp.Or(cfg.postgresURL, os.Getenv(postgresEnv))
	own := address == "" || cfg.restart == "postgres"
	if own {
		s, err := startPostgres(ctx)
		if err != nil {
			return nil, "", fmt.Errorf("%w; or name one with -postgres-url", err)
		}
		tell("started a Postgres server on %s", s.addr)
		o.servers["postgres"], address = s, s.url
		o.closing(func(context.Context) error { return s.close() })
	}
	pc, err := pgxpool.ParseConfig(address) // its errors have no password in them
	if err != nil {
		return nil, "", errURL("-postgres-url", err)
	}
	pc.MaxConns = int32(cfg.workers + cfg.processes) // the renewals come besides
	pc.ConnConfig.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn(), DeadlineDelay: connectionGrace}
	}
	if pool, err = pgxpool.NewWithConfig(ctx, pc); err != nil {
		return nil, "", err
	}
	o.closing(func(ctx context.Context) error {
		defer pool.Close()
		if own {
			return nil
		}
		_, err := pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
		return err
	})
	return pool, schema, nil
}
