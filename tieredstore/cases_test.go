package tieredstore_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/tieredstore"
)

// C22: two processes, one of which loses its fast tier, still ask one authority.
func TestC22ALostFastTierIsNoSecondAuthority(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		a := newBench(t, nil, nil)
		var cut faults
		b := storeOver(t, over(t, faultstore.NewCache(a.cache, cut.ask), a.archive, nil), nil)
		cut.set(down())
		_, err := a.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
			_, err := b.Execute(ctx, "k", a.op)
			require.ErrorIs(t, err, idem.ErrInProgress)
			return a.op(ctx)
		})
		require.NoError(t, err)
		require.EqualValues(t, 1, a.runs.Load())

		a.fastFault.set(down()) // an outage for both
		require.Equal(t, "2", string(a.execute(t, "k2").Value))
		a.fastFault.set(nil) // back, with what it had before
		cut.set(nil)
		time.Sleep(time.Second)
		for _, s := range []*idem.Store{a.store, b} {
			res, err := s.Execute(t.Context(), "k2", a.op)
			require.NoError(t, err)
			require.True(t, res.Replayed)
		}
		empty := storeOver(t, over(t, memstore.NewCache(nil), a.archive, nil), nil) // restored empty
		res, err := empty.Execute(t.Context(), "k2", a.op)
		require.NoError(t, err)
		require.True(t, res.Replayed)
		require.EqualValues(t, 2, a.runs.Load())
	})
}

// C41: a reader has read "in progress" from the archive, and is held while the
// owner completes the key in both tiers; the copy is there, or evicted, when the
// reader goes on.
func TestC41ASlowReaderPutsNoOldStateBack(t *testing.T) {
	t.Parallel()
	for _, evicted := range []bool{false, true} {
		t.Run(fmt.Sprintf("evicted: %v", evicted), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				b := newBench(t, nil, nil)
				goOn, read := make(chan struct{}), make(chan error, 1)
				_, err := b.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
					b.archiveFault.set(faultstore.At(faultstore.Claim, 2, faultstore.Fault{After: faultstore.PauseUntil(goOn)}))
					reader := storeOver(t, b.tiers, &idem.Options{StoreTimeout: time.Hour})
					go func() {
						_, err := reader.Execute(context.WithoutCancel(ctx), "k", b.op)
						read <- err
					}()
					synctest.Wait()
					return b.op(ctx)
				})
				require.NoError(t, err)
				if evicted {
					require.NoError(t, b.cache.Delete(t.Context(), driver.JoinKey("", "k"), 0))
				}
				close(goOn)
				require.ErrorIs(t, <-read, idem.ErrInProgress)
				if c := b.copyOf(t, "k"); evicted {
					require.Nil(t, c)
				} else {
					require.Equal(t, driver.Succeeded, c.State)
				}
				b.replays(t, "k", "1", "after the slow reader")
				require.Equal(t, driver.Succeeded, b.copyOf(t, "k").State)
				require.EqualValues(t, 1, b.runs.Load())
			})
		})
	}
}

// C65: the retention of 60 s counts from completion, 30 s after the start, in the
// archive alone and in tiers, swept or not; replays do not move its end.
func TestC65TiersEndARecordWhenTheArchiveDoes(t *testing.T) {
	t.Parallel()
	tiers := func(window time.Duration) func(t *testing.T) driver.Backend {
		return func(t *testing.T) driver.Backend {
			t.Helper()
			return over(t, memory(), memstore.New(nil), &tieredstore.Options{Window: window})
		}
	}
	for name, open := range map[string]func(t *testing.T) driver.Backend{
		"archive":                 func(*testing.T) driver.Backend { return memstore.New(nil) },
		"tiers, long window":      tiers(time.Hour),
		"tiers, short window":     tiers(20 * time.Second),
		"tiers, window as record": tiers(time.Minute),
		"three tiers": func(t *testing.T) driver.Backend {
			t.Helper()
			return over(t, memory(), tiers(20*time.Second)(t), &tieredstore.Options{Window: 7 * time.Second})
		},
	} {
		for _, sweep := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, swept: %v", name, sweep), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(t *testing.T) { sameFourAnswers(t, open(t), sweep) })
			})
		}
	}
}

func sameFourAnswers(t *testing.T, backend driver.Backend, sweep bool) {
	t.Helper()
	var b bench
	b.store = storeOver(t, backend, &idem.Options{Retention: time.Minute, RetryWindow: time.Minute})
	began := time.Now()
	_, err := b.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
		time.Sleep(30 * time.Second)
		return b.op(ctx)
	})
	require.NoError(t, err)
	for _, at := range []int{59, 61, 89, 91} {
		time.Sleep(time.Until(began.Add(time.Duration(at) * time.Second)))
		if purger, ok := driver.As[driver.Purger](backend); sweep && ok {
			_, err := purger.Purge(t.Context(), &driver.PurgeParams{})
			require.NoError(t, err)
		}
		require.Equal(t, at < 90, b.execute(t, "k").Replayed, "%d s after the start", at)
	}
}

// C40: the clean-up goes in batches beside calls for live keys, is cancelled
// half-way, goes on, and runs twice at once.
func TestC40APurgeOfTheArchiveLeavesTheTiersRight(t *testing.T) {
	t.Parallel()
	const expired, live = 2000, 50
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		for i := range expired {
			b.execute(t, fmt.Sprint("old", i), idem.WithRetention(25*time.Hour))
		}
		time.Sleep(25 * time.Hour)
		b.runs.Store(0)
		b.fill(t, live)
		purger, ok := driver.As[driver.Purger](b.tiers)
		require.True(t, ok)
		ctx, cancel := context.WithCancel(t.Context())
		res, err := purger.Purge(ctx, &driver.PurgeParams{Batch: 100, Progress: func(n int64) {
			if n >= expired/2 {
				cancel()
			}
		}})
		require.ErrorIs(t, err, context.Canceled)
		require.GreaterOrEqual(t, res.Purged, int64(expired/2))
		b.allReplay(t, live, "half-way")
		done := make(chan int64, 2)
		for range 2 {
			go func() {
				res, err := purger.Purge(t.Context(), &driver.PurgeParams{Batch: 100, Progress: func(int64) { b.allReplay(t, live, "beside a purge") }})
				if err == nil {
					done <- res.Purged
				}
			}()
		}
		require.Positive(t, <-done+<-done)
		lister, ok := driver.As[driver.Lister](b.tiers)
		require.True(t, ok)
		left, err := lister.List(t.Context(), &driver.ListParams{Limit: expired})
		require.NoError(t, err)
		require.Len(t, left.Records, live)
		require.False(t, b.execute(t, "old7").Replayed, "absent, in both tiers")
	})
}
