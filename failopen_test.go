package idem_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
)

// C11: with the explicit option the operation runs, and the result says so. The
// claim inside is real enough to use.
func TestFailOpenRunsWithoutAClaimAndSaysSo(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]faultstore.Hook{
		"down":    faultstore.Fail("", 0, errDown),
		"refused": faultstore.Fail("", 0, driver.ErrUnavailable),
		"silent":  faultstore.At("", 0, faultstore.Fault{Before: faultstore.PauseUntil(nil)}),
	} {
		for _, v := range ways()[:2] {
			synctestWorld(t, name+"/"+v.name, func(t *testing.T) {
				w := newWorld(t, hook, &idem.Options{Namespace: "ns", FailOpen: true})
				want := ""
				calls := 0
				res, err := v.call(t.Context(), w.store, "k", func(ctx context.Context) (idem.Result, error) {
					c, ok := idem.ClaimFrom(ctx)
					require.True(t, ok)
					require.Equal(t, "k", c.Key())
					require.Zero(t, c.Token())
					require.True(t, c.Takeover(), "nothing is known")
					want = c.ProviderKey("bank")
					calls = w.faults.Count("")
					require.ErrorIs(t, c.SaveRef(ctx, "bank", "r"), idem.ErrUnavailable)
					require.ErrorIs(t, c.Renew(ctx), idem.ErrUnavailable)
					require.Equal(t, calls, w.faults.Count(""))
					under, cancel := c.Context(ctx)
					defer cancel()
					require.NoError(t, under.Err())
					return idem.Result{Value: []byte("1")}, nil
				})
				require.NoError(t, err)
				require.True(t, res.Unprotected)
				require.Equal(t, "1", string(res.Value))
				require.False(t, res.Replayed)
				require.Zero(t, res.Token)
				w.requireKinds(t, idem.EventUnprotected)

				up := w.process(t, &idem.Options{Namespace: "ns", FailOpen: true})
				res, err = v.call(t.Context(), up.store, "k", func(ctx context.Context) (idem.Result, error) {
					c, _ := idem.ClaimFrom(ctx)
					require.Equal(t, want, c.ProviderKey("bank"), "the provider can deduplicate")
					return idem.Result{Value: []byte("2")}, nil
				})
				require.NoError(t, err)
				require.False(t, res.Unprotected, "the store is up")
			})
		}
	}
}

