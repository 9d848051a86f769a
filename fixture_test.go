package idem_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
)

// The defaults that the tests below count with.
const (
	lease      = 30 * time.Second
	renewEvery = 10 * time.Second
	margin     = time.Second // by which the trust window is shorter than the lease
	maxRun     = 15 * time.Minute
	aDay       = 24 * time.Hour
)

// events is an Observer that remembers.
type events struct {
	mu  sync.Mutex
	all []idem.Event
}

func (e *events) Observe(_ context.Context, ev idem.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

// take returns what was observed since the last take.
func (e *events) take() []idem.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.all
	e.all = nil
	return all
}

// kinds is take without the details.
func (e *events) kinds() []idem.EventKind {
	kinds := []idem.EventKind{}
	for _, ev := range e.take() {
		kinds = append(kinds, ev.Kind)
	}
	return kinds
}

// world is a Store over a memstore that makes the faults that a test asks for.
type world struct {
	memory *memstore.Backend
	faults *faultstore.Store
	events *events
	store  *idem.Store
}

// newWorld makes a world. hook and opts may be nil; the world observes unless
// opts has an Observer.
func newWorld(tb testing.TB, hook faultstore.Hook, opts *idem.Options) *world {
	tb.Helper()
	return newProcess(tb, memstore.New(nil), hook, opts)
}

// newProcess makes a world over a memstore that others may share: what another
// process would be to them.
func newProcess(tb testing.TB, memory *memstore.Backend, hook faultstore.Hook, opts *idem.Options) *world {
	tb.Helper()
	w := &world{memory: memory, faults: faultstore.New(memory, hook), events: &events{}}
	w.store = newStore(tb, w.faults, withObserver(opts, w.events))
	tb.Cleanup(func() { // no bubble ends before what goes on in the background has ended
		assert.NoError(tb, w.store.Close(context.WithoutCancel(tb.Context())))
	})
	return w
}

// process is another process over the same memstore.
func (w *world) process(tb testing.TB, opts *idem.Options) *world {
	tb.Helper()
	return newProcess(tb, w.memory, nil, opts)
}

func withObserver(opts *idem.Options, o idem.Observer) *idem.Options {
	var own idem.Options
	if opts != nil {
		own = *opts
	}
	if own.Observer == nil {
		own.Observer = o
	}
	return &own
}

func newStore(tb testing.TB, b driver.Backend, opts *idem.Options) *idem.Store {
	tb.Helper()
	s, err := idem.New(b, opts)
	require.NoError(tb, err)
	return s
}

// record is what Inspect shows.
func (w *world) record(tb testing.TB, key string) *idem.Record {
	tb.Helper()
	rec, err := w.store.Inspect(tb.Context(), key)
	require.NoError(tb, err)
	return rec
}

// requireNoRecord requires that the backend knows nothing of a key.
func (w *world) requireNoRecord(tb testing.TB, key string) {
	tb.Helper()
	_, err := w.store.Inspect(tb.Context(), key)
	require.ErrorIs(tb, err, idem.ErrNotFound)
}

// requireKinds requires exactly these events since the last look.
func (w *world) requireKinds(tb testing.TB, want ...idem.EventKind) {
	tb.Helper()
	names := func(kinds []idem.EventKind) []string {
		s := []string{}
		for _, k := range kinds {
			s = append(s, k.String())
		}
		return s
	}
	require.Equal(tb, names(want), names(w.events.kinds()))
}

// returns is an operation that returns a value.
func returns(value string) idem.Op {
	return func(context.Context) (idem.Result, error) { return idem.Result{Value: []byte(value)}, nil }
}

// fails is an operation that returns an error.
func fails(err error) idem.Op {
	return func(context.Context) (idem.Result, error) { return idem.Result{}, err }
}

// takes is an operation that takes a while, whatever happens to its context.
func takes(d time.Duration, value string) idem.Op {
	return func(context.Context) (idem.Result, error) {
		time.Sleep(d)
		return idem.Result{Value: []byte(value)}, nil
	}
}

