package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/pgstore"
)

// sized is n, or few with -short.
func sized(n, few int) int {
	if testing.Short() {
		return few
	}
	return n
}

// benchPlace is a server of the benchmark's own, with room for what is planted;
// with -short, where only few rows are, the shared one.
func benchPlace(b *testing.B, settings ...string) place {
	b.Helper()
	if testing.Short() {
		return newPlace(b)
	}
	s := testenv.OwnPostgres(b, testenv.PostgresConfig{Settings: append(settings, "shared_buffers=512MB", "max_wal_size=4GB", "checkpoint_timeout=30min")})
	testenv.PostgresExec(b, s.URL(), "CREATE SCHEMA bench")
	return migrated(b, s.URL(), "bench")
}

// fill copies the model n times, with keys that are in no
// order and with the given columns, which may use i, from 1 on.
func (p place) fill(b *testing.B, pool *pgxpool.Pool, n int, prefix string, set map[string]string) {
	b.Helper()
	all := value[string](b, p, pool, "SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = '"+p.table+"'::regclass AND attnum > 0 AND NOT attisdropped")
	from := strings.Split(all, ",")
	for i, column := range from {
		from[i] = "m." + column
		if column == "key" {
			from[i] = "'" + prefix + "' || md5(i::text)"
		}
		if expr, ok := set[column]; ok {
			from[i] = expr
		}
	}
	p.exec(b, pool, fmt.Sprintf("INSERT INTO {records} (%s) SELECT %s FROM (SELECT * FROM {records} WHERE key = '0:model') m, generate_series(1, %d) i",
		all, strings.Join(from, ", "), n))
}

// ended are the columns of records that have ended, in the order of insertion, as
// they are with one retention.
func ended() map[string]string {
	return map[string]string{"expires_at": "clock_timestamp() - interval '1 day' + i * interval '1 millisecond'", "token": "m.token + i"}
}

// model makes the record that fill copies: of a value of 200 bytes.
func (p place) model(b *testing.B, back *pgstore.Backend) {
	b.Helper()
	require.NoError(b, claimComplete(b.Context(), back, "0:model", random(200)))
}

// BenchmarkPurgeAgainstSlices removes 2,000,000 records with Purge and as many
// from a table of the same kind with hand-written slices, one step of each in
// turns. Of the figures with -x, 1 is as fast as the slices, more is faster.
func BenchmarkPurgeAgainstSlices(b *testing.B) {
	const batch = 10_000
	n := sized(2_000_000, 25_000)
	for range b.N {
		b.StopTimer()
		p := benchPlace(b, "autovacuum=off")
		pool := p.pool(b, conns(1), unbounded)
		back := p.backend(b, pool)
		other, err := pgstore.New(pool, &pgstore.Options{Schema: p.schema, Table: "slices"})
		require.NoError(b, err)
		require.NoError(b, other.Migrate(b.Context()))
		by := p
		by.table = strings.Replace(p.table, "idem_records", "slices", 1)
		p.model(b, back)
		by.model(b, other)
		p.fill(b, pool, n, "0:", ended())
		by.fill(b, pool, n, "0:", ended())
		for _, sql := range []string{"VACUUM ANALYZE " + p.table, "VACUUM ANALYZE " + by.table, "CHECKPOINT"} {
			p.exec(b, pool, sql)
		}
		cut := value[time.Time](b, p, pool, "SELECT clock_timestamp()")
		slice := func() int64 {
			tag, err := pool.Exec(b.Context(), "WITH b AS (SELECT expires_at FROM "+by.table+" WHERE expires_at < $1 ORDER BY expires_at OFFSET $2 LIMIT 1)"+
				" DELETE FROM "+by.table+" WHERE expires_at < $1 AND expires_at <= COALESCE((SELECT expires_at FROM b), $1)", cut, batch-1)
			require.NoError(b, err)
			return tag.RowsAffected()
		}
		b.StartTimer()
		var ours, theirs []time.Duration
		sliced, began := int64(0), time.Now()
		res, err := back.Purge(b.Context(), &driver.PurgeParams{Batch: batch, Progress: func(int64) {
			ours = append(ours, time.Since(began))
			began = time.Now()
			sliced += slice()
			theirs = append(theirs, time.Since(began))
			began = time.Now()
		}})
		b.StopTimer()
		require.NoError(b, err)
		require.Equal(b, int64(n), res.Purged)
		for removed := int64(1); removed > 0; sliced += removed {
			removed = slice()
		}
		require.Equal(b, int64(n), sliced)
		require.Equal(b, int64(1), value[int64](b, p, pool, "SELECT count(*) FROM {records}"), "the model has not ended")
		report(b, n, ours, theirs)
	}
}

