package idem_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
)

// The tests of this file are about waiting for another process.

// The key runs in another process, whose backend gives hints.
func TestAWaiterIsWokenByTheHintOfTheBackend(t *testing.T) {
	t.Parallel()
	for _, fail := range []error{nil, errBoom} {
		synctestWorld(t, fmt.Sprint(fail), func(t *testing.T) {
			a := newWorld(t, nil, nil)
			w := newProcess(t, a.memory, nil, nil)
			first := a.execute(t.Context(), "k", func(context.Context) (idem.Result, error) {
				time.Sleep(1234567 * time.Microsecond)
				return idem.Result{Value: []byte("1")}, fail
			})
			synctest.Wait()
			line := newTimeline()
			res, err := w.store.Execute(t.Context(), "k", returns("2"), idem.WithWait(time.Hour))
			require.NoError(t, err)
			require.Equal(t, 1234567*time.Microsecond, line.now(), "at once")
			require.Equal(t, fail == nil, res.Replayed)
			require.NotZero(t, w.faults.Count(faultstore.Watch))
			<-first
		})
	}
}

// unwatched hides the optional interfaces of a backend.
type unwatched struct{ driver.Backend }

// Without hints the Store polls: soon at first, then once in a second.
func TestAWaiterPollsABackendThatGivesNoHints(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]faultstore.Hook{
		"no Watcher":         nil,
		"Watch fails":        faultstore.Fail(faultstore.Watch, 0, errDown),
		"hints are not sent": faultstore.At(faultstore.Watch, 0, faultstore.Fault{}),
	} {
		synctestWorld(t, name, func(t *testing.T) {
			a := newWorld(t, nil, nil)
			var inner driver.Backend = unwatched{a.memory}
			if name == "Watch fails" {
				inner = a.memory
			}
			polled := faultstore.New(inner, hook)
			var b driver.Backend = polled
			if name == "hints are not sent" {
				b = deaf{polled}
			}
			s := newStore(t, b, &idem.Options{Observer: idem.Discard})
			first := a.execute(t.Context(), "k", takes(20*time.Second, "1"))
			synctest.Wait()
			line := newTimeline()
			res, err := s.Execute(t.Context(), "k", forbidden(t), idem.WithWait(time.Hour))
			require.NoError(t, err)
			require.True(t, res.Replayed)
			require.GreaterOrEqual(t, line.now(), 20*time.Second)
			require.LessOrEqual(t, line.now(), 21*time.Second)
			require.Less(t, polled.Count(faultstore.Claim), 40, "polls are spread")
			<-first
		})
	}
}

// deaf has a Watcher that never hints.
type deaf struct{ driver.Backend }

func (deaf) Watch(context.Context, string) (<-chan struct{}, error) { return nil, nil } //nolint:nilnil // no channel never hints

// The process that held the key is dead: nobody hints, but its lease ends.
func TestAWaiterTakesOverWhenTheLeaseOfAnotherProcessEnds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		opts []idem.ExecuteOption
		want error
	}{
		{"Rerun", nil, nil},
		{"Hold", []idem.ExecuteOption{idem.OnUnknown(idem.Hold)}, idem.ErrOutcomeUnknown},
	} {
		synctestWorld(t, tc.name, func(t *testing.T) {
			dies := end{op: op(obeys()), dies: true}
			w, _ := dies.happen(t, ways()[0], policy{})
			line := newTimeline()
			done := w.waiters(t, 5, func(int) idem.Op { return returns("2") }, tc.opts...)
			for _, d := range done {
				require.ErrorIs(t, (<-d).err, tc.want)
			}
			require.GreaterOrEqual(t, line.now(), lease)
			require.Less(t, line.now(), lease+100*time.Millisecond)
			require.Less(t, w.faults.Count(faultstore.Claim), 60, "one of the five polls")
		})
	}
}

// blind answers "in progress" and knows no more: another transaction holds the
// record (ClaimParams.LockWait).
type blind struct {
	driver.Backend
	asked atomic.Int32
}

func (b *blind) Claim(context.Context, *driver.ClaimParams) (*driver.ClaimResult, error) {
	b.asked.Add(1)
	return &driver.ClaimResult{Fact: driver.InProgress}, nil
}

