package idem_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/internal/faultstore"
)

// waiters starts n calls that wait, one after the other.
func (w *world) waiters(t *testing.T, n int, op func(i int) idem.Op, opts ...idem.ExecuteOption) []<-chan ending {
	t.Helper()
	var done []<-chan ending
	for i := range n {
		done = append(done, w.execute(t.Context(), "k", op(i), append([]idem.ExecuteOption{idem.WithWait(time.Hour)}, opts...)...))
		synctest.Wait()
	}
	return done
}

func forbiddenEach(t *testing.T) func(int) idem.Op {
	t.Helper()
	return func(int) idem.Op { return forbidden(t) }
}

// Succeeded or failed: everybody gets the replay, at once.
func TestWaitersGetTheReplayAsSoonAsItIsRecorded(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]error{"succeeded": nil, "failed": idem.Permanent(errPermanent)} {
		synctestWorld(t, name, func(t *testing.T) {
			w := newWorld(t, nil, nil)
			line := newTimeline()
			first := w.execute(t.Context(), "k", func(context.Context) (idem.Result, error) {
				time.Sleep(42 * time.Second)
				return idem.Result{Value: []byte("1")}, fail
			})
			synctest.Wait()
			done := w.waiters(t, 10, forbiddenEach(t))
			require.Equal(t, 1, w.faults.Count(faultstore.Claim), "waiting asks nothing")
			for _, d := range done {
				end := <-d
				require.Equal(t, 42*time.Second, line.now())
				require.True(t, end.res.Replayed)
				if fail == nil {
					require.NoError(t, end.err)
					require.Equal(t, "1", string(end.res.Value))
				} else {
					require.ErrorIs(t, end.err, idem.ErrRecordedFailure)
				}
			}
			<-first
			require.Equal(t, 11, w.faults.Count(faultstore.Claim))
			for _, e := range w.events.take()[1:] {
				require.Equal(t, idem.EventReplayed, e.Kind)
				require.Equal(t, 42*time.Second, e.Waited)
			}
		})
	}
}

// Released: one waiter claims, the one that came first, and the others wait on.
func TestWhenTheKeyIsReleasedWaitersRunOneAfterTheOther(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]error{"cleanly": idem.NotApplied(errNothing), "in doubt": errBoom} {
		synctestWorld(t, name, func(t *testing.T) {
			w := newWorld(t, nil, nil)
			var running atomic.Int32
			var order []int
			runs := func(i int) idem.Op {
				return func(ctx context.Context) (idem.Result, error) {
					require.EqualValues(t, 1, running.Add(1), "beside each other")
					defer running.Add(-1)
					c, _ := idem.ClaimFrom(ctx)
					require.Equal(t, i+2, c.Attempt())
					order = append(order, i)
					time.Sleep(time.Minute)
					if i < 3 {
						return idem.Result{}, fail
					}
					return idem.Result{Value: fmt.Append(nil, i)}, nil
				}
			}
			line := newTimeline()
			first := w.execute(t.Context(), "k", runs(-1))
			synctest.Wait()
			done := w.waiters(t, 6, runs)
			for i, d := range done {
				end := <-d
				switch {
				case i < 3:
					require.ErrorIs(t, end.err, fail)
				default:
					require.NoError(t, end.err)
					require.Equal(t, "3", string(end.res.Value))
					require.Equal(t, i > 3, end.res.Replayed)
				}
			}
			<-first
			require.Equal(t, []int{-1, 0, 1, 2, 3}, order, "in the order in which they came")
			require.Equal(t, 5*time.Minute, line.now(), "nobody polls, nobody is late")
			require.Equal(t, 1+4+2, w.faults.Count(faultstore.Claim), "each asked once")
		})
	}
}

// Unknown: one waiter claims under its own policy.
func TestWhenTheOutcomeIsUnknownAWaiterClaimsUnderItsOwnPolicy(t *testing.T) {
	t.Parallel()
	recovered := idem.WithRecover(func(context.Context, *idem.Claim) (idem.Recovery, error) {
		return idem.Recovered(idem.Result{Value: []byte("r")}), nil
	})
	for _, tc := range []struct {
		name  string
		fails error
		opts  []idem.ExecuteOption
		value string // that the waiter gets; "" is ErrOutcomeUnknown
	}{
		{"in doubt, Rerun", errBoom, nil, "again"},
		{"in doubt, Hold", errBoom, []idem.ExecuteOption{idem.OnUnknown(idem.Hold)}, ""},
		{"in doubt, recovery", errBoom, []idem.ExecuteOption{recovered}, "r"},
		{"held, Rerun", idem.Unknown(errUnknown), nil, ""},
		{"held, recovery", idem.Unknown(errUnknown), []idem.ExecuteOption{recovered}, "r"},
	} {
		synctestWorld(t, tc.name, func(t *testing.T) {
			w := newWorld(t, nil, nil)
			first := w.execute(t.Context(), "k", func(context.Context) (idem.Result, error) {
				time.Sleep(time.Second)
				return idem.Result{}, tc.fails
			})
			synctest.Wait()
			ran := 0
			done := w.waiters(t, 3, func(int) idem.Op { return counted(&ran, returns("again")) }, tc.opts...)
			for _, d := range done {
				end := <-d
				if tc.value == "" {
					require.ErrorIs(t, end.err, idem.ErrOutcomeUnknown)
					continue
				}
				require.NoError(t, end.err)
				require.Equal(t, tc.value, string(end.res.Value))
			}
			require.Equal(t, tc.value == "again", ran == 1)
			<-first
		})
	}
}