func TestFailOpenDoesNotApply(t *testing.T) {
	t.Parallel()
	down := faultstore.Fail("", 0, errDown)
	recovers := verdict(idem.NotExecuted())
	for _, tc := range []struct {
		name string
		hook faultstore.Hook
		opts []idem.ExecuteOption
		want error
	}{
		{"under Hold", down, []idem.ExecuteOption{idem.OnUnknown(idem.Hold)}, idem.ErrUnavailable},
		{"with WithRecover", down, []idem.ExecuteOption{recovers}, idem.ErrUnavailable},
		{"after ErrCorrupt", faultstore.Fail(faultstore.Claim, 0, driver.ErrCorrupt), nil, idem.ErrCorrupt},
		{"after a refused key", faultstore.Fail(faultstore.Claim, 0, driver.ErrInvalidKey), nil, idem.ErrInvalidKey},
	} {
		for _, v := range ways()[:2] {
			synctestWorld(t, tc.name+"/"+v.name, func(t *testing.T) {
				w := newWorld(t, tc.hook, &idem.Options{FailOpen: true})
				_, err := v.call(t.Context(), w.store, "k", forbidden(t), tc.opts...)
				require.ErrorIs(t, err, tc.want)
			})
		}
	}
	synctestWorld(t, "under the Store's Hold", func(t *testing.T) {
		w := newWorld(t, down, &idem.Options{FailOpen: true, OnUnknown: idem.Hold})
		_, err := w.store.Execute(t.Context(), "k", forbidden(t))
		require.ErrorIs(t, err, idem.ErrUnavailable)
		_, err = w.store.Execute(t.Context(), "k", returns("1"), idem.OnUnknown(idem.Rerun))
		require.NoError(t, err)
	})
	synctestWorld(t, "to the steps", func(t *testing.T) {
		w := newWorld(t, down, &idem.Options{FailOpen: true})
		c, err := w.store.Claim(t.Context(), "k", lease)
		require.ErrorIs(t, err, idem.ErrUnavailable)
		require.Nil(t, c)
	})
	synctestWorld(t, "when the caller's context has ended", func(t *testing.T) {
		w := newWorld(t, faultstore.At("", 0, faultstore.Fault{Before: faultstore.PauseUntil(nil)}), &idem.Options{FailOpen: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.store.Execute(ctx, "k", forbidden(t))
		require.ErrorIs(t, err, idem.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	synctestWorld(t, "to what is in progress, or another request", func(t *testing.T) {
		w := newWorld(t, nil, &idem.Options{FailOpen: true})
		done := w.process(t, nil).execute(t.Context(), "k", takes(time.Second, "1"), fingerprint("a"))
		synctest.Wait()
		_, err := w.store.Execute(t.Context(), "k", forbidden(t), fingerprint("a"))
		require.ErrorIs(t, err, idem.ErrInProgress)
		_, err = w.store.Execute(t.Context(), "k", forbidden(t), fingerprint("b"))
		require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
		<-done
	})
}

// If a claim may have been applied all the same, its end is written by owner.
func TestAnUnprotectedRunIsRecordedIfItsClaimWasAppliedAllTheSame(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		op    idem.Op
		want  driver.State
		held  bool
		doubt bool
	}{
		{"returns a result", returns(`"v"`), driver.Succeeded, false, false},
		{"returns Permanent", fails(idem.Permanent(errPermanent)), driver.Failed, false, false},
		{"returns Unknown", fails(idem.Unknown(errUnknown)), driver.Unknown, true, true},
		{"returns NotApplied", fails(idem.NotApplied(errNothing)), driver.Released, false, false},
		{"returns any other error", fails(errBoom), driver.Released, false, true},
		{"panics", func(context.Context) (idem.Result, error) { panic("x") }, driver.Released, false, true},
	} {
		for _, v := range ways()[:2] {
			synctestWorld(t, tc.name+"/"+v.name, func(t *testing.T) {
				w := newWorld(t, faultstore.Lose(faultstore.Claim, 0), &idem.Options{FailOpen: true})
				var during driver.State
				end := <-start(func() (idem.Result, error) {
					return v.call(t.Context(), w.store, "k", func(ctx context.Context) (idem.Result, error) {
						during = w.record(t, "k").State
						return tc.op(ctx)
					})
				})
				require.Equal(t, driver.Claimed, during)
				require.True(t, end.panicked != nil || end.res.Unprotected)
				if end.err != nil {
					require.NotErrorIs(t, end.err, idem.ErrUnavailable, "it ran")
				}
				synctest.Wait()
				rec := w.record(t, "k")
				require.Equal(t, tc.want, rec.State)
				require.Equal(t, tc.held, rec.Held)
				require.Equal(t, tc.doubt, rec.Doubt)
				if tc.want == driver.Succeeded {
					res, err := v.call(t.Context(), w.process(t, nil).store, "k", forbidden(t))
					require.NoError(t, err)
					require.Equal(t, `"v"`, string(res.Value))
				}
			})
		}
	}
}

// Nothing is written for a claim that certainly was not applied, and what
// somebody else recorded meanwhile stands.
func TestAnUnprotectedRunOverwritesNothing(t *testing.T) {
	t.Parallel()
	synctestWorld(t, "never applied", func(t *testing.T) {
		w := newWorld(t, faultstore.Fail(faultstore.Claim, 0, driver.ErrUnavailable), &idem.Options{FailOpen: true})
		_, err := w.store.Execute(t.Context(), "k", returns("1"))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, w.faults.Count(faultstore.Claim), "a refusal is final")
		require.Zero(t, w.faults.Count(faultstore.Complete)+w.faults.Count(faultstore.Release))
		w.requireNoRecord(t, "k")
	})
	synctestWorld(t, "taken over", func(t *testing.T) {
		w := newWorld(t, faultstore.Lose(faultstore.Claim, 0), &idem.Options{FailOpen: true})
		res, err := w.store.Execute(t.Context(), "k", func(context.Context) (idem.Result, error) {
			time.Sleep(lease + time.Second)
			_, err := w.process(t, nil).store.Execute(t.Context(), "k", returns("other"))
			require.NoError(t, err)
			return idem.Result{Value: []byte("mine")}, nil
		})
		require.NoError(t, err)
		require.True(t, res.Unprotected)
		synctest.Wait()
		require.Equal(t, "other", string(w.record(t, "k").Outcome.Value))
	})
}

func TestAnUnprotectedOutcomeThatCannotBeRecordedIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.First(faultstore.Lose(faultstore.Claim, 0), faultstore.Fail(faultstore.Complete, 0, errDown)), &idem.Options{FailOpen: true})
		line := newTimeline()
		_, err := w.store.Execute(t.Context(), "k", returns("1"))
		require.NoError(t, err)
		require.Less(t, line.now(), 2*time.Second, "the caller does not wait for it")
		require.NoError(t, w.store.Close(t.Context()), "but Close does")
		require.Greater(t, line.now(), 4*time.Second)
		w.requireKinds(t, idem.EventUnprotected, idem.EventNotRecorded)
	})
}

