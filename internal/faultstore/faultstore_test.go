package faultstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
)

const (
	key   = "invoice"
	lease = 30 * time.Second
)

var errDown = errors.New("connection reset by peer")

func owner(n byte) driver.Owner { return driver.Owner{n} }

func claimParams(n byte) *driver.ClaimParams {
	const every = driver.TakeAbsent | driver.TakeReleased | driver.TakeDoubtful | driver.TakeUnknown | driver.TakeHeld
	return &driver.ClaimParams{Key: key, Owner: owner(n), Lease: lease, Retention: time.Hour, Take: every}
}

func success(value string) *driver.CompleteParams {
	return &driver.CompleteParams{Outcome: driver.Outcome{Value: []byte(value)}, Retention: time.Hour}
}

// inBubble runs f with a Store over an empty memstore, and the latter.
func inBubble(t *testing.T, hook faultstore.Hook, f func(t *testing.T, s *faultstore.Store, inner driver.Backend)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		inner := memstore.New(nil)
		f(t, faultstore.New(inner, hook), inner)
	})
}

func claim(t *testing.T, b driver.Backend, n byte) driver.Ref {
	t.Helper()
	p := claimParams(n)
	res, err := b.Claim(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, p.Owner, res.Record.Owner)
	return driver.Ref{Key: key, Owner: p.Owner, Token: res.Record.Token}
}

// state of the key, 0 if it has no record.
func state(t *testing.T, b driver.Backend) driver.State {
	t.Helper()
	rec, err := b.Inspect(t.Context(), key)
	if errors.Is(err, driver.ErrNotFound) {
		return 0
	}
	require.NoError(t, err)
	return rec.State
}

// outcome is what the caller of a faulty Complete sees, and what became of it.
type outcome struct {
	fault func(cancel func()) faultstore.Fault
	err   error
	after time.Duration
	sent  int
	ended bool // the caller's context, afterwards
}

// outcomes is the table of the package documentation. The caller's context ends
// after two minutes.
func outcomes() map[string]outcome {
	const minute = time.Minute // past the lease
	fixed := func(f faultstore.Fault) func(func()) faultstore.Fault {
		return func(func()) faultstore.Fault { return f }
	}
	before := func(act func(func()) func(context.Context) error) func(func()) faultstore.Fault {
		return func(cancel func()) faultstore.Fault { return faultstore.Fault{Before: act(cancel)} }
	}
	after := func(act func(func()) func(context.Context) error) func(func()) faultstore.Fault {
		return func(cancel func()) faultstore.Fault { return faultstore.Fault{After: act(cancel)} }
	}
	return map[string]outcome{
		"none":                    {fault: fixed(faultstore.Fault{}), sent: 1},
		"error, not applied":      {fault: fixed(faultstore.Fault{Drop: true, Err: errDown}), err: errDown},
		"dropped without a name":  {fault: fixed(faultstore.Fault{Drop: true}), err: faultstore.ErrDropped},
		"dropped is not twice":    {fault: fixed(faultstore.Fault{Drop: true, Twice: true}), err: faultstore.ErrDropped},
		"error, applied":          {fault: fixed(faultstore.Fault{Err: errDown}), err: errDown, sent: 1},
		"applied, late reply":     {fault: fixed(faultstore.Fault{After: faultstore.Delay(minute)}), after: minute, sent: 1},
		"applied twice":           {fault: fixed(faultstore.Fault{Twice: true}), sent: 2},
		"applied twice, no reply": {fault: fixed(faultstore.Fault{Twice: true, Err: errDown}), err: errDown, sent: 2},
		"delayed before the send": {fault: fixed(faultstore.Fault{Before: faultstore.Delay(minute)}), after: minute, sent: 1},
		"delayed past the context": {
			fault: fixed(faultstore.Fault{Before: faultstore.Delay(3 * minute)}),
			err:   context.DeadlineExceeded, after: 2 * minute, ended: true,
		},
		"paused for good": {
			fault: fixed(faultstore.Fault{Before: faultstore.PauseUntil(nil)}),
			err:   context.DeadlineExceeded, after: 2 * minute, ended: true,
		},
		"applied, reply paused for good": {
			fault: fixed(faultstore.Fault{After: faultstore.PauseUntil(nil)}),
			err:   context.DeadlineExceeded, after: 2 * minute, sent: 1, ended: true,
		},
		"context ends before the send":           {fault: before(faultstore.Cut), err: context.Canceled, ended: true},
		"context ends before, the backend looks": {fault: before(faultstore.End), err: context.Canceled, sent: 1, ended: true},
		"context ends during the call":           {fault: after(faultstore.Cut), err: context.Canceled, sent: 1, ended: true},
		"context ends after the reply":           {fault: after(faultstore.End), sent: 1, ended: true},
	}
}

