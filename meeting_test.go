package idem_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
)

// The tests of this file are about calls of one Store that meet in the process;
// those of wait_test.go about calls that wait.

func TestADuplicateOfWhatRunsHereAsksTheBackendNothing(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		synctestWorld(t, w.name, func(t *testing.T) {
			world := newWorld(t, nil, nil)
			done := start(func() (idem.Result, error) {
				return w.call(t.Context(), world.store, "k", takes(8*time.Hour, `"1"`), idem.WithMaxRun(9*time.Hour), idem.WithLease(9*time.Hour))
			})
			synctest.Wait()
			for range 100 {
				time.Sleep(time.Minute)
				_, err := world.store.Execute(t.Context(), "k", forbidden(t))
				require.ErrorIs(t, err, idem.ErrInProgress)
				_, err = world.store.Claim(t.Context(), "k", lease)
				require.ErrorIs(t, err, idem.ErrInProgress)
			}
			require.Equal(t, 1, world.faults.Count(faultstore.Claim))
			require.NoError(t, (<-done).err)
			res, err := world.store.Execute(t.Context(), "k", forbidden(t))
			require.NoError(t, err)
			require.True(t, res.Replayed)
		})
	}
}

func TestADuplicateOfAnotherRequestIsAMismatchWithoutAsking(t *testing.T) {
	t.Parallel()
	old, other := idem.FingerprintKey{ID: "old", Key: make([]byte, 16)}, idem.FingerprintKey{ID: "new", Key: make([]byte, 32)}
	for name, keys := range map[string][]idem.FingerprintKey{"plain": nil, "keyed": {old}, "rotated": {other, old}} {
		synctestWorld(t, name, func(t *testing.T) {
			w := newWorld(t, nil, &idem.Options{FingerprintKeys: keys})
			done := w.execute(t.Context(), "k", takes(time.Second, "1"), fingerprint("a"))
			synctest.Wait()
			for range 3 {
				_, err := w.store.Execute(t.Context(), "k", forbidden(t), fingerprint("b"))
				require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
				_, err = w.store.Execute(t.Context(), "k", forbidden(t), fingerprint("b"), idem.WithWait(time.Hour))
				require.ErrorIs(t, err, idem.ErrFingerprintMismatch, "and does not wait")
				_, err = w.store.Execute(t.Context(), "k", forbidden(t), fingerprint("a"))
				require.ErrorIs(t, err, idem.ErrInProgress)
				_, err = w.store.Execute(t.Context(), "k", forbidden(t))
				require.ErrorIs(t, err, idem.ErrInProgress, "no fingerprint compares equal")
			}
			require.Equal(t, 1, w.faults.Count(""))
			require.NoError(t, (<-done).err)
		})
	}
}

// What runs without a fingerprint here may be anything.
func TestADuplicateOfAnUnnamedRequestIsInProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		done := w.execute(t.Context(), "k", takes(time.Second, "1"))
		synctest.Wait()
		_, err := w.store.Execute(t.Context(), "k", forbidden(t), fingerprint("b"))
		require.ErrorIs(t, err, idem.ErrInProgress)
		require.NoError(t, (<-done).err)
	})
}