// There is no lease to lose: MaxRun bounds the run.
func TestAnUnprotectedRunIsBoundedByMaxRunAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.Fail("", 0, errDown), &idem.Options{FailOpen: true})
		line := newTimeline()
		_, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
			began := line.now()
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), idem.ErrMaxRun)
			require.Equal(t, maxRun, line.now()-began)
			return idem.Result{}, ctx.Err()
		})
		require.ErrorIs(t, err, idem.ErrMaxRun)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// The provider's window is one more bound: a key of a provider that has forgotten
// it protects nothing.
func TestAnUnprotectedRunEndsWithTheProvidersWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.Fail("", 0, errDown), &idem.Options{Namespace: "n", FailOpen: true})
		line := newTimeline()
		_, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
			began := line.now()
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), idem.ErrMaxRun)
			require.Equal(t, time.Minute, line.now()-began)
			return idem.Result{}, ctx.Err()
		}, idem.WithProvider("p", time.Hour), idem.WithProvider("q", time.Minute))
		require.ErrorIs(t, err, idem.ErrMaxRun)
	})
}

// Calls of this process for the same key still meet.
func TestDuplicatesOfAnUnprotectedRunMeetIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.Fail("", 0, driver.ErrUnavailable), &idem.Options{FailOpen: true})
		done := w.execute(t.Context(), "k", takes(10*time.Second, "1"), fingerprint("a"))
		synctest.Wait()
		calls := w.faults.Count("")
		_, err := w.store.Execute(t.Context(), "k", forbidden(t), fingerprint("a"))
		require.ErrorIs(t, err, idem.ErrInProgress)
		_, err = w.store.Execute(t.Context(), "k", forbidden(t), fingerprint("b"))
		require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
		waits := w.execute(t.Context(), "k", forbidden(t), fingerprint("a"), idem.WithWait(time.Hour))
		require.Equal(t, calls, w.faults.Count(""))
		require.NoError(t, (<-done).err)
		require.ErrorIs(t, (<-waits).err, idem.ErrInProgress, "never a value that is not recorded")
	})
}

// Calls that asked the backend at the same time, and all got no answer, still do
// not run beside each other in one process.
func TestUnprotectedRunsOfOneKeyDoNotOverlapInAProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.At("", 0, faultstore.Fault{Before: faultstore.PauseUntil(nil)}), &idem.Options{FailOpen: true})
		var done []<-chan ending
		for range 5 {
			done = append(done, w.execute(t.Context(), "k", takes(10*time.Second, "1")))
		}
		ran := 0
		for _, d := range done {
			if end := <-d; end.err == nil {
				ran++
			} else {
				require.ErrorIs(t, end.err, idem.ErrInProgress)
			}
		}
		require.Equal(t, 1, ran)
	})
}

// The operation's error and the Unprotected mark come together.
func TestAFailedUnprotectedRunIsMarkedToo(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errBoom, idem.Permanent(errPermanent), idem.Unknown(errUnknown), idem.NotApplied(errNothing)} {
		synctestWorld(t, err.Error(), func(t *testing.T) {
			w := newWorld(t, faultstore.Fail("", 0, errDown), &idem.Options{FailOpen: true})
			var report idem.Result
			_, got := idem.Do(t.Context(), w.store, "k", func(context.Context, *idem.Claim) (int, error) { return 0, err }, idem.ReportTo(&report))
			require.True(t, errors.Is(got, err))
			require.True(t, report.Unprotected)
		})
	}
}

func TestAnUnprotectedValueThatIsTooLargeComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.Lose(faultstore.Claim, 0), &idem.Options{FailOpen: true, MaxValue: 1})
		res, err := w.store.Execute(t.Context(), "k", returns("12"))
		require.ErrorIs(t, err, idem.ErrTooLarge)
		require.Equal(t, "12", string(res.Value))
		require.True(t, res.Unprotected)
		synctest.Wait()
		require.Equal(t, driver.BodyTooLarge, w.record(t, "k").Outcome.Body)
	})
}