func TestEachFaultDoesToACallWhatItSays(t *testing.T) {
	t.Parallel()
	for name, o := range outcomes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				inner := memstore.New(nil)
				s := faultstore.New(inner, faultstore.At(faultstore.Complete, 1, o.fault(cancel)))
				ref := claim(t, s, 1)
				start := time.Now()
				require.ErrorIs(t, s.Complete(ctx, ref, success("v")), o.err)
				require.Equal(t, o.after, time.Since(start))
				require.Equal(t, o.ended, ctx.Err() != nil)
				e := s.Log()[1]
				require.Equal(t, o.sent, e.Sent)
				require.True(t, e.Returned)
				require.ErrorIs(t, e.Err, o.err)
				applied := o.sent > 0 && e.Inner == nil
				require.Equal(t, applied, state(t, inner).Completed())
			})
		})
	}
}

// A backend that breaks the contract: the caller's context does not bring it back.
func TestAStallOutlastsTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		resume := make(chan struct{})
		s := faultstore.New(memstore.New(nil), faultstore.At(faultstore.Claim, 1, faultstore.Fault{Before: faultstore.StallUntil(resume)}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			time.Sleep(time.Hour)
			close(resume)
		}()
		start := time.Now()
		_, err := s.Claim(ctx, claimParams(1))
		require.ErrorIs(t, err, context.DeadlineExceeded, "then memstore looks at the context")
		require.Equal(t, time.Hour, time.Since(start))
	})
}

func TestAPauseEndsWhenTheTestResumesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		resume := make(chan struct{})
		s := faultstore.New(memstore.New(nil), faultstore.At(faultstore.Claim, 1, faultstore.Fault{Before: faultstore.PauseUntil(resume)}))
		done := make(chan error)
		go func() {
			_, err := s.Claim(t.Context(), claimParams(1))
			done <- err
		}()
		synctest.Wait()
		e := s.Log()[0]
		require.False(t, e.Returned, "the log shows the call while it is paused")
		require.Zero(t, e.Sent)
		close(resume)
		require.NoError(t, <-done)
		e = s.Log()[0]
		require.True(t, e.Returned)
		require.Equal(t, 1, e.Sent)
		require.Equal(t, driver.Acquired, e.Fact)
	})
}

// What a caller cancelled does not end a call that has a context of its own.
func TestCutSparesACallWithAContextOfItsOwn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := faultstore.New(memstore.New(nil), faultstore.At(faultstore.Claim, 1, faultstore.Fault{Before: faultstore.Cut(cancel)}))
	_, err := s.Claim(context.WithoutCancel(ctx), claimParams(1))
	require.NoError(t, err)
	require.Error(t, ctx.Err())
}

// The cause of a context comes through, and its error too.
func TestAPausedCallReturnsTheCauseOfItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	s := faultstore.New(memstore.New(nil), faultstore.At(faultstore.Inspect, 0, faultstore.Fault{Before: faultstore.PauseUntil(nil)}))
	cancel(errDown)
	_, err := s.Inspect(ctx, key)
	require.ErrorIs(t, err, errDown)
	require.ErrorIs(t, err, context.Canceled)
}