// The runner's trust window ends: somebody else may hold the key, so one waiter
// asks the backend, and takes over when the lease has ended.
func TestAWaiterTakesOverWhenTheRunnersLeaseEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.Fail(faultstore.Renew, 0, errDown), nil)
		line := newTimeline()
		stalled := w.execute(t.Context(), "k", takes(time.Hour, "stale"))
		synctest.Wait()
		done := w.waiters(t, 4, func(int) idem.Op {
			return func(ctx context.Context) (idem.Result, error) {
				c, _ := idem.ClaimFrom(ctx)
				require.True(t, c.Takeover())
				return idem.Result{Value: []byte("fresh")}, nil
			}
		})
		replayed := 0
		for _, d := range done {
			end := <-d
			require.NoError(t, end.err)
			require.Equal(t, "fresh", string(end.res.Value))
			if end.res.Replayed {
				replayed++
			}
		}
		require.Equal(t, 3, replayed)
		require.Equal(t, lease, line.now().Truncate(time.Second))
		require.Less(t, line.now(), lease+100*time.Millisecond)
		require.ErrorIs(t, (<-stalled).err, idem.ErrLeaseLost)
	})
}

// Outcome not recorded: ErrInProgress, never the value.
func TestWaitersNeverGetAValueThatIsNotRecorded(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]faultstore.Hook{
		"success": faultstore.Fail(faultstore.Complete, 0, errDown),
		"failure": faultstore.First(faultstore.Fail(faultstore.Complete, 0, errDown), faultstore.Fail(faultstore.Release, 0, errDown)),
	} {
		synctestWorld(t, name, func(t *testing.T) {
			w := newWorld(t, hook, nil)
			first := w.execute(t.Context(), "k", func(context.Context) (idem.Result, error) {
				time.Sleep(time.Second)
				if name == "failure" {
					return idem.Result{}, idem.Permanent(errPermanent)
				}
				return idem.Result{Value: []byte("1")}, nil
			})
			synctest.Wait()
			done := w.waiters(t, 3, forbiddenEach(t))
			require.ErrorIs(t, (<-first).err, idem.ErrNotRecorded)
			for _, d := range done {
				end := <-d
				require.ErrorIs(t, end.err, idem.ErrInProgress)
				require.Empty(t, end.res.Value)
			}
			_, err := w.store.Execute(t.Context(), "k", forbidden(t))
			require.ErrorIs(t, err, idem.ErrInProgress, "until the lease ends")
		})
	}
}

func TestTheBoundOfAWaitBoundsTheWaitAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		first := w.execute(t.Context(), "k", func(context.Context) (idem.Result, error) {
			time.Sleep(10 * time.Second)
			return idem.Result{}, errBoom
		})
		synctest.Wait()
		line := newTimeline()
		_, err := w.store.Execute(t.Context(), "k", forbidden(t), idem.WithWait(10*time.Second-time.Nanosecond))
		require.ErrorIs(t, err, idem.ErrInProgress)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "no context of the caller has ended")
		require.Equal(t, 10*time.Second-time.Nanosecond, line.now())
		<-first

		first = w.execute(t.Context(), "k", func(context.Context) (idem.Result, error) {
			time.Sleep(10 * time.Second)
			return idem.Result{}, errBoom
		})
		synctest.Wait()
		res, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
			time.Sleep(time.Minute)
			return idem.Result{Value: []byte("long")}, ctx.Err()
		}, idem.WithWait(11*time.Second))
		require.NoError(t, err)
		require.Equal(t, "long", string(res.Value))
		<-first
	})
}

func TestAWaitEndsWithTheCallersContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		first := w.execute(t.Context(), "k", takes(time.Minute, "1"))
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		left := w.execute(ctx, "k", forbidden(t), idem.WithWait(time.Hour))
		stays := w.waiters(t, 1, forbiddenEach(t))
		cancel(errLeft)
		end := <-left
		require.ErrorIs(t, end.err, idem.ErrInProgress)
		require.ErrorIs(t, end.err, errLeft)
		require.NoError(t, (<-stays[0]).err, "the others wait on")
		<-first
	})
}

