package idem_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
)

// The tests of this file are the table of errors in the package documentation,
// row by row: what the error matches, what it says about the effect, and what
// its text tells the reader.

// secretKey is a key that must not be read where keys are hashed.
const secretKey = "card-4242"

// mishap is one row.
type mishap struct {
	name  string
	ways  string // that it can happen in; "" is all
	match error
	code  string
	// effect, state and attempt that the error tells.
	effect  idem.Effect
	state   driver.State
	attempt int
	remedy  string // a part of it
	events  []idem.EventKind
	// happen makes it happen to secretKey.
	happen func(t *testing.T, w way, opts *idem.Options) (*world, error)
	// more looks closer; it may be nil.
	more func(t *testing.T, err error)
}

// attempt attempts an operation in a new world.
func attempt(hook faultstore.Hook, before func(t *testing.T, w *world), op idem.Op, opts ...idem.ExecuteOption) func(*testing.T, way, *idem.Options) (*world, error) {
	return func(t *testing.T, w way, o *idem.Options) (*world, error) {
		t.Helper()
		world := newWorld(t, hook, o)
		if before != nil {
			before(t, world)
			world.events.take()
		}
		_, err := w.call(t.Context(), world.store, secretKey, op, opts...)
		return world, err
	}
}

// ran lets an operation run before.
func ran(op idem.Op, opts ...idem.ExecuteOption) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) {
		t.Helper()
		_, _ = w.store.Execute(t.Context(), secretKey, op, opts...)
	}
}

// runsElsewhere lets another process run an operation for a while.
func runsElsewhere(opts ...idem.ExecuteOption) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) {
		t.Helper()
		done := w.process(t, &idem.Options{Namespace: "ns"}).execute(t.Context(), secretKey, takes(time.Second, `1`), opts...)
		t.Cleanup(func() { <-done })
		synctest.Wait()
	}
}

// runsHere does the same in this process.
func runsHere(opts ...idem.ExecuteOption) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) {
		t.Helper()
		done := w.execute(t.Context(), secretKey, takes(time.Second, `1`), opts...)
		t.Cleanup(func() { <-done })
		synctest.Wait()
	}
}

// stolen is an operation whose key another process takes over meanwhile.
func stolen(t *testing.T, w way, o *idem.Options) (*world, error) {
	t.Helper()
	world := newWorld(t, faultstore.Fail(faultstore.Renew, 0, errDown), o)
	_, err := w.call(t.Context(), world.store, secretKey, func(context.Context) (idem.Result, error) {
		time.Sleep(lease)
		_, err := world.process(t, o).store.Execute(t.Context(), secretKey, returns(`"other"`))
		require.NoError(t, err)
		return idem.Result{Value: []byte(`"mine"`)}, nil
	})
	world.events.take()
	return world, err
}

func fingerprint(s string) idem.ExecuteOption { return idem.WithFingerprint([]byte(s)) }

