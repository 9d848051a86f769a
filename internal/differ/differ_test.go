package differ_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/differ"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/pgstore"
	"github.com/idem-go/idem/redisstore"
	"github.com/idem-go/idem/tieredstore"
)

// How many scripts are played, from which seed on: -scripts 1 -first 17 plays one
// again.
var (
	scripts = flag.Int("scripts", 300, "how many scripts to play")    //nolint:gochecknoglobals // a flag
	first   = flag.Uint64("first", 1, "the seed of the first script") //nolint:gochecknoglobals // a flag
)

const groups = 10 // of scripts, which are played at the same time

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	for _, stop := range []func() error{testenv.StopRedis, testenv.StopPostgres} {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func redisClient(t *testing.T) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(testenv.Redis(t))
	require.NoError(t, err)
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func openRedis(t *testing.T) driver.Backend {
	t.Helper()
	b, err := redisstore.New(redisClient(t), &redisstore.Options{Prefix: "differ-" + testenv.Random(8) + ":"})
	require.NoError(t, err)
	return b
}

func openPostgres(t *testing.T) driver.Backend {
	t.Helper()
	url, schema := testenv.PostgresSchema(t)
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	cfg.ConnConfig.RuntimeParams["application_name"] = schema
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	b, err := pgstore.New(pool, &pgstore.Options{Schema: schema})
	require.NoError(t, err)
	require.NoError(t, b.Migrate(t.Context()))
	return b
}

func openTiers(t *testing.T) driver.Backend {
	t.Helper()
	fast, err := redisstore.NewCache(redisClient(t), &redisstore.CacheOptions{Prefix: "differ-" + testenv.Random(8) + ":"})
	require.NoError(t, err)
	b, err := tieredstore.New(fast, openPostgres(t), &tieredstore.Options{FastTimeout: 10 * time.Second}) // a slow machine is no failure
	require.NoError(t, err)
	return b
}

// L3: the same scripts, with drawn options, leave the same lines on every backend.
func TestScriptsSayTheSameOnEveryBackend(t *testing.T) {
	t.Parallel()
	var said sync.Map // what was met at all
	t.Run("scripts", func(t *testing.T) {
		for group := range groups {
			t.Run(fmt.Sprint(group), func(t *testing.T) {
				t.Parallel()
				others := map[string]driver.Backend{"Redis": openRedis(t), "Postgres": openPostgres(t), "tiers": openTiers(t)}
				for i := group; i < *scripts; i += groups {
					seed := *first + uint64(i)
					want := differ.Play(t, memstore.New(nil), seed)
					said.Store(strings.Join(want, "\n"), true)
					for name, b := range others {
						if diff := differ.Difference(want, differ.Play(t, b, seed)); diff != "" {
							t.Errorf("seed %d: memory (one) and %s (other) part:\n%s", seed, name, diff)
						}
					}
				}
			})
		}
	})
	if *scripts >= 300 {
		requireMet(t, &said)
	}
}

// requireMet requires that the scripts were worth something: that each verdict
// was met.
func requireMet(t *testing.T, said *sync.Map) {
	t.Helper()
	var all strings.Builder
	said.Range(func(lines, _ any) bool {
		fmt.Fprintln(&all, lines)
		return true
	})
	for _, verdict := range []string{
		"[already done]", "[in progress]", "[fingerprint mismatch]", "[outcome unknown]", "[lease lost]", "[value too large]",
		"[value redacted]", "[recorded failure]", "[record unreadable]", "[record changed]", "[no record]", "replayed true",
		"recovered true", "takeover true", "attempt 4", "held true", "doubt true", "revision 2", "panic as drawn", "revived",
		"meanwhile", "ref saved: nil", "owner false",
	} {
		require.Contains(t, all.String(), verdict, "no script met this: the scripts are too tame")
	}
}

// forgetful is memory that breaks one rule.
type forgetful struct {
	driver.Backend
	release func(p *driver.ReleaseParams)
	claim   func(r *driver.ClaimResult)
}

func (f forgetful) Unwrap() driver.Backend { return f.Backend }

func (f forgetful) Release(ctx context.Context, ref driver.Ref, p *driver.ReleaseParams) error {
	own := *p
	f.release(&own)
	return f.Backend.Release(ctx, ref, &own)
}

func (f forgetful) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	res, err := f.Backend.Claim(ctx, p)
	if err == nil {
		f.claim(res)
	}
	return res, err
}

// A backend that differs in one rule is found.
func TestADifferenceIsFound(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]forgetful{
		"doubt is not kept": {release: func(p *driver.ReleaseParams) { p.Doubt = p.Held }, claim: func(*driver.ClaimResult) {}},
		"held is not kept":  {release: func(p *driver.ReleaseParams) { p.Held = false }, claim: func(*driver.ClaimResult) {}},
		"takeovers are not told": {release: func(*driver.ReleaseParams) {}, claim: func(r *driver.ClaimResult) {
			if r.Fact == driver.TakenOver {
				r.Fact, r.Record.Doubt = driver.Acquired, false
			}
		}},
		"recoveries are not told": {release: func(*driver.ReleaseParams) {}, claim: func(r *driver.ClaimResult) { r.Record.Outcome.Recovered = false }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := 0
			for seed := range uint64(100) {
				broken.Backend = memstore.New(nil)
				if differ.Difference(differ.Play(t, memstore.New(nil), seed), differ.Play(t, broken, seed)) != "" {
					found++
				}
			}
			require.Positive(t, found)
		})
	}
}