// A key that is already running in this very context is in progress at once,
// even with WithWait: the call would wait for itself.
func TestANestedCallForTheSameKeyIsInProgressAtOnce(t *testing.T) {
	t.Parallel()
	wait := idem.WithWait(time.Hour)
	for _, w := range ways() {
		for name, under := range map[string]func(ctx context.Context, s *idem.Store, inner func(ctx context.Context)){
			"directly": func(ctx context.Context, _ *idem.Store, inner func(ctx context.Context)) { inner(ctx) },
			"in a derived context": func(ctx context.Context, _ *idem.Store, inner func(ctx context.Context)) {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				inner(ctx)
			},
			"without the cancellation": func(ctx context.Context, _ *idem.Store, inner func(ctx context.Context)) {
				inner(context.WithoutCancel(ctx))
			},
			"in a goroutine": func(ctx context.Context, _ *idem.Store, inner func(ctx context.Context)) {
				<-start(func() (idem.Result, error) { inner(ctx); return idem.Result{}, nil })
			},
			"under another key": func(ctx context.Context, s *idem.Store, inner func(ctx context.Context)) {
				_, _ = s.Execute(ctx, "other", func(ctx context.Context) (idem.Result, error) {
					inner(ctx)
					return idem.Result{}, nil
				})
			},
			"under a claim of another key": func(ctx context.Context, s *idem.Store, inner func(ctx context.Context)) {
				c, err := s.Claim(ctx, "other", lease)
				if err == nil {
					ctx, cancel := c.Context(ctx)
					defer cancel()
					inner(ctx)
				}
			},
			"under a claim that was made outside": func(ctx context.Context, s *idem.Store, inner func(ctx context.Context)) {
				c, err := s.Claim(context.WithoutCancel(t.Context()), "other", lease)
				if err == nil {
					ctx, cancel := c.Context(ctx)
					defer cancel()
					inner(ctx)
				}
			},
		} {
			synctestWorld(t, w.name+"/"+name, func(t *testing.T) {
				world := newWorld(t, nil, nil)
				line := newTimeline()
				asked := 0
				_, err := w.call(t.Context(), world.store, "k", func(ctx context.Context) (idem.Result, error) {
					time.Sleep(2 * time.Second)
					under(ctx, world.store, func(ctx context.Context) {
						asked++
						calls := world.faults.Count("")
						_, err := w.call(ctx, world.store, "k", forbidden(t), wait)
						var busy *idem.InProgressError
						require.ErrorAs(t, err, &busy)
						require.Equal(t, 2*time.Second, busy.RetryAfter, "of the claim that runs")
						require.Equal(t, lease-margin-2*time.Second, busy.LeaseLeft)
						require.Equal(t, 1, infoOf(t, err).Attempt)
						require.Equal(t, calls, world.faults.Count(""))
					})
					return idem.Result{Value: []byte("1")}, nil
				})
				require.NoError(t, err)
				require.Equal(t, 1, asked)
				require.Equal(t, 2*time.Second, line.now(), "nobody waited")
			})
		}
	}
}

// A recovery runs under the claim too.
func TestANestedCallInARecoveryIsInProgressAtOnce(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		synctestWorld(t, w.name, func(t *testing.T) {
			world := newWorld(t, nil, nil)
			_, err := world.store.Execute(t.Context(), "k", fails(errBoom))
			require.ErrorIs(t, err, errBoom)
			_, err = w.call(t.Context(), world.store, "k", forbidden(t), idem.WithRecover(
				func(ctx context.Context, c *idem.Claim) (idem.Recovery, error) {
					from, ok := idem.ClaimFrom(ctx)
					require.True(t, ok)
					require.Same(t, c, from)
					_, err := world.store.Execute(ctx, "k", forbidden(t), idem.WithWait(time.Hour))
					require.ErrorIs(t, err, idem.ErrInProgress)
					return idem.Recovered(idem.Result{Value: []byte(`"r"`)}), nil
				}))
			require.NoError(t, err)
		})
	}
}

// I9: keys are independent, and so are namespaces and Stores.
func TestOnlyCallsForTheSameKeyMeet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, &idem.Options{Namespace: "a"})
	b := w.process(t, &idem.Options{Namespace: "b"})
	ran := 0
	_, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
		for _, call := range []struct {
			s   *idem.Store
			key string
		}{{w.store, "k2"}, {w.store, "K"}, {w.store, "k "}, {b.store, "k"}, {w.store, "b1:k"}} {
			_, err := call.s.Execute(ctx, call.key, counted(&ran, returns("1")))
			require.NoError(t, err)
		}
		return idem.Result{}, nil
	})
	require.NoError(t, err)
	require.Equal(t, 5, ran)
}

