package redisstore_test

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/redisstore"
)

const day = 24 * time.Hour

// lifetime is what the server says is left of a record's name.
func lifetime(t *testing.T, rdb redis.UniversalClient, b *redisstore.Backend, key string) time.Duration {
	t.Helper()
	left, err := rdb.PTTL(t.Context(), b.RedisKey(key)).Result()
	require.NoError(t, err)
	require.Positive(t, left, "a record without an end")
	return left
}

// C53: each step that writes sets the lifetime with it.
func TestNoRecordIsEverWithoutAnEnd(t *testing.T) {
	t.Parallel()
	rdb := shared(t)
	b := open(t, rdb)
	ctx := t.Context()
	about := func(want time.Duration, key string) {
		t.Helper()
		left := lifetime(t, rdb, b, key)
		require.LessOrEqual(t, left, want+time.Millisecond)
		require.Greater(t, left, want-time.Minute)
	}
	ref := acquire(t, b, "k", lease(time.Hour), keeping(day))
	about(time.Hour+90*day, "k") // after the lease the outcome is unknown, and that is kept
	require.NoError(t, b.Renew(ctx, ref, &driver.RenewParams{Lease: 2 * time.Hour, Retention: 100 * day}))
	about(2*time.Hour+100*day, "k")
	require.NoError(t, b.Annotate(ctx, ref, &driver.AnnotateParams{NotExecuted: true}))
	about(2*time.Hour+100*day, "k")
	_, err := b.Watch(ctx, "k")
	require.NoError(t, err)
	about(2*time.Hour+100*day, "k")
	require.NoError(t, b.Release(ctx, ref, &driver.ReleaseParams{Retention: 3 * day}))
	about(3*day, "k")
	ref = acquire(t, b, "k", lease(time.Hour), keeping(day))
	about(time.Hour+90*day, "k")
	require.NoError(t, b.Release(ctx, ref, &driver.ReleaseParams{Held: true, Retention: day}))
	about(90*day, "k")
	ref = acquire(t, b, "k", lease(time.Hour), keeping(day))
	require.NoError(t, b.Complete(ctx, ref, &driver.CompleteParams{Outcome: success("7"), Retention: 5 * day}))
	about(5*day, "k")
	require.NoError(t, b.Redact(ctx, "k", &driver.EditParams{Token: ref.Token}))
	about(5*day, "k")
	require.NoError(t, b.Reset(ctx, "k", &driver.EditParams{Token: ref.Token, Retention: 2 * day}))
	about(2*day, "k")
}

// C53: fractions count, and nothing is zero, negative or too large for the
// server.
func TestDurationsAtTheirEdges(t *testing.T) {
	t.Parallel()
	rdb := shared(t)
	b := open(t, rdb)
	ref := acquire(t, b, "k")
	asked := time.Now()
	require.NoError(t, b.Complete(t.Context(), ref, &driver.CompleteParams{Outcome: success("7"), Retention: 1500 * time.Millisecond}))
	left := lifetime(t, rdb, b, "k")
	require.LessOrEqual(t, left, 1500*time.Millisecond)
	require.Greater(t, left, 1499*time.Millisecond-time.Since(asked))

	for _, d := range []time.Duration{1, time.Microsecond, 999 * time.Microsecond, time.Millisecond} {
		key := d.String()
		ref := acquire(t, b, key)
		require.NoError(t, b.Complete(t.Context(), ref, &driver.CompleteParams{Outcome: success("7"), Retention: d}))
		require.Eventually(t, func() bool {
			_, err := b.Inspect(t.Context(), key)
			return errors.Is(err, driver.ErrNotFound)
		}, 10*time.Second, time.Millisecond)
		acquire(t, b, key)
	}
	const longest = time.Duration(1<<63 - 1)
	ref = acquire(t, b, "long", lease(longest), keeping(longest))
	require.NoError(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: longest, Retention: longest}))
	require.NoError(t, b.Annotate(t.Context(), ref, &driver.AnnotateParams{NotExecuted: true}))
	wants(t, b, driver.InProgress, params("long"))
	require.NoError(t, b.Complete(t.Context(), ref, &driver.CompleteParams{Outcome: success("7"), Retention: longest}))
	require.Greater(t, wants(t, b, driver.Completed, params("long")).RetentionLeft, 99*365*day)

	for _, d := range []time.Duration{0, -1, -time.Hour} {
		_, err := b.Claim(t.Context(), params("bad", lease(d)))
		require.ErrorContains(t, err, "shorter than 1ms")
		_, err = b.Claim(t.Context(), params("bad", keeping(d)))
		require.ErrorContains(t, err, "not positive")
		require.Error(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: d, Retention: kept}))
		require.Error(t, b.Complete(t.Context(), ref, &driver.CompleteParams{Retention: d}))
		require.Error(t, b.Release(t.Context(), ref, &driver.ReleaseParams{Retention: d}))
		require.Error(t, b.Reset(t.Context(), "long", &driver.EditParams{Retention: d}))
	}
	_, err := b.Claim(t.Context(), params("bad", lease(999*time.Microsecond)))
	require.Error(t, err)
	_, err = b.Inspect(t.Context(), "bad")
	require.ErrorIs(t, err, driver.ErrNotFound)
}

