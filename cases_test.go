package idem_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
)

// The tests of this file are cases from the field: things that went wrong for
// people who run such code in production.

// C01: what happens after the effect is not tied to the caller's cancellation.
func TestAnOutcomeIsRecordedAlthoughTheCallerHasLeft(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		synctestWorld(t, w.name, func(t *testing.T) { // (a)
			world := newWorld(t, nil, nil)
			ctx, cancel := context.WithCancel(t.Context())
			res, err := w.call(ctx, world.store, "k", func(context.Context) (idem.Result, error) {
				cancel()
				return idem.Result{Value: []byte("7")}, nil
			})
			require.NoError(t, err)
			require.Equal(t, "7", string(res.Value))
			res, err = w.call(t.Context(), world.store, "k", forbidden(t))
			require.NoError(t, err)
			require.Equal(t, "7", string(res.Value))
			require.True(t, res.Replayed)
		})
	}
}

// C01 (b): the release neither.
func TestAKeyIsReleasedAlthoughTheCallerHasLeft(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		for _, err := range []error{errBoom, idem.NotApplied(errNothing)} {
			synctestWorld(t, w.name+"/"+err.Error(), func(t *testing.T) {
				world := newWorld(t, nil, nil)
				ctx, cancel := context.WithCancel(t.Context())
				n := 0
				_, got := w.call(ctx, world.store, "k", func(context.Context) (idem.Result, error) {
					n++
					cancel()
					return idem.Result{}, err
				})
				require.ErrorIs(t, got, err)
				_, got = w.call(t.Context(), world.store, "k", counted(&n, returns("7")))
				require.NoError(t, got, "well before the lease would have lapsed")
				require.Equal(t, 2, n)
			})
		}
	}
}

// C01 (d): the bookkeeping has its own bound.
func TestABackendThatAnswersNothingAnyMoreDoesNotHoldTheCallerForEver(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		op   idem.Op
		opts *idem.Options
		want time.Duration
		err  error
	}{
		{"result", returns("7"), nil, 5 * time.Second, idem.ErrNotRecorded},
		{"result, own bound", returns("7"), &idem.Options{RecordTimeout: time.Minute}, time.Minute, idem.ErrNotRecorded},
		{"error", fails(errBoom), nil, 5 * time.Second, errBoom},
		{"permanent error", fails(idem.Permanent(errPermanent)), nil, 5 * time.Second, idem.ErrNotRecorded},
		{"unknown", fails(idem.Unknown(errUnknown)), nil, 5 * time.Second, idem.ErrNotRecorded},
	} {
		synctestWorld(t, tc.name, func(t *testing.T) {
			silent := faultstore.Fault{Before: faultstore.PauseUntil(nil)}
			w := newWorld(t, faultstore.First(faultstore.At(faultstore.Complete, 0, silent), faultstore.At(faultstore.Release, 0, silent)), tc.opts)
			line := newTimeline()
			_, err := w.store.Execute(t.Context(), "k", tc.op)
			require.ErrorIs(t, err, tc.err)
			require.LessOrEqual(t, line.now(), tc.want)
			require.Greater(t, line.now(), tc.want-time.Second, "the time is used")
		})
	}
}