func report(b *testing.B, n int, ours, theirs []time.Duration) {
	b.Helper()
	sum := func(ds []time.Duration) (s time.Duration) {
		for _, d := range ds {
			s += d
		}
		return s
	}
	b.ReportMetric(float64(n)/sum(ours).Seconds(), "idem-rows/s")
	b.ReportMetric(float64(n)/sum(theirs).Seconds(), "slices-rows/s")
	b.ReportMetric(sum(theirs).Seconds()/sum(ours).Seconds(), "whole-x")
	b.ReportMetric(quantile(theirs, 0.5).Seconds()/quantile(ours, 0.5).Seconds(), "step-x")
	b.ReportMetric(0, "ns/op")
}

// quantile sorts.
func quantile(ds []time.Duration, q float64) time.Duration {
	slices.Sort(ds)
	return ds[min(len(ds)-1, int(q*float64(len(ds))))]
}

// consumers are those of a stream: 8 workers, of whose calls half are new, four
// in ten duplicates of what was done before, and one in ten is for a key whose
// record has ended: one of those that the purge removes just then.
type consumers struct {
	s       *idem.Store
	front   atomic.Int64 // how many the purge has removed
	ended   atomic.Int64 // the last key that had ended and was called: each is called once
	made    atomic.Int64 // how many new keys have been executed
	blocked atomic.Int64 // claims that waited for another transaction until they gave up
}

// nextEnded is a key just before the purge, or in what it removes now.
func (c *consumers) nextEnded() int64 {
	for {
		last := c.ended.Load()
		next := max(last, c.front.Load()) + rand.Int64N(40) + 1
		if c.ended.CompareAndSwap(last, next) {
			return next
		}
	}
}

const workers = 8

func (c *consumers) call(ctx context.Context) error {
	var key string
	switch d := rand.IntN(10); {
	case d < 4:
		key = fmt.Sprint("done ", rand.IntN(1000))
	case d < 5:
		key = fmt.Sprint("ended ", c.nextEnded())
	default:
		key = fmt.Sprint("new ", c.made.Add(1))
	}
	_, err := c.s.Execute(ctx, key, func(context.Context) (idem.Result, error) { return idem.Result{Value: make([]byte, 200)}, nil })
	if errors.Is(err, idem.ErrInProgress) {
		c.blocked.Add(1)
		return nil
	}
	return err
}