// An entry answers only within its trust window: after it, somebody else may
// hold the key, and the backend is asked.
func TestAnEntryAnswersOnlyWithinItsTrustWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.Fail(faultstore.Renew, 0, errDown), nil)
		done := w.execute(t.Context(), "k", takes(time.Hour, "stale"))
		time.Sleep(lease - margin - time.Nanosecond)
		_, err := w.store.Execute(t.Context(), "k", forbidden(t))
		require.ErrorIs(t, err, idem.ErrInProgress)
		require.Equal(t, 1, w.faults.Count(faultstore.Claim))
		time.Sleep(time.Nanosecond)
		_, err = w.store.Execute(t.Context(), "k", forbidden(t))
		var busy *idem.InProgressError
		require.ErrorAs(t, err, &busy)
		require.Equal(t, margin, busy.LeaseLeft, "the backend's word")
		require.Equal(t, 2, w.faults.Count(faultstore.Claim))
		time.Sleep(margin)
		res, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
			c, _ := idem.ClaimFrom(ctx)
			require.True(t, c.Takeover())
			return idem.Result{Value: []byte("fresh")}, nil
		})
		require.NoError(t, err)
		require.Equal(t, "fresh", string(res.Value))
		require.ErrorIs(t, (<-done).err, idem.ErrLeaseLost)
		require.Equal(t, "fresh", string(w.record(t, "k").Outcome.Value))
	})
}

// The same while the outcome is being written: nobody watches the lease then.
func TestAnEntryThatIsBeingRecordedAnswersOnlyWithinItsTrustWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.First(
			faultstore.Fail(faultstore.Renew, 0, errDown),
			faultstore.At(faultstore.Complete, 1, faultstore.Fault{Before: faultstore.PauseUntil(nil)})), nil)
		done := w.execute(t.Context(), "k", takes(lease-2*margin, "stale"))
		time.Sleep(lease)
		require.Equal(t, 1, w.faults.Count(faultstore.Complete), "it is under way")
		res, err := w.store.Execute(t.Context(), "k", returns("fresh"))
		require.NoError(t, err)
		require.Equal(t, "fresh", string(res.Value))
		require.ErrorIs(t, (<-done).err, idem.ErrLeaseLost)
	})
}

// A renewal whose answer comes late, when somebody else has taken over in this
// process, hides nothing: those who wait for the successor are woken by it.
func TestALateRenewalDoesNotHideItsSuccessor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := faultstore.At(faultstore.Renew, 1, faultstore.Fault{After: faultstore.Delay(1900 * time.Millisecond)})
		w := newWorld(t, slow, &idem.Options{Lease: time.Second})
		stale, err := w.store.Claim(t.Context(), "k", time.Second)
		require.NoError(t, err)
		time.Sleep(950 * time.Millisecond) // the trust window has ended
		renewed := start(func() (idem.Result, error) { return idem.Result{}, stale.Renew(t.Context()) })
		time.Sleep(time.Second) // the renewed lease has ended too
		line := newTimeline()
		fresh := w.execute(t.Context(), "k", takes(5*time.Second, "fresh"))
		synctest.Wait()
		waits := w.execute(t.Context(), "k", forbidden(t), idem.WithWait(time.Hour))
		<-renewed
		synctest.Wait()
		require.Zero(t, stale.Remaining())
		require.Equal(t, 2, w.faults.Count(faultstore.Claim), "the successor runs here: the backend is asked nothing")
		end := <-waits
		require.NoError(t, end.err)
		require.Equal(t, "fresh", string(end.res.Value))
		require.Equal(t, 5*time.Second, line.now(), "as soon as it is recorded")
		require.NoError(t, (<-fresh).err)
		w.requireKinds(t, idem.EventLeaseLost, idem.EventTakeover, idem.EventExecuted, idem.EventReplayed)
	})
}

