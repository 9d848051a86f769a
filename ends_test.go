package idem_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
)

// The tests of this file and of next_test.go are the table "the operation …" of
// the package documentation, row by row: what becomes of the key, what the call
// returns, what an observer sees, and what the next call gets.

// situation is what an end leaves behind.
type situation uint8

const (
	succeeded situation = iota
	failed
	free        // released
	freeInDoubt // released; an earlier attempt may have had its effect
	held        // unknown, held
	abandoned   // claimed until the lease ends, then unknown
	bodyless    // succeeded, without a value
)

// end is a row of the table, for one policy of the call.
type end struct {
	name string
	// op ends as the row says. cancel ends the caller's context.
	op func(cancel context.CancelFunc) idem.Op
	// hook makes the store fail, where that is the point.
	hook faultstore.Hook
	opts *idem.Options
	// rerun and strict are what is left behind, without and with Hold or
	// WithRecover; steps when the caller uses the three steps under any policy.
	rerun, strict, steps situation
	events               map[situation][]idem.EventKind
	check                func(t *testing.T, e ending)
	noSteps              bool // the row makes no sense there
	dies                 bool // with its process, after the lease has begun
}

func op(op idem.Op) func(context.CancelFunc) idem.Op {
	return func(context.CancelFunc) idem.Op { return op }
}

// settledEvents are the events of each end that the store has taken note of.
func settledEvents() map[situation][]idem.EventKind {
	return map[situation][]idem.EventKind{
		succeeded:   {idem.EventExecuted},
		failed:      {idem.EventFailed},
		free:        {idem.EventReleased},
		freeInDoubt: {idem.EventReleased},
		held:        {idem.EventHeld},
		bodyless:    {idem.EventExecuted},
		abandoned:   {idem.EventNotRecorded},
	}
}

func failsWith(want error) func(t *testing.T, e ending) {
	return func(t *testing.T, e ending) {
		t.Helper()
		require.ErrorIs(t, e.err, want)
		require.NotErrorIs(t, e.err, idem.ErrRecordedFailure, "it is fresh")
		require.Empty(t, e.res.Value)
		require.False(t, e.res.Replayed)
	}
}

func ends() []end {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	return []end{
		{
			name: "returns a result", op: op(returns(`"v"`)), rerun: succeeded, strict: succeeded, steps: succeeded,
			check: func(t *testing.T, e ending) {
				require.NoError(t, e.err)
				require.Equal(t, `"v"`, string(e.res.Value))
				require.False(t, e.res.Replayed || e.res.Recovered || e.res.Unprotected)
			},
		},
		{
			name: "returns Permanent", op: op(fails(idem.Permanent(errPermanent))),
			rerun: failed, strict: failed, steps: failed, check: failsWith(errPermanent),
		},
		{
			name: "returns Unknown", op: op(fails(idem.Unknown(errUnknown))),
			rerun: held, strict: held, steps: held, check: failsWith(errUnknown),
		},
		{
			name: "returns NotApplied", op: op(fails(idem.NotApplied(errNothing))),
			rerun: free, strict: free, steps: free, check: failsWith(errNothing),
		},
		{
			name: "was refused a connection", op: op(fails(refused)),
			rerun: free, strict: free, steps: free, check: failsWith(syscall.ECONNREFUSED),
		},
		{
			name: "was throttled", op: op(fails(statusError(http.StatusTooManyRequests))),
			rerun: free, strict: free, steps: free, check: failsWith(statusError(http.StatusTooManyRequests)),
		},
		{
			name: "returns any other error", op: op(fails(errBoom)),
			rerun: freeInDoubt, strict: held, steps: free, check: failsWith(errBoom),
		},
		{
			name: "panics", op: op(func(context.Context) (idem.Result, error) { panic(errBoom) }),
			rerun: freeInDoubt, strict: held, noSteps: true,
			check: func(t *testing.T, e ending) { require.Equal(t, errBoom, e.panicked) },
		},
		{
			name: "calls Goexit", op: op(func(context.Context) (idem.Result, error) { runtime.Goexit(); return idem.Result{}, nil }),
			rerun: freeInDoubt, strict: held, noSteps: true,
			check: func(t *testing.T, e ending) { require.True(t, e.exited) },
		},
		{
			name: "fails when the caller's context ends",
			op: func(cancel context.CancelFunc) idem.Op {
				return func(ctx context.Context) (idem.Result, error) { cancel(); return idem.Result{}, ctx.Err() }
			},
			rerun: freeInDoubt, strict: held, steps: free, check: failsWith(context.Canceled),
		},
		{
			name: "dies with its process", op: op(obeys()), dies: true,
			rerun: abandoned, strict: abandoned, noSteps: true,
			events: map[situation][]idem.EventKind{abandoned: {}},
		},
		{
			name: "succeeds but cannot be recorded", op: op(returns(`"v"`)), hook: faultstore.Fail(faultstore.Complete, 0, errDown),
			rerun: abandoned, strict: abandoned, steps: abandoned,
			check: func(t *testing.T, e ending) {
				require.ErrorIs(t, e.err, idem.ErrNotRecorded)
				require.ErrorIs(t, e.err, errDown, "the store's own error")
				require.Equal(t, idem.EffectRan, infoOf(t, e.err).Effect)
				require.Equal(t, `"v"`, string(e.res.Value), "the result comes with it")
				require.False(t, e.res.Replayed)
			},
		},
		{
			name: "succeeds with too large a value", op: op(returns(`"vw"`)), opts: &idem.Options{MaxValue: 3},
			rerun: bodyless, strict: bodyless, steps: bodyless,
			check: func(t *testing.T, e ending) {
				require.ErrorIs(t, e.err, idem.ErrTooLarge)
				require.Equal(t, idem.EffectRan, infoOf(t, e.err).Effect)
				require.Equal(t, `"vw"`, string(e.res.Value), "the result comes with it")
			},
		},
	}
}

