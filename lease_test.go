package idem_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
)

// timeline notes when each call of a backend was made.
type timeline struct {
	began time.Time
	mu    sync.Mutex // guards at
	at    map[string][]time.Duration
}

func newTimeline() *timeline { return &timeline{began: time.Now(), at: map[string][]time.Duration{}} }

// over notes the calls and leaves the faults to another hook.
func (l *timeline) over(hook faultstore.Hook) faultstore.Hook {
	return func(ctx context.Context, c faultstore.Call) faultstore.Fault {
		l.mu.Lock()
		l.at[c.Method] = append(l.at[c.Method], time.Since(l.began))
		l.mu.Unlock()
		if hook == nil {
			return faultstore.Fault{}
		}
		return hook(ctx, c)
	}
}

func (l *timeline) of(method string) []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]time.Duration{}, l.at[method]...)
}

func (l *timeline) now() time.Duration { return time.Since(l.began) }

// goroutines counts those of the bubble that the caller is in.
func goroutines(tb testing.TB) int {
	tb.Helper()
	own := make([]byte, 256)
	first, _, _ := strings.Cut(string(own[:runtime.Stack(own, false)]), "\n")
	_, bubble, ok := strings.Cut(first, "synctest bubble ")
	require.True(tb, ok, "%s", first)
	for size := 1 << 20; ; size *= 2 { // until the stacks of all tests fit
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size {
			return bytes.Count(buf[:n], []byte("synctest bubble "+bubble))
		}
	}
}

// C16: bookkeeping takes nothing while the operation runs: no call is under way,
// no goroutine exists, before the first renewal is due.
func TestNothingHappensBeforeTheFirstRenewalIsDue(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				world := newWorld(t, nil, nil)
				before := goroutines(t)
				_, err := w.call(t.Context(), world.store, "k", func(context.Context) (idem.Result, error) {
					require.Equal(t, before, goroutines(t))
					time.Sleep(renewEvery - time.Nanosecond)
					require.Equal(t, before, goroutines(t))
					require.Equal(t, 1, world.faults.Count(""), "the claim alone")
					return idem.Result{Value: []byte("1")}, nil
				})
				require.NoError(t, err)
				require.Equal(t, 2, world.faults.Count(""), "and the completion")
				require.Equal(t, 1, world.faults.Count(faultstore.Complete))
				require.Equal(t, before, goroutines(t))
			})
		})
	}
}

// C16: between two renewals no call is under way either.
func TestARenewalIsOneShortCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		before := goroutines(t)
		_, err := w.store.Execute(t.Context(), "k", func(context.Context) (idem.Result, error) {
			for range 20 {
				time.Sleep(renewEvery - time.Nanosecond)
				require.Equal(t, before, goroutines(t))
				for _, e := range w.faults.Log() {
					require.True(t, e.Returned)
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
			}
			return idem.Result{}, nil
		})
		require.NoError(t, err)
		require.Equal(t, 20, w.faults.Count(faultstore.Renew))
	})
}

func TestALeaseIsRenewedAtRenewEvery(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		opts  idem.Options
		call  []idem.ExecuteOption
		lease time.Duration
		every time.Duration
	}{
		{idem.Options{}, nil, lease, renewEvery},
		{idem.Options{Lease: time.Minute}, nil, time.Minute, 20 * time.Second},
		{idem.Options{RenewEvery: 7 * time.Second}, nil, lease, 7 * time.Second},
		{idem.Options{}, []idem.ExecuteOption{idem.WithLease(3 * time.Second)}, 3 * time.Second, time.Second},
		{idem.Options{RenewEvery: time.Second}, []idem.ExecuteOption{idem.WithLease(time.Minute)}, time.Minute, time.Second},
	} {
		t.Run(fmt.Sprintf("%v every %v", tc.lease, tc.every), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				line := newTimeline()
				w := newWorld(t, line.over(nil), &tc.opts)
				_, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
					for i := range 30 {
						time.Sleep(tc.every)
						synctest.Wait()
						require.Equal(t, tc.lease, w.record(t, "k").LeaseLeft, "renewal %d", i+1)
						require.NoError(t, ctx.Err())
					}
					return idem.Result{}, nil
				}, tc.call...)
				require.NoError(t, err)
				var want []time.Duration
				for i := range 30 {
					want = append(want, time.Duration(i+1)*tc.every)
				}
				require.Equal(t, want, line.of(faultstore.Renew))
			})
		})
	}
}

