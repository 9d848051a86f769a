package tiertest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/internal/tcpproxy"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/pgstore"
	"github.com/idem-go/idem/tieredstore"
)

// service is a Store over Redis before Postgres, and the count of its runs.
type service struct {
	tiers *tieredstore.Backend
	store *idem.Store
	runs  *atomic.Int64
}

// op's value is the number of the run.
func (s *service) op(context.Context) (idem.Result, error) {
	return idem.Result{Value: fmt.Append(nil, s.runs.Add(1))}, nil
}

func (s *service) execute(t *testing.T, key string) idem.Result {
	t.Helper()
	res, err := s.store.Execute(t.Context(), key, s.op)
	require.NoError(t, err)
	return res
}

// fill executes n keys in order; replay asserts that they have run once.
func (s *service) fill(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		s.execute(t, fmt.Sprint("k", i))
	}
}

func (s *service) replay(t *testing.T, n int, when string) {
	t.Helper()
	for i := range n {
		res := s.execute(t, fmt.Sprint("k", i))
		require.True(t, res.Replayed, when)
		require.Equal(t, fmt.Sprint(i+1), string(res.Value), when)
	}
	require.EqualValues(t, n, s.runs.Load(), when)
}

func newService(t *testing.T, records *table, redisAddr string, opts *tieredstore.Options) *service {
	t.Helper()
	tiers := over(t, cacheOn(t, redisAt(t, redisAddr), "copies:"), records.backend(t), opts)
	return &service{tiers, storeOver(t, tiers, nil), new(atomic.Int64)}
}

// Redis is killed in the middle, comes back empty, is flushed, and frozen: every
// key has run once, and replays.
func TestRedisMayVanishFreezeAndComeBackEmpty(t *testing.T) {
	t.Parallel()
	const n = 20
	server := testenv.OwnRedis(t, testenv.RedisConfig{})
	s := newService(t, sharedTable(t), server.Addr(), nil)
	s.fill(t, n)
	s.replay(t, n, "with Redis")

	require.NoError(t, server.Kill())
	s.replay(t, n, "Redis is killed")
	require.Positive(t, s.tiers.Stats().Fast.Skipped, "the breaker is open")
	require.NoError(t, server.Start(t.Context()))
	s.back(t)
	s.replay(t, n, "Redis is empty")

	_, err := server.Do(t.Context(), "FLUSHALL")
	require.NoError(t, err)
	s.replay(t, n, "Redis was flushed")

	require.NoError(t, server.Freeze())
	s.replay(t, n, "Redis is frozen")
	require.NoError(t, server.Thaw())
	s.back(t)
	s.replay(t, n, "Redis goes on")
}

// back waits until the fast tier answers again.
func (s *service) back(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		hits := s.tiers.Stats().Fast.Hits
		s.execute(t, "k0")
		return s.tiers.Stats().Fast.Hits > hits
	}, 30*time.Second, 20*time.Millisecond)
}

// Redis forgets what it has no room for; no copy is anybody's error.
func TestARedisThatEvictsCostsNothingButTime(t *testing.T) {
	t.Parallel()
	const n = 60
	server := testenv.OwnRedis(t, testenv.RedisConfig{Args: []string{"--maxmemory", "2mb", "--maxmemory-policy", "allkeys-lru"}})
	s := newService(t, sharedTable(t), server.Addr(), patient())
	big := func(context.Context) (idem.Result, error) {
		s.runs.Add(1)
		return idem.Result{Value: make([]byte, 100<<10)}, nil
	}
	for range 2 {
		for i := range n {
			res, err := s.store.Execute(t.Context(), fmt.Sprint("k", i), big)
			require.NoError(t, err)
			require.Len(t, res.Value, 100<<10)
		}
	}
	require.EqualValues(t, n, s.runs.Load())
	require.Less(t, s.tiers.Stats().Fast.Hits, uint64(n))
}