// What is recorded in another process wakes everybody too: the one that asks finds
// it and tells the others, who ask at once, and none of them a second time.
func TestManyWaitersOnAnotherProcessFindTheOutcomeTogether(t *testing.T) {
	t.Parallel()
	const n, trip = 800, 5 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		a := newWorld(t, nil, nil)
		w := newProcess(t, a.memory, faultstore.At(faultstore.Claim, 0, faultstore.Fault{
			Before: func(context.Context) error { time.Sleep(trip); return nil },
		}), nil)
		first := a.execute(t.Context(), "k", takes(time.Minute, "1"))
		synctest.Wait()
		line := newTimeline()
		waits := make([]<-chan ending, n)
		for i := range waits {
			waits[i] = w.execute(t.Context(), "k", forbidden(t), idem.WithWait(time.Hour))
		}
		time.Sleep(time.Minute - time.Second)
		asked := w.faults.Count(faultstore.Claim)
		for _, d := range waits {
			end := <-d
			require.NoError(t, end.err)
			require.True(t, end.res.Replayed)
		}
		require.Less(t, line.now(), time.Minute+time.Second+10*trip, "a poll at most, and two round trips: not one after the other")
		require.Less(t, w.faults.Count(faultstore.Claim)-asked, n+20)
		<-first
	})
}

// A waiter that leaves passes its turn on.
func TestATurnIsPassedOnByAWaiterThatLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newWorld(t, nil, nil)
		w := newProcess(t, a.memory, nil, nil)
		first := a.execute(t.Context(), "k", takes(time.Minute, "1")) // in another process
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		polls := w.execute(ctx, "k", forbidden(t), idem.WithWait(time.Hour))
		synctest.Wait()
		line := newTimeline()
		waits := w.waiters(t, 2, forbiddenEach(t))
		time.Sleep(10 * time.Second)
		cancel()
		require.ErrorIs(t, (<-polls).err, context.Canceled)
		for _, d := range waits {
			require.NoError(t, (<-d).err)
		}
		require.Equal(t, time.Minute, line.now())
		<-first
	})
}

func TestOneWaiterTooManyIsInProgress(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 3, 0} {
		synctestWorld(t, fmt.Sprint(most), func(t *testing.T) {
			w := newWorld(t, nil, &idem.Options{MaxWaiters: most})
			if most == 0 {
				most = 1024
			}
			first := w.execute(t.Context(), "k", takes(time.Second, "1"))
			other := w.execute(t.Context(), "k2", takes(time.Second, "1"))
			synctest.Wait()
			var done []<-chan ending
			for range most {
				done = append(done, w.execute(t.Context(), "k", forbidden(t), idem.WithWait(time.Hour)))
			}
			synctest.Wait()
			line := newTimeline()
			_, err := w.store.Execute(t.Context(), "k", forbidden(t), idem.WithWait(time.Hour))
			require.ErrorIs(t, err, idem.ErrInProgress)
			require.Zero(t, line.now())
			_, err = w.store.Execute(t.Context(), "k2", forbidden(t), idem.WithWait(time.Hour))
			require.NoError(t, err, "the bound is for each key")
			for _, d := range done {
				require.NoError(t, (<-d).err)
			}
			require.NoError(t, (<-first).err)
			require.NoError(t, (<-other).err)
			again := w.execute(t.Context(), "k3", takes(time.Second, "1"))
			synctest.Wait()
			_, err = w.store.Execute(t.Context(), "k3", forbidden(t), idem.WithWait(time.Hour))
			require.NoError(t, err, "those who left do not count")
			<-again
		})
	}
}

func TestClosingWakesWaiters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newWorld(t, nil, nil)
		w := newProcess(t, a.memory, nil, nil)
		elsewhere := a.execute(t.Context(), "k", takes(time.Minute, "1"))
		here := w.execute(t.Context(), "k2", takes(time.Minute, "1"))
		synctest.Wait()
		one := w.execute(t.Context(), "k", forbidden(t), idem.WithWait(time.Hour))
		two := w.execute(t.Context(), "k2", forbidden(t), idem.WithWait(time.Hour))
		synctest.Wait()
		line := newTimeline()
		closed := start(func() (idem.Result, error) { return idem.Result{}, w.store.Close(t.Context()) })
		for _, d := range []<-chan ending{one, two} {
			end := <-d
			require.ErrorIs(t, end.err, idem.ErrClosed)
			require.Zero(t, line.now())
		}
		require.NoError(t, (<-closed).err)
		require.Equal(t, time.Minute, line.now(), "what runs is waited for")
		require.NoError(t, (<-here).err)
		<-elsewhere
	})
}