func TestARecordThatAnotherTransactionHoldsIsInProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &blind{Backend: unwatched{newWorld(t, nil, nil).memory}}
		s := newStore(t, b, &idem.Options{Observer: idem.Discard})
		_, err := s.Execute(t.Context(), "k", forbidden(t))
		var busy *idem.InProgressError
		require.ErrorAs(t, err, &busy)
		require.Equal(t, 100*time.Millisecond, busy.RetryAfter, "no hint to call again at once")

		b.asked.Store(0)
		_, err = s.Execute(t.Context(), "k", forbidden(t), idem.WithWait(10*time.Second))
		require.ErrorIs(t, err, idem.ErrInProgress)
		require.Less(t, b.asked.Load(), int32(100), "polls are spread")
	})
}

// eager hints without end, until its patience does.
type eager struct {
	driver.Backend
	watches atomic.Int32
}

func (e *eager) Watch(context.Context, string) (<-chan struct{}, error) {
	hints := make(chan struct{})
	if e.watches.Add(1) < 10_000 {
		close(hints)
	}
	return hints, nil
}

// Hints only cost a question. A backend that hints without end (its own
// connection is down, say) must not be asked without end.
func TestABackendThatHintsWithoutEndIsNotAskedWithoutEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newWorld(t, nil, nil)
		asked := faultstore.New(unwatched{a.memory}, nil)
		s := newStore(t, &eager{Backend: asked}, &idem.Options{Observer: idem.Discard})
		first := a.execute(t.Context(), "k", takes(10*time.Second, "1"))
		synctest.Wait()
		res, err := s.Execute(t.Context(), "k", forbidden(t), idem.WithWait(time.Hour))
		require.NoError(t, err)
		require.True(t, res.Replayed)
		require.Less(t, asked.Count(faultstore.Claim), 1000)
		<-first
	})
}

// A call that does not wait claims the key here, between two polls of one that
// waits: the runner here is asked from then on.
func TestAWaiterMeetsACallThatDidNotWait(t *testing.T) {
	t.Parallel()
	for _, fail := range []error{nil, errBoom} {
		synctestWorld(t, fmt.Sprint(fail), func(t *testing.T) {
			a := newWorld(t, nil, nil)
			polled := faultstore.New(unwatched{a.memory}, nil)
			s := newStore(t, polled, &idem.Options{Observer: idem.Discard})
			elsewhere := a.execute(t.Context(), "k", func(context.Context) (idem.Result, error) {
				time.Sleep(10*time.Second + time.Millisecond)
				return idem.Result{}, errBoom
			})
			synctest.Wait()
			waits := start(func() (idem.Result, error) {
				return s.Execute(t.Context(), "k", returns("waited"), idem.WithWait(time.Hour))
			})
			<-elsewhere
			asked := polled.Count(faultstore.Claim)
			here := start(func() (idem.Result, error) {
				return s.Execute(t.Context(), "k", func(context.Context) (idem.Result, error) {
					time.Sleep(5 * time.Second)
					require.Equal(t, asked+1, polled.Count(faultstore.Claim), "while it runs here, nobody polls")
					return idem.Result{Value: []byte("here")}, fail
				})
			})
			require.ErrorIs(t, (<-here).err, fail)
			end := <-waits
			require.NoError(t, end.err)
			require.Equal(t, fail == nil, end.res.Replayed)
			require.Equal(t, asked+2, polled.Count(faultstore.Claim))
		})
	}
}

// What was recorded here is gone when the waiters look: an operator has reset the
// key, and another process runs it. They wait on, and one of them polls.
func TestWaitersWaitOnWhenTheOutcomeTheyWaitedForIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newWorld(t, nil, nil)
		var elsewhere <-chan ending
		gone := make(chan struct{})
		w := newProcess(t, a.memory, func(_ context.Context, c faultstore.Call) faultstore.Fault {
			switch {
			case c.Method != faultstore.Claim || c.Nth == 1 || c.Nth > 4:
				return faultstore.Fault{}
			case c.Nth > 2:
				return faultstore.Fault{Before: faultstore.PauseUntil(gone)}
			}
			return faultstore.Fault{Before: func(context.Context) error {
				assert.NoError(t, a.store.Reset(t.Context(), "k", a.record(t, "k").Token, "bug 7"))
				elsewhere = a.execute(t.Context(), "k", takes(30*time.Second, "other"))
				time.Sleep(time.Second)
				close(gone)
				return nil
			}}
		}, nil)
		here := w.execute(t.Context(), "k", takes(time.Second, "mine"))
		synctest.Wait()
		done := w.waiters(t, 3, forbiddenEach(t))
		require.NoError(t, (<-here).err)
		for _, d := range done {
			end := <-d
			require.NoError(t, end.err)
			require.Equal(t, "other", string(end.res.Value))
		}
		require.NoError(t, (<-elsewhere).err)
	})
}
