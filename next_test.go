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
)

// next is a call that comes after an end, and how it treats what is unknown.
type next struct {
	name string
	opts func(r *recovery) []idem.ExecuteOption
	// verdict of the recovery, where the call has one.
	verdict idem.Recovery
	err     error
}

// recovery remembers how the recovery of a call was called.
type recovery struct {
	calls    int
	takeover bool
	attempt  int
}

func (n *next) recoverWith(r *recovery) []idem.ExecuteOption {
	return []idem.ExecuteOption{idem.WithRecover(func(_ context.Context, c *idem.Claim) (idem.Recovery, error) {
		r.calls++
		r.takeover, r.attempt = c.Takeover(), c.Attempt()
		return n.verdict, n.err
	})}
}

var errNoIdea = errors.New("provider does not know either")

func nexts() []next {
	return []next{
		{name: "Rerun", opts: func(*recovery) []idem.ExecuteOption { return nil }},
		{name: "Hold", opts: func(*recovery) []idem.ExecuteOption { return []idem.ExecuteOption{idem.OnUnknown(idem.Hold)} }},
		{name: "recovered", verdict: idem.Recovered(idem.Result{Value: []byte(`"r"`)})},
		{name: "recovered failure", verdict: idem.RecoveredFailure(errPermanent)},
		{name: "not executed", verdict: idem.NotExecuted()},
		{name: "no verdict"},
		{name: "failed recovery", err: errNoIdea},
	}
}

func TestTheNextCallGetsWhatTheTableSays(t *testing.T) {
	t.Parallel()
	for _, n := range nexts() {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			eachEnd(t, func(t *testing.T, e end, w way, p policy) { requireNext(t, e, n, w, p) })
		})
	}
}

// requireNext lets e happen, and then the next call.
func requireNext(t *testing.T, e end, n next, w way, p policy) {
	t.Helper()
	world, _ := e.happen(t, w, p)
	world.events.take()
	before := world.record(t, "k")
	r := &recovery{}
	opts := n.recoverWith(r)
	if n.opts != nil {
		opts = n.opts(r)
	}
	left := e.left(w, p)
	if left == abandoned {
		res, err := w.call(t.Context(), world.store, "k", forbidden(t), opts...)
		require.ErrorIs(t, err, idem.ErrInProgress, "until the lease ends")
		require.Empty(t, res.Value)
		world.requireKinds(t, idem.EventInProgress)
		time.Sleep(lease)
		world = world.process(t, e.opts) // one whose store works
	}
	ran := 0
	takeover := false
	res, err := w.call(t.Context(), world.store, "k", func(ctx context.Context) (idem.Result, error) {
		ran++
		c, ok := idem.ClaimFrom(ctx)
		require.True(t, ok)
		takeover = c.Takeover()
		return idem.Result{Value: []byte(`"2"`)}, nil
	}, opts...)
	after := world.record(t, "k")
	switch left {
	case succeeded, failed, bodyless:
		requireReplay(t, left, w, res, err)
		require.Zero(t, ran+r.calls, "neither the operation nor a recovery runs")
		require.Equal(t, before, after)
		world.requireKinds(t, idem.EventReplayed)
	case free:
		require.NoError(t, err)
		require.Equal(t, 1, ran)
		require.Zero(t, r.calls)
		require.False(t, takeover)
		require.Greater(t, after.Token, before.Token)
		requireRanAgain(t, res, after, false)
		world.requireKinds(t, idem.EventExecuted)
	case freeInDoubt, abandoned, held:
		next := doubtful{world: world, n: n, left: left, before: before, res: res, err: err, after: after}
		next.require(t, w, r, ran, takeover)
	}
}

// requireReplay requires the replay of a recorded outcome.
func requireReplay(t *testing.T, left situation, w way, res idem.Result, err error) {
	t.Helper()
	switch left { //nolint:exhaustive // the others are no outcomes
	case succeeded:
		require.NoError(t, err)
		require.Equal(t, `"v"`, string(res.Value))
		require.False(t, res.Recovered || res.Unprotected)
		require.NotZero(t, res.Token)
		require.Equal(t, time.Now().UTC(), res.RecordedAt, "no time has passed")
		require.True(t, res.Replayed)
		return
	case failed:
		var recorded *idem.RecordedError
		require.ErrorAs(t, err, &recorded)
		require.ErrorIs(t, err, idem.ErrRecordedFailure)
		require.Equal(t, "failed", recorded.Code)
		require.Equal(t, errPermanent.Error(), recorded.Message)
		require.Equal(t, time.Now().UTC(), recorded.RecordedAt)
	case bodyless:
		require.ErrorIs(t, err, idem.ErrTooLarge)
	}
	require.Equal(t, idem.EffectEarlier, infoOf(t, err).Effect)
	require.Empty(t, res.Value)
	if w.name != "steps" { // Claim returns a nil claim beside an error
		require.True(t, res.Replayed)
	}
}