// C01: the operation may need a while to notice that its caller has left; until
// it has returned, the key is its own.
func TestALeaseIsRenewedAlthoughTheCallerHasLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := w.execute(ctx, "k", takes(125*time.Second, "1"))
		synctest.Wait()
		cancel()
		time.Sleep(90 * time.Second)
		_, err := w.process(t, nil).store.Execute(t.Context(), "k", forbidden(t))
		require.ErrorIs(t, err, idem.ErrInProgress)
		require.NoError(t, (<-done).err)
		for _, e := range w.faults.Log() {
			require.NoError(t, e.Err, e.Method)
		}
	})
}

// The renewal's interval counts from when the one before was sent.
func TestASlowRenewalDoesNotShiftTheNextOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		line := newTimeline()
		w := newWorld(t, line.over(faultstore.At(faultstore.Renew, 0, faultstore.Fault{After: faultstore.Delay(1500 * time.Millisecond)})), nil)
		_, err := w.store.Execute(t.Context(), "k", takes(35*time.Second, ""))
		require.NoError(t, err)
		require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}, line.of(faultstore.Renew))
	})
}

func TestAFailedRenewalIsTriedAgainWithinTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		line := newTimeline()
		down := func(_ context.Context, c faultstore.Call) faultstore.Fault {
			if c.Method == faultstore.Renew && line.now() < 25*time.Second {
				return faultstore.Fault{Drop: true, Err: errDown}
			}
			return faultstore.Fault{}
		}
		w := newWorld(t, line.over(down), nil)
		_, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
			time.Sleep(2 * time.Minute)
			require.NoError(t, ctx.Err(), "no renewal is missing")
			return idem.Result{}, nil
		})
		require.NoError(t, err)
		renewals := line.of(faultstore.Renew)
		failed := 0
		for renewals[failed] < 25*time.Second {
			failed++
		}
		require.GreaterOrEqual(t, failed, 3, "several tries fit into what is left of the lease")
		require.LessOrEqual(t, failed, 30, "but not a hot loop of them")
		require.Less(t, renewals[failed], lease-margin)
		for i := failed + 1; i < len(renewals); i++ {
			require.Equal(t, renewEvery, renewals[i]-renewals[i-1])
		}
		kinds := w.events.kinds()
		require.Len(t, kinds, failed+1)
		for _, k := range kinds[:failed] {
			require.Equal(t, idem.EventRenewFailed, k)
		}
	})
}

// A renewal that is under way when the run ends is cancelled, and whatever it
// answers is no news.
func TestARenewalUnderWayEndsWithTheRun(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faultstore.Fault{
		"silent":      {Before: faultstore.PauseUntil(nil)},
		"late":        {After: faultstore.Delay(1500 * time.Millisecond)},
		"late refuse": {After: faultstore.Delay(1500 * time.Millisecond), Err: driver.ErrLeaseLost},
	} {
		synctestWorld(t, name, func(t *testing.T) {
			w := newWorld(t, faultstore.At(faultstore.Renew, 0, fault), nil)
			line := newTimeline()
			_, err := w.store.Execute(t.Context(), "k", takes(renewEvery+time.Second, "1"))
			require.NoError(t, err)
			require.NoError(t, w.store.Close(t.Context()))
			require.Equal(t, renewEvery+time.Second, line.now())
			w.requireKinds(t, idem.EventExecuted)
		})
	}
}