func mishaps() []mishap {
	hold := idem.OnUnknown(idem.Hold)
	return []mishap{
		{
			name: "done", ways: "Claim", match: idem.ErrAlreadyDone, code: "already_done",
			effect: idem.EffectEarlier, state: driver.Succeeded, attempt: 1, remedy: "Result", events: []idem.EventKind{idem.EventReplayed},
			happen: func(t *testing.T, _ way, o *idem.Options) (*world, error) {
				world := newWorld(t, nil, o)
				ran(returns("1"))(t, world)
				world.events.take()
				c, err := world.store.Claim(t.Context(), secretKey, 0)
				require.Equal(t, "1", string(c.Result.Value))
				require.True(t, c.Result.Replayed)
				return world, err
			},
		},
		{
			name: "in progress elsewhere", match: idem.ErrInProgress, code: "in_progress",
			effect: idem.EffectElsewhere, state: driver.Claimed, attempt: 1, remedy: "wait", events: []idem.EventKind{idem.EventInProgress},
			happen: attempt(nil, runsElsewhere(), returns("2")),
			more: func(t *testing.T, err error) {
				var busy *idem.InProgressError
				require.ErrorAs(t, err, &busy)
				require.Equal(t, 100*time.Millisecond, busy.RetryAfter)
				require.Equal(t, lease, busy.LeaseLeft)
			},
		},
		{
			name: "in progress here", match: idem.ErrInProgress, code: "in_progress",
			effect: idem.EffectElsewhere, state: driver.Claimed, attempt: 1, remedy: "wait", events: []idem.EventKind{idem.EventInProgress},
			happen: attempt(nil, runsHere(), returns("2")),
		},
		{
			name: "other request recorded", match: idem.ErrFingerprintMismatch, code: "fingerprint_mismatch",
			effect: idem.EffectNotRun, state: driver.Succeeded, attempt: 1, remedy: "fix the caller", events: []idem.EventKind{idem.EventMismatch},
			happen: attempt(nil, ran(returns("1"), fingerprint("a")), returns("2"), fingerprint("b")),
		},
		{
			name: "other request running elsewhere", match: idem.ErrFingerprintMismatch, code: "fingerprint_mismatch",
			effect: idem.EffectNotRun, state: driver.Claimed, attempt: 1, remedy: "fix the caller", events: []idem.EventKind{idem.EventMismatch},
			happen: attempt(nil, runsElsewhere(fingerprint("a")), returns("2"), fingerprint("b")),
		},
		{
			name: "other request running here", match: idem.ErrFingerprintMismatch, code: "fingerprint_mismatch",
			effect: idem.EffectNotRun, state: driver.Claimed, attempt: 1, remedy: "fix the caller", events: []idem.EventKind{idem.EventMismatch},
			happen: attempt(nil, runsHere(fingerprint("a")), returns("2"), fingerprint("b")),
		},
		{
			name: "in doubt, and Hold", match: idem.ErrOutcomeUnknown, code: "outcome_unknown",
			effect: idem.EffectUnknown, state: driver.Released, attempt: 1, remedy: "resolve", events: []idem.EventKind{idem.EventOutcomeUnknown},
			happen: attempt(nil, ran(fails(errBoom)), returns("2"), hold),
		},
		{
			name: "held", match: idem.ErrOutcomeUnknown, code: "outcome_unknown",
			effect: idem.EffectUnknown, state: driver.Unknown, attempt: 1, remedy: "resolve", events: []idem.EventKind{idem.EventOutcomeUnknown},
			happen: attempt(nil, ran(fails(idem.Unknown(errUnknown))), returns("2")),
		},
		{
			name: "held by this call", ways: "Execute Do", match: idem.ErrOutcomeUnknown, code: "outcome_unknown",
			effect: idem.EffectUnknown, state: driver.Unknown, attempt: 1, remedy: "resolve", events: []idem.EventKind{idem.EventHeld},
			happen: attempt(nil, nil, fails(errBoom), hold),
			more:   func(t *testing.T, err error) { require.ErrorIs(t, err, errBoom) },
		},
		{
			name: "lease lost", match: idem.ErrLeaseLost, code: "lease_lost",
			effect: idem.EffectRan, state: driver.Claimed, attempt: 1, remedy: "call again", happen: stolen, events: []idem.EventKind{},
		},
		{
			name: "trust window ended", ways: "Execute Do", match: idem.ErrLeaseLost, code: "lease_lost",
			effect: idem.EffectRan, state: driver.Claimed, attempt: 1, remedy: "call again",
			happen: attempt(faultstore.Fail(faultstore.Renew, 0, errDown), nil, obeys()),
		},
		{
			name: "ran too long", ways: "Execute Do", match: idem.ErrMaxRun, code: "max_run",
			effect: idem.EffectUnknown, state: driver.Claimed, attempt: 1, remedy: "call again", events: []idem.EventKind{idem.EventReleased},
			happen: attempt(nil, nil, obeys()),
		},
		{
			name: "not recorded", match: idem.ErrNotRecorded, code: "not_recorded",
			effect: idem.EffectRan, state: driver.Claimed, attempt: 1, remedy: "call again", events: []idem.EventKind{idem.EventNotRecorded},
			happen: attempt(faultstore.Fail(faultstore.Complete, 0, errDown), nil, returns("1")),
			more:   func(t *testing.T, err error) { require.ErrorIs(t, err, errDown) },
		},
		{
			name: "failure not recorded", ways: "Execute Do", match: idem.ErrNotRecorded, code: "not_recorded",
			effect: idem.EffectRan, state: driver.Claimed, attempt: 1, remedy: "call again", events: []idem.EventKind{idem.EventNotRecorded},
			happen: attempt(faultstore.Fail(faultstore.Complete, 0, errDown), nil, fails(idem.Permanent(errPermanent))),
			more:   func(t *testing.T, err error) { require.ErrorIs(t, err, errPermanent) },
		},
		{
			name: "value too large", match: idem.ErrTooLarge, code: "too_large",
			effect: idem.EffectRan, state: driver.Succeeded, attempt: 1, remedy: "MaxValue", events: []idem.EventKind{idem.EventExecuted},
			happen: attempt(nil, nil, returns(`"0123456789"`)),
		},
		{
			name: "value was too large", match: idem.ErrTooLarge, code: "too_large",
			effect: idem.EffectEarlier, state: driver.Succeeded, attempt: 1, remedy: "MaxValue", events: []idem.EventKind{idem.EventReplayed},
			happen: attempt(nil, ran(returns(`"0123456789"`)), returns("2")),
		},
		{
			name: "value cannot be decoded", ways: "Do", match: idem.ErrNotDecoded, code: "not_decoded",
			effect: idem.EffectEarlier, state: driver.Succeeded, attempt: 1, remedy: "never run it again", events: []idem.EventKind{idem.EventReplayed},
			happen: func(t *testing.T, _ way, o *idem.Options) (*world, error) {
				world := newWorld(t, nil, o)
				ran(returns(`"text"`))(t, world)
				world.events.take()
				_, err := idem.Do(t.Context(), world.store, secretKey, func(context.Context, *idem.Claim) (int, error) { return 0, errBoom })
				return world, err
			},
		},
		{
			name: "value redacted", match: idem.ErrRedacted, code: "redacted",
			effect: idem.EffectEarlier, state: driver.Succeeded, attempt: 1, remedy: "stop", events: []idem.EventKind{idem.EventReplayed},
			happen: attempt(nil, func(t *testing.T, w *world) {
				ran(returns("1"))(t, w)
				require.NoError(t, w.store.Redact(t.Context(), secretKey, w.record(t, secretKey).Token, "erasure request"))
			}, returns("2")),
		},
		{
			name: "recorded failure", match: idem.ErrRecordedFailure, code: "recorded_failure",
			effect: idem.EffectEarlier, state: driver.Failed, attempt: 1, remedy: "stop", events: []idem.EventKind{idem.EventReplayed},
			happen: attempt(nil, ran(fails(idem.Permanent(errPermanent))), returns("2")),
		},
		{
			name: "store down", match: idem.ErrUnavailable, code: "unavailable",
			effect: idem.EffectNotRun, remedy: "call again", events: []idem.EventKind{idem.EventUnavailable},
			happen: attempt(faultstore.Fail("", 0, errDown), nil, returns("1")),
			more:   func(t *testing.T, err error) { require.ErrorIs(t, err, errDown) },
		},
		{
			name: "record unreadable", match: idem.ErrCorrupt, code: "corrupt",
			effect: idem.EffectUnknown, remedy: "operator", events: []idem.EventKind{idem.EventCorrupt},
			happen: attempt(faultstore.Fail(faultstore.Claim, 0, fmt.Errorf("row 7: %w", driver.ErrCorrupt)), nil, returns("1")),
			more:   func(t *testing.T, err error) { require.ErrorContains(t, err, "row 7") },
		},
		{
			name: "key refused by the backend", match: idem.ErrInvalidKey, code: "invalid_key",
			effect: idem.EffectNotRun, remedy: "fix the caller",
			happen: attempt(faultstore.Fail(faultstore.Claim, 0, driver.ErrInvalidKey), nil, returns("1")),
		},
		{
			name: "Store closed", match: idem.ErrClosed, code: "closed",
			effect: idem.EffectNotRun, remedy: "fix the caller", events: []idem.EventKind{},
			happen: attempt(nil, func(t *testing.T, w *world) { require.NoError(t, w.store.Close(t.Context())) }, returns("1")),
		},
		{
			name: "context ended before", match: errLeft, code: "context_ended",
			effect: idem.EffectNotRun, remedy: "call again", events: []idem.EventKind{},
			happen: func(t *testing.T, w way, o *idem.Options) (*world, error) {
				world := newWorld(t, nil, o)
				ctx, cancel := context.WithCancelCause(t.Context())
				cancel(errLeft)
				_, err := w.call(ctx, world.store, secretKey, forbidden(t))
				require.Zero(t, world.faults.Count(""), "the store is not asked")
				return world, err
			},
			more: func(t *testing.T, err error) { require.ErrorIs(t, err, context.Canceled) },
		},
		{
			name: "context ended while claiming", match: idem.ErrUnavailable, code: "unavailable",
			effect: idem.EffectNotRun, remedy: "call again",
			happen: func(t *testing.T, w way, o *idem.Options) (*world, error) {
				world := newWorld(t, faultstore.At(faultstore.Claim, 0, faultstore.Fault{Before: faultstore.PauseUntil(nil)}), o)
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errLeft)
				defer cancel()
				_, err := w.call(ctx, world.store, secretKey, forbidden(t))
				return world, err
			},
			more: func(t *testing.T, err error) {
				require.ErrorIs(t, err, errLeft)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			},
		},
		{
			name: "context ended while waiting", match: idem.ErrInProgress, code: "in_progress",
			effect: idem.EffectElsewhere, state: driver.Claimed, attempt: 1, remedy: "wait", events: []idem.EventKind{idem.EventInProgress},
			happen: func(t *testing.T, w way, o *idem.Options) (*world, error) {
				world := newWorld(t, nil, o)
				runsHere()(t, world)
				ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, errLeft)
				defer cancel()
				_, err := w.call(ctx, world.store, secretKey, forbidden(t), idem.WithWait(time.Minute))
				return world, err
			},
			more: func(t *testing.T, err error) {
				require.ErrorIs(t, err, errLeft)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			},
		},
	}
}

