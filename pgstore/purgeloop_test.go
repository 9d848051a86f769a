package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/pgstore"
)

// soon is how long these tests wait for what must happen: long, for a machine
// that others use.
const soon = time.Minute

// looper is one process's PurgeLoop.
type looper struct {
	name   string // of its connections, at the server
	cancel context.CancelFunc
	done   chan error

	mu     sync.Mutex
	events []pgstore.PurgeEvent
}

func (l *looper) observe(e pgstore.PurgeEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// seen returns the events of a kind.
func (l *looper) seen(kind pgstore.PurgeEventKind) (out []pgstore.PurgeEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// await waits until the loop has told of n events of a kind.
func (l *looper) await(t *testing.T, kind pgstore.PurgeEventKind, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(l.seen(kind)) >= n }, soon, 5*time.Millisecond, "%s: %d times %s", l.name, n, kind)
}

// stop ends the loop and waits for it.
func (l *looper) stop(t *testing.T) {
	t.Helper()
	l.cancel()
	require.NoError(t, l.ended(t))
}

func (l *looper) ended(t *testing.T) error {
	t.Helper()
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case err := <-l.done:
		return err
	case <-timer.C:
		t.Fatalf("%s has not ended", l.name)
		return nil
	}
}

// loop starts a PurgeLoop with a pool of its own, whose connections the server
// knows by the schema's name and suffix.
func (p place) loop(t *testing.T, suffix string, o pgstore.PurgeLoopOptions) *looper {
	t.Helper()
	l := &looper{name: p.schema + suffix, done: make(chan error, 1)}
	pool := p.pool(t, func(c *poolConfig) { c.ConnConfig.RuntimeParams["application_name"] = l.name })
	if o.Interval == 0 {
		o.Interval = 20 * time.Millisecond
	}
	o.Observe = l.observe
	ctx, cancel := context.WithCancel(t.Context())
	l.cancel = cancel
	b := p.backend(t, pool)
	var running sync.WaitGroup
	running.Go(func() { l.done <- b.PurgeLoop(ctx, &o) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return l
}

// plantEnded leaves n records whose retention has ended.
func (p place) plantEnded(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	_, err := storeOver(t, p.backend(t, pool), nil).Execute(t.Context(), "model", plain("x"))
	require.NoError(t, err)
	p.plant(t, pool, join("model"), n, "expires_at = clock_timestamp() - interval '1 hour'")
}

// planted counts what plant has left.
func (p place) planted(t *testing.T, pool *pgxpool.Pool) int64 {
	t.Helper()
	return value[int64](t, p, pool, "SELECT count(*) FROM {records} WHERE key LIKE '0:planted%'")
}

func TestOneOfSeveralLoopsPurgesAtATime(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	p.plantEnded(t, pool, 100)
	loops := []*looper{
		p.loop(t, "/a", pgstore.PurgeLoopOptions{Batch: 10}),
		p.loop(t, "/b", pgstore.PurgeLoopOptions{Batch: 10}),
		p.loop(t, "/c", pgstore.PurgeLoopOptions{Batch: 10}),
	}
	for len(loops) > 0 {
		var h *looper
		require.Eventually(t, func() bool { h = done(loops, 100); return h != nil }, soon, 5*time.Millisecond)
		var rest []*looper
		for _, l := range loops {
			if l != h {
				rest = append(rest, l)
				l.await(t, pgstore.PurgeElsewhere, len(l.seen(pgstore.PurgeElsewhere))+2)
				require.Empty(t, l.seen(pgstore.PurgeTurn), "%s has a turn while %s has one", l.name, h.name)
				require.Empty(t, l.seen(pgstore.PurgeStep))
			}
		}
		require.Zero(t, p.planted(t, pool))
		require.GreaterOrEqual(t, len(h.seen(pgstore.PurgeStep)), 10)
		require.Empty(t, h.seen(pgstore.PurgeLost))
		h.stop(t) // it gives the turn up
		loops = rest
		p.plant(t, pool, join("model"), 100, "expires_at = clock_timestamp() - interval '1 hour'")
	}
}

// done is the one of the loops whose passes have removed so many records.
func done(loops []*looper, removed int64) *looper {
	for _, l := range loops {
		for _, e := range l.seen(pgstore.PurgePass) {
			if e.Total == removed {
				return l
			}
		}
	}
	return nil
}

// The connection of the one that purges is cut in the middle of a pass. Only
// those with its own name are: others use the server too.
func TestAnotherLoopTakesOverFromALostConnection(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	p.plantEnded(t, pool, 5000)  // minutes of work for the first
	again := make(chan struct{}) // until it is closed, the first one cannot come back
	opened := 0
	first := p.loop(t, "/first", pgstore.PurgeLoopOptions{Rate: 20, Batch: 1, Connect: func(ctx context.Context) (*pgx.Conn, error) {
		if opened++; opened > 1 {
			select {
			case <-again:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		cfg, err := pgx.ParseConfig(p.url)
		if err != nil {
			return nil, err
		}
		cfg.RuntimeParams["application_name"] = p.schema + "/first"
		return pgx.ConnectConfig(ctx, cfg)
	}})
	first.await(t, pgstore.PurgeStep, 1)
	second := p.loop(t, "/second", pgstore.PurgeLoopOptions{Rate: 1_000_000})
	second.await(t, pgstore.PurgeElsewhere, 1)
	require.Equal(t, int64(1), value[int64](t, p, pool,
		"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1", first.name))
	first.await(t, pgstore.PurgeLost, 1)
	second.await(t, pgstore.PurgePass, 1)
	require.Zero(t, p.planted(t, pool))
	require.Error(t, first.seen(pgstore.PurgeLost)[0].Err)
	close(again)
	first.await(t, pgstore.PurgeElsewhere, 1)
	require.Len(t, first.seen(pgstore.PurgeTurn), 1)
	removed := first.seen(pgstore.PurgeLost)[0].Total + second.seen(pgstore.PurgePass)[0].Total
	require.Contains(t, []int64{4999, 5000}, removed, "all but what the cut one may have removed without being told")
	second.stop(t)
	first.await(t, pgstore.PurgeTurn, 2)
	first.stop(t)
}

// asked is a tracer that keeps what a connection was asked without an error.
type asked struct {
	mu  sync.Mutex
	now string
	all []string
}

func (a *asked) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = q.SQL
	return ctx
}

func (a *asked) TraceQueryEnd(_ context.Context, _ *pgx.Conn, q pgx.TraceQueryEndData) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q.Err == nil {
		a.all = append(a.all, a.now)
	}
}

// The server is to notice within a minute that the machine of the turn is gone, and
// not after two hours.
func TestTheTurnsConnectionIsKeptUnderWatchByTheServer(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.pool(t)
	trace := &asked{}
	l := p.loop(t, "/watched", pgstore.PurgeLoopOptions{Connect: func(ctx context.Context) (*pgx.Conn, error) {
		cfg, err := pgx.ParseConfig(p.url)
		if err != nil {
			return nil, err
		}
		cfg.Tracer = trace
		return pgx.ConnectConfig(ctx, cfg)
	}})
	l.await(t, pgstore.PurgePass, 1)
	l.stop(t)
	trace.mu.Lock()
	defer trace.mu.Unlock()
	for _, name := range []string{"tcp_keepalives_idle', '30'", "tcp_keepalives_interval', '10'", "tcp_keepalives_count', '3'"} {
		require.Contains(t, strings.Join(trace.all, "\n"), name)
	}
}

func TestTheEndOfItsContextStopsALoop(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	p.plantEnded(t, pool, 1000)
	var own *pgx.Conn
	l := p.loop(t, "/slow", pgstore.PurgeLoopOptions{Rate: 1, Connect: func(ctx context.Context) (c *pgx.Conn, err error) {
		own, err = pgx.Connect(ctx, p.url)
		return own, err
	}})
	l.await(t, pgstore.PurgeStep, 1)
	l.stop(t) // in the middle of a pass that takes a quarter of an hour
	require.True(t, own.IsClosed(), "the turn is given up")
	require.GreaterOrEqual(t, l.seen(pgstore.PurgeStep)[0].Behind, time.Hour)
	require.Empty(t, l.seen(pgstore.PurgePass))
	require.Empty(t, l.seen(pgstore.PurgeLost))
	require.Positive(t, p.planted(t, pool))
	idle := p.loop(t, "/idle", pgstore.PurgeLoopOptions{Interval: 24 * time.Hour, Rate: 1_000_000})
	require.Eventually(t, func() bool { // the server may be a moment late to notice that the turn is over
		return len(idle.seen(pgstore.PurgePass))+len(idle.seen(pgstore.PurgeElsewhere)) > 0
	}, soon, 5*time.Millisecond)
	idle.stop(t) // in the middle of a wait of a day
	quick := p.loop(t, "/quick", pgstore.PurgeLoopOptions{Rate: 1_000_000})
	quick.await(t, pgstore.PurgePass, 1)
	require.Zero(t, p.planted(t, pool))
	quick.stop(t)
}

func TestALoopGoesOnAfterWhatPasses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	p.plantEnded(t, pool, 10)
	p.exec(t, pool, "ALTER TABLE {records} RENAME TO away")
	tries := 0
	l := p.loop(t, "", pgstore.PurgeLoopOptions{Connect: func(ctx context.Context) (*pgx.Conn, error) {
		if tries++; tries <= 2 {
			return nil, errors.New("no server")
		}
		return pgx.Connect(ctx, p.url)
	}})
	l.await(t, pgstore.PurgeFailed, 2)
	require.ErrorContains(t, l.seen(pgstore.PurgeFailed)[0].Err, "no server")
	l.await(t, pgstore.PurgeLost, 2)
	require.ErrorContains(t, l.seen(pgstore.PurgeLost)[0].Err, "Migrate")
	p.exec(t, pool, "ALTER TABLE "+pgx.Identifier{p.schema, "away"}.Sanitize()+" RENAME TO idem_records")
	l.await(t, pgstore.PurgePass, 1)
	require.Zero(t, p.planted(t, pool))
	l.stop(t)
}

func TestALoopRefusesAPoolingProxy(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	p.plantEnded(t, pool, 10)
	pooled := poolOf(t, testenv.OwnPgBouncer(t, p.url, testenv.PgBouncerConfig{}), mode(pgx.QueryExecModeSimpleProtocol),
		func(c *poolConfig) { c.ConnConfig.RuntimeParams["application_name"] = p.schema })
	b := p.backend(t, pooled)
	first, stop := context.WithCancel(t.Context())
	defer stop()
	err := b.PurgeLoop(first, &pgstore.PurgeLoopOptions{Observe: func(e pgstore.PurgeEvent) {
		if e.Kind != pgstore.PurgeFailed {
			stop()
		}
	}})
	require.ErrorIs(t, err, pgstore.ErrPooledConnection)
	require.ErrorContains(t, err, "PurgeLoopOptions.Connect")
	require.Equal(t, int64(10), p.planted(t, pool))
	require.Equal(t, int64(0), value[int64](t, p, pool, "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)"+
		" WHERE locktype = 'advisory' AND application_name = $1", p.schema), "nothing stays behind in the proxy's sessions")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = b.PurgeLoop(ctx, &pgstore.PurgeLoopOptions{
		Connect: func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, p.url) },
		Observe: func(e pgstore.PurgeEvent) {
			if e.Kind == pgstore.PurgePass {
				cancel()
			}
		},
	})
	require.NoError(t, err)
	require.Zero(t, p.planted(t, pool))
}

func TestALoopRefusesWhatIsNotPossible(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	b := p.backend(t, p.pool(t))
	for want, o := range map[string]pgstore.PurgeLoopOptions{
		"-1ns":            {Interval: -1},
		"rate of -1":      {Rate: -1},
		"batch of -1":     {Batch: -1},
		"unknown after -": {UnknownAfter: -1},
	} {
		require.ErrorContains(t, b.PurgeLoop(t.Context(), &o), want)
	}
	bare := p.backend(t, &spying{DB: p.pool(t)})
	require.ErrorContains(t, bare.PurgeLoop(t.Context(), nil), "PurgeLoopOptions.Connect")
	for kind := pgstore.PurgeElsewhere; kind <= pgstore.PurgeFailed; kind++ {
		require.NotEqual(t, "no event", kind.String())
	}
	require.Equal(t, "no event", (pgstore.PurgeFailed + 1).String())
}