// C17: definite loss cancels the operation with cause ErrLeaseLost, at once.
func TestALostLeaseCancelsTheOperation(t *testing.T) {
	t.Parallel()
	for name, obeys := range map[string]bool{"that obeys its context": true, "that ignores its context": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				line := newTimeline()
				w := newWorld(t, line.over(faultstore.Fail(faultstore.Renew, 2, driver.ErrLeaseLost)), nil)
				res, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
					<-ctx.Done()
					require.Equal(t, 2*renewEvery, line.now())
					require.ErrorIs(t, context.Cause(ctx), idem.ErrLeaseLost)
					require.ErrorIs(t, ctx.Err(), context.Canceled)
					if obeys {
						return idem.Result{}, context.Cause(ctx)
					}
					time.Sleep(time.Hour)
					return idem.Result{Value: []byte("late")}, nil
				})
				require.ErrorIs(t, err, idem.ErrLeaseLost)
				require.Equal(t, idem.Result{}, res)
				require.Equal(t, []int{1, 2, 0, 0}, []int{
					w.faults.Count(faultstore.Claim), w.faults.Count(faultstore.Renew),
					w.faults.Count(faultstore.Complete), w.faults.Count(faultstore.Release),
				}, "nothing is written, nothing more is renewed")
				w.requireKinds(t, idem.EventLeaseLost)
			})
		})
	}
}

// The trust window counts from when the claim, or the renewal, was sent, and
// ends before the lease does, even if Renew hangs for ever and ignores its
// context.
func TestTheTrustWindowEndsBeforeTheLeaseWhateverTheBackendDoes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		hook  func(resume chan struct{}) faultstore.Hook
		lease time.Duration
		want  time.Duration
	}{
		"renewals hang": {func(c chan struct{}) faultstore.Hook {
			return faultstore.At(faultstore.Renew, 0, faultstore.Fault{Before: faultstore.StallUntil(c)})
		}, lease, 29 * time.Second},
		"renewals hang, short lease": {func(c chan struct{}) faultstore.Hook {
			return faultstore.At(faultstore.Renew, 0, faultstore.Fault{Before: faultstore.StallUntil(c)})
		}, 5 * time.Second, 4500 * time.Millisecond},
		"renewals fail": {func(chan struct{}) faultstore.Hook {
			return faultstore.Fail(faultstore.Renew, 0, errDown)
		}, lease, 29 * time.Second},
		"renewals are refused": {func(chan struct{}) faultstore.Hook {
			return faultstore.Fail(faultstore.Renew, 0, driver.ErrUnavailable)
		}, lease, 29 * time.Second},
		"claim was slow": {func(c chan struct{}) faultstore.Hook {
			return faultstore.First(
				faultstore.At(faultstore.Claim, 1, faultstore.Fault{After: faultstore.Delay(1900 * time.Millisecond)}),
				faultstore.At(faultstore.Renew, 0, faultstore.Fault{Before: faultstore.StallUntil(c)}))
		}, lease, 29 * time.Second},
		"one renewal succeeded": {func(c chan struct{}) faultstore.Hook {
			return faultstore.First(
				faultstore.At(faultstore.Renew, 1, faultstore.Fault{After: faultstore.Delay(1900 * time.Millisecond)}),
				faultstore.At(faultstore.Renew, 0, faultstore.Fault{Before: faultstore.StallUntil(c)}))
		}, lease, 39 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				resume := make(chan struct{})
				line := newTimeline()
				w := newWorld(t, tc.hook(resume), &idem.Options{Lease: tc.lease})
				t.Cleanup(func() { close(resume) })
				_, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
					c, _ := idem.ClaimFrom(ctx)
					<-ctx.Done()
					require.Equal(t, tc.want, line.now())
					require.ErrorIs(t, context.Cause(ctx), idem.ErrLeaseLost)
					require.Zero(t, c.Remaining())
					require.Positive(t, w.record(t, "k").LeaseLeft, "the lease has not ended")
					return idem.Result{}, ctx.Err()
				})
				require.ErrorIs(t, err, idem.ErrLeaseLost)
				require.ErrorIs(t, err, context.Canceled, "what the operation said")
			})
		})
	}
}

// Lost and late: when only our own trust window has ended, a result that comes
// back all the same is offered to Complete, and counts if the store still knows
// us as the owner.
func TestALateResultCountsIfNobodyTookOver(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]time.Duration{"before the lease's end": 29500 * time.Millisecond, "after the lease's end": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, faultstore.Fail(faultstore.Renew, 0, errDown), nil)
				res, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
					time.Sleep(late)
					require.ErrorIs(t, context.Cause(ctx), idem.ErrLeaseLost)
					return idem.Result{Value: []byte("late")}, nil
				})
				require.NoError(t, err)
				require.Equal(t, "late", string(res.Value))
				res, err = w.store.Execute(t.Context(), "k", forbidden(t))
				require.NoError(t, err)
				require.True(t, res.Replayed)
				require.Equal(t, "late", string(res.Value))
			})
		})
	}
}