// run lets the workers call for d, each every pause, and returns how long the
// calls took.
func (c *consumers) run(b *testing.B, d, pause time.Duration) (took []time.Duration) {
	b.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for w := range workers {
		wg.Go(func() {
			due := time.Now().Add(pause * time.Duration(w) / workers)
			for due.Before(end) && time.Now().Before(end) {
				timer := time.NewTimer(time.Until(due))
				<-timer.C
				began := time.Now()
				if err := c.call(b.Context()); err != nil {
					b.Errorf("a call: %v", err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
				due = due.Add(pause)
			}
		})
	}
	wg.Wait()
	return took
}

// BenchmarkConsumersBesidePurge has consumers call at half the load that the
// server bears, in turns alone and beside a PurgeLoop with its defaults that works
// off 2,000,000 records. p99-x is the median of the turns' ratios.
func BenchmarkConsumersBesidePurge(b *testing.B) {
	n, turns := sized(2_000_000, 5_000), sized(9, 1)
	span := time.Duration(sized(4000, 200)) * time.Millisecond
	for range b.N {
		b.StopTimer()
		p := benchPlace(b)
		pool := p.pool(b, conns(workers), unbounded)
		back := p.backend(b, pool)
		p.model(b, back)
		set := ended()
		set["key"] = "'0:ended ' || i"
		p.fill(b, pool, n, "", set)
		p.fill(b, pool, 1000, "", map[string]string{"key": "'0:done ' || i - 1"})
		p.fill(b, pool, 1000, "0:unknown ", map[string]string{"state": "1", "recorded_at": "NULL", "expires_at": "NULL", "outcome": "NULL", "lease_until": "clock_timestamp() - interval '1 year'"})
		for _, sql := range []string{"VACUUM ANALYZE {records}", "CHECKPOINT"} {
			p.exec(b, pool, sql)
		}
		c := &consumers{s: storeOver(b, back, nil)}
		full := c.run(b, span, 0)
		pause := 2 * workers * span / time.Duration(len(full))
		b.StartTimer()
		var ratios, alone, beside []time.Duration
		removed := int64(0)
		for range turns {
			off := c.run(b, span, pause)
			var on []time.Duration
			removed += besideLoop(b, back, &c.front, func() { on = c.run(b, span, pause) })
			ratios = append(ratios, time.Duration(1000*float64(quantile(on, 0.99))/float64(quantile(off, 0.99))))
			alone, beside = append(alone, off...), append(beside, on...)
		}
		b.StopTimer()
		require.Positive(b, removed)
		require.Equal(b, int64(1000), value[int64](b, p, pool, "SELECT count(*) FROM {records} WHERE state = 1 AND key LIKE '0:unknown %'"))
		require.Equal(b, int64(1000), value[int64](b, p, pool, "SELECT count(*) FROM {records} WHERE key LIKE '0:done %'"))
		require.Equal(b, c.made.Load(), value[int64](b, p, pool, "SELECT count(*) FROM {records} WHERE state = 3 AND key LIKE '0:new %'"))
		b.ReportMetric(float64(len(full))/span.Seconds(), "full-calls/s")
		b.ReportMetric(float64(len(beside))/float64(turns)/span.Seconds(), "half-calls/s")
		b.ReportMetric(float64(quantile(alone, 0.99))/1e3, "alone-p99-µs")
		b.ReportMetric(float64(quantile(beside, 0.99))/1e3, "beside-p99-µs")
		b.ReportMetric(float64(quantile(ratios, 0.5))/1000, "p99-x")
		b.ReportMetric(float64(quantile(alone, 1))/1e3, "alone-worst-µs")
		b.ReportMetric(float64(quantile(beside, 1))/1e3, "beside-worst-µs")
		b.ReportMetric(float64(c.blocked.Load()), "blocked")
		b.ReportMetric(float64(removed)/float64(turns)/span.Seconds(), "removed/s")
		b.ReportMetric(0, "ns/op")
	}
}

// besideLoop runs f while a PurgeLoop purges, and returns how many records that
// removed.
func besideLoop(b *testing.B, back *pgstore.Backend, front *atomic.Int64, f func()) (removed int64) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	done, has := make(chan error, 1), make(chan struct{})
	first := sync.OnceFunc(func() { close(has) })
	go func() {
		done <- back.PurgeLoop(ctx, &pgstore.PurgeLoopOptions{Interval: time.Second, Observe: func(e pgstore.PurgeEvent) {
			if e.Kind == pgstore.PurgeTurn {
				first()
			}
			front.Add(e.Total - removed)
			removed = e.Total
		}})
	}()
	<-has
	f()
	cancel()
	require.NoError(b, <-done)
	return removed
}