var errLeft = errors.New("client left")

func TestEachErrorTellsWhatTheTableSays(t *testing.T) {
	t.Parallel()
	claimOnly := way{"Claim", nil}
	for _, m := range mishaps() {
		for _, w := range append(ways(), claimOnly) {
			if !strings.Contains(m.ways, w.name) && (m.ways != "" || w.name == "Claim") {
				continue
			}
			for _, hashed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/hashed=%t", m.name, w.name, hashed), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { m.require(t, w, hashed) })
				})
			}
		}
	}
}

func (m *mishap) require(t *testing.T, w way, hashed bool) {
	t.Helper()
	world, err := m.happen(t, w, &idem.Options{Namespace: "ns", MaxValue: 10, HashKeysInErrors: hashed})
	require.ErrorIs(t, err, m.match)
	if m.events != nil {
		world.requireKinds(t, m.events...)
	}
	info := infoOf(t, err)
	require.Equal(t, m.code, info.Code)
	require.Equal(t, m.effect.String(), info.Effect.String())
	if m.more != nil {
		m.more(t, err)
	}

	text := err.Error()
	label := `"` + secretKey + `"`
	if hashed {
		label = "#" + idem.HashKey("ns", secretKey)
		require.NotContains(t, text, secretKey)
	}
	require.Equal(t, label, info.Key)
	require.Contains(t, text, label)
	require.Contains(t, text, m.remedy)
	require.True(t, strings.HasSuffix(text, "["+m.code+"]"), "the code stands at the end of: %s", text)
	require.NotContains(t, text, "\n")
	require.Equal(t, m.state.String(), info.State.String())
	require.Equal(t, m.attempt, info.Attempt)
	if m.state != 0 {
		require.Contains(t, text, fmt.Sprintf("state %s, attempt %d", m.state, m.attempt))
	}
}