// A replay inside the window is one round trip to Redis, and Postgres sees nothing:
// counted on the wire.
func TestAReplayIsOneRoundTripToRedisAndNoneToPostgres(t *testing.T) {
	t.Parallel()
	const n = 50
	redisWire := tcpproxy.New(t, sharedRedis(t).Options().Addr)
	url, schema := testenv.PostgresSchema(t)
	newTable(t, url, schema)
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	postgresWire := tcpproxy.New(t, fmt.Sprintf("%s:%d", cfg.Host, cfg.Port))
	records := newTable(t, through(t, url, postgresWire.Addr()), schema)

	copies := cacheOn(t, redisAt(t, redisWire.Addr()), prefix())
	tiers := over(t, copies, records.backend(t), patient())
	s := &service{tiers, storeOver(t, tiers, nil), new(atomic.Int64)}
	s.fill(t, n)
	s.replay(t, n, "at first")
	before, redisTrips, postgresTrips := s.tiers.Stats(), redisWire.RoundTrips(), postgresWire.RoundTrips()
	s.replay(t, n, "counted")
	after := s.tiers.Stats()
	require.EqualValues(t, n, redisWire.RoundTrips()-redisTrips)
	require.Zero(t, postgresWire.RoundTrips()-postgresTrips)
	require.EqualValues(t, n, after.Fast.Calls()-before.Fast.Calls())
	require.EqualValues(t, n, after.Fast.Hits-before.Fast.Hits)
	require.Equal(t, before.Archive, after.Archive)
}

// through is url by way of another address.
func through(t *testing.T, url, addr string) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", cfg.User, cfg.Password, addr, cfg.Database)
}

// Postgres is killed: what has a copy is replayed, new keys do not run and are
// claimed nowhere.
func TestWhilePostgresIsDownReplaysGoOnAndNothingNewRuns(t *testing.T) {
	t.Parallel()
	const n = 10
	server := testenv.OwnPostgres(t, testenv.PostgresConfig{})
	records := newTable(t, server.URL(), "public")
	redisServer := testenv.OwnRedis(t, testenv.RedisConfig{})
	s := newService(t, records, redisServer.Addr(), patient())
	s.fill(t, n)
	size := func() int64 {
		k, err := redisServer.Do(t.Context(), "DBSIZE")
		require.NoError(t, err)
		count, ok := k.(int64)
		require.True(t, ok)
		return count
	}
	copies := size()
	require.NoError(t, server.Kill(t.Context()))
	s.replay(t, n, "Postgres is down")
	_, err := s.store.Execute(t.Context(), "new", s.op)
	require.ErrorIs(t, err, idem.ErrUnavailable)
	require.EqualValues(t, n, s.runs.Load())
	require.Equal(t, copies, size(), "nothing is claimed in Redis")

	fresh := newService(t, records, redisServer.Addr(), patient())
	fresh.runs = s.runs
	fresh.replay(t, n, "a process that starts meanwhile")
	require.NoError(t, server.Start(t.Context()))
	require.Eventually(t, func() bool {
		_, err := fresh.store.Execute(t.Context(), "new", fresh.op)
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	require.EqualValues(t, n+1, s.runs.Load())
}

// In the transaction mode the copy is put after the commit, and never without one.
func TestATransactionsOutcomeIsCopiedAfterTheCommitOnly(t *testing.T) {
	t.Parallel()
	records := sharedTable(t)
	tiers := over(t, cacheOn(t, sharedRedis(t), prefix()), records.backend(t), patient())
	store := storeOver(t, tiers, nil)
	run := func(key string, op func(tx pgx.Tx) error) (idem.Result, error) {
		return pgstore.ExecuteTx(t.Context(), store, records.pool, key, func(_ context.Context, tx pgx.Tx) (idem.Result, error) {
			require.Zero(t, tiers.Stats().Fast.Puts, "nothing is put before the commit")
			return idem.Result{Value: []byte("7")}, op(tx)
		})
	}
	_, err := run("rolled back", func(pgx.Tx) error { return idem.NotApplied(fmt.Errorf("refused")) })
	require.Error(t, err)
	require.Zero(t, tiers.Stats().Fast.Puts)
	_, err = run("fails to commit", func(tx pgx.Tx) error { _, _ = tx.Exec(t.Context(), "SELECT 1/0"); return nil })
	require.Error(t, err)
	require.Zero(t, tiers.Stats().Fast.Puts)
	_, err = run("committed", func(pgx.Tx) error { return nil })
	require.NoError(t, err)
	require.EqualValues(t, 1, tiers.Stats().Fast.Puts)
	before := tiers.Stats()
	res, err := store.Execute(t.Context(), "committed", func(context.Context) (idem.Result, error) { return idem.Result{}, nil })
	require.NoError(t, err)
	require.Equal(t, "7", string(res.Value))
	require.Equal(t, before.Archive, tiers.Stats().Archive, "the first duplicate is answered by Redis alone")
}