// C07: a claim whose deadline is missing or zero is no claim that has ended.
func TestAMissingDeadlineIsNotAnEndedOne(t *testing.T) {
	t.Parallel()
	rdb := shared(t)
	h := &harness{prefix: prefix(), dial: func(testing.TB) redis.UniversalClient { return rdb }}
	b := open(t, rdb, func(o *redisstore.Options) { o.Prefix = h.prefix })
	s, n := store(t, b), 0
	for i, kind := range []any{8, 7, nil} { // zero, missing, text
		key := driver.JoinKey("", strconv.Itoa(i))
		ref := acquire(t, b, key)
		raw := h.raw(t, b, key)
		switch kind {
		case 8:
			clear(raw[atSettled : atSettled+8])
		case 7:
			raw = append(raw[:atSettled], raw[atSettled+8:]...)
		default:
			raw = []byte(`{"state":"claimed"}`)
		}
		require.NoError(t, rdb.Set(t.Context(), b.RedisKey(key), raw, time.Hour).Err())
		for range 3 {
			_, err := s.Execute(t.Context(), strconv.Itoa(i), counted(&n))
			require.ErrorIs(t, err, idem.ErrCorrupt)
		}
		require.ErrorIs(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: time.Hour, Retention: kept}), driver.ErrCorrupt)
		require.Equal(t, raw, h.raw(t, b, key))
	}
	require.Zero(t, n)
}

// C07, C28: callers without any lease of their own, all at once: one runs.
func TestOverlappingCallsRunOnce(t *testing.T) {
	t.Parallel()
	rdb := shared(t)
	b := open(t, rdb)
	one, two := store(t, b), store(t, open(t, rdb, prefixed(b)))
	for round := range 10 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		n := 0
		for i := range 20 {
			wg.Go(func() {
				_, err := []*idem.Store{one, two}[i%2].Execute(t.Context(), fmt.Sprint(round), func(context.Context) (idem.Result, error) {
					mu.Lock()
					defer mu.Unlock()
					n++
					return idem.Result{}, nil
				})
				if err != nil && !errors.Is(err, idem.ErrInProgress) {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, n)
	}
}

// captured remembers what scripts are sent, without the names of the scripts.
type captured struct {
	mu   sync.Mutex
	sent [][]byte
}

func (c *captured) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *captured) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *captured) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			var all []byte
			for _, arg := range cmd.Args()[4:] {
				switch a := arg.(type) {
				case encoding.BinaryMarshaler:
					b, err := a.MarshalBinary()
					if err != nil {
						return err
					}
					all = append(all, b...)
				case []byte:
					all = append(all, a...)
				}
			}
			c.mu.Lock()
			c.sent = append(c.sent, all)
			c.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}

// C37, I7: the client sends durations. What it sends does not depend on when it
// sends it, so its clock can have no say; and what is stored is the server's.
func TestTheClientsClockHasNoSay(t *testing.T) {
	t.Parallel()
	rdb := shared(t)
	look := shared(t)
	var c captured
	rdb.AddHook(&c)
	b := open(t, rdb)
	ref := driver.Ref{Key: "k", Owner: owner()}
	for range 2 {
		c.sent = append(c.sent, nil)
		require.NoError(t, acquired(t.Context(), b, ref))
		before, err := look.Time(t.Context()).Result()
		require.NoError(t, err)
		rec, err := b.Inspect(t.Context(), "k")
		require.NoError(t, err)
		require.Less(t, rec.ClaimedAt.Sub(before).Abs(), time.Minute)
		require.EqualValues(t, rec.ClaimedAt.UnixMicro(), rec.Token, "of a first claim")
		at := driver.Ref{Key: "k", Owner: ref.Owner, Token: 1} // of nobody: refused, and the same each time
		require.ErrorIs(t, b.Renew(t.Context(), at, &driver.RenewParams{Lease: time.Hour, Retention: kept}), driver.ErrLeaseLost)
		require.ErrorIs(t, b.Annotate(t.Context(), at, &driver.AnnotateParams{NotExecuted: true, Audit: &driver.Audit{By: "olga", At: time.Now()}}), driver.ErrLeaseLost)
		require.ErrorIs(t, b.Complete(t.Context(), at, &driver.CompleteParams{Outcome: success("7"), Retention: kept}), driver.ErrLeaseLost)
		require.ErrorIs(t, b.Release(t.Context(), at, &driver.ReleaseParams{Retention: kept}), driver.ErrLeaseLost)
		require.ErrorIs(t, b.Reset(t.Context(), "k", &driver.EditParams{Token: 1, Retention: kept, Audit: driver.Audit{At: time.Now()}}), driver.ErrConflict)
		require.NoError(t, look.Del(t.Context(), b.RedisKey("k")).Err())
	}
	half := len(c.sent) / 2
	require.Equal(t, c.sent[:half], c.sent[half:])
	require.Equal(t, 8, half)
}