// RetryAfter = min(lease left, max(100 ms, time since the claim)).
func TestRetryAfterGrowsWithTheClaimAndEndsWithTheLease(t *testing.T) {
	t.Parallel()
	for name, elsewhere := range map[string]bool{"elsewhere": true, "here": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newProcess(t, memstore.New(nil), faultstore.Fail(faultstore.Renew, 0, errDown), nil)
				other, last := w.store, lease-margin
				if elsewhere {
					other, last = w.process(t, nil).store, lease
				}
				done := w.execute(t.Context(), "k", takes(time.Minute, "1"))
				began := time.Now()
				for _, at := range []struct{ age, retry time.Duration }{
					{0, 100 * time.Millisecond},
					{99 * time.Millisecond, 100 * time.Millisecond},
					{time.Second, time.Second},
					{10 * time.Second, 10 * time.Second},
					{last - 2*time.Second, 2 * time.Second},
					{last - time.Millisecond, time.Millisecond},
				} {
					time.Sleep(at.age - time.Since(began))
					synctest.Wait()
					_, err := other.Execute(t.Context(), "k", forbidden(t))
					var busy *idem.InProgressError
					require.ErrorAs(t, err, &busy)
					require.Equal(t, at.retry, busy.RetryAfter, "after %v", at.age)
					require.Equal(t, last-at.age, busy.LeaseLeft)
					require.Equal(t, busy.RetryAfter, busy.RetryAfterHint())
				}
				require.NoError(t, (<-done).err, "the late result counts")
			})
		})
	}
}

