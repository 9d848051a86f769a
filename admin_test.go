package idem_test

import (
	"context"
	"errors"
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

func resolution(r idem.Recovery) idem.Resolution {
	return idem.Resolution{Recovery: r, By: "ann", Why: "asked the bank"}
}

func TestInspectShowsTheRecordAndChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, &idem.Options{Namespace: "ns"})
		w.requireNoRecord(t, "k")
		_, err := w.store.Inspect(t.Context(), "k")
		require.Equal(t, "not_found", infoOf(t, err).Code)
		done := w.execute(t.Context(), "k", takes(time.Second, "1"))
		synctest.Wait()
		rec := w.record(t, "k")
		require.Equal(t, "k", rec.Key, "without the namespace")
		require.Equal(t, driver.Claimed, rec.State)
		require.Equal(t, lease, rec.LeaseLeft)
		<-done
		require.Equal(t, w.record(t, "k"), w.record(t, "k"))
		require.Empty(t, w.events.kinds()[1:])
	})
}

func TestInspectSaysWhyItCannotTell(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault faultstore.Fault
		want  error
	}{
		"unreadable": {faultstore.Fault{Err: driver.ErrCorrupt}, idem.ErrCorrupt},
		"down":       {faultstore.Fault{Err: errDown}, idem.ErrUnavailable},
		"silent":     {faultstore.Fault{Before: faultstore.PauseUntil(nil)}, idem.ErrUnavailable},
	} {
		synctestWorld(t, name, func(t *testing.T) {
			w := newWorld(t, faultstore.At(faultstore.Inspect, 0, tc.fault), nil)
			line := newTimeline()
			rec, err := w.store.Inspect(t.Context(), "k")
			require.ErrorIs(t, err, tc.want)
			require.Nil(t, rec)
			require.LessOrEqual(t, line.now(), 2*time.Second)
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errLeft)
			_, err = w.store.Inspect(ctx, "k")
			require.ErrorIs(t, err, errLeft)
		})
	}
}

// The states from which Resolve settles a key, and what it refuses.
func TestResolveSettlesWhatIsUnknownAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, verdict := range []struct {
		name string
		r    idem.Recovery
		want driver.State
	}{
		{"succeeded", idem.Recovered(idem.Result{Value: []byte("r")}), driver.Succeeded},
		{"failed", idem.RecoveredFailure(errPermanent), driver.Failed},
		{"not executed", idem.NotExecuted(), driver.Released},
	} {
		t.Run(verdict.name, func(t *testing.T) {
			t.Parallel()
			eachEnd(t, func(t *testing.T, e end, v way, p policy) {
				w, _ := e.happen(t, v, p)
				w = w.process(t, nil)
				before := w.record(t, "k")
				resolve := func() error {
					return w.store.Resolve(t.Context(), "k", before.Token, resolution(verdict.r))
				}
				switch e.left(v, p) {
				case succeeded, failed, bodyless, free:
					require.ErrorIs(t, resolve(), idem.ErrConflict)
					require.Equal(t, before, w.record(t, "k"))
					return
				case abandoned:
					require.ErrorIs(t, resolve(), idem.ErrInProgress)
					require.Equal(t, before, w.record(t, "k"))
					time.Sleep(lease)
				case freeInDoubt, held:
				}
				require.ErrorIs(t, w.store.Resolve(t.Context(), "k", before.Token+1, resolution(verdict.r)), idem.ErrConflict)
				require.NoError(t, resolve())
				after := w.record(t, "k")
				require.Equal(t, verdict.want, after.State)
				require.Greater(t, after.Token, before.Token)
				require.False(t, after.Held)
				require.Equal(t, verdict.want != driver.Released, after.Outcome.Recovered)
				require.Equal(t, driver.Audit{By: "ann", Why: "asked the bank", At: time.Now().UTC()}, after.Audit)
				w.requireKinds(t, idem.EventResolved)
				require.ErrorIs(t, resolve(), idem.ErrConflict, "twice: somebody has acted")
				if verdict.want == driver.Released {
					require.False(t, after.Doubt)
					res, err := w.store.Execute(t.Context(), "k", returns("2"), idem.OnUnknown(idem.Hold))
					require.NoError(t, err)
					require.False(t, res.Replayed)
				}
			})
		})
	}
}

func TestResolveFencesTheOldOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.Fail(faultstore.Renew, 0, errDown), nil)
		stale := w.execute(t.Context(), "k", takes(time.Hour, "stale"))
		time.Sleep(lease)
		ops := w.process(t, nil)
		require.NoError(t, ops.store.Resolve(t.Context(), "k", ops.record(t, "k").Token, resolution(idem.NotExecuted())))
		require.ErrorIs(t, (<-stale).err, idem.ErrLeaseLost)
		require.Equal(t, driver.Released, w.record(t, "k").State)
	})
}

func TestResolveRefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	require.ErrorIs(t, w.store.Resolve(t.Context(), "k", 0, resolution(idem.NotExecuted())), idem.ErrInvalidOption)
	require.ErrorIs(t, w.store.Resolve(t.Context(), "k", 1, idem.Resolution{By: "ann"}), idem.ErrInvalidOption)
	require.ErrorIs(t, w.store.Resolve(t.Context(), "k", 1, resolution(idem.RecoveredFailure(nil))), idem.ErrInvalidOption)
	require.Zero(t, w.faults.Count(""))
	require.ErrorIs(t, w.store.Resolve(t.Context(), "k", 1, resolution(idem.NotExecuted())), idem.ErrNotFound)
	w.requireNoRecord(t, "k")
}

func TestAResolutionThatIsTooLargeIsDoneWithoutItsBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, &idem.Options{MaxValue: 3})
	_, err := w.store.Execute(t.Context(), "k", fails(idem.Unknown(errUnknown)))
	require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
	r := idem.Resolution{
		Recovery: idem.Recovered(idem.Result{Value: []byte("1234")}),
		By:       "ann\x00", Why: strings.Repeat("x", 5<<10),
	}
	require.ErrorIs(t, w.store.Resolve(t.Context(), "k", w.record(t, "k").Token, r), idem.ErrTooLarge)
	rec := w.record(t, "k")
	require.Equal(t, driver.Succeeded, rec.State)
	require.Equal(t, driver.BodyTooLarge, rec.Outcome.Body)
	require.Equal(t, "ann\ufffd", rec.Audit.By)
	require.Len(t, rec.Audit.Why, 4<<10)
	_, err = w.store.Execute(t.Context(), "k", forbidden(t))
	require.ErrorIs(t, err, idem.ErrTooLarge)
}

// C10, C14: lost replies are asked for again; what cannot be written leaves the
// key as unknown as it was.
func TestResolveSurvivesFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		hook faultstore.Hook
		want error
	}{
		{"claim's reply lost", faultstore.Lose(faultstore.Claim, 2), nil},
		{"claim refused", faultstore.Fail(faultstore.Claim, 2, driver.ErrUnavailable), idem.ErrUnavailable},
		{"claims' replies lost", faultstore.First(faultstore.Lose(faultstore.Claim, 2), faultstore.Lose(faultstore.Claim, 3), faultstore.Lose(faultstore.Claim, 4)), idem.ErrUnavailable},
		{"completion's reply lost", faultstore.Lose(faultstore.Complete, 1), nil},
		{"completions fail", faultstore.Fail(faultstore.Complete, 0, errDown), idem.ErrUnavailable},
		{"overtaken", faultstore.Fail(faultstore.Complete, 0, driver.ErrLeaseLost), idem.ErrConflict},
	} {
		synctestWorld(t, tc.name, func(t *testing.T) {
			w := newWorld(t, tc.hook, nil)
			_, err := w.store.Execute(t.Context(), "k", fails(idem.Unknown(errUnknown)))
			require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
			err = w.store.Resolve(t.Context(), "k", w.record(t, "k").Token, resolution(idem.Recovered(idem.Result{Value: []byte("r")})))
			require.ErrorIs(t, err, tc.want)
			if tc.want == nil {
				require.Equal(t, driver.Succeeded, w.record(t, "k").State)
				return
			}
			synctest.Wait()
			time.Sleep(lease)
			rec := w.record(t, "k")
			require.Equal(t, driver.Unknown, rec.State, "never released by a resolution that failed")
			require.True(t, rec.Held && rec.Doubt)
		})
	}
}

