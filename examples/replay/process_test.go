package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

// spy counts the calls that reach the backend, and can be told to kill the
// process while a call is under way.
type spy struct {
	driver.Backend
	calls  atomic.Int64
	during func()
}

func (s *spy) seen() {
	s.calls.Add(1)
	if s.during != nil {
		s.during()
	}
}

func (s *spy) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	s.seen()
	return s.Backend.Claim(ctx, p)
}

func (s *spy) Renew(context.Context, driver.Ref, *driver.RenewParams) error { s.seen(); return nil }
func (s *spy) Annotate(context.Context, driver.Ref, *driver.AnnotateParams) error {
	s.seen()
	return nil
}

func (s *spy) Complete(context.Context, driver.Ref, *driver.CompleteParams) error {
	s.seen()
	return nil
}

func (s *spy) Release(context.Context, driver.Ref, *driver.ReleaseParams) error { s.seen(); return nil }

func (s *spy) Inspect(ctx context.Context, key string) (*driver.Record, error) {
	s.seen()
	return s.Backend.Inspect(ctx, key)
}

// calls are the six calls, by name.
func calls(ctx context.Context, b driver.Backend) map[string]func() error {
	ref := driver.Ref{Key: "k", Token: 1}
	return map[string]func() error{
		"claim": func() error {
			_, err := b.Claim(ctx, &driver.ClaimParams{Key: "k", Owner: driver.Owner{1}, Lease: 1e9, Retention: 1e9, Take: driver.TakeAbsent})
			return err
		},
		"renew":    func() error { return b.Renew(ctx, ref, &driver.RenewParams{}) },
		"annotate": func() error { return b.Annotate(ctx, ref, &driver.AnnotateParams{}) },
		"complete": func() error { return b.Complete(ctx, ref, &driver.CompleteParams{}) },
		"release":  func() error { return b.Release(ctx, ref, &driver.ReleaseParams{}) },
		"inspect":  func() error { _, err := b.Inspect(ctx, "k"); return err },
	}
}

func TestNoCallOfADeadProcessReachesTheBackend(t *testing.T) {
	t.Parallel()
	back := &spy{Backend: memstore.New(nil)}
	var dead atomic.Bool
	handle := &mortal{backend: back, dead: &dead}
	require.NoError(t, calls(t.Context(), handle)["claim"]())
	require.NoError(t, calls(t.Context(), handle)["complete"]())
	dead.Store(true)
	for name, call := range calls(t.Context(), handle) {
		err := call()
		require.ErrorIs(t, err, errDead, name)
		require.True(t, driver.NoEffect(err), "the Store behind it must stop at once: %s", name)
	}
	require.Equal(t, int64(2), back.calls.Load())
}

func TestTheAnswerOfACallDuringWhichTheProcessDiesIsDropped(t *testing.T) {
	t.Parallel()
	for name := range calls(t.Context(), nil) {
		var dead atomic.Bool
		back := &spy{Backend: memstore.New(nil), during: func() { dead.Store(true) }}
		require.ErrorIs(t, calls(t.Context(), &mortal{backend: back, dead: &dead})[name](), errDead, name)
		require.Equal(t, int64(1), back.calls.Load())
	}
}

func TestTheHandleLeadsToTheBackendsOptionalInterfaces(t *testing.T) {
	t.Parallel()
	_, ok := driver.As[driver.Retainer](&mortal{backend: memstore.New(nil), dead: new(atomic.Bool)})
	require.True(t, ok)
}

// mayfly is a consumer whose process dies at the first try of some messages.
type mayfly struct {
	process *process
	deadly  func(m *message) bool
	handled *sync.Map // ids that a living process has handled
	closed  *atomic.Int64
}

func (f *mayfly) handle(_ context.Context, m *message) ending {
	if m.try == 0 && f.deadly(m) {
		f.process.kill()
	} else if !f.process.dead.Load() {
		f.handled.Store(m.ID, true)
	}
	return ending{kind: executed}
}

