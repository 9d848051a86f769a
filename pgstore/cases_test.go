package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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
)

// C16: no connection is held across the operation, so that operations may use the
// same pool, however small it is.
func TestOperationsMayUseTheSamePool(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t, conns(4))
	lost := &counter{}
	s := storeOver(t, p.backend(t, pool), &idem.Options{Lease: 30 * time.Second, RenewEvery: 300 * time.Millisecond, Observer: lost})
	for _, callers := range []int{4, 8} {
		var wg sync.WaitGroup
		var ran atomic.Int64
		errs := make([]error, callers)
		all := make(chan struct{})
		for i := range callers {
			wg.Go(func() {
				_, errs[i] = s.Execute(t.Context(), fmt.Sprintf("%d/%d", callers, i), func(ctx context.Context) (idem.Result, error) {
					if ran.Add(1) == int64(callers) {
						close(all)
					}
					if err := hold(ctx, all); err != nil { // every operation runs, none has ended
						return idem.Result{}, err
					}
					if _, err := pool.Exec(ctx, "SELECT 1"); err != nil {
						return idem.Result{}, err
					}
					timer := time.NewTimer(time.Second) // three renewals
					defer timer.Stop()
					<-timer.C
					return idem.Result{}, nil
				})
			})
		}
		receive(t, all, "the last operation's beginning")
		require.Eventually(t, func() bool { return pool.Stat().AcquiredConns() == 0 }, patience, time.Millisecond)
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
		require.Equal(t, int64(callers), ran.Load())
	}
	require.Zero(t, lost.of(idem.EventRenewFailed))
}

// counter counts events.
type counter struct {
	mu    sync.Mutex
	kinds map[idem.EventKind]int
}

func (c *counter) Observe(_ context.Context, e idem.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds == nil {
		c.kinds = map[idem.EventKind]int{}
	}
	c.kinds[e.Kind]++
}

func (c *counter) of(k idem.EventKind) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kinds[k]
}

// C25: what an operation returns can always be stored.
func TestAnyValueAndAnyErrorTextCanBeStored(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	b := p.backend(t, p.pool(t))
	s := storeOver(t, b, nil)
	for i, v := range [][]byte{
		[]byte("a\x00b"), {0xff, 0xfe, 0x00}, []byte(`{"a":"\u0000"}`), []byte(`{"a":"\ud800"}`), {}, nil,
	} {
		var n atomic.Int64
		for try := range 2 {
			res, err := s.Execute(t.Context(), fmt.Sprint(i), counting(&n, string(v)))
			require.NoError(t, err)
			require.Equal(t, string(v), string(res.Value))
			require.Equal(t, try == 1, res.Replayed)
		}
		require.Equal(t, int64(1), n.Load())
	}
	for i, text := range []string{"a\x00b", "\xff\xfe\xfd", strings.Repeat("é\x00", 4096), "\xff\x00é"} {
		key := fmt.Sprintf("error %d", i)
		fails := func(context.Context) (idem.Result, error) { return idem.Result{}, idem.Permanent(errors.New(text)) }
		_, err := s.Execute(t.Context(), key, fails)
		require.ErrorContains(t, err, text)
		_, err = s.Execute(t.Context(), key, fails)
		require.ErrorIs(t, err, idem.ErrRecordedFailure)
		refs := []driver.ProviderRef{{Provider: text[:3], Ref: text[:3]}, {Provider: "p", Ref: text[:3]}}
		res, err := b.Claim(t.Context(), &driver.ClaimParams{
			Key: key, Owner: driver.Owner{1}, Lease: time.Hour, Retention: time.Hour, Take: driver.TakeAbsent,
			Providers: []driver.ProviderWindow{{Name: text[:3], Window: time.Hour}},
		})
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, b.Annotate(t.Context(), driver.Ref{Key: key, Owner: driver.Owner{1}, Token: res.Record.Token}, &driver.AnnotateParams{Refs: refs}))
		}
		rec, err := b.Inspect(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, refs, rec.Refs, "byte for byte, and once")
		require.Equal(t, text[:3], rec.Providers[0].Name)
	}
}

