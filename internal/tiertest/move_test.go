package tiertest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/movestore"
	"github.com/idem-go/idem/redisstore"
	"github.com/idem-go/idem/storetest"
)

func redisOn(tb testing.TB, rdb redis.UniversalClient, at string) *redisstore.Backend {
	tb.Helper()
	b, err := redisstore.New(rdb, &redisstore.Options{Prefix: at})
	require.NoError(tb, err)
	return b
}

// unpurged is a move without its purge: on Redis the server expires by itself, so
// that a purge of both stores is one of Postgres.
type unpurged struct {
	driver.Backend
	driver.Checker
	driver.Editor
	driver.Lister
	driver.Retainer
	driver.Watcher
}

// The first phase is not here: its claims have two leases, which end when two
// servers say so, and the suite counts on one end. In memory both end at once.
func TestTheSecondPhaseOfAMoveFromRedisToPostgresConforms(t *testing.T) {
	t.Parallel()
	records := sharedTable(t)
	rdb, at := sharedRedis(t), prefix()
	open := func(tb testing.TB) driver.Backend {
		tb.Helper()
		m, err := movestore.New(redisOn(tb, rdb, at), records.backend(tb), movestore.NewAlone)
		require.NoError(tb, err)
		return unpurged{m, m, m, m, m, m}
	}
	storetest.Run(t, storetest.Harness{
		New:    open,
		Pair:   func(tb testing.TB) (a, b driver.Backend) { tb.Helper(); return open(tb), open(tb) },
		Unit:   500 * time.Millisecond,
		Rounds: 10,
		Capabilities: storetest.Capabilities{
			Checker: true, Editor: true, Lister: true, Retainer: true, Watcher: true,
		},
	})
}

// world is a service that moves: the two stores, the effects in a table of their
// own, and what callers were told.
type world struct {
	t       *testing.T
	records *table
	open    func() (old, next driver.Backend)

	mu    sync.Mutex
	told  map[string]string
	calls int
}

// serve is the life of one process: it answers deliveries of random keys until it
// is killed, which it survives like a process does: not at all. Calls of its stores
// are lost before or after they arrive.
func (w *world) serve(ctx context.Context, k int, keys int) {
	lose := func(context.Context, faultstore.Call) faultstore.Fault {
		if ctx.Err() != nil {
			return faultstore.Fault{Drop: true, Err: errors.New("killed")}
		}
		switch mathrand.IntN(30) {
		case 0:
			return faultstore.Fault{Drop: true, Err: errors.New("lost on the way there")}
		case 1:
			return faultstore.Fault{Err: errors.New("lost on the way back")}
		}
		return faultstore.Fault{}
	}
	old, next := w.open()
	old, next = faultstore.New(old, lose), faultstore.New(next, lose)
	b := [...]driver.Backend{old, w.move(old, next, movestore.Both), w.move(old, next, movestore.NewAlone), next}[k]
	s, err := idem.New(b, &idem.Options{
		OnUnknown: idem.Hold, Observer: idem.Discard, Lease: time.Minute, RecordTimeout: time.Second, Retention: 24 * time.Hour,
	})
	require.NoError(w.t, err)
	for ctx.Err() == nil {
		key := fmt.Sprint("k", mathrand.IntN(keys))
		res, err := s.Execute(ctx, key, func(ctx context.Context) (idem.Result, error) { return w.effect(ctx, key) })
		w.mu.Lock()
		w.calls++
		if was, ok := w.told[key]; err == nil && ok && was != string(res.Value) {
			w.t.Errorf("%s: told %q, then %q", key, was, res.Value)
		}
		if err == nil {
			w.told[key] = string(res.Value)
		}
		w.mu.Unlock()
	}
	require.NoError(w.t, s.Close(context.WithoutCancel(ctx)))
}

func (w *world) move(old, next driver.Backend, phase movestore.Phase) driver.Backend {
	m, err := movestore.New(old, next, phase)
	require.NoError(w.t, err)
	return m
}

// effect inserts a row, and sometimes refuses.
func (w *world) effect(ctx context.Context, key string) (idem.Result, error) {
	if mathrand.IntN(5) == 0 {
		return idem.Result{}, idem.NotApplied(errors.New("throttled"))
	}
	value := rand.Text()
	_, err := w.records.pool.Exec(context.WithoutCancel(ctx), "INSERT INTO "+w.records.schema+".effects VALUES ($1, $2)", key, value)
	return idem.Result{Value: []byte(value)}, err
}

// sideBySide runs processes of two deploys until they have had n calls, and kills
// those of the older one, the others too if that is the end.
func (w *world) sideBySide(keys, n int, kinds ...int) {
	ctx, kill := context.WithCancel(w.t.Context())
	defer kill()
	var wg sync.WaitGroup
	for _, k := range kinds {
		for range 2 {
			wg.Go(func() { w.serve(ctx, k, keys) })
		}
	}
	w.mu.Lock()
	until := w.calls + n
	w.mu.Unlock()
	require.Eventually(w.t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.calls >= until
	}, time.Minute, 5*time.Millisecond)
	kill()
	wg.Wait()
}