func requireRanAgain(t *testing.T, res idem.Result, after *idem.Record, doubt bool) {
	t.Helper()
	require.Equal(t, `"2"`, string(res.Value))
	require.False(t, res.Replayed || res.Recovered)
	require.Equal(t, driver.Succeeded, after.State)
	require.Equal(t, 2, after.Attempt)
	require.Equal(t, doubt, after.Doubt)
}

// doubtful is the next call for a key of which some attempt may have had its
// effect.
type doubtful struct {
	world         *world
	n             next
	left          situation
	before, after *idem.Record
	res           idem.Result
	err           error
}

func (d *doubtful) require(t *testing.T, w way, r *recovery, ran int, takeover bool) {
	t.Helper()
	if d.n.opts == nil {
		require.Equal(t, recovery{calls: 1, takeover: true, attempt: 2}, *r)
		require.Greater(t, d.after.Token, d.before.Token)
		d.requireVerdict(t, w, ran, takeover)
		return
	}
	if d.n.name == "Rerun" && d.left != held {
		require.NoError(t, d.err)
		require.Equal(t, 1, ran)
		require.True(t, takeover)
		require.Greater(t, d.after.Token, d.before.Token)
		requireRanAgain(t, d.res, d.after, true)
		d.world.requireKinds(t, idem.EventTakeover, idem.EventExecuted)
		return
	}
	require.Zero(t, ran)
	require.ErrorIs(t, d.err, idem.ErrOutcomeUnknown)
	require.Equal(t, idem.EffectUnknown, infoOf(t, d.err).Effect)
	require.Empty(t, d.res.Value)
	require.Equal(t, d.before.Token, d.after.Token, "nothing changes")
	require.Equal(t, d.before.Attempt, d.after.Attempt)
	d.world.requireKinds(t, idem.EventOutcomeUnknown)
}

func (d *doubtful) requireVerdict(t *testing.T, w way, ran int, takeover bool) {
	t.Helper()
	switch d.n.name {
	case "not executed":
		require.NoError(t, d.err)
		require.Equal(t, 1, ran)
		require.False(t, takeover, "the recovery has told")
		requireRanAgain(t, d.res, d.after, false)
		d.world.requireKinds(t, idem.EventTakeover, idem.EventNotExecuted, idem.EventExecuted)
		return
	case "recovered":
		require.NoError(t, d.err)
		require.Equal(t, `"r"`, string(d.res.Value))
		require.True(t, d.res.Recovered)
		require.False(t, d.res.Replayed)
		require.Equal(t, driver.Succeeded, d.after.State)
		require.True(t, d.after.Outcome.Recovered)
		d.world.requireKinds(t, idem.EventTakeover, idem.EventRecovered)
	case "recovered failure":
		require.ErrorIs(t, d.err, errPermanent)
		require.ErrorIs(t, d.err, idem.ErrRecordedFailure)
		require.Equal(t, driver.Failed, d.after.State)
		require.True(t, d.after.Outcome.Recovered)
		d.world.requireKinds(t, idem.EventTakeover, idem.EventRecovered)
	case "no verdict", "failed recovery":
		require.ErrorIs(t, d.err, idem.ErrOutcomeUnknown)
		if d.n.err != nil {
			require.ErrorIs(t, d.err, errNoIdea)
		}
		require.Equal(t, driver.Unknown, d.after.State)
		require.True(t, d.after.Held, "a recovery that failed holds the key")
		d.world.requireKinds(t, idem.EventTakeover, idem.EventHeld)
	}
	require.Zero(t, ran)
	d.requireThird(t, w)
}

// requireThird requires what the call after a recovery gets.
func (d *doubtful) requireThird(t *testing.T, w way) {
	t.Helper()
	res, err := w.call(t.Context(), d.world.store, "k", forbidden(t))
	switch d.after.State {
	case driver.Succeeded:
		require.NoError(t, err)
		require.Equal(t, `"r"`, string(res.Value))
		require.True(t, res.Replayed && res.Recovered)
	case driver.Failed:
		require.ErrorIs(t, err, idem.ErrRecordedFailure)
		require.Contains(t, err.Error(), errPermanent.Error())
	case driver.Unknown:
		require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
	default:
		require.Fail(t, "the recovery left the key "+d.after.State.String())
	}
}