// errDown is the error of a store that does not answer. It matches no sentinel.
var errDown = errors.New("store down")

// statusError is an error with an HTTP status, as client libraries have them.
type statusError int

func (e statusError) Error() string       { return http.StatusText(int(e)) }
func (e statusError) HTTPStatusCode() int { return int(e) }

// left is what the row leaves behind for a way and a policy.
func (e *end) left(w way, p policy) situation {
	switch {
	case w.name == "steps":
		return e.steps
	case p.strict:
		return e.strict
	}
	return e.rerun
}

// policy is how a call treats what is unknown.
type policy struct {
	name   string
	strict bool
	opts   []idem.ExecuteOption
}

func policies() []policy {
	unasked := func(context.Context, *idem.Claim) (idem.Recovery, error) { return idem.NotExecuted(), nil }
	return []policy{
		{"Rerun", false, nil},
		{"Hold", true, []idem.ExecuteOption{idem.OnUnknown(idem.Hold)}},
		{"WithRecover", true, []idem.ExecuteOption{idem.WithRecover(unasked)}},
	}
}

// eachEnd runs a test in a bubble of its own for each row, way and policy.
func eachEnd(t *testing.T, test func(t *testing.T, e end, w way, p policy)) {
	t.Helper()
	for _, e := range ends() {
		for _, w := range ways() {
			if e.noSteps && w.name == "steps" {
				continue
			}
			for _, p := range policies() {
				t.Run(strings.Join([]string{e.name, w.name, p.name}, "/"), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { test(t, e, w, p) })
				})
			}
		}
	}
}

// happen lets a row happen to the key "k" and returns the world after it, and
// how the call ended.
func (e *end) happen(t *testing.T, w way, p policy) (*world, ending) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	if e.dies {
		return e.die(t, ctx, w, p), ending{}
	}
	world := newWorld(t, e.hook, e.opts)
	done := start(func() (idem.Result, error) { return w.call(ctx, world.store, "k", e.op(cancel), p.opts...) })
	return world, <-done
}

// die lets the operation's process die while it runs: nothing of what it does
// afterwards reaches the backend.
func (e *end) die(t *testing.T, ctx context.Context, w way, p policy) *world { //nolint:revive // t comes first
	t.Helper()
	return e.dieOver(t, ctx, memstore.New(nil), w, p)
}

// dieOver is die over a given memstore.
func (e *end) dieOver(t *testing.T, ctx context.Context, memory *memstore.Backend, w way, p policy) *world { //nolint:revive // t comes first
	t.Helper()
	dead := make(chan struct{})
	dying := newProcess(t, memory, func(context.Context, faultstore.Call) faultstore.Fault {
		select {
		case <-dead:
			return faultstore.Fault{Drop: true}
		default:
			return faultstore.Fault{}
		}
	}, nil)
	done := start(func() (idem.Result, error) { return w.call(ctx, dying.store, "k", e.op(nil), p.opts...) })
	t.Cleanup(func() { <-done })
	synctest.Wait()
	close(dead)
	return dying.process(t, e.opts)
}

