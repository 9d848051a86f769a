package tieredstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/tieredstore"
)

// stage steps actors through every order of their calls to the two tiers. An
// actor is one call of a tier; it halts before each call that this makes.
type stage struct {
	t       *testing.T
	cache   *memstore.Cache
	archive *memstore.Backend
	tiers   driver.Backend
	editor  driver.Editor
	actors  []*actor
	edited  bool // the operator's call has returned
}

type actor struct {
	name string
	play func(ctx context.Context, s *stage)
	turn chan struct{}
	over bool
	// pause, if positive, is all that the actor does: time passes.
	pause time.Duration
}

type actorKey struct{}

const stageKey = "0:k"

// halt waits for the actor's turn, whatever happens to its context: a slow call
// arrives late, and arrives.
func halt(ctx context.Context, _ faultstore.Call) faultstore.Fault {
	if a, ok := ctx.Value(actorKey{}).(*actor); ok {
		return faultstore.Fault{Before: faultstore.StallUntil(a.turn)}
	}
	return faultstore.Fault{}
}

// late is a cache whose calls arrive although their callers have given up.
type late struct{ driver.Cache }

func (l late) Put(ctx context.Context, p *driver.PutParams) error {
	return l.Cache.Put(context.WithoutCancel(ctx), p)
}

func (l late) Delete(ctx context.Context, key string, refuse time.Duration) error {
	return l.Cache.Delete(context.WithoutCancel(ctx), key, refuse)
}

// enter brings each actor to its first call.
func (s *stage) enter() {
	for _, a := range s.actors {
		if a.pause > 0 {
			continue
		}
		a.turn = make(chan struct{})
		ctx := context.WithValue(s.t.Context(), actorKey{}, a)
		go func() {
			a.play(ctx, s)
			a.over = true
		}()
		synctest.Wait()
	}
}

// step lets an actor make the call that it halts before, and come to its next.
func (s *stage) step(a *actor) {
	if a.pause > 0 {
		time.Sleep(a.pause)
		a.over = true
		return
	}
	turn := a.turn
	a.turn = make(chan struct{})
	close(turn)
	synctest.Wait()
}

// run plays the actors in the order that choose decides, and judges after each
// step. It is in a bubble.
func (s *stage) run(choose func(ready int) int) {
	var order []string
	for s.enter(); ; {
		var ready []*actor
		for _, a := range s.actors {
			if !a.over {
				ready = append(ready, a)
			}
		}
		if len(ready) == 0 {
			s.judge(order, "at the end")
			return
		}
		a := ready[choose(len(ready))]
		order = append(order, a.name)
		s.step(a)
		if s.edited {
			s.judge(order, "after the edit")
		}
	}
}

// judge asserts A15: the copy is absent, or equals the archive's record.
func (s *stage) judge(order []string, when string) {
	copied, err := s.cache.Get(s.t.Context(), stageKey)
	if errors.Is(err, driver.ErrNotFound) {
		return
	}
	require.NoError(s.t, err)
	rec, err := s.archive.Inspect(s.t.Context(), stageKey)
	require.NoError(s.t, err)
	if copied.Token != rec.Token || copied.Revision != rec.Revision || !rec.State.Completed() || !copied.Outcome.Equal(&rec.Outcome) {
		s.t.Fatalf("%s, the fast tier has token %d revision %d %v, the archive token %d revision %d %v; order: %v",
			when, copied.Token, copied.Revision, copied.Outcome, rec.Token, rec.Revision, rec.State, order)
	}
}

// everyOrder plays cast in every order: each run repeats the choices of the one
// before, but for the last that can still be another.
func everyOrder(t *testing.T, put bool, cast ...func() *actor) (runs int) {
	t.Helper()
	var chosen, among []int
	for more := true; more; runs++ {
		depth := 0
		choose := func(ready int) int {
			if depth == len(chosen) {
				chosen, among = append(chosen, 0), append(among, ready)
			}
			among[depth] = ready
			depth++
			return chosen[depth-1]
		}
		synctest.Test(t, func(t *testing.T) { newStage(t, put, cast).run(choose) })
		if t.Failed() {
			return runs
		}
		chosen, among = chosen[:depth], among[:depth]
		for more = false; len(chosen) > 0 && !more; {
			last := len(chosen) - 1
			if chosen[last]+1 < among[last] {
				chosen[last]++
				more = true
			} else {
				chosen, among = chosen[:last], among[:last]
			}
		}
	}
	return runs
}