func TestErrorsOfTheZeroValueStillMatchAndRead(t *testing.T) {
	t.Parallel()
	for sentinel, err := range map[error]error{
		idem.ErrInProgress:      &idem.InProgressError{RetryAfter: time.Second},
		idem.ErrRecordedFailure: &idem.RecordedError{Code: "declined", Message: "no funds"},
		idem.ErrNotDecoded:      &idem.DecodeError{CodecID: "gob", Raw: []byte("secret")},
	} {
		require.ErrorIs(t, err, sentinel)
		require.Regexp(t, `^idem: .*\[[a-z_]+\]$`, err.Error())
		require.NotContains(t, err.Error(), "secret")
	}
	require.Equal(t, "idem: stopped (not run) []", (&idem.Error{}).Error())
	require.Empty(t, (&idem.Error{}).Unwrap())
	require.Equal(t, "no effect", idem.Effect(99).String())
}

// An error of the operation comes back as it is: the very value, unless idem has
// something to add.
func TestTheErrorOfTheOperationComesBackAsItIs(t *testing.T) {
	t.Parallel()
	for _, w := range ways()[:2] {
		for _, want := range []error{errBoom, idem.Permanent(errPermanent), idem.NotApplied(errNothing)} {
			world := newWorld(t, nil, nil)
			_, err := w.call(t.Context(), world.store, "k", fails(want))
			require.Same(t, want, err)
		}
	}
}

// typed is an error of a client library, with more to tell than its text.
type typed struct{ code int }

func (e *typed) Error() string { return fmt.Sprintf("server says %d", e.code) }

// The store's own error is in every error that a store caused, but the driver's
// sentinels in it do not speak for the operation.
func TestAStoresErrorIsFoundButDoesNotSpeakForTheOperation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		hook faultstore.Hook
		op   idem.Op
	}{
		"not recorded": {faultstore.Fail(faultstore.Complete, 0, fmt.Errorf("%w: %w", driver.ErrUnavailable, &typed{503})), returns("1")},
		"not held":     {faultstore.Fail(faultstore.Release, 0, fmt.Errorf("%w: %w", driver.ErrUnavailable, &typed{503})), fails(idem.Unknown(errUnknown))},
	} {
		synctestWorld(t, name, func(t *testing.T) {
			w := newWorld(t, tc.hook, nil)
			_, err := w.store.Execute(t.Context(), "k", tc.op)
			require.ErrorIs(t, err, idem.ErrNotRecorded)
			require.NotErrorIs(t, err, idem.ErrUnavailable, "that would say: not run")
			if name == "not recorded" {
				var server *typed
				require.ErrorAs(t, err, &server)
				require.Equal(t, 503, server.code)
			}
		})
	}
	w := newWorld(t, faultstore.Fail(faultstore.Claim, 0, &typed{500}), nil)
	_, err := w.store.Execute(t.Context(), "k", forbidden(t))
	var server *typed
	require.ErrorAs(t, err, &server)
}
