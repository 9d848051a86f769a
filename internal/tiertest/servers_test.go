package tiertest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/pgstore"
	"github.com/idem-go/idem/redisstore"
	"github.com/idem-go/idem/storetest"
	"github.com/idem-go/idem/tieredstore"
)

// The tests wait for servers more than they compute: more of them than processors
// may run side by side.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := errors.Join(testenv.StopPostgres(), testenv.StopRedis()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// patient are the options of a tier whose calls may take as long as a slow machine
// wants: what is slow is not to be a miss where misses are counted.
func patient() *tieredstore.Options {
	return &tieredstore.Options{FastTimeout: 20 * time.Second}
}

// table is a migrated schema of the test's own.
type table struct {
	pool   *pgxpool.Pool
	schema string
}

func newTable(tb testing.TB, url, schema string) *table {
	tb.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(tb, err)
	cfg.MaxConns = 8
	cfg.ConnConfig.RuntimeParams["application_name"] = schema
	pool, err := pgxpool.NewWithConfig(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	t := &table{pool, schema}
	require.NoError(tb, t.backend(tb).Migrate(tb.Context()))
	return t
}

func sharedTable(tb testing.TB) *table {
	tb.Helper()
	url, schema := testenv.PostgresSchema(tb)
	return newTable(tb, url, schema)
}

func (t *table) backend(tb testing.TB) *pgstore.Backend {
	tb.Helper()
	b, err := pgstore.New(t.pool, &pgstore.Options{Schema: t.schema})
	require.NoError(tb, err)
	return b
}

func (t *table) exec(tb testing.TB, sql string, args ...any) {
	tb.Helper()
	_, err := t.pool.Exec(context.WithoutCancel(tb.Context()), strings.ReplaceAll(sql, "{records}", t.schema+".idem_records"), args...)
	require.NoError(tb, err)
}

func (t *table) raw(tb testing.TB, key string) []byte {
	tb.Helper()
	if !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return nil // no column holds it
	}
	rows, err := t.pool.Query(context.WithoutCancel(tb.Context()), "SELECT t::text FROM "+t.schema+".idem_records t WHERE key = $1", key)
	require.NoError(tb, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(tb, err)
	return []byte(strings.Join(all, ""))
}

// corrupt damages a record. What the columns' types forbid cannot be there.
func (t *table) corrupt(tb testing.TB, key string, kind storetest.CorruptKind) bool {
	tb.Helper()
	set := map[storetest.CorruptKind]string{
		storetest.Truncated:       "owner = substring(owner from 1 for 7), fingerprint = substring(fingerprint from 1 for 9)",
		storetest.UnknownState:    "state = 9",
		storetest.HigherFormat:    "format = 2",
		storetest.MissingDeadline: "lease_until = NULL",
		storetest.ZeroDeadline:    "lease_until = 'epoch'",
		storetest.MissingOutcome:  "outcome = NULL, code = NULL",
	}[kind]
	if set == "" {
		return false
	}
	t.exec(tb, "UPDATE {records} SET "+set+" WHERE key = $1", key)
	return true
}

// redisAt returns a client as New wants it.
func redisAt(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1, MaxRetries: -1})
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func sharedRedis(tb testing.TB) *redis.Client {
	tb.Helper()
	opts, err := redis.ParseURL(testenv.Redis(tb))
	require.NoError(tb, err)
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func prefix() string { return "idem-tier-" + testenv.Random(8) + ":" }

func cacheOn(tb testing.TB, rdb redis.UniversalClient, at string) *redisstore.Cache {
	tb.Helper()
	c, err := redisstore.NewCache(rdb, &redisstore.CacheOptions{Prefix: at})
	require.NoError(tb, err)
	return c
}

func over(tb testing.TB, fast driver.Cache, archive driver.Backend, opts *tieredstore.Options) *tieredstore.Backend {
	tb.Helper()
	b, err := tieredstore.New(fast, archive, opts)
	require.NoError(tb, err)
	return b
}

func storeOver(tb testing.TB, b driver.Backend, opts *idem.Options) *idem.Store {
	tb.Helper()
	var o idem.Options
	if opts != nil {
		o = *opts
	}
	o.Observer = idem.Discard
	s, err := idem.New(b, &o)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close(context.WithoutCancel(tb.Context()))) })
	return s
}

// conforms runs the suite over tiers before the table. The harness of pgstore has
// Pause besides: the claim is pgstore's own here as there. A record is damaged in
// the archive, where no copy hides it.
func conforms(t *testing.T, records *table, open func(tb testing.TB) driver.Backend, caches ...driver.Cache) {
	t.Helper()
	storetest.Run(t, storetest.Harness{
		New:    open,
		Pair:   func(tb testing.TB) (a, b driver.Backend) { tb.Helper(); return open(tb), open(tb) },
		Unit:   200 * time.Millisecond,
		Rounds: 10,
		Corrupt: func(tb testing.TB, _ driver.Backend, key string, kind storetest.CorruptKind) bool {
			tb.Helper()
			for _, c := range caches {
				require.NoError(tb, c.Delete(context.WithoutCancel(tb.Context()), key, 0))
			}
			return records.corrupt(tb, key, kind)
		},
		RawBytes: func(tb testing.TB, _ driver.Backend, key string) []byte { tb.Helper(); return records.raw(tb, key) },
		Capabilities: storetest.Capabilities{
			Checker: true, Editor: true, Lister: true, Purger: true, Retainer: true, Watcher: true,
		},
	})
}

func TestMemoryBeforePostgresConforms(t *testing.T) {
	t.Parallel()
	records, fast := sharedTable(t), memstore.NewCache(nil)
	conforms(t, records, func(tb testing.TB) driver.Backend {
		tb.Helper()
		return over(tb, fast, records.backend(tb), patient())
	}, fast)
}

func TestRedisBeforePostgresConforms(t *testing.T) {
	t.Parallel()
	records := sharedTable(t)
	rdb, at := sharedRedis(t), prefix()
	conforms(t, records, func(tb testing.TB) driver.Backend {
		tb.Helper()
		return over(tb, cacheOn(tb, rdb, at), records.backend(tb), patient())
	}, cacheOn(t, rdb, at))
}

func TestMemoryBeforeRedisBeforePostgresConforms(t *testing.T) {
	t.Parallel()
	records, fast := sharedTable(t), memstore.NewCache(nil)
	rdb, at := sharedRedis(t), prefix()
	conforms(t, records, func(tb testing.TB) driver.Backend {
		tb.Helper()
		return over(tb, fast, over(tb, cacheOn(tb, rdb, at), records.backend(tb), patient()), patient())
	}, fast, cacheOn(t, rdb, at))
}