// A service moves from Redis to Postgres, and from Postgres to tiers, in three
// deploys each. Every key is held when an end is unknown, so it has one effect.
func TestAServiceMovesWhileItRuns(t *testing.T) {
	t.Parallel()
	const keys = 150
	for name, open := range map[string]func(t *testing.T, records *table) func() (old, next driver.Backend){
		"from Redis to Postgres": func(t *testing.T, records *table) func() (old, next driver.Backend) {
			t.Helper()
			rdb, at := sharedRedis(t), prefix()
			return func() (old, next driver.Backend) { return redisOn(t, rdb, at), records.backend(t) }
		},
		"from Redis to Redis before Postgres": func(t *testing.T, records *table) func() (old, next driver.Backend) {
			t.Helper()
			rdb, at, copies := sharedRedis(t), prefix(), prefix()
			return func() (old, next driver.Backend) {
				return redisOn(t, rdb, at), over(t, cacheOn(t, rdb, copies), records.backend(t), patient())
			}
		},
		"from Redis before Postgres to Redis": func(t *testing.T, records *table) func() (old, next driver.Backend) {
			t.Helper()
			rdb, at, copies := sharedRedis(t), prefix(), prefix()
			return func() (old, next driver.Backend) {
				return over(t, cacheOn(t, rdb, copies), records.backend(t), patient()), redisOn(t, rdb, at)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			records := sharedTable(t)
			records.exec(t, "CREATE TABLE "+records.schema+".effects (key text, value text)")
			w := &world{t: t, records: records, open: open(t, records), told: make(map[string]string)}
			w.sideBySide(keys/3, 150, 0, 1)
			w.sideBySide(2*keys/3, 150, 1, 2)
			w.sideBySide(keys, 100, 2)
			w.copyAll()
			w.sideBySide(keys, 100, 2, 3)
			w.judge(keys)
		})
	}
}

// copyAll copies until nothing is left. What a killed process has claimed is
// released by its owner's word, not by waiting for the lease.
func (w *world) copyAll() {
	w.t.Helper()
	old, next := w.open()
	for _, b := range []driver.Backend{old, next} {
		w.endClaims(b)
	}
	m, err := movestore.New(old, next, movestore.NewAlone)
	require.NoError(w.t, err)
	c, err := m.Copy(w.t.Context())
	require.NoError(w.t, err)
	require.Zero(w.t, c.Left, "%v", c.Keys)
	require.Positive(w.t, c.There)
}

// endClaims does what time does to the claims of killed processes: their outcome
// becomes unknown.
func (w *world) endClaims(b driver.Backend) {
	w.t.Helper()
	lister, ok := driver.As[driver.Lister](b)
	require.True(w.t, ok)
	for page := (&driver.ListParams{Limit: 500}); ; {
		res, err := lister.List(w.t.Context(), page)
		require.NoError(w.t, err)
		for i := range res.Records {
			r := &res.Records[i]
			if r.State == driver.Claimed {
				err := b.Renew(w.t.Context(), driver.Ref{Key: r.Key, Owner: r.Owner, Token: r.Token},
					&driver.RenewParams{Lease: time.Millisecond, Retention: time.Hour})
				require.NoError(w.t, err)
			}
		}
		if page.After = res.Next; page.After == "" {
			return
		}
	}
}

// judge asserts that no key had two effects, and that the new store tells what any
// caller was told.
func (w *world) judge(keys int) {
	w.t.Helper()
	var doubled, effects int
	require.NoError(w.t, w.records.pool.QueryRow(w.t.Context(),
		"SELECT count(*), coalesce(sum(n), 0) FROM (SELECT count(*) AS n FROM "+w.records.schema+".effects GROUP BY key) e WHERE n > 1").Scan(&doubled, &effects))
	require.Zero(w.t, doubled, "keys with more than one effect")
	require.NoError(w.t, w.records.pool.QueryRow(w.t.Context(), "SELECT count(*) FROM "+w.records.schema+".effects").Scan(&effects))
	require.Greater(w.t, effects, keys/2)
	_, next := w.open()
	s := storeOver(w.t, next, nil)
	for key, value := range w.told {
		res, err := s.Execute(w.t.Context(), key, func(context.Context) (idem.Result, error) { return idem.Result{}, errors.New("lost") })
		require.NoError(w.t, err, key)
		require.Equal(w.t, value, string(res.Value), key)
	}
	w.t.Logf("%d effects, %d outcomes told, %d calls", effects, len(w.told), w.calls)
}