// A claim that its caller forgets blocks this process no longer than others.
func TestAForgottenClaimIsForgottenWhenItsLeaseEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		_, err := w.store.Claim(t.Context(), "k", lease)
		require.NoError(t, err)
		_, err = w.store.Execute(t.Context(), "k", forbidden(t))
		require.ErrorIs(t, err, idem.ErrInProgress)
		time.Sleep(lease)
		_, err = w.store.Execute(t.Context(), "k", returns("1"))
		require.NoError(t, err)
	})
}

// Each kind of end leaves the process free for the next call.
func TestNothingIsLeftOfACallThatEnded(t *testing.T) {
	t.Parallel()
	eachEnd(t, func(t *testing.T, e end, w way, p policy) {
		world, _ := e.happen(t, w, p)
		if e.dies || e.hook != nil {
			return // the claim stands: see next_test.go
		}
		calls := world.faults.Count(faultstore.Claim)
		_, err := world.store.Claim(t.Context(), "k", lease)
		require.NotErrorIs(t, err, idem.ErrInProgress)
		require.Equal(t, calls+1, world.faults.Count(faultstore.Claim))
	})
}

// C28: at most one unexpired claim per key, whoever asks and how.
func TestOfManyOverlappingCallsExactlyOneRuns(t *testing.T) {
	t.Parallel()
	prepare := map[string]func(t *testing.T, w *world){
		"no record": func(*testing.T, *world) {},
		"an abandoned claim": func(t *testing.T, w *world) {
			_, err := w.store.Claim(t.Context(), "k", lease)
			require.NoError(t, err)
			time.Sleep(lease)
		},
		"an expired outcome": func(t *testing.T, w *world) {
			_, err := w.store.Execute(t.Context(), "k", returns("old"))
			require.NoError(t, err)
			time.Sleep(aDay)
		},
		"a released key": func(t *testing.T, w *world) {
			_, err := w.store.Execute(t.Context(), "k", fails(errBoom))
			require.ErrorIs(t, err, errBoom)
		},
	}
	for name, before := range prepare {
		synctestWorld(t, name, func(t *testing.T) {
			a := newWorld(t, nil, nil)
			before(t, a)
			b := a.process(t, nil)
			ran := make(chan struct{}, 50)
			op := func(context.Context) (idem.Result, error) {
				ran <- struct{}{}
				time.Sleep(200 * time.Millisecond)
				return idem.Result{Value: []byte("new")}, nil
			}
			var done []<-chan ending
			for i := range 50 {
				w := a
				if i%2 == 1 {
					w = b
				}
				done = append(done, w.execute(t.Context(), "k", op))
			}
			won := 0
			for _, d := range done {
				switch end := <-d; {
				case end.err == nil && !end.res.Replayed:
					won++
				case end.err != nil:
					require.ErrorIs(t, end.err, idem.ErrInProgress)
				default:
					require.Equal(t, "new", string(end.res.Value))
				}
			}
			require.Equal(t, 1, won)
			require.Len(t, ran, 1)
			require.Equal(t, driver.Succeeded, a.record(t, "k").State)
		})
	}
}

// C07: two Stores without any option, 100 overlapping calls on each of many keys.
func TestWithoutAnyOptionExactlyOneCallRunsPerKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newWorld(t, nil, nil)
		b := a.process(t, nil)
		keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		runs := make(chan string, 1000)
		var done []<-chan ending
		for i := range 100 {
			for _, key := range keys {
				w := a
				if i%2 == 1 {
					w = b
				}
				done = append(done, w.execute(t.Context(), key, func(context.Context) (idem.Result, error) {
					runs <- key
					time.Sleep(time.Minute)
					return idem.Result{}, nil
				}))
			}
		}
		for _, d := range done {
			end := <-d
			if end.err != nil {
				require.ErrorIs(t, end.err, idem.ErrInProgress)
			}
		}
		require.Len(t, runs, len(keys))
	})
}