// C02: write paths are fenced by owner and token.
func TestAStalledHolderDoesNotOverwriteItsSuccessor(t *testing.T) {
	t.Parallel()
	blocked := faultstore.Fail(faultstore.Renew, 0, errDown)
	opts := &idem.Options{Lease: 300 * time.Millisecond}
	for name, aFails := range map[string]bool{"A returns a value": false, "A returns an error": true} {
		for when, bTakes := range map[string]time.Duration{"after B completed": 100 * time.Millisecond, "while B runs": time.Second} {
			synctestWorld(t, name+" "+when, func(t *testing.T) {
				a := newWorld(t, blocked, opts)
				b, c := a.process(t, opts), a.process(t, opts)
				var tokenA, tokenB uint64
				doneA := a.execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
					claim, _ := idem.ClaimFrom(ctx)
					tokenA = claim.Token()
					time.Sleep(800 * time.Millisecond)
					if aFails {
						return idem.Result{}, errBoom
					}
					return idem.Result{Value: []byte("A")}, nil
				})
				time.Sleep(400 * time.Millisecond)
				doneB := b.execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
					claim, _ := idem.ClaimFrom(ctx)
					tokenB = claim.Token()
					time.Sleep(bTakes)
					return idem.Result{Value: []byte("B")}, nil
				})
				endA := <-doneA
				require.ErrorIs(t, endA.err, idem.ErrLeaseLost)
				require.Empty(t, endA.res.Value)
				require.Equal(t, aFails, errors.Is(endA.err, errBoom))
				if bTakes > 400*time.Millisecond {
					time.Sleep(50 * time.Millisecond) // between two renewals of B
					left := b.record(t, "k").LeaseLeft
					_, err := c.store.Execute(t.Context(), "k", forbidden(t))
					require.ErrorIs(t, err, idem.ErrInProgress, "B's claim survives")
					renewal, ok := a.faults.Nth(faultstore.Renew, 1) // C02 case 3: A's delayed heartbeat
					require.True(t, ok)
					_, err = a.faults.Replay(t.Context(), renewal)
					require.ErrorIs(t, err, driver.ErrLeaseLost)
					require.Equal(t, left, b.record(t, "k").LeaseLeft, "B's deadline is unchanged")
				}
				require.NoError(t, (<-doneB).err)
				require.Greater(t, tokenB, tokenA)
				for _, w := range []*world{a, b, c} {
					res, err := w.store.Execute(t.Context(), "k", forbidden(t))
					require.NoError(t, err)
					require.Equal(t, "B", string(res.Value))
					require.Equal(t, tokenB, res.Token)
				}
			})
		}
	}
}

// C05 (a): a completion that fails once is repeated.
func TestACompletionThatFailsOnceIsRepeated(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]faultstore.Hook{
		"not applied":  faultstore.Fail(faultstore.Complete, 1, errDown),
		"reply lost":   faultstore.Lose(faultstore.Complete, 1), // C10 (b), C14
		"twice lost":   faultstore.First(faultstore.Lose(faultstore.Complete, 1), faultstore.Lose(faultstore.Complete, 2)),
		"timeout":      faultstore.At(faultstore.Complete, 1, faultstore.Fault{Before: faultstore.PauseUntil(nil)}),
		"late timeout": faultstore.At(faultstore.Complete, 1, faultstore.Fault{After: faultstore.PauseUntil(nil)}),
		"refused":      faultstore.Fail(faultstore.Complete, 1, driver.ErrUnavailable),
		"sent twice":   faultstore.Duplicate(faultstore.Complete, 1),
	} {
		for _, w := range ways() {
			synctestWorld(t, name+"/"+w.name, func(t *testing.T) {
				world := newWorld(t, hook, nil)
				n := 0
				res, err := w.call(t.Context(), world.store, "k", counted(&n, returns("7")))
				require.NoError(t, err)
				require.Equal(t, "7", string(res.Value))
				res, err = w.call(t.Context(), world.store, "k", counted(&n, returns("8")))
				require.NoError(t, err)
				require.Equal(t, "7", string(res.Value))
				require.True(t, res.Replayed)
				require.Equal(t, 1, n)
			})
		}
	}
}

// C05 (b): the failure of the completion is no failure of the operation. The
// rows "succeeds but cannot be recorded" of ends_test.go have the rest.
func TestAnOutcomeThatIsNotRecordedIsNeverASilentFreshRun(t *testing.T) {
	t.Parallel()
	for _, p := range policies()[:2] {
		synctestWorld(t, p.name, func(t *testing.T) {
			w := newWorld(t, faultstore.Fail(faultstore.Complete, 0, errDown), nil)
			n := 0
			res, err := w.store.Execute(t.Context(), "k", counted(&n, returns("7")), p.opts...)
			require.ErrorIs(t, err, idem.ErrNotRecorded)
			require.NotErrorIs(t, err, idem.ErrUnavailable, "that would say: not run")
			require.Equal(t, "7", string(res.Value))
			require.Zero(t, w.faults.Count(faultstore.Release), "the record is not deleted")
			left := w.record(t, "k").LeaseLeft
			time.Sleep(left - time.Nanosecond)
			_, err = w.store.Execute(t.Context(), "k", counted(&n, returns("8")), p.opts...)
			require.ErrorIs(t, err, idem.ErrInProgress)
			require.Equal(t, 1, n)
			time.Sleep(time.Nanosecond)
			_, err = w.process(t, nil).store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
				c, _ := idem.ClaimFrom(ctx)
				require.True(t, c.Takeover())
				n++
				return idem.Result{}, nil
			}, p.opts...)
			if p.strict {
				require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
				require.Equal(t, 1, n)
			} else {
				require.NoError(t, err)
				require.Equal(t, 2, n)
			}
		})
	}
}