func TestEachEndOfAnOperationLeavesTheKeyAsTheTableSays(t *testing.T) {
	t.Parallel()
	eachEnd(t, func(t *testing.T, e end, w way, p policy) {
		world, ended := e.happen(t, w, p)
		if e.check != nil {
			e.check(t, ended)
		}
		left := e.left(w, p)
		if left == held && ended.panicked == nil && !ended.exited && w.name != "steps" {
			require.ErrorIs(t, ended.err, idem.ErrOutcomeUnknown)
			require.Equal(t, idem.EffectUnknown, infoOf(t, ended.err).Effect)
		}
		events := settledEvents()[left]
		if e.events != nil {
			events = e.events[left]
		}
		world.requireKinds(t, events...)
		requireSituation(t, world, left)
		if left == abandoned {
			time.Sleep(lease)
			rec := world.record(t, "k")
			require.Equal(t, driver.Unknown, rec.State)
			require.False(t, rec.Held)
		}
	})
}

// requireSituation requires that Inspect shows what an end has left behind.
func requireSituation(t *testing.T, w *world, left situation) {
	t.Helper()
	rec := w.record(t, "k")
	require.Equal(t, "k", rec.Key)
	require.Equal(t, 1, rec.Attempt)
	require.NotZero(t, rec.Token)
	switch left {
	case succeeded:
		require.Equal(t, driver.Succeeded, rec.State)
		require.Equal(t, `"v"`, string(rec.Outcome.Value))
		require.False(t, rec.Held || rec.Doubt || rec.Outcome.Recovered)
		require.Equal(t, aDay, rec.RetentionLeft, "the backend's own retention, from the completion")
	case failed:
		require.Equal(t, driver.Failed, rec.State)
		require.Equal(t, "failed", rec.Outcome.Code)
		require.Equal(t, errPermanent.Error(), rec.Outcome.Message)
	case free:
		require.Equal(t, driver.Released, rec.State)
		require.False(t, rec.Held || rec.Doubt)
	case freeInDoubt:
		require.Equal(t, driver.Released, rec.State)
		require.True(t, rec.Doubt && !rec.Held)
	case held:
		require.Equal(t, driver.Unknown, rec.State)
		require.True(t, rec.Held && rec.Doubt)
	case abandoned:
		require.Equal(t, driver.Claimed, rec.State)
		require.False(t, rec.Held || rec.Doubt)
	case bodyless:
		require.Equal(t, driver.Succeeded, rec.State)
		require.Equal(t, driver.BodyTooLarge, rec.Outcome.Body)
		require.Empty(t, rec.Outcome.Value)
	}
}

// The row "succeeds but cannot be encoded" exists for Do alone.
func TestAValueThatCannotBeEncodedIsDoneWithoutItsBody(t *testing.T) {
	t.Parallel()
	for _, p := range policies() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, nil)
				n := 0
				var report idem.Result
				opts := append([]idem.ExecuteOption{idem.ReportTo(&report)}, p.opts...)
				send := func() (chan int, error) {
					return idem.Do(t.Context(), w.store, "k", func(context.Context, *idem.Claim) (chan int, error) {
						n++
						return make(chan int), nil
					}, opts...)
				}
				value, err := send()
				require.ErrorIs(t, err, idem.ErrNotEncoded)
				require.Equal(t, idem.EffectRan, infoOf(t, err).Effect)
				require.NotNil(t, value, "the value comes with it the first time")
				w.requireKinds(t, idem.EventExecuted)
				require.Equal(t, driver.BodyNotEncoded, w.record(t, "k").Outcome.Body)

				value, err = send()
				require.ErrorIs(t, err, idem.ErrNotEncoded)
				require.Equal(t, idem.EffectEarlier, infoOf(t, err).Effect)
				require.Nil(t, value)
				require.True(t, report.Replayed)
				require.Equal(t, 1, n)
				w.requireKinds(t, idem.EventReplayed)
			})
		})
	}
}

// A classifier's verdict never records a failure: whatever looks permanent in an
// error without a mark leaves the key free, or held.
func TestOnlyAnExplicitMarkRecordsAFailure(t *testing.T) {
	t.Parallel()
	for _, err := range []error{statusError(http.StatusBadRequest), context.Canceled, &net.DNSError{IsNotFound: true}, errBoom} {
		w := newWorld(t, nil, nil)
		_, got := w.store.Execute(t.Context(), "k", fails(err))
		assert.ErrorIs(t, got, err)
		assert.Equal(t, driver.Released, w.record(t, "k").State)
	}
}
