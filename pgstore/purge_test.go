package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
)

// plant copies the record of key n times; set changes the copies, all alike.
func (p place) plant(t *testing.T, db querier, key string, n int, set string) {
	t.Helper()
	p.exec(t, db, `DO $$ DECLARE others text; BEGIN
		CREATE TEMPORARY TABLE planted ON COMMIT DROP AS SELECT * FROM `+p.table+` WHERE key = '`+key+`';
		UPDATE planted SET `+set+`;
		SELECT string_agg(attname, ',') INTO others FROM pg_attribute
			WHERE attrelid = '`+p.table+`'::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'key';
		EXECUTE 'INSERT INTO `+p.table+` (key, ' || others || ') SELECT ''0:planted '' || i, ' || others
			|| ' FROM planted, generate_series(1, `+fmt.Sprint(n)+`) i';
		END $$`)
}

// C40: a backlog that one statement could not remove within the server's limits.
func TestALargeBacklogIsPurgedInSteps(t *testing.T) {
	t.Parallel()
	const backlog, batch = 20_000, 500
	p := newPlace(t)
	pool := p.pool(t)
	s := storeOver(t, p.backend(t, pool), nil)
	_, err := s.Execute(t.Context(), "live", plain("x"))
	require.NoError(t, err)
	p.plant(t, pool, join("live"), backlog, "expires_at = clock_timestamp() - interval '1 hour'")
	// Some steps hold many instants, some one.
	p.exec(t, pool, "UPDATE {records} SET expires_at = expires_at + (random() * 100)::integer * interval '1 ms' WHERE key LIKE '0:planted 1%'")
	left := func() int64 {
		return value[int64](t, p, pool, "SELECT count(*) FROM {records} WHERE key LIKE '0:planted%'")
	}
	require.Equal(t, int64(backlog), left())

	limited := p.pool(t, func(c *poolConfig) { c.ConnConfig.RuntimeParams["statement_timeout"] = "5000" })
	purger := p.backend(t, limited)
	ctx, cancel := context.WithCancel(t.Context())
	var last int64
	res, err := purger.Purge(ctx, &driver.PurgeParams{Batch: batch, Progress: func(sum int64) {
		require.LessOrEqual(t, sum-last, int64(batch))
		if last = sum; sum >= backlog/4 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, int64(backlog)-res.Purged, left(), "what was removed stays removed")

	stop, live := make(chan struct{}), make(chan error, 5)
	for i := range cap(live) {
		go func() {
			var errs error
			for n := 0; ; n++ {
				select {
				case <-stop:
					live <- errs
					return
				default:
					_, err := s.Execute(t.Context(), fmt.Sprintf("live %d/%d", i, n), plain("x"))
					errs = errors.Join(errs, err)
				}
			}
		}()
	}
	var wg sync.WaitGroup
	var sum atomic.Int64
	for range 2 { // two cleaners at once
		wg.Go(func() {
			res, err := p.backend(t, limited).Purge(t.Context(), &driver.PurgeParams{Batch: batch})
			if err == nil {
				sum.Add(res.Purged)
			}
		})
	}
	wg.Wait()
	close(stop)
	for range cap(live) {
		require.NoError(t, <-live)
	}
	again, err := purger.Purge(t.Context(), &driver.PurgeParams{})
	require.NoError(t, err)
	require.Equal(t, int64(backlog), res.Purged+sum.Load()+again.Purged)
	require.Zero(t, left())
	found, err := s.Execute(t.Context(), "live", plain("y"))
	require.NoError(t, err)
	require.True(t, found.Replayed)
}

// C23: a purge restates its condition where it removes.
func TestAPurgeMeetsAClaimOfTheSameKey(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	b := p.backend(t, pool)
	for round := range 60 {
		key := fmt.Sprint(round)
		params := &driver.ClaimParams{Key: key, Owner: driver.Owner{1}, Lease: time.Hour, Retention: time.Hour, Take: driver.TakeAbsent}
		res, err := b.Claim(t.Context(), params)
		require.NoError(t, err)
		ref := driver.Ref{Key: key, Owner: params.Owner, Token: res.Record.Token}
		require.NoError(t, b.Complete(t.Context(), ref, &driver.CompleteParams{Retention: time.Microsecond}))
		var wg sync.WaitGroup
		var claimed *driver.ClaimResult
		var claim, purge error
		gate := make(chan struct{})
		wg.Go(func() {
			<-gate
			next := *params
			next.Owner = driver.Owner{2}
			claimed, claim = b.Claim(t.Context(), &next)
		})
		wg.Go(func() { <-gate; _, purge = b.Purge(t.Context(), &driver.PurgeParams{}) })
		close(gate)
		wg.Wait()
		require.NoError(t, errors.Join(claim, purge))
		require.Equal(t, driver.Acquired, claimed.Fact)
		require.Greater(t, claimed.Record.Token, ref.Token)
		rec, err := b.Inspect(t.Context(), key)
		require.NoError(t, err, "the new claim is there")
		require.Equal(t, claimed.Record.Token, rec.Token)
	}
}

// C23: what cannot be removed now does not hide what can.
func TestWhatIsHeldDoesNotHideTheRest(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	b := p.backend(t, pool)
	s := storeOver(t, b, nil)
	_, err := s.Execute(t.Context(), "model", plain("x"))
	require.NoError(t, err)
	p.plant(t, pool, join("model"), 15, "expires_at = clock_timestamp() - interval '1 hour'")
	var unblock []func()
	for i := range 10 {
		unblock = append(unblock, p.block(t, p.pool(t, conns(1)), fmt.Sprintf("0:planted %d", i+1)))
	}
	res, err := b.Purge(t.Context(), &driver.PurgeParams{Batch: 10})
	require.NoError(t, err)
	require.Equal(t, int64(5), res.Purged)
	for _, f := range unblock {
		f()
	}
	res, err = b.Purge(t.Context(), &driver.PurgeParams{Batch: 10})
	require.NoError(t, err)
	require.Equal(t, int64(10), res.Purged)

	// The same for old unknown records behind claimed ones.
	_, err = b.Claim(t.Context(), &driver.ClaimParams{Key: "live", Owner: driver.Owner{1}, Lease: time.Hour, Retention: time.Hour, Take: driver.TakeAbsent})
	require.NoError(t, err)
	p.plant(t, pool, "live", 15, "token = token")
	p.exec(t, pool, "UPDATE {records} SET lease_until = clock_timestamp() - interval '2 hours', changed_at = clock_timestamp() - interval '2 hours' WHERE key = '0:planted 9'")
	res, err = b.Purge(t.Context(), &driver.PurgeParams{Batch: 4, UnknownAfter: time.Hour})
	require.NoError(t, err)
	require.Equal(t, int64(1), res.Purged)
}

// C23: the page of records that need nothing is no end of the purge, and neither
// is a slice of records that cannot be read (I12).
func TestRecordsThatEndedAtOneInstantAreStillRemovedInSteps(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	b := p.backend(t, pool)
	p.plantEnded(t, pool, 100)
	p.exec(t, pool, "UPDATE {records} SET expires_at = '2020-01-01 00:00:00.000001Z' WHERE key LIKE '0:planted%'")
	p.exec(t, pool, "UPDATE {records} SET state = 9 WHERE key LIKE '0:planted 1_'")                                 // ten that cannot be read
	p.exec(t, pool, "UPDATE {records} SET expires_at = '2020-01-01 00:00:00.000002Z' WHERE key LIKE '0:planted _'") // nine an instant later
	last := int64(0)
	res, err := b.Purge(t.Context(), &driver.PurgeParams{Batch: 4, Progress: func(sum int64) {
		require.LessOrEqual(t, sum-last, int64(4))
		last = sum
	}})
	require.NoError(t, err)
	require.Equal(t, int64(90), res.Purged)
	require.Equal(t, int64(90), last)
	require.Equal(t, int64(10), p.planted(t, pool), "what cannot be read stays")
}

// C40: a step that the server ends for its length is followed by smaller ones. The
// trigger makes each removal take 5 ms, so that 300 exceed the limit and some do
// not, on any machine.
func TestStepsThatTakeTooLongShrink(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	p.plantEnded(t, pool, 300)
	slow := pgx.Identifier{p.schema, "slow"}.Sanitize()
	p.exec(t, pool, "CREATE FUNCTION "+slow+"() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.005); RETURN OLD; END'")
	p.exec(t, pool, "CREATE TRIGGER slow BEFORE DELETE ON {records} FOR EACH ROW EXECUTE FUNCTION "+slow+"()")
	limited := p.pool(t, func(c *poolConfig) { c.ConnConfig.RuntimeParams["statement_timeout"] = "1000" })
	steps := 0
	res, err := p.backend(t, limited).Purge(t.Context(), &driver.PurgeParams{Batch: 300, Progress: func(int64) { steps++ }})
	require.NoError(t, err)
	require.Equal(t, int64(300), res.Purged)
	require.Greater(t, steps, 1)
	require.Zero(t, p.planted(t, pool))
}

// A purge goes on while a transaction holds one of the records, for as long as
// that takes, and leaves that one alone; so do claims, of other keys and of the
// one that was held.
func TestAPurgeNeitherWaitsForAClaimNorBlocksOne(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	b := p.backend(t, pool)
	p.plantEnded(t, pool, 50)
	claim := func(key string) *driver.ClaimResult {
		res, err := b.Claim(t.Context(), &driver.ClaimParams{Key: key, Owner: driver.Owner{1}, Lease: time.Hour, Retention: time.Hour, Take: driver.TakeAbsent})
		require.NoError(t, err)
		return res
	}
	unblock := p.block(t, p.pool(t, conns(1)), "0:planted 25")
	res, err := b.Purge(t.Context(), &driver.PurgeParams{Batch: 10, Progress: func(sum int64) {
		require.Equal(t, driver.Acquired, claim(fmt.Sprint("beside step ", sum)).Fact)
	}})
	require.NoError(t, err)
	require.Equal(t, int64(49), res.Purged)
	require.Equal(t, int64(1), p.planted(t, pool))
	unblock()
	require.Equal(t, driver.Acquired, claim("0:planted 25").Fact, "its retention had ended")
	res, err = b.Purge(t.Context(), &driver.PurgeParams{})
	require.NoError(t, err)
	require.Zero(t, res.Purged, "it is claimed anew")
	require.Equal(t, int64(1), p.planted(t, pool))
}

// The first step is not waited for, and each later one for a second's share.
func TestAPurgeKeepsToItsRate(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	p.plantEnded(t, pool, 60)
	began, steps := time.Now(), 0
	res, err := p.backend(t, pool).Purge(t.Context(), &driver.PurgeParams{Rate: 100, Progress: func(int64) { steps++ }})
	require.NoError(t, err)
	require.Equal(t, int64(60), res.Purged)
	require.GreaterOrEqual(t, time.Since(began), 500*time.Millisecond)
	require.GreaterOrEqual(t, steps, 6, "of a tenth of a second's records")
}

func TestAPurgeRefusesWhatIsNotPossible(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	p.plantEnded(t, pool, 1)
	for want, params := range map[string]driver.PurgeParams{
		"batch of -1": {Batch: -1}, "rate of -1": {Rate: -1}, "unknown after -1ns": {UnknownAfter: -1},
	} {
		res, err := p.backend(t, pool).Purge(t.Context(), &params)
		require.ErrorContains(t, err, want)
		require.Zero(t, res.Purged)
	}
	require.Equal(t, int64(1), p.planted(t, pool))
}

func TestTheViewTellsWhatIsThere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	s := storeOver(t, p.backend(t, pool), nil)
	_, err := s.Execute(t.Context(), "a", plain("four"))
	require.NoError(t, err)
	_, err = s.Execute(t.Context(), "b", func(context.Context) (idem.Result, error) { return idem.Result{}, idem.Permanent(errDeclined) })
	require.ErrorIs(t, err, errDeclined)
	_, err = s.Execute(t.Context(), "c", func(context.Context) (idem.Result, error) { return idem.Result{}, idem.Unknown(errDeclined) })
	require.ErrorIs(t, err, errDeclined)
	_, err = s.Claim(t.Context(), "d", time.Hour)
	require.NoError(t, err)
	p.plant(t, pool, join("a"), 2, "format = 1")
	p.exec(t, pool, "UPDATE {records} SET state = 9 WHERE key = '0:planted 1'")
	p.exec(t, pool, "UPDATE {records} SET expires_at = now() WHERE key = '0:planted 2'")
	require.Equal(t, "claimed 1, expired 1, failed 1, succeeded 1, unknown 1, unreadable 1",
		value[string](t, p, pool, "SELECT string_agg(state || ' ' || records, ', ' ORDER BY state) FROM "+p.stats()))
	require.Equal(t, int64(4), value[int64](t, p, pool, "SELECT outcome_bytes::bigint FROM "+p.stats()+" WHERE state = 'succeeded'"))
	require.Equal(t, int64(1), value[int64](t, p, pool, "SELECT held FROM "+p.stats()+" WHERE state = 'unknown'"))
}
