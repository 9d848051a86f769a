package integration_test

import (
	"testing"
	"time"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/corecases"
	"github.com/idem-go/idem/pgstore"
	"github.com/idem-go/idem/storetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
)

func TestTheContractHoldsOnEachVersionOfPostgres(t *testing.T) {
	t.Parallel()
	for _, image := range images(t, "IDEM_TEST_POSTGRES_IMAGES", "postgres:13", "postgres:14", "postgres:15", "postgres:16", "postgres:17", "postgres:18") {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			addr := start(t, image, "5432", testcontainers.WithEnv(map[string]string{"POSTGRES_PASSWORD": "idem-test"}))
			pool := connect(t, "postgres://postgres:idem-test@"+addr+"/postgres?sslmode=disable")
			// Each suite has a schema of its own: the contract's purges everything.
			t.Run("contract", func(t *testing.T) { t.Parallel(); storetest.Run(t, postgresHarness(migrated(t, pool, "contract"))) })
			t.Run("cases", func(t *testing.T) { t.Parallel(); corecases.Run(t, postgresHarness(migrated(t, pool, "cases"))) })
		})
	}
}

// connect waits until a query is answered. An image says once too early that it
// is ready: the server that sets the data up is another one.
func connect(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		conn, err := pgx.Connect(t.Context(), url)
		if assert.NoError(c, err) {
			assert.NoError(c, conn.Ping(t.Context()))
			assert.NoError(c, conn.Close(t.Context()))
		}
	}, 3*time.Minute, 100*time.Millisecond)
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	cfg.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// migrated makes a schema with a table in it, and returns what opens it.
func migrated(t *testing.T, pool *pgxpool.Pool, schema string) func(testing.TB) driver.Backend {
	t.Helper()
	open := func(tb testing.TB) driver.Backend {
		tb.Helper()
		b, err := pgstore.New(pool, &pgstore.Options{Schema: schema})
		require.NoError(tb, err)
		return b
	}
	b, ok := open(t).(*pgstore.Backend)
	require.True(t, ok)
	require.NoError(t, b.Migrate(t.Context()))
	return open
}

func postgresHarness(open func(testing.TB) driver.Backend) storetest.Harness {
	return storetest.Harness{
		New:    open,
		Pair:   func(tb testing.TB) (a, b driver.Backend) { tb.Helper(); return open(tb), open(tb) },
		Unit:   200 * time.Millisecond,
		Rounds: 20,
		Capabilities: storetest.Capabilities{
			Checker: true, Editor: true, Lister: true, Purger: true, Retainer: true, Watcher: true,
		},
	}
}