// obeys is an operation that ends with its context, and returns its cause.
func obeys() idem.Op {
	return func(ctx context.Context) (idem.Result, error) {
		<-ctx.Done()
		return idem.Result{}, context.Cause(ctx)
	}
}

// counted counts the runs of op in *n. The runs must not overlap.
func counted(n *int, op idem.Op) idem.Op {
	return func(ctx context.Context) (idem.Result, error) {
		*n++
		return op(ctx)
	}
}

// forbidden is an operation that must not run.
func forbidden(tb testing.TB) idem.Op {
	tb.Helper()
	return func(context.Context) (idem.Result, error) {
		assert.Fail(tb, "the operation ran")
		return idem.Result{}, nil
	}
}

// ending is how a call ended: by returning, by a panic, or by Goexit.
type ending struct {
	res      idem.Result
	err      error
	panicked any
	exited   bool
}

// start makes a call in a goroutine of its own.
func start(call func() (idem.Result, error)) <-chan ending {
	done := make(chan ending, 1)
	go func() {
		end := ending{exited: true}
		defer func() {
			if p := recover(); p != nil {
				end.panicked, end.exited = p, false
			}
			done <- end
		}()
		end.res, end.err = call()
		end.exited = false
	}()
	return done
}

// execute starts an Execute.
func (w *world) execute(ctx context.Context, key string, op idem.Op, opts ...idem.ExecuteOption) <-chan ending {
	return start(func() (idem.Result, error) { return w.store.Execute(ctx, key, op, opts...) })
}

// way is one of the three ways to have an operation attempted.
type way struct {
	name string
	call func(ctx context.Context, s *idem.Store, key string, op idem.Op, opts ...idem.ExecuteOption) (idem.Result, error)
}

func ways() []way {
	return []way{
		{"Execute", func(ctx context.Context, s *idem.Store, key string, op idem.Op, opts ...idem.ExecuteOption) (idem.Result, error) {
			return s.Execute(ctx, key, op, opts...)
		}},
		{"Do", viaDo},
		{"steps", viaSteps},
	}
}

// viaDo is Execute by means of Do. Values must be JSON.
func viaDo(ctx context.Context, s *idem.Store, key string, op idem.Op, opts ...idem.ExecuteOption) (idem.Result, error) {
	var res idem.Result
	value, err := idem.Do(ctx, s, key, func(ctx context.Context, _ *idem.Claim) (json.RawMessage, error) {
		res, err := op(ctx)
		return res.Value, err
	}, append(slices.Clone(opts), idem.ReportTo(&res))...)
	res.Value = value
	return res, err
}

// viaSteps is Execute by means of Claim, Record, RecordFailure and Release, as
// a careful caller would write it.
func viaSteps(ctx context.Context, s *idem.Store, key string, op idem.Op, opts ...idem.ExecuteOption) (idem.Result, error) {
	c, err := s.Claim(ctx, key, 0, opts...)
	switch {
	case errors.Is(err, idem.ErrAlreadyDone):
		return c.Result, nil
	case err != nil:
		return idem.Result{}, err
	}
	under, cancel := c.Context(ctx)
	defer cancel()
	res, err := op(under)
	switch {
	case err == nil:
		return res, s.Record(ctx, c, res)
	case errors.Is(err, errPermanent) || errors.Is(err, errUnknown):
		return idem.Result{}, errors.Join(err, s.RecordFailure(ctx, c, err))
	}
	return idem.Result{}, errors.Join(err, s.Release(ctx, c))
}

// Errors that operations of the tests fail with.
var (
	errBoom      = errors.New("boom")
	errPermanent = errors.New("card declined")
	errUnknown   = errors.New("connection broke")
	errNothing   = errors.New("nothing was sent")
)

// infoOf returns the *idem.Error within err.
func infoOf(tb testing.TB, err error) *idem.Error {
	tb.Helper()
	var e *idem.Error
	require.ErrorAs(tb, err, &e)
	return e
}
