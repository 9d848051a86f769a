package tieredstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/tieredstore"
)

// fill executes n keys once each.
func (b *bench) fill(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		b.execute(t, fmt.Sprint("k", i))
	}
}

// allReplay asserts that each of the n keys that fill has executed is replayed.
func (b *bench) allReplay(t *testing.T, n int, when string) {
	t.Helper()
	for i := range n {
		b.replays(t, fmt.Sprint("k", i), fmt.Sprint(i+1), when)
	}
	require.EqualValues(t, n, b.runs.Load(), when)
}

// Each fault of the fast tier costs time, and never a run or an outcome.
func TestWhateverTheFastTierDoesIsAMiss(t *testing.T) {
	t.Parallel()
	const n = 20
	for name, fault := range map[string]faultstore.Hook{
		"down":                      down(),
		"its replies are lost":      faultstore.Lose("", 0),
		"its error is of no type":   faultstore.Fail("", 0, faultstore.Odd("odd")),
		"it says that it is full":   faultstore.Fail("", 0, driver.ErrUnavailable),
		"it says it cannot read":    faultstore.Fail(faultstore.Get, 0, driver.ErrCorrupt),
		"it cannot hold the key":    faultstore.Fail("", 0, driver.ErrInvalidKey),
		"it hangs":                  faultstore.At("", 0, faultstore.Fault{Before: faultstore.PauseUntil(nil)}),
		"it is late":                faultstore.At("", 0, faultstore.Fault{After: faultstore.Delay(time.Hour)}),
		"reads fail":                faultstore.Fail(faultstore.Get, 0, errDown),
		"puts fail":                 faultstore.Fail(faultstore.Put, 0, errDown),
		"each call arrives twice":   faultstore.Duplicate("", 0),
		"reads fail, replies later": faultstore.First(faultstore.Fail(faultstore.Get, 0, errDown), faultstore.Lose(faultstore.Put, 0)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				b := newBench(t, nil, nil)
				b.fastFault.set(fault)
				b.fill(t, n)
				b.allReplay(t, n, "during the fault")
				b.fastFault.set(nil)
				time.Sleep(time.Second)
				b.allReplay(t, n, "when it is over")
				b.allReplay(t, n, "again")
				require.Equal(t, calls{gets: 1}, b.during(func() { b.replays(t, "k3", "4", "and the tier is used again") }))
			})
		})
	}
}

func TestACallCostsAtMostTheFastTiersBound(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, &tieredstore.Options{FastTimeout: 50 * time.Millisecond}, nil)
		b.fastFault.set(faultstore.At("", 0, faultstore.Fault{Before: faultstore.PauseUntil(nil)}))
		took := func() time.Duration {
			began := time.Now()
			b.execute(t, "k")
			return time.Since(began)
		}
		require.Equal(t, 100*time.Millisecond, took(), "a read and a put")
		require.Equal(t, 50*time.Millisecond, took(), "the third failure")
		for range 1000 {
			require.Zero(t, took(), "the breaker is open")
		}
	})
}

// C22: a fast tier that never answers, before callers who have less time than it may
// take: the archive gets its share, and the breaker learns of it. Callers who have
// next to nothing left are no judges of it.
func TestAHungFastTierLeavesTheArchiveItsShare(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		deadline, store time.Duration
		opens           bool
	}{
		"callers with 80 ms":       {80 * time.Millisecond, 0, true},
		"StoreTimeout is as short": {time.Hour, 100 * time.Millisecond, true},
		"callers with 10 ms":       {10 * time.Millisecond, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				b := newBench(t, nil, &idem.Options{StoreTimeout: tc.store})
				b.execute(t, "k")
				b.fastFault.set(faultstore.At("", 0, faultstore.Fault{Before: faultstore.PauseUntil(nil)}))
				for range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), tc.deadline)
					res, err := b.store.Execute(ctx, "k", b.op)
					cancel()
					require.NoError(t, err)
					require.True(t, res.Replayed)
				}
				require.Equal(t, tc.opens, b.tiers.Stats().Fast.Skipped > 0, "the breaker is open")
			})
		})
	}
}

func TestADeadFastTierCostsOneCallASecond(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.fastFault.set(down())
		seen := b.during(func() {
			for range 100_0 {
				b.execute(t, "k")
				time.Sleep(10 * time.Millisecond)
			}
		})
		require.LessOrEqual(t, seen.gets+seen.puts, 3+10)
		require.GreaterOrEqual(t, seen.gets+seen.puts, 3+9, "it is tried again")
		require.EqualValues(t, 1, b.runs.Load())
	})
}

func TestTheBreakerClosesWithTheFirstAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.fastFault.set(down())
		b.fill(t, 3)
		b.fastFault.set(nil)
		require.Zero(t, b.during(func() { b.execute(t, "k0") }).gets, "the breaker is open")
		time.Sleep(time.Second)
		b.execute(t, "k0")
		for range 5 {
			require.Equal(t, 1, b.during(func() { b.execute(t, "k0") }).gets)
		}
	})
}

// One caller that gives up is no failure of the tier.
func TestCallersWhoGiveUpDoNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.execute(t, "k")
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			b.fastFault.set(faultstore.At(faultstore.Get, 0, faultstore.Fault{Before: faultstore.Cut(cancel)}))
			_, err := b.store.Execute(ctx, "k", b.op)
			require.ErrorIs(t, err, context.Canceled)
		}
		b.fastFault.set(nil)
		require.Equal(t, calls{gets: 1}, b.during(func() { b.replays(t, "k", "1", "afterwards") }))
	})
}

// What a fast tier may return that is no copy of the key's completed record.
func TestGarbageInTheFastTierIsAMiss(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(r *driver.Record){
		"another key's":        func(r *driver.Record) { r.Key = "0:other" },
		"not completed":        func(r *driver.Record) { r.State = driver.Claimed },
		"released":             func(r *driver.Record) { r.State = driver.Released },
		"no state":             func(r *driver.Record) { r.State = 0 },
		"an unknown state":     func(r *driver.Record) { r.State = 77 },
		"a later format":       func(r *driver.Record) { r.Format = driver.FormatVersion + 1 },
		"no token":             func(r *driver.Record) { r.Token = 0 },
		"an unknown body":      func(r *driver.Record) { r.Outcome.Body = 99 },
		"failed and succeeded": func(r *driver.Record) { r.Outcome.Failed = true },
		"over":                 func(r *driver.Record) { r.RetentionLeft = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				archive := memstore.New(nil)
				fast := &spoiling{Cache: memstore.NewCache(nil), spoil: spoil}
				s := storeOver(t, over(t, fast, archive, nil), nil)
				var b bench
				for range 3 {
					res, err := s.Execute(t.Context(), "k", b.op)
					require.NoError(t, err)
					require.Equal(t, "1", string(res.Value))
				}
				require.EqualValues(t, 1, b.runs.Load())
			})
		})
	}
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		s := storeOver(t, over(t, nothing{memstore.NewCache(nil)}, memstore.New(nil), nil), nil)
		var b bench
		for range 3 {
			res, err := s.Execute(t.Context(), "k", b.op)
			require.NoError(t, err)
			require.Equal(t, "1", string(res.Value))
		}
	})
}

// spoiling returns spoilt copies.
type spoiling struct {
	driver.Cache
	spoil func(r *driver.Record)
}

func (s *spoiling) Get(ctx context.Context, key string) (*driver.Record, error) {
	rec, err := s.Cache.Get(ctx, key)
	if err == nil {
		s.spoil(rec)
	}
	return rec, err
}

// nothing answers without a record and without an error.
type nothing struct{ driver.Cache }

func (nothing) Get(context.Context, string) (*driver.Record, error) { return nil, nil } //nolint:nilnil // the fault

func TestAFastTierThatEvictsCostsNothingButTime(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		cache := memstore.NewCache(&memstore.CacheOptions{MaxBytes: 4 << 10})
		var b bench
		b.store = storeOver(t, over(t, cache, memstore.New(nil), nil), nil)
		b.fill(t, 100)
		b.allReplay(t, 100, "evicting")
		require.Positive(t, cache.Stat().Evictions)
		require.Less(t, cache.Stat().Records, int64(100))
	})
}

func TestAFastTierThatWasFlushedIsFilledAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.fill(t, 10)
		for i := range 10 {
			require.NoError(t, b.cache.Delete(t.Context(), driver.JoinKey("", fmt.Sprint("k", i)), 0))
		}
		b.allReplay(t, 10, "flushed")
		require.Equal(t, calls{gets: 10}, b.during(func() { b.allReplay(t, 10, "filled again") }))
	})
}