func TestHooksPickTheirCalls(t *testing.T) {
	t.Parallel()
	hook := faultstore.First(
		faultstore.Fail(faultstore.Claim, 2, errDown),
		faultstore.Lose(faultstore.Claim, 3),
		faultstore.Duplicate(faultstore.Claim, 4),
		faultstore.Fail("", 6, faultstore.Odd("sixth of all")),
		faultstore.Fail(faultstore.Inspect, 0, faultstore.Odd("each")),
	)
	inBubble(t, hook, func(t *testing.T, s *faultstore.Store, inner driver.Backend) {
		var sent []int
		var errs []error
		for n := range byte(5) {
			_, err := s.Claim(t.Context(), claimParams(n+1))
			errs = append(errs, err)
			sent = append(sent, s.Log()[n].Sent)
			time.Sleep(lease)
		}
		require.Equal(t, []int{1, 0, 1, 2, 1}, sent)
		require.Equal(t, []error{nil, errDown, faultstore.ErrReplyLost, nil, nil}, errs)
		rec, err := inner.Inspect(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, 4, rec.Attempt, "one of five was not applied, and what came twice counts once (I6)")

		require.ErrorContains(t, s.Release(t.Context(), driver.Ref{Key: key, Owner: owner(5)}, &driver.ReleaseParams{Retention: 1}), "sixth")
		for range 2 {
			_, err = s.Inspect(t.Context(), key)
			require.ErrorContains(t, err, "each")
		}
		require.Equal(t, 5, s.Count(faultstore.Claim))
		require.Equal(t, 2, s.Count(faultstore.Inspect))
		require.Zero(t, s.Count(faultstore.Renew))
		require.Equal(t, 8, s.Count(""))
	})
}

// None of the errors that are made here may be taken for an answer (I8).
func TestInjectedErrorsLeaveTheEffectUnknown(t *testing.T) {
	t.Parallel()
	for _, err := range []error{faultstore.ErrDropped, faultstore.ErrReplyLost, faultstore.Odd("x")} {
		require.False(t, driver.NoEffect(err), err)
	}
	err := faultstore.Odd("x")
	require.Panics(t, func() { _ = err == faultstore.Odd("x") }, "careless comparisons are found out") //nolint:errorlint // see there
}

func TestEachMethodReachesTheHookAndTheLog(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []faultstore.Call
	hook := func(_ context.Context, c faultstore.Call) faultstore.Fault {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, c)
		return faultstore.Fault{}
	}
	inBubble(t, hook, func(t *testing.T, s *faultstore.Store, _ driver.Backend) {
		ctx := t.Context()
		ref := claim(t, s, 1)
		edit := &driver.EditParams{Token: ref.Token, Retention: time.Hour}
		_, err := s.Watch(ctx, key)
		require.NoError(t, err)
		_, err = s.Inspect(ctx, key)
		require.NoError(t, err)
		require.NoError(t, s.Renew(ctx, ref, &driver.RenewParams{Lease: lease, Retention: time.Hour}))
		require.NoError(t, s.Annotate(ctx, ref, &driver.AnnotateParams{NotExecuted: true}))
		require.NoError(t, s.Complete(ctx, ref, success("v")))
		require.ErrorIs(t, s.Release(ctx, ref, &driver.ReleaseParams{Retention: time.Hour}), driver.ErrLeaseLost)
		require.NoError(t, s.Redact(ctx, key, edit))
		require.NoError(t, s.Reset(ctx, key, edit))

		entries := s.Log()
		require.Len(t, entries, len(seen))
		want := []string{"Claim", "Watch", "Inspect", "Renew", "Annotate", "Complete", "Release", "Redact", "Reset"}
		for i, e := range entries {
			require.Equal(t, want[i], e.Method)
			require.Equal(t, e.Call, seen[i])
			require.Equal(t, i+1, e.Seq)
			require.Equal(t, 1, e.Nth)
			require.Equal(t, key, e.Key)
			require.Equal(t, e.Method == "Claim", e.Fact == driver.Acquired)
			require.Equal(t, e.Method == "Release", e.Inner != nil)
			require.Equal(t, e.Inner, e.Err)
			hasRef := e.Method != "Watch" && e.Method != "Inspect" && e.Method != "Redact" && e.Method != "Reset"
			require.Equal(t, hasRef, e.Owner == owner(1), e.Method)
			require.Equal(t, e.Method == "Watch" || e.Method == "Inspect", e.Params == nil)
		}
		require.Equal(t, ref.Token, entries[8].Token)
	})
}