// C37: a takeover comes a lease after the last renewal, by the server's clock.
func TestATakeoverComesALeaseAfterTheLastRenewal(t *testing.T) {
	t.Parallel()
	b := open(t, shared(t))
	const length = 300 * time.Millisecond
	ref := acquire(t, b, "k", lease(length))
	var last *driver.Record
	for range 5 {
		require.NoError(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: length, Retention: kept}))
		rec, err := b.Inspect(t.Context(), "k")
		require.NoError(t, err)
		last = rec
	}
	renewed := last.ClaimedAt.Add(last.ClaimAge).Add(last.LeaseLeft - length) // the server's time of the last renewal
	var taken *driver.Record
	require.Eventually(t, func() bool {
		res, err := b.Claim(t.Context(), params("k"))
		require.NoError(t, err)
		taken = &res.Record
		return res.Fact == driver.TakenOver
	}, 20*time.Second, 5*time.Millisecond)
	require.GreaterOrEqual(t, taken.ClaimedAt.Sub(renewed), length-time.Millisecond)
}

// C65, with a second for a tenth of one: a retention of 60 s, an operation of
// 30 s, looked at 59, 61, 89 and 91 s after the start. On a machine that is too
// slow to look in time, once more with longer seconds.
func TestRetentionCountsFromCompletion(t *testing.T) {
	t.Parallel()
	b := open(t, shared(t))
	for second := 100 * time.Millisecond; !retentionCounts(t, b, second); second *= 2 {
		require.Less(t, second, 2*time.Second)
	}
}

// retentionCounts reports false if this machine was too slow to tell.
func retentionCounts(t *testing.T, b *redisstore.Backend, second time.Duration) bool {
	t.Helper()
	s, n := store(t, b, func(o *idem.Options) { o.Retention, o.RetryWindow = 60*second, second }), 0
	key := second.String()
	began := time.Now()
	at := func(d time.Duration) {
		t.Helper()
		timer := time.NewTimer(time.Until(began.Add(d)))
		defer timer.Stop()
		<-timer.C
	}
	var ran time.Duration
	_, err := s.Execute(t.Context(), key, func(ctx context.Context) (idem.Result, error) {
		at(30 * second)
		ran = time.Since(began)
		return counted(&n)(ctx)
	})
	require.NoError(t, err)
	completed := time.Since(began)
	for _, d := range []time.Duration{59, 61, 89} {
		at(d * second)
		res, err := s.Execute(t.Context(), key, counted(&n))
		require.NoError(t, err)
		if time.Since(began) > ran+60*second {
			return false // it may have ended, counted from the completion
		}
		require.True(t, res.Replayed, "%d s after the start", d)
	}
	at(completed + 61*second)
	_, err = b.Inspect(t.Context(), driver.JoinKey("", key))
	require.ErrorIs(t, err, driver.ErrNotFound)
	res, err := s.Execute(t.Context(), key, counted(&n))
	require.NoError(t, err)
	require.False(t, res.Replayed)
	require.Equal(t, 2, n)
	return true
}

// C31: an owner completes as its lease ends, while two others try to take over.
// Whoever wins, the others see it.
func TestATakeoverNeverOverwritesAFreshOutcome(t *testing.T) {
	t.Parallel()
	rdb := shared(t)
	b := open(t, rdb)
	other := open(t, rdb, prefixed(b))
	completed, takenOver := 0, 0
	for i := 0; i < 300 || completed == 0 || takenOver == 0; i++ {
		require.Less(t, i, 100_000, "one side always wins")
		key := strconv.Itoa(i)
		ref := acquire(t, b, key, lease(time.Millisecond))
		var wg sync.WaitGroup
		var mu sync.Mutex
		var winners []driver.Ref
		var failed error
		wg.Go(func() {
			failed = b.Complete(t.Context(), ref, &driver.CompleteParams{Outcome: success("A"), Retention: kept})
		})
		for range 2 {
			wg.Go(func() {
				p := params(key)
				res, err := other.Claim(t.Context(), p)
				if err != nil {
					t.Error(err)
					return
				}
				if res.Fact == driver.TakenOver {
					mu.Lock()
					defer mu.Unlock()
					winners = append(winners, driver.Ref{Key: key, Owner: p.Owner, Token: res.Record.Token})
				}
			})
		}
		wg.Wait()
		rec, err := b.Inspect(t.Context(), key)
		require.NoError(t, err)
		if failed == nil {
			completed++
			require.Empty(t, winners)
			require.Equal(t, "A", string(rec.Outcome.Value))
			continue
		}
		takenOver++
		require.ErrorIs(t, failed, driver.ErrLeaseLost)
		require.Len(t, winners, 1)
		require.Equal(t, winners[0].Token, rec.Token)
		require.Equal(t, driver.Claimed, rec.State)
	}
}