func (f *mayfly) close(context.Context) error { f.closed.Add(1); return nil }

func TestWhatADeadProcessHadInHandIsDeliveredToAnother(t *testing.T) {
	t.Parallel()
	var handled sync.Map
	var closed, started atomic.Int64
	p := &pass{cfg: &config{workers: 5, processes: 2}, judge: newJudge(), tally: &tally{}, spent: &overheads{}, progress: newProgress(io.Discard)}
	p.start = func(proc *process) (consumer, error) {
		started.Add(1)
		return &mayfly{process: proc, handled: &handled, closed: &closed, deadly: func(m *message) bool { return m.number%50 == 7 }}, nil
	}
	require.NoError(t, p.deliver(t.Context(), stream(newGenerator(500, 0, 1), ignore)))
	n := 0
	handled.Range(func(any, any) bool { n++; return true })
	require.Equal(t, 500, n)
	require.Equal(t, int64(500), p.tally.executed.Load(), "each is settled once")
	require.GreaterOrEqual(t, p.tally.killed.Load(), int64(10))
	require.GreaterOrEqual(t, started.Load(), int64(4))
	require.Equal(t, started.Load(), closed.Load())
}

// A process is dead before its context has ended; how long before, the machine
// decides. With workers that went on meanwhile, a message was handed to the dead
// over and over, and given up.
func TestADeadProcessTakesNoFurtherMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { _ = b.run(ctx, stream(newGenerator(100, 0, 1), ignore)) }()
		p, taken := &process{}, 0
		p.work(ctx, b, suicidal{p}, func(b *broker, m *message, e ending) {
			taken++
			require.Equal(t, killed, e.kind)
			b.settle(m)
		})
		require.Equal(t, 1, taken)
		p.work(ctx, b, hopeless{}, func(b *broker, m *message, _ ending) {
			taken++
			b.settle(m)
		})
		require.Equal(t, 1, taken)
	})
}

// suicidal is a consumer whose process dies, and whose context goes on.
type suicidal struct{ process *process }

func (s suicidal) handle(context.Context, *message) ending {
	s.process.dead.Store(true)
	return ending{kind: executed}
}
func (suicidal) close(context.Context) error { return nil }

var errStart = errors.New("no process today")

func TestAProcessThatCannotStartEndsTheRun(t *testing.T) {
	t.Parallel()
	p := &pass{cfg: &config{workers: 2, processes: 2}, judge: newJudge(), tally: &tally{}, spent: &overheads{}}
	p.start = func(*process) (consumer, error) { return nil, errStart }
	require.ErrorIs(t, p.deliver(t.Context(), stream(newGenerator(500, 0, 1), ignore)), errStart)
}

func TestAMessageThatNeverSettlesIsGivenUpAfterALongTimeAndItIsToldWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told strings.Builder
		p := &pass{cfg: &config{workers: 1, processes: 1}, judge: newJudge(), tally: &tally{}, spent: &overheads{}, progress: newProgress(&told)}
		p.start = func(*process) (consumer, error) { return hopeless{}, nil }
		begun := time.Now()
		require.NoError(t, p.deliver(t.Context(), stream(newGenerator(2, 0, 1), ignore)))
		require.Equal(t, int64(2), p.tally.givenUp.Load())
		require.GreaterOrEqual(t, time.Since(begun), giveUpAfter)
		require.Less(t, time.Since(begun), giveUpAfter+2*growingMost)
		require.Equal(t, 2, strings.Count(told.String(), "gave up delivery "))
		require.Regexp(t, `of key charge:\S+ after 10m\ds and \d+ tries: \d+ x provider: 503, nothing was charged; the last: provider: 503`, told.String())
	})
}

type hopeless struct{}

func (hopeless) handle(context.Context, *message) ending {
	return ending{kind: broken, err: errRefused}
}
func (hopeless) close(context.Context) error { return nil }