// Redact keeps a tombstone: done, without a body.
func TestRedactRemovesTheBodyAndKeepsTheKeyDone(t *testing.T) {
	t.Parallel()
	for _, v := range ways() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, nil)
				_, err := v.call(t.Context(), w.store, "k", returns(`"secret"`))
				require.NoError(t, err)
				before := w.record(t, "k")
				w.events.take()
				require.ErrorIs(t, w.store.Redact(t.Context(), "k", before.Token+1, "gdpr"), idem.ErrConflict)
				require.ErrorIs(t, w.store.Redact(t.Context(), "k", 0, "gdpr"), idem.ErrInvalidOption)
				require.ErrorIs(t, w.store.Redact(t.Context(), "other", 1, "gdpr"), idem.ErrNotFound)
				require.Equal(t, before, w.record(t, "k"))
				time.Sleep(time.Hour)
				require.NoError(t, w.store.Redact(t.Context(), "k", before.Token, "gdpr"))
				after := w.record(t, "k")
				require.Equal(t, driver.Succeeded, after.State)
				require.Empty(t, after.Outcome.Value)
				require.Equal(t, before.Token, after.Token)
				require.Greater(t, after.Revision, before.Revision)
				require.Equal(t, before.RetentionLeft-time.Hour, after.RetentionLeft)
				require.Equal(t, "gdpr", after.Audit.Why)
				require.Equal(t, time.Now().UTC(), after.Audit.At)
				events := w.events.take()
				require.Len(t, events, 1)
				require.Equal(t, idem.EventRedacted, events[0].Kind)
				require.Equal(t, before.Token, events[0].Token)

				res, err := v.call(t.Context(), w.store, "k", forbidden(t))
				require.ErrorIs(t, err, idem.ErrRedacted)
				require.Empty(t, res.Value)
				require.NoError(t, w.store.Redact(t.Context(), "k", before.Token, "gdpr"), "again changes nothing")
			})
		})
	}
}

func TestARedactedFailureKeepsItsCode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, &idem.Options{Errors: map[string]error{"card_declined": errPermanent}})
	_, err := w.store.Execute(t.Context(), "k", fails(idem.Permanent(&declined{"Jane Doe has no funds"})))
	require.ErrorIs(t, err, errPermanent)
	require.NoError(t, w.store.Redact(t.Context(), "k", w.record(t, "k").Token, "gdpr"))
	_, err = w.store.Execute(t.Context(), "k", forbidden(t))
	var recorded *idem.RecordedError
	require.ErrorAs(t, err, &recorded)
	require.ErrorIs(t, err, errPermanent)
	require.Equal(t, "card_declined", recorded.Code)
	require.Empty(t, recorded.Message)
	require.NotContains(t, err.Error(), "Jane")
}

func TestRedactRefusesAKeyThatIsNotDone(t *testing.T) {
	t.Parallel()
	eachEnd(t, func(t *testing.T, e end, v way, p policy) {
		w, _ := e.happen(t, v, p)
		w = w.process(t, nil)
		before := w.record(t, "k")
		err := w.store.Redact(t.Context(), "k", before.Token, "gdpr")
		if before.State.Completed() {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, idem.ErrConflict)
		require.Equal(t, before, w.record(t, "k"))
	})
}