// The same for an error: it is settled as if it were in time.
func TestALateErrorReleasesTheKeyIfNobodyTookOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.Fail(faultstore.Renew, 0, errDown), nil)
		_, err := w.store.Execute(t.Context(), "k", obeys())
		require.ErrorIs(t, err, idem.ErrLeaseLost)
		require.Equal(t, driver.Released, w.record(t, "k").State)
		_, err = w.store.Execute(t.Context(), "k", returns("2"))
		require.NoError(t, err)
	})
}

// A claim whose answer came after the end of its lease is no claim.
func TestAClaimThatTookLongerThanItsLeaseRunsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := faultstore.At(faultstore.Claim, 1, faultstore.Fault{After: faultstore.Delay(950 * time.Millisecond)})
		w := newWorld(t, slow, &idem.Options{Lease: time.Second})
		_, err := w.store.Execute(t.Context(), "k", forbidden(t))
		require.ErrorIs(t, err, idem.ErrUnavailable)
		require.Equal(t, idem.EffectNotRun, infoOf(t, err).Effect)
		synctest.Wait()
		rec := w.record(t, "k")
		require.Equal(t, driver.Released, rec.State, "it is given up")
		require.False(t, rec.Doubt)
		_, err = w.store.Execute(t.Context(), "k", returns("1"))
		require.NoError(t, err)
	})
}

// synctestWorld is a parallel subtest in a bubble.
func synctestWorld(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, f)
	})
}

func TestMaxRunEndsTheOperationAndTheRenewals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		opts idem.Options
		call []idem.ExecuteOption
		want time.Duration
	}{
		{"default", idem.Options{}, nil, maxRun},
		{"of the Store", idem.Options{MaxRun: time.Hour}, nil, time.Hour},
		{"of the call", idem.Options{MaxRun: time.Hour}, []idem.ExecuteOption{idem.WithMaxRun(95 * time.Second)}, 95 * time.Second},
		{"shorter than a renewal", idem.Options{}, []idem.ExecuteOption{idem.WithMaxRun(time.Second)}, time.Second},
	} {
		synctestWorld(t, tc.name, func(t *testing.T) {
			line := newTimeline()
			w := newWorld(t, line.over(nil), &tc.opts)
			hangs := make(chan struct{})
			done := w.execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
				<-ctx.Done()
				require.Equal(t, tc.want, line.now())
				require.ErrorIs(t, context.Cause(ctx), idem.ErrMaxRun)
				<-hangs
				return idem.Result{}, ctx.Err()
			}, tc.call...)

			last := (tc.want - time.Nanosecond) / renewEvery * renewEvery // renewal
			time.Sleep(last + lease - time.Nanosecond)
			other := w.process(t, nil)
			_, err := other.store.Execute(t.Context(), "k", forbidden(t))
			require.ErrorIs(t, err, idem.ErrInProgress, "the lease runs out")
			time.Sleep(time.Nanosecond)
			_, err = other.store.Execute(t.Context(), "k", returns("other"))
			require.NoError(t, err, "a hung operation cannot hold a key for ever")
			other.requireKinds(t, idem.EventInProgress, idem.EventTakeover, idem.EventExecuted)

			close(hangs)
			end := <-done
			require.ErrorIs(t, end.err, idem.ErrLeaseLost, "the store says so")
			require.Len(t, line.of(faultstore.Renew), int(last/renewEvery))
		})
	}
}

func TestAnOperationThatRanTooLongSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		_, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
			<-ctx.Done()
			return idem.Result{}, ctx.Err()
		})
		require.ErrorIs(t, err, idem.ErrMaxRun)
		require.ErrorIs(t, err, context.Canceled)
		require.Contains(t, err.Error(), "15m0s")
		require.True(t, w.record(t, "k").Doubt)

		res, err := w.store.Execute(t.Context(), "k2", takes(maxRun+time.Minute, "late"))
		require.NoError(t, err, "a late result counts")
		require.Equal(t, "late", string(res.Value))
	})
}