// newStage has a completed record, with a copy in the fast tier or without.
func newStage(t *testing.T, put bool, cast []func() *actor) *stage {
	t.Helper()
	s := &stage{t: t, cache: memstore.NewCache(nil), archive: memstore.New(nil)}
	tiers := over(t, faultstore.NewCache(late{s.cache}, halt), faultstore.New(s.archive, halt), nil)
	s.tiers, s.editor = tiers, tiers
	owns(t.Context(), s, 1, "first")
	if !put {
		require.NoError(t, s.cache.Delete(t.Context(), stageKey, 0))
	}
	for _, c := range cast {
		s.actors = append(s.actors, c())
	}
	return s
}

// owns claims the key and completes it, if it can.
func owns(ctx context.Context, s *stage, owner byte, value string) {
	res, err := s.tiers.Claim(ctx, claimBy(owner))
	if err != nil || res.Fact != driver.Acquired {
		return
	}
	ref := driver.Ref{Key: stageKey, Owner: driver.Owner{owner}, Token: res.Record.Token}
	_ = s.tiers.Complete(ctx, ref, &driver.CompleteParams{Outcome: driver.Outcome{Value: []byte(value)}, Retention: 90 * day})
}

func claimBy(owner byte) *driver.ClaimParams {
	return &driver.ClaimParams{
		Key: stageKey, Owner: driver.Owner{owner}, Lease: time.Hour, Retention: 90 * day,
		Take: driver.TakeAbsent | driver.TakeReleased,
	}
}

// The cast.

func reader(owner byte) func() *actor {
	return func() *actor {
		return &actor{name: fmt.Sprint("reader", owner), play: func(ctx context.Context, s *stage) {
			p := claimBy(owner)
			p.Take = driver.TakeAbsent // a reader only
			_, _ = s.tiers.Claim(ctx, p)
		}}
	}
}

// runner calls as a first caller would: it claims what it may, and completes it.
func runner(owner byte) func() *actor {
	return func() *actor {
		return &actor{name: "runner", play: func(ctx context.Context, s *stage) { owns(ctx, s, owner, "second") }}
	}
}

func operator(edit func(driver.Editor, context.Context, string, *driver.EditParams) error) func() *actor {
	return func() *actor {
		return &actor{name: "operator", play: func(ctx context.Context, s *stage) {
			rec, err := s.archive.Inspect(ctx, stageKey)
			require.NoError(s.t, err)
			require.NoError(s.t, edit(s.editor, ctx, stageKey, &driver.EditParams{Token: rec.Token, Retention: 90 * day}))
			s.edited = true
		}}
	}
}

// eviction drops the copy, and no marker.
func eviction() *actor {
	return &actor{name: "eviction", play: func(ctx context.Context, s *stage) {
		_ = halt(ctx, faultstore.Call{}).Before(ctx)
		_ = s.cache.Delete(ctx, stageKey, 0)
	}}
}

// clock lets almost half of RefillBound pass: what a call may be late on its way.
func clock() *actor { return &actor{name: "clock", pause: 29 * time.Second} }

func edits() map[string]func() *actor {
	return map[string]func() *actor{"redact": operator(driver.Editor.Redact), "reset": operator(driver.Editor.Reset)}
}

func TestNoOrderOfReaderOperatorAndEvictionServesAnOldOutcome(t *testing.T) {
	t.Parallel()
	for name, operator := range edits() {
		for _, put := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, copy there before: %v", name, put), func(t *testing.T) {
				t.Parallel()
				n := everyOrder(t, put, reader(2), operator, eviction)
				n += everyOrder(t, put, reader(2), reader(3), operator)
				t.Logf("%d orders", n)
				require.Greater(t, n, 100)
			})
		}
	}
}

// The reader, or its copy on the way, is late by almost RefillBound in all.
func TestNoOrderOfALateReaderAndAnOperatorServesAnOldOutcome(t *testing.T) {
	t.Parallel()
	for name, operator := range edits() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := everyOrder(t, false, reader(2), operator, clock, clock)
			t.Logf("%d orders", n)
			require.Greater(t, n, 300)
		})
	}
}