// C08: a rejected duplicate frees nothing.
func TestARejectedDuplicateLeavesTheRecordAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newWorld(t, nil, nil)
		b := a.process(t, nil)
		n := 0
		done := a.execute(t.Context(), "k", counted(&n, takes(500*time.Millisecond, "1")), fingerprint("F1"))
		time.Sleep(50 * time.Millisecond)
		before := a.record(t, "k")
		for _, w := range []*world{a, b} {
			for _, v := range ways() {
				_, err := v.call(t.Context(), w.store, "k", forbidden(t), fingerprint("F1"))
				require.ErrorIs(t, err, idem.ErrInProgress)
				_, err = v.call(t.Context(), w.store, "k", forbidden(t), fingerprint("F2"))
				require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
			}
		}
		require.Equal(t, before, a.record(t, "k"))
		require.NoError(t, (<-done).err)

		before = a.record(t, "k")
		for _, w := range []*world{a, b} {
			for _, v := range ways() {
				_, err := v.call(t.Context(), w.store, "k", forbidden(t), fingerprint("F2"))
				require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
				res, err := v.call(t.Context(), w.store, "k", forbidden(t), fingerprint("F1"))
				require.NoError(t, err)
				require.Equal(t, "1", string(res.Value))
			}
		}
		require.Equal(t, before, a.record(t, "k"))
		require.Zero(t, b.faults.Count(faultstore.Release)+b.faults.Count(faultstore.Complete))
		require.Equal(t, 1, n)
	})
}

// C11: without the explicit option nothing runs unprotected.
func TestWithTheStoreDownNothingRuns(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		synctestWorld(t, w.name, func(t *testing.T) {
			world := newWorld(t, faultstore.Fail("", 0, errDown), nil)
			for range 2 {
				_, err := w.call(t.Context(), world.store, "k", forbidden(t))
				require.ErrorIs(t, err, idem.ErrUnavailable)
				require.ErrorIs(t, err, errDown)
				require.Equal(t, idem.EffectNotRun, infoOf(t, err).Effect)
			}
		})
	}
}

// C13: a crash neither wedges the key for the retention nor re-runs it silently.
func TestAKilledProcessBlocksTheKeyForItsLeaseOnly(t *testing.T) {
	t.Parallel()
	for _, w := range ways()[:2] {
		for _, p := range policies()[:2] {
			synctestWorld(t, w.name+"/"+p.name, func(t *testing.T) {
				dies := end{op: op(obeys()), dies: true}
				opts := append([]idem.ExecuteOption{idem.WithLease(time.Second)}, p.opts...)
				parent, _ := dies.happen(t, w, policy{opts: opts})
				token := parent.record(t, "k").Token
				time.Sleep(200 * time.Millisecond)
				_, err := w.call(t.Context(), parent.store, "k", forbidden(t), opts...)
				var busy *idem.InProgressError
				require.ErrorAs(t, err, &busy)
				require.Positive(t, busy.RetryAfter)
				require.LessOrEqual(t, busy.RetryAfter, 800*time.Millisecond)
				require.Equal(t, 800*time.Millisecond, busy.LeaseLeft)
				time.Sleep(1300 * time.Millisecond)
				n := 0
				_, err = w.call(t.Context(), parent.store, "k", func(ctx context.Context) (idem.Result, error) {
					c, _ := idem.ClaimFrom(ctx)
					require.True(t, c.Takeover())
					require.Equal(t, 2, c.Attempt())
					require.Greater(t, c.Token(), token)
					n++
					return idem.Result{Value: []byte("1")}, nil
				}, opts...)
				if p.strict {
					require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
					require.Zero(t, n)
					return
				}
				require.NoError(t, err)
				require.Equal(t, 1, n)
			})
		}
	}
}