// C28: of many callers one runs, whatever they find. Each has a Store of its own,
// so that they meet in the database only; in every other round the operation goes
// on until all the others have been answered.
func TestManyFirstCallersRunOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pools := []*pgxpool.Pool{p.pool(t, conns(8)), p.pool(t, conns(8))}
	b := p.backend(t, pools[0])
	stores := make([]*idem.Store, 50)
	for i := range stores {
		stores[i] = storeOver(t, p.backend(t, pools[i%2]), nil)
	}
	for round := range 60 {
		kind, key, overlap := []string{"absent", "lease ended", "retention ended"}[round%3], fmt.Sprint(round), round%2 == 0
		p.leave(t, b, kind, join(key))
		var n, answered atomic.Int64
		var wg sync.WaitGroup
		errs := make([]error, len(stores))
		gate, all := make(chan struct{}), make(chan struct{})
		for i, s := range stores {
			wg.Go(func() {
				<-gate
				res, err := s.Execute(t.Context(), key, func(ctx context.Context) (idem.Result, error) {
					n.Add(1)
					if !overlap {
						return idem.Result{Value: []byte("new")}, nil
					}
					return idem.Result{Value: []byte("new")}, hold(ctx, all)
				})
				switch {
				case errors.Is(err, idem.ErrInProgress):
					err = nil
				case err == nil && string(res.Value) != "new":
					err = fmt.Errorf("replayed %q", res.Value)
				}
				errs[i] = err
				if answered.Add(1) == int64(len(stores)-1) {
					close(all)
				}
			})
		}
		close(gate)
		wg.Wait()
		require.NoError(t, errors.Join(errs...), kind)
		require.Equal(t, int64(1), n.Load(), kind)
	}
}

// leave leaves what a kind of round begins with.
func (p place) leave(t *testing.T, b driver.Backend, kind, key string) {
	t.Helper()
	if kind == "absent" {
		return
	}
	ref := driver.Ref{Key: key, Owner: driver.Owner{1}}
	res, err := b.Claim(t.Context(), &driver.ClaimParams{Key: key, Owner: ref.Owner, Lease: time.Millisecond, Retention: time.Hour, Take: driver.TakeAbsent})
	require.NoError(t, err)
	ref.Token = res.Record.Token
	if kind == "retention ended" {
		require.NoError(t, b.Complete(t.Context(), ref, &driver.CompleteParams{Outcome: driver.Outcome{Value: []byte("old")}, Retention: time.Millisecond}))
	}
	require.Eventually(t, func() bool { // by the server's clock
		rec, err := b.Inspect(t.Context(), key)
		return errors.Is(err, driver.ErrNotFound) || err == nil && rec.State == driver.Unknown
	}, patience, time.Millisecond)
}

// C37, the other half: a takeover comes a lease after the last renewal, by the
// server's clock.
func TestATakeoverComesALeaseAfterTheLastRenewal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	b := p.backend(t, pool)
	const lease = 2 * time.Second
	o := driver.Owner{1}
	res, err := b.Claim(t.Context(), &driver.ClaimParams{Key: "k", Owner: o, Lease: lease, Retention: time.Hour, Take: driver.TakeAbsent})
	require.NoError(t, err)
	ref := driver.Ref{Key: "k", Owner: o, Token: res.Record.Token}
	clock := func() time.Time { return value[time.Time](t, p, pool, "SELECT clock_timestamp()") }
	var last, latest time.Time
	for i := range 30 {
		if i < 15 {
			last = clock()
			require.NoError(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: lease, Retention: time.Hour}))
			latest = clock()
		}
		before := clock()
		res, err := b.Claim(t.Context(), &driver.ClaimParams{Key: "k", Owner: driver.Owner{2}, Lease: time.Hour, Retention: time.Hour, Take: driver.TakeUnknown})
		require.NoError(t, err)
		after := clock()
		if res.Fact == driver.TakenOver {
			require.False(t, after.Before(last.Add(lease)), "too early")
			return
		}
		require.Equal(t, driver.InProgress, res.Fact)
		require.False(t, before.After(latest.Add(lease)), "too late")
		p.exec(t, pool, "SELECT pg_sleep(0.2)")
	}
	t.Fatal("no takeover")
}