// The key is reset and runs again while readers of the first outcome are late
// (C41).
func TestNoOrderOfReaderOperatorAndNextRunServesAnOldOutcome(t *testing.T) {
	t.Parallel()
	n := everyOrder(t, false, reader(2), edits()["reset"], runner(4))
	t.Logf("%d orders", n)
	require.Greater(t, n, 1000)
}

// putting is a fast tier for the plan that ADR 0060 rejects: a redaction is a put
// with a higher revision, and leaves no marker.
type putting struct {
	driver.Cache
	archive driver.Backend
}

func (p putting) Delete(ctx context.Context, key string, _ time.Duration) error {
	rec, err := p.archive.Inspect(context.WithoutCancel(ctx), key)
	if err != nil {
		return err
	}
	return p.Put(ctx, &driver.PutParams{Record: rec, TTL: day})
}

// Why there are markers: this is the order in which an
// evicted tombstone lets the old body in.
func TestATombstoneAloneWouldLetAnOldCopyIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, false, nil)
		s.tiers = over(t, putting{s.cache, s.archive}, s.archive, nil)
		s.editor = over(t, putting{s.cache, s.archive}, s.archive, nil)
		old, err := s.archive.Inspect(t.Context(), stageKey)
		require.NoError(t, err)
		require.NoError(t, s.editor.Redact(t.Context(), stageKey, &driver.EditParams{Token: old.Token}))
		require.NoError(t, s.cache.Delete(t.Context(), stageKey, 0))
		require.NoError(t, s.cache.Put(t.Context(), &driver.PutParams{Record: old, TTL: day}))
		stale, err := s.cache.Get(t.Context(), stageKey)
		require.NoError(t, err)
		require.Equal(t, "first", string(stale.Outcome.Value), "redacted, and served")
	})
}

func TestAnEditThatCannotReachTheFastTierSaysSo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.execute(t, "k")
		token := b.token(t, "k")
		b.fastFault.set(down())
		require.ErrorIs(t, b.store.Redact(t.Context(), "k", token, "asked"), tieredstore.ErrStale)
		b.fastFault.set(nil)
		require.NotNil(t, b.copyOf(t, "k"), "back from the dead, with the old copy")
		require.NoError(t, b.store.Redact(t.Context(), "k", token, "asked"), "repeated")
		require.Nil(t, b.copyOf(t, "k"))

		b.execute(t, "r")
		token = b.token(t, "r")
		b.fastFault.set(down())
		require.ErrorIs(t, b.store.Reset(t.Context(), "r", token, "asked"), tieredstore.ErrStale)
		err := b.store.Reset(t.Context(), "r", token, "asked")
		require.ErrorIs(t, err, idem.ErrConflict, "the token is another now")
		require.ErrorIs(t, err, tieredstore.ErrStale, "and the copy is still there")
		b.fastFault.set(nil)
		require.NotNil(t, b.copyOf(t, "r"))
		err = b.store.Reset(t.Context(), "r", token, "asked")
		require.ErrorIs(t, err, idem.ErrConflict)
		require.NotErrorIs(t, err, tieredstore.ErrStale, "it is removed")
		require.Nil(t, b.copyOf(t, "r"))
		require.False(t, b.execute(t, "r").Replayed)
	})
}

// The process dies after the archive was changed: the first marker stands.
func TestAnEditThatDiesHalfWayLeavesNoOldCopy(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.execute(t, "k")
		token := b.token(t, "k")
		b.fastFault.set(faultstore.Fail(faultstore.Delete, 2, errDown))
		require.ErrorIs(t, b.store.Reset(t.Context(), "k", token, "asked"), tieredstore.ErrStale)
		require.Nil(t, b.copyOf(t, "k"))
		require.False(t, b.execute(t, "k").Replayed)
	})
}

func TestAfterTheMarkersEndTheCopyIsPutBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.execute(t, "k")
		require.NoError(t, b.store.Redact(t.Context(), "k", b.token(t, "k"), "asked"))
		redacted := func() {
			_, err := b.store.Execute(t.Context(), "k", b.op)
			require.ErrorContains(t, err, "redacted")
		}
		redacted()
		require.Nil(t, b.copyOf(t, "k"))
		time.Sleep(time.Minute)
		redacted()
		require.Equal(t, driver.BodyRedacted, b.copyOf(t, "k").Outcome.Body)
		require.Equal(t, calls{gets: 1}, b.during(redacted))
	})
}