// The states of a key that no single row of the table passes through.

func TestAKeyThatWasReleasedCleanlyIsNotInDoubtHoweverOftenItIsTried(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	var last uint64
	for i := range 5 {
		_, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
			c, _ := idem.ClaimFrom(ctx)
			require.Equal(t, i+1, c.Attempt())
			require.False(t, c.Takeover())
			require.Greater(t, c.Token(), last)
			last = c.Token()
			return idem.Result{}, idem.NotApplied(errNothing)
		})
		require.ErrorIs(t, err, errNothing)
	}
}

// Takeover is stored: it stays true through later attempts and clean releases
// until somebody says "not executed".
func TestDoubtStaysUntilSomebodySaysNotExecuted(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"recovery", "resolve"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, nil)
			seen := func(want bool, err error) idem.Op {
				return func(ctx context.Context) (idem.Result, error) {
					c, _ := idem.ClaimFrom(ctx)
					require.Equal(t, want, c.Takeover())
					return idem.Result{}, err
				}
			}
			run := func(op idem.Op, opts ...idem.ExecuteOption) {
				_, err := w.store.Execute(t.Context(), "k", op, opts...)
				require.Error(t, err)
			}
			run(seen(false, errBoom))
			run(seen(true, idem.NotApplied(errNothing)))
			run(seen(true, idem.NotApplied(errNothing)))
			require.True(t, w.record(t, "k").Doubt)
			if end == "recovery" {
				run(seen(false, idem.NotApplied(errNothing)), idem.WithRecover(
					func(context.Context, *idem.Claim) (idem.Recovery, error) { return idem.NotExecuted(), nil }))
			} else {
				r := idem.Resolution{Recovery: idem.NotExecuted(), By: "ann", Why: "asked the bank"}
				require.NoError(t, w.store.Resolve(t.Context(), "k", w.record(t, "k").Token, r))
			}
			require.False(t, w.record(t, "k").Doubt)
			run(seen(false, idem.NotApplied(errNothing)))
		})
	}
}

// A claim that took a held record leaves it held, should its process die or the
// recovery panic.
func TestAHeldKeyIsHeldAgainWhenItsRecoveryDies(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dies := end{op: op(obeys()), dies: true}
				world := newWorld(t, nil, nil)
				_, err := world.store.Execute(t.Context(), "k", fails(idem.Unknown(errUnknown)))
				require.ErrorIs(t, err, idem.ErrOutcomeUnknown)

				stuck := idem.WithRecover(func(ctx context.Context, _ *idem.Claim) (idem.Recovery, error) {
					<-ctx.Done()
					return idem.Recovery{}, ctx.Err()
				})
				dies.dieOver(t, t.Context(), world.memory, w, policy{opts: []idem.ExecuteOption{stuck}})
				require.Equal(t, driver.Claimed, world.record(t, "k").State)
				time.Sleep(lease)
				rec := world.record(t, "k")
				require.Equal(t, driver.Unknown, rec.State)
				require.True(t, rec.Held && rec.Doubt)
			})
		})
	}
}

func TestARecoveryThatPanicsHoldsTheKeyAndGoesOn(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			world := newWorld(t, nil, nil)
			_, err := world.store.Execute(t.Context(), "k", fails(errBoom))
			require.ErrorIs(t, err, errBoom)
			panics := idem.WithRecover(func(context.Context, *idem.Claim) (idem.Recovery, error) { panic(errUnknown) })
			require.PanicsWithValue(t, errUnknown, func() { _, _ = w.call(t.Context(), world.store, "k", forbidden(t), panics) })
			rec := world.record(t, "k")
			require.Equal(t, driver.Unknown, rec.State)
			require.True(t, rec.Held && rec.Doubt)
		})
	}
}

func TestReleasingAClaimOfAHeldKeyHoldsItAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	_, err := w.store.Execute(t.Context(), "k", fails(idem.Unknown(errUnknown)))
	require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
	mistake := errors.New("it was a mistake to look")
	_, err = w.store.Execute(t.Context(), "k", forbidden(t), idem.WithRecover(
		func(context.Context, *idem.Claim) (idem.Recovery, error) {
			return idem.Recovery{}, idem.NotApplied(mistake)
		}))
	require.ErrorIs(t, err, mistake)
	rec := w.record(t, "k")
	require.True(t, rec.Held && rec.Doubt)
	require.Equal(t, driver.Unknown, rec.State)
}