// Reset: the key may run again; the token rises.
func TestResetLetsAKeyRunAgain(t *testing.T) {
	t.Parallel()
	eachEnd(t, func(t *testing.T, e end, v way, p policy) {
		w, _ := e.happen(t, v, p)
		w = w.process(t, nil)
		before := w.record(t, "k")
		require.ErrorIs(t, w.store.Reset(t.Context(), "k", before.Token+1, "bug 7"), idem.ErrConflict)
		if before.State == driver.Claimed {
			require.ErrorIs(t, w.store.Reset(t.Context(), "k", before.Token, "bug 7"), idem.ErrConflict)
			require.Equal(t, before, w.record(t, "k"))
			time.Sleep(lease)
		}
		require.NoError(t, w.store.Reset(t.Context(), "k", before.Token, "bug 7"))
		after := w.record(t, "k")
		require.Equal(t, driver.Released, after.State)
		require.False(t, after.Doubt || after.Held)
		require.Equal(t, driver.Outcome{}, after.Outcome)
		require.Greater(t, after.Token, before.Token)
		require.Equal(t, "bug 7", after.Audit.Why)
		events := w.events.take()
		require.Len(t, events, 1)
		require.Equal(t, idem.EventReset, events[0].Kind)
		require.Equal(t, before.Token, events[0].Token)
		_, err := v.call(t.Context(), w.store, "k", func(ctx context.Context) (idem.Result, error) {
			c, _ := idem.ClaimFrom(ctx)
			require.False(t, c.Takeover())
			require.Equal(t, 2, c.Attempt(), "attempts go on counting")
			require.Greater(t, c.Token(), after.Token)
			return idem.Result{Value: []byte("1")}, nil
		}, idem.OnUnknown(idem.Hold))
		require.NoError(t, err)
	})
}

func TestResetFencesAnOldClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		c, err := w.store.Claim(t.Context(), "k", lease)
		require.NoError(t, err)
		time.Sleep(lease)
		require.NoError(t, w.store.Reset(t.Context(), "k", c.Token(), "bug 7"))
		require.ErrorIs(t, w.store.Record(t.Context(), c, idem.Result{}), idem.ErrLeaseLost)
		require.Equal(t, driver.Released, w.record(t, "k").State)
	})
}

func TestEditsSayWhyTheyFailed(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, s *idem.Store) error{
		faultstore.Redact: func(ctx context.Context, s *idem.Store) error { return s.Redact(ctx, "k", 1, "why") },
		faultstore.Reset:  func(ctx context.Context, s *idem.Store) error { return s.Reset(ctx, "k", 1, "why") },
	} {
		for what, tc := range map[string]struct {
			fault faultstore.Fault
			want  error
		}{
			"unreadable": {faultstore.Fault{Err: driver.ErrCorrupt}, idem.ErrCorrupt},
			"down":       {faultstore.Fault{Err: errDown}, idem.ErrUnavailable},
			"silent":     {faultstore.Fault{Before: faultstore.PauseUntil(nil)}, idem.ErrUnavailable},
		} {
			synctestWorld(t, name+" "+what, func(t *testing.T) {
				w := newWorld(t, faultstore.At(name, 0, tc.fault), nil)
				line := newTimeline()
				require.ErrorIs(t, call(t.Context(), w.store), tc.want)
				require.LessOrEqual(t, line.now(), 2*time.Second)
				require.Empty(t, w.events.kinds())
			})
		}
		for what, backend := range map[string]driver.Backend{
			"cannot":                unwatched{memstore.New(nil)},
			"wraps one that cannot": faultstore.New(memstore.New(nil), faultstore.Fail(name, 0, errors.ErrUnsupported)),
		} {
			err := call(t.Context(), newStore(t, backend, nil))
			require.ErrorIs(t, err, errors.ErrUnsupported, what)
			require.ErrorIs(t, err, idem.ErrInvalidOption, what)
			require.NotErrorIs(t, err, idem.ErrUnavailable, what)
		}
	}
}
