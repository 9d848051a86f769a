package tiertest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
)

// C22: a process that cannot reach Redis asks the same authority as one that can,
// and what completes while Redis is away replays once it is back, also empty.
func TestC22WithoutRedisThereIsNoSecondAuthority(t *testing.T) {
	t.Parallel()
	records := sharedTable(t)
	server := testenv.OwnRedis(t, testenv.RedisConfig{Args: []string{"--appendonly", "yes"}})
	away := testenv.OwnRedis(t, testenv.RedisConfig{})
	require.NoError(t, away.Kill())
	with, without := newService(t, records, server.Addr(), patient()), newService(t, records, away.Addr(), nil)
	without.runs = with.runs

	_, err := with.store.Execute(t.Context(), "k0", func(ctx context.Context) (idem.Result, error) {
		_, err := without.store.Execute(ctx, "k0", without.op)
		require.ErrorIs(t, err, idem.ErrInProgress)
		return with.op(ctx)
	})
	require.NoError(t, err)
	without.replay(t, 1, "without Redis")

	for round, after := range []string{"back as it was", "back and empty"} {
		require.NoError(t, server.Kill())
		s := newService(t, records, server.Addr(), nil)
		s.runs = with.runs
		s.fill(t, round+2)
		require.NoError(t, server.Start(t.Context()))
		if after == "back and empty" {
			_, err := server.Do(t.Context(), "FLUSHALL")
			require.NoError(t, err)
		}
		for _, one := range []*service{s, with, newService(t, records, server.Addr(), patient())} {
			one.runs = with.runs
			one.replay(t, round+2, after)
		}
	}
}

// C65, with a second for a tenth of one: a retention of 60 s, an operation of
// 30 s, looked at 59, 61, 89 and 91 s after the start, swept or not, inside the
// window and around its end. On a machine that is too slow to look in time, once
// more with longer seconds.
func TestC65RedisBeforePostgresEndsARecordWhenPostgresDoes(t *testing.T) {
	t.Parallel()
	for _, sweep := range []bool{false, true} {
		for _, window := range []time.Duration{40, 60, 3600} {
			t.Run(fmt.Sprintf("window %d s, swept: %v", window, sweep), func(t *testing.T) {
				t.Parallel()
				for second := 100 * time.Millisecond; !retentionCounts(t, window*second, second, sweep); second *= 2 {
					require.Less(t, second, 2*time.Second)
				}
			})
		}
	}
}

// purge purges the tiers.
func (s *service) purge(ctx context.Context, p *driver.PurgeParams) (*driver.PurgeResult, error) {
	purger, ok := driver.As[driver.Purger](s.tiers)
	if !ok {
		return nil, errors.New("these tiers have no Purge")
	}
	return purger.Purge(ctx, p)
}

// retentionCounts reports false if this machine was too slow to tell.
func retentionCounts(t *testing.T, window, second time.Duration, sweep bool) bool {
	t.Helper()
	opts := patient()
	opts.Window = window
	tiers := over(t, cacheOn(t, sharedRedis(t), prefix()), sharedTable(t).backend(t), opts)
	s := &service{tiers, storeOver(t, tiers, &idem.Options{Retention: 60 * second, RetryWindow: second}), new(atomic.Int64)}
	began := time.Now()
	at := func(d time.Duration) {
		t.Helper()
		timer := time.NewTimer(time.Until(began.Add(d)))
		defer timer.Stop()
		<-timer.C
		if sweep {
			_, err := s.purge(t.Context(), &driver.PurgeParams{})
			require.NoError(t, err)
		}
	}
	var ran time.Duration
	_, err := s.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
		at(30 * second)
		ran = time.Since(began)
		return s.op(ctx)
	})
	require.NoError(t, err)
	completed := time.Since(began)
	for _, d := range []time.Duration{59, 61, 89} {
		at(d * second)
		res := s.execute(t, "k")
		if time.Since(began) > ran+60*second {
			return false // it may have ended, counted from the completion
		}
		require.True(t, res.Replayed, "%d s after the start", d)
	}
	at(completed + 61*second)
	_, err = tiers.Inspect(t.Context(), driver.JoinKey("", "k"))
	require.ErrorIs(t, err, driver.ErrNotFound)
	require.False(t, s.execute(t, "k").Replayed)
	require.EqualValues(t, 2, s.runs.Load())
	return true
}

// C40: a backlog in Postgres is removed in steps, is interrupted half-way, and has
// two cleaners at once, beside calls for live keys, which Redis answers and
// Postgres decides.
func TestC40ABacklogIsPurgedBesideLiveCalls(t *testing.T) {
	t.Parallel()
	const backlog, batch, live = 10_000, 250, 20
	records := sharedTable(t)
	tiers := over(t, cacheOn(t, sharedRedis(t), prefix()), records.backend(t), patient())
	s := &service{tiers, storeOver(t, tiers, nil), new(atomic.Int64)}
	s.fill(t, live)
	records.exec(t, `INSERT INTO {records} SELECT (jsonb_populate_record(r, jsonb_build_object(
		'key', '0:old ' || i, 'expires_at', clock_timestamp() - interval '1 hour'))).*
		FROM {records} r, generate_series(1, `+fmt.Sprint(backlog)+`) i WHERE key = '`+driver.JoinKey("", "k0")+`'`)

	ctx, cancel := context.WithCancel(t.Context())
	res, err := s.purge(ctx, &driver.PurgeParams{Batch: batch, Progress: func(n int64) {
		if n >= backlog/2 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.GreaterOrEqual(t, res.Purged, int64(backlog/2))
	require.Less(t, res.Purged, int64(backlog))

	var cleaners sync.WaitGroup
	var purged atomic.Int64
	failed := make(chan error, 2)
	for range 2 {
		cleaners.Go(func() {
			res, err := s.purge(t.Context(), &driver.PurgeParams{Batch: batch})
			if err == nil {
				purged.Add(res.Purged)
			}
			failed <- err
		})
	}
	s.replay(t, live, "beside two cleaners")
	for i := range live {
		require.False(t, s.execute(t, fmt.Sprint("new", i)).Replayed)
	}
	cleaners.Wait()
	require.NoError(t, errors.Join(<-failed, <-failed))
	last, err := s.purge(t.Context(), &driver.PurgeParams{})
	require.NoError(t, err)
	require.EqualValues(t, backlog, res.Purged+purged.Load()+last.Purged, "each once, all in the end")
	for i := range live {
		require.True(t, s.execute(t, fmt.Sprint("new", i)).Replayed)
	}
	require.False(t, s.execute(t, "old 7").Replayed, "absent in both tiers")
	require.EqualValues(t, 2*live+1, s.runs.Load())
}