// C17: another process settles the key under a running operation.
func TestARunningOperationIsToldThatItsKeyIsGone(t *testing.T) {
	t.Parallel()
	for name, obeys := range map[string]bool{"and obeys": true, "and does not care": false} {
		synctestWorld(t, name, func(t *testing.T) {
			w := newWorld(t, nil, &idem.Options{Lease: 3 * time.Second})
			var told time.Duration
			done := w.execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
				began := time.Now()
				select {
				case <-ctx.Done():
					told = time.Since(began)
					require.ErrorIs(t, context.Cause(ctx), idem.ErrLeaseLost)
					if obeys {
						return idem.Result{}, ctx.Err()
					}
				case <-time.After(5 * time.Second):
				}
				return idem.Result{Value: []byte("mine")}, nil
			})
			time.Sleep(200 * time.Millisecond)
			claim, ok := w.faults.Nth(faultstore.Claim, 1) // the record is released behind its back
			require.True(t, ok)
			releaseByOwner(t, w, claim)
			before := w.record(t, "k")
			end := <-done
			require.Equal(t, time.Second, told, "within one renewal")
			require.ErrorIs(t, end.err, idem.ErrLeaseLost)
			require.Empty(t, end.res.Value)
			after := w.record(t, "k")
			require.Equal(t, before.State, after.State)
			require.Equal(t, before.Token, after.Token)
		})
	}
}

// C55: settlement is in a path that runs for every kind of exit.
func TestAPanicOrGoexitLeavesTheKeySettled(t *testing.T) {
	t.Parallel()
	goexit := errors.New("goexit")
	for name, tc := range map[string]struct {
		exit func()
		want any
	}{
		"panic of a string":       {func() { panic("x") }, "x"},
		"panic of an error":       {func() { panic(errBoom) }, errBoom},
		"panic of nil":            {func() { panic(nil) }, (*runtime.PanicNilError)(nil)}, //nolint:govet // on purpose
		"http.ErrAbortHandler":    {func() { panic(http.ErrAbortHandler) }, http.ErrAbortHandler},
		"Goexit":                  {runtime.Goexit, goexit},
		"panic of Permanent":      {func() { panic(idem.Permanent(errPermanent)) }, nil},
		"panic of NotApplied":     {func() { panic(idem.NotApplied(errNothing)) }, nil},
		"panic in a nested panic": {func() { defer func() { panic("y") }(); panic("x") }, "y"},
	} {
		for _, w := range ways()[:2] {
			for _, p := range policies()[:2] {
				synctestWorld(t, fmt.Sprintf("%s/%s/%s", name, w.name, p.name), func(t *testing.T) {
					world := newWorld(t, nil, nil)
					before := goroutines(t)
					end := <-start(func() (idem.Result, error) {
						return w.call(t.Context(), world.store, "k", func(context.Context) (idem.Result, error) {
							time.Sleep(25 * time.Second) // the lease is being renewed
							tc.exit()
							return idem.Result{}, nil
						}, p.opts...)
					})
					switch want := tc.want.(type) {
					case nil:
						require.NotNil(t, end.panicked)
					case *runtime.PanicNilError:
						require.IsType(t, want, end.panicked)
					default:
						require.Equal(t, want == any(goexit), end.exited)
						if !end.exited {
							require.Equal(t, want, end.panicked)
						}
					}
					synctest.Wait()
					require.Equal(t, before, goroutines(t), "the renewals have ended")
					rec := world.record(t, "k")
					require.True(t, rec.Doubt, "a panic never records or denies")
					require.Equal(t, p.strict, rec.Held)

					_, err := w.call(t.Context(), world.store, "k", returns("1"), p.opts...)
					if p.strict {
						require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
					} else {
						require.NoError(t, err)
					}
				})
			}
		}
	}
}

// releaseByOwner releases the claim that a call made, behind its owner's back.
func releaseByOwner(t *testing.T, w *world, c faultstore.Call) {
	t.Helper()
	ref := driver.Ref{Key: c.Key, Owner: c.Owner}
	require.NoError(t, w.memory.Release(t.Context(), ref, &driver.ReleaseParams{Retention: time.Hour}))
}