// The archive is down: what has a copy is replayed, nothing else runs, and
// nothing is claimed anywhere.
func TestWhileTheArchiveIsDownReplaysInsideTheWindowGoOn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.fill(t, 10)
		b.archiveFault.set(down())
		b.allReplay(t, 10, "the archive is down")
		seen := b.during(func() {
			for range 3 {
				_, err := b.store.Execute(t.Context(), "new", b.op)
				require.ErrorIs(t, err, idem.ErrUnavailable)
				require.ErrorIs(t, err, errDown)
			}
		})
		require.Zero(t, seen.puts)
		require.Nil(t, b.copyOf(t, "new"))
		require.EqualValues(t, 10, b.runs.Load())

		open := storeOver(t, b.tiers, &idem.Options{FailOpen: true})
		res, err := open.Execute(t.Context(), "new", b.op)
		require.NoError(t, err)
		require.True(t, res.Unprotected, "chosen, and told")
		require.Nil(t, b.copyOf(t, "new"))

		b.archiveFault.set(nil)
		require.False(t, b.execute(t, "new").Replayed)
		require.EqualValues(t, 12, b.runs.Load())
		b.replays(t, "new", "12", "the archive is back")
	})
}

// An operation that was running when the archive went down ends as without tiers.
func TestAnOutcomeThatTheArchiveDidNotTakeIsNotInTheFastTier(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		res, err := b.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
			b.archiveFault.set(down())
			return b.op(ctx)
		})
		require.ErrorIs(t, err, idem.ErrNotRecorded)
		require.Equal(t, "1", string(res.Value))
		require.Nil(t, b.copyOf(t, "k"))
	})
}

// The read that fetches the copy may fail, be late, or find another state: the
// call has succeeded all the same, within its bound.
func TestTheReadBackIsNobodysError(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faultstore.Hook{
		"fails": faultstore.Fail(faultstore.Inspect, 0, errDown),
		"hangs": faultstore.At(faultstore.Inspect, 0, faultstore.Fault{Before: faultstore.PauseUntil(nil)}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				b := newBench(t, nil, nil)
				b.archiveFault.set(fault)
				began := time.Now()
				b.execute(t, "k")
				require.LessOrEqual(t, time.Since(began), 100*time.Millisecond)
				require.Nil(t, b.copyOf(t, "k"))
				b.replays(t, "k", "1", "from the archive")
				require.NotNil(t, b.copyOf(t, "k"))
			})
		})
	}
}

// checked is an archive whose Check says what check says.
type checked struct {
	driver.Backend
	check func() error
}

func (c checked) Check(context.Context) error { return c.check() }

func TestAProcessThatStartsWhileTheArchiveIsDownReplaysAndChecksLater(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.execute(t, "k")
		says := errDown
		asked := 0
		archive := checked{b.archive, func() error { asked++; return says }}
		s := storeOver(t, over(t, b.fast, archive, nil), nil)
		res, err := s.Execute(t.Context(), "k", b.op)
		require.NoError(t, err, "a replay needs no archive")
		require.True(t, res.Replayed)
		_, err = s.Execute(t.Context(), "new", b.op)
		require.ErrorIs(t, err, idem.ErrUnavailable)

		says = &driver.Finding{Severity: driver.Refuse, Code: "read_only", Remedy: "name the primary"}
		_, err = s.Execute(t.Context(), "new", b.op)
		require.ErrorContains(t, err, "read_only", "refused before the first claim that reaches it")
		require.EqualValues(t, 1, b.runs.Load())

		says = nil
		for i := range 3 {
			_, err = s.Execute(t.Context(), fmt.Sprint("new", i), b.op)
			require.NoError(t, err)
		}
		require.Equal(t, 4, asked, "and then not again")
	})
}

func TestCheckTellsOfBothTiers(t *testing.T) {
	t.Parallel()
	refused := &driver.Finding{Severity: driver.Refuse, Code: "read_only", Remedy: "name the primary"}
	warned := &driver.Finding{Severity: driver.Warn, Code: "async", Remedy: "wait"}
	archive := func(err error) driver.Backend { return checked{memstore.New(nil), func() error { return err }} }
	check := func(fast, slow error) error {
		return over(t, checkedCache{memstore.NewCache(nil), fast}, archive(slow), nil).Check(t.Context())
	}
	require.NoError(t, check(nil, nil))
	require.True(t, driver.OnlyWarnings(check(warned, warned)))
	require.True(t, driver.OnlyWarnings(check(refused, nil)), "the fast tier decides nothing")
	require.True(t, driver.OnlyWarnings(check(errDown, nil)))
	require.True(t, driver.OnlyWarnings(check(nil, errDown)), "replays need no archive")
	require.False(t, driver.OnlyWarnings(check(nil, refused)))
	require.False(t, driver.OnlyWarnings(check(warned, errors.Join(warned, refused))))
	require.ErrorContains(t, check(errDown, nil), errDown.Error())
	require.ErrorContains(t, check(nil, errDown), errDown.Error())
}

type checkedCache struct {
	driver.Cache
	err error
}

func (c checkedCache) Check(context.Context) error { return c.err }