// migrateThrough migrates another schema through the proxy, in several processes at
// once.
func (p place) migrateThrough(t *testing.T, url string) {
	t.Helper()
	next := place{url: url, schema: p.schema + "_next"}
	t.Cleanup(func() { testenv.PostgresExec(t, p.url, "DROP SCHEMA IF EXISTS "+next.schema+" CASCADE") })
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		b := next.backend(t, next.poolAt(t, url, mode(pgx.QueryExecModeExec), unbounded, conns(1)))
		wg.Go(func() { errs[i] = errors.Join(b.Migrate(t.Context()), b.Validate(t.Context())) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

// C44 (a): four Stores behind a transaction-pooling proxy with two connections.
func TestManyStoresShareAPoolingProxy(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	url := testenv.OwnPgBouncer(t, p.url, testenv.PgBouncerConfig{PoolSize: 2})
	p.migrateThrough(t, url)
	var wg sync.WaitGroup
	var n atomic.Int64
	errs := make([]error, 4)
	for i := range errs {
		m := []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}[i%2]
		pool := p.poolAt(t, url, mode(m), unbounded, conns(4))
		s := storeOver(t, p.backend(t, pool), nil)
		wg.Go(func() {
			for k := range 200 {
				key := fmt.Sprintf("%d/%d", i, k%100)
				_, err := s.Execute(t.Context(), key, counting(&n, key))
				errs[i] = errors.Join(errs[i], err)
				if k%20 == 0 {
					_, err := pgstore.ExecuteTx(t.Context(), s, pool, "tx/"+key, func(ctx context.Context, tx pgx.Tx) (idem.Result, error) {
						n.Add(1)
						_, err := tx.Exec(ctx, "SELECT 1")
						return idem.Result{}, err
					})
					errs[i] = errors.Join(errs[i], err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, int64(4*100+4*5), n.Load())
}

// C44 (b): a column that a later release adds disturbs nobody, nor does another type
// of one, for which the server refuses what it had prepared.
func TestAnAddedColumnDisturbsNobody(t *testing.T) {
	t.Parallel()
	for name, m := range modes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			pool := p.pool(t, mode(m), conns(2))
			b := p.backend(t, pool)
			s := storeOver(t, b, nil)
			calls := func(key string) {
				for range 2 {
					_, err := s.Execute(t.Context(), key, plain("x"), idem.WithFingerprint([]byte("r")))
					require.NoError(t, err)
				}
				_, err := pgstore.ExecuteTx(t.Context(), s, pool, key+"/tx", func(context.Context, pgx.Tx) (idem.Result, error) { return idem.Result{}, nil })
				require.NoError(t, err)
				_, err = b.List(t.Context(), &driver.ListParams{})
				require.NoError(t, err)
				rec, err := s.Inspect(t.Context(), key)
				require.NoError(t, err)
				require.NoError(t, s.Redact(t.Context(), key, rec.Token, "test"))
				_, err = b.Purge(t.Context(), &driver.PurgeParams{UnknownAfter: time.Hour})
				require.NoError(t, err)
			}
			calls("before")
			p.exec(t, pool, "ALTER TABLE "+p.table+" ADD COLUMN later text")
			p.exec(t, pool, "COMMENT ON TABLE "+p.table+" IS 'idem records, schema 2'")
			calls("after")
			for i, column := range []string{"codec", "fingerprint_key"} { // the view would forbid it
				p.exec(t, pool, "DROP VIEW IF EXISTS "+p.schema+".idem_records_stats")
				p.exec(t, pool, "ALTER TABLE "+p.table+" ALTER COLUMN "+column+" TYPE varchar(8000)")
				calls(fmt.Sprint("another type ", i))
			}
			require.NoError(t, b.Validate(t.Context()))
			require.NoError(t, b.Migrate(t.Context()), "an older release leaves a newer schema alone")
			require.True(t, driver.OnlyWarnings(b.Check(t.Context())))
		})
	}
}

// C46: keys are refused before the operation, and never by an SQLSTATE.
func TestKeysAreHeldOrRefusedBeforeTheOperation(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := storeOver(t, p.backend(t, p.pool(t)), &idem.Options{Namespace: strings.Repeat("n", 128)})
	random := testenv.Random(5000)
	for key, ok := range map[string]bool{
		"": false, "\x00a": false, "\xff\xfe": false, random: false, strings.Repeat("x", 1<<20): false,
		random[:255]: true, random[:512]: true, "K": true, "k": true, "k" + " ": true, "é": true, "e\u0301": true, strings.Repeat("\U0001F642", 128): true,
	} {
		var n atomic.Int64
		res, err := s.Execute(t.Context(), key, counting(&n, key))
		if !ok {
			require.ErrorIs(t, err, idem.ErrInvalidKey)
			require.NotContains(t, err.Error(), "SQLSTATE")
			require.Zero(t, n.Load())
			continue
		}
		require.NoError(t, err, "%.20q", key)
		require.Equal(t, key, string(res.Value))
		require.Equal(t, int64(1), n.Load())
	}
}

// C53: durations at the edges.
func TestDurationsAtTheEdges(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	b := p.backend(t, pool)
	claim := func(key string, lease, retention time.Duration) (*driver.ClaimResult, error) {
		return b.Claim(t.Context(), &driver.ClaimParams{Key: key, Owner: driver.Owner{1}, Lease: lease, Retention: retention, Take: driver.TakeAbsent})
	}
	for _, d := range []time.Duration{0, -time.Second, 500 * time.Microsecond} {
		_, err := claim("refused", d, time.Hour)
		require.Error(t, err, "lease %v", d)
	}
	for _, d := range []time.Duration{0, -time.Second} {
		_, err := claim("refused", time.Second, d)
		require.Error(t, err, "retention %v", d)
	}
	_, err := b.Inspect(t.Context(), "refused")
	require.ErrorIs(t, err, driver.ErrNotFound)
	for _, d := range []time.Duration{time.Millisecond, 1500 * time.Millisecond, 1500*time.Millisecond + 1, 100 * 365 * 24 * time.Hour} {
		key := d.String()
		res, err := claim(key, d, time.Hour)
		require.NoError(t, err)
		require.Equal(t, toMicros(d), value[int64](t, p, pool, "SELECT (date_part('epoch', lease_until - claimed_at) * 1000000)::bigint FROM {records} WHERE key = $1", key))
		require.True(t, value[bool](t, p, pool, "SELECT expires_at IS NULL FROM {records} WHERE key = $1", key), "a claim does not end by itself")
		ref := driver.Ref{Key: key, Owner: driver.Owner{1}, Token: res.Record.Token}
		require.NoError(t, b.Complete(t.Context(), ref, &driver.CompleteParams{Retention: d}))
		require.Equal(t, toMicros(d), value[int64](t, p, pool, "SELECT (date_part('epoch', expires_at - recorded_at) * 1000000)::bigint FROM {records} WHERE key = $1", key))
	}
}

func toMicros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// C61: what cannot be read stops the operation, and stays as it is.
func TestAnUnreadableRecordRunsNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	for name, damage := range map[string]string{
		"unknown state": "state = 7", "higher format": "format = 2", "no outcome": "outcome = NULL", "no owner": "owner = ''",
		"no providers": "providers = '5'", "broken references": `refs = '[{"p64": "?"}]'`, "no end": "expires_at = NULL",
		"end at infinity": "expires_at = 'infinity'", "body": "body = 9", "token": "token = 0", "revision": "revision = 0",
	} {
		s := storeOver(t, p.backend(t, pool), nil)
		var n atomic.Int64
		_, err := s.Execute(t.Context(), name, counting(&n, "x"))
		require.NoError(t, err)
		p.exec(t, pool, "UPDATE {records} SET "+damage+" WHERE key = $1", join(name))
		before := p.raw(t, pool, join(name))
		for _, w := range []*idem.Store{s, storeOver(t, p.backend(t, pool), nil)} {
			_, err = w.Execute(t.Context(), name, counting(&n, "x"))
			require.ErrorIs(t, err, idem.ErrCorrupt, name)
			_, err = pgstore.ExecuteTx(t.Context(), w, pool, name, func(context.Context, pgx.Tx) (idem.Result, error) { n.Add(1); return idem.Result{}, nil })
			require.ErrorIs(t, err, idem.ErrCorrupt, name)
		}
		require.Equal(t, int64(1), n.Load())
		require.Equal(t, string(before), string(p.raw(t, pool, join(name))))
	}
	// Lists leave them out; the view counts them.
	res, err := p.backend(t, pool).List(t.Context(), &driver.ListParams{})
	require.NoError(t, err)
	require.Empty(t, res.Records)
}

// C61, I12: a value that a later release has sealed is no value for this one, which
// can read the rest of the record.
func TestASealedOutcomeIsNotReplayed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	var n atomic.Int64
	_, err := storeOver(t, p.backend(t, pool), nil).Execute(t.Context(), "k", counting(&n, "x"))
	require.NoError(t, err)
	p.exec(t, pool, "UPDATE {records} SET seal_key = 'k1' WHERE key = $1", join("k"))
	s := storeOver(t, p.backend(t, pool), nil)
	_, err = s.Execute(t.Context(), "k", counting(&n, "x"))
	require.ErrorIs(t, err, idem.ErrCorrupt)
	require.ErrorContains(t, err, "sealed")
	require.EqualValues(t, 1, n.Load())
	rec, err := s.Inspect(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "k1", rec.SealKeyID)
}
