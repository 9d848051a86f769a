package idem_test

import (
	"bytes"
	"context"
	"encoding/json"
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
)

// More cases from the field: see cases_test.go.

// C10 (a), C14: a claim whose reply is lost is recognised as one's own.
func TestACallIsNotShutOutByItsOwnClaim(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]faultstore.Hook{
		"reply lost":       faultstore.Lose(faultstore.Claim, 1),
		"twice":            faultstore.First(faultstore.Lose(faultstore.Claim, 1), faultstore.Lose(faultstore.Claim, 2)),
		"sent twice":       faultstore.Duplicate(faultstore.Claim, 1),
		"not applied":      faultstore.Fail(faultstore.Claim, 1, errDown),
		"unknown error":    faultstore.At(faultstore.Claim, 1, faultstore.Fault{Err: faultstore.Odd("EOF")}),
		"late reply":       faultstore.At(faultstore.Claim, 1, faultstore.Fault{After: faultstore.Delay(time.Second)}),
		"renewal twice":    faultstore.Duplicate(faultstore.Renew, 0),
		"renewal lost":     faultstore.Lose(faultstore.Renew, 1),
		"completion twice": faultstore.Duplicate(faultstore.Complete, 1),
	} {
		for _, w := range ways() {
			synctestWorld(t, name+"/"+w.name, func(t *testing.T) {
				world := newWorld(t, hook, nil)
				n := 0
				res, err := w.call(t.Context(), world.store, "k", counted(&n, takes(25*time.Second, "1")))
				require.NoError(t, err)
				require.Equal(t, "1", string(res.Value))
				require.Equal(t, 1, n)
				rec := world.record(t, "k")
				require.Equal(t, 1, rec.Attempt)
				owner := driver.Owner{}
				for _, e := range world.faults.Log() {
					if e.Method == faultstore.Claim {
						require.True(t, owner == driver.Owner{} || owner == e.Owner, "the same owner asks again")
						owner = e.Owner
					}
				}
			})
		}
	}
}

// C14, I6: copies of calls that arrive after everything is over change nothing.
func TestLateCopiesOfCallsChangeNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		_, err := w.store.Execute(t.Context(), "k", takes(25*time.Second, "1"))
		require.NoError(t, err)
		before := w.record(t, "k")
		for _, e := range w.faults.Log() {
			_, _ = w.faults.Replay(t.Context(), e.Call)
			require.Equal(t, before, w.record(t, "k"), e.Method)
		}
	})
}

// C26: the caller's deadline bounds the claim; what became of it does not block
// the key.
func TestTheCallersDeadlineBoundsTheClaim(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faultstore.Fault{
		"not applied": {Before: faultstore.PauseUntil(nil)},
		"applied":     {After: faultstore.PauseUntil(nil)},
	} {
		for _, w := range ways() {
			synctestWorld(t, name+"/"+w.name, func(t *testing.T) {
				world := newWorld(t, faultstore.At(faultstore.Claim, 1, fault), nil)
				line := newTimeline()
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				_, err := w.call(ctx, world.store, "k", forbidden(t))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, idem.ErrUnavailable)
				require.Equal(t, 100*time.Millisecond, line.now())
				synctest.Wait()
				_, err = w.call(t.Context(), world.store, "k", returns("1"))
				require.NoError(t, err, "the abandoned claim was released")
			})
		}
	}
}

// Without a deadline StoreTimeout bounds it.
func TestStoreTimeoutBoundsTheClaim(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{0, 250 * time.Millisecond} {
		synctestWorld(t, timeout.String(), func(t *testing.T) {
			w := newWorld(t, faultstore.At(faultstore.Claim, 0, faultstore.Fault{Before: faultstore.PauseUntil(nil)}), &idem.Options{StoreTimeout: timeout})
			line := newTimeline()
			_, err := w.store.Execute(t.Context(), "k", forbidden(t))
			require.ErrorIs(t, err, idem.ErrUnavailable)
			want := timeout
			if want == 0 {
				want = 2 * time.Second
			}
			require.Equal(t, want, line.now())
		})
	}
}

// A copy of the claim that was given up arrives after its release.
func TestAClaimThatWasGivenUpIsNotAppliedLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.At(faultstore.Claim, 1, faultstore.Fault{After: faultstore.PauseUntil(nil)}), nil)
		_, err := w.store.Execute(t.Context(), "k", forbidden(t))
		require.ErrorIs(t, err, idem.ErrUnavailable)
		synctest.Wait()
		call, ok := w.faults.Nth(faultstore.Claim, 1)
		require.True(t, ok)
		_, err = w.faults.Replay(t.Context(), call)
		require.ErrorIs(t, err, driver.ErrLeaseLost)
		_, err = w.store.Execute(t.Context(), "k", returns("1"))
		require.NoError(t, err)
	})
}

// C31: a takeover that was judged on an old read destroys nothing.
func TestADelayedTakeoverDoesNotDestroyAFreshResult(t *testing.T) {
	t.Parallel()
	for name, completes := range map[string]bool{"A completes": true, "C takes over first": false} {
		synctestWorld(t, name, func(t *testing.T) {
			resume := make(chan struct{})
			a := newWorld(t, faultstore.Fail(faultstore.Renew, 0, errDown), nil)
			b := newProcess(t, a.memory, faultstore.At(faultstore.Claim, 1, faultstore.Fault{Before: faultstore.PauseUntil(resume)}), nil)
			c := a.process(t, nil)
			doneA := a.execute(t.Context(), "k", takes(lease+time.Second, "A"))
			time.Sleep(lease)
			doneB := b.execute(t.Context(), "k", forbidden(t))
			synctest.Wait()
			if completes {
				require.NoError(t, (<-doneA).err)
				close(resume)
				end := <-doneB
				require.NoError(t, end.err)
				require.Equal(t, "A", string(end.res.Value))
				return
			}
			doneC := c.execute(t.Context(), "k", takes(10*time.Second, "C"))
			synctest.Wait()
			token := c.record(t, "k").Token
			close(resume)
			require.ErrorIs(t, (<-doneB).err, idem.ErrInProgress)
			require.Equal(t, token, c.record(t, "k").Token)
			require.ErrorIs(t, (<-doneA).err, idem.ErrLeaseLost)
			require.NoError(t, (<-doneC).err)
		})
	}
}

// C31: 1000 rounds in which A completes at its deadline while B and C try.
func TestACompletionAtTheDeadlineAndTwoTakeoversAgree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newWorld(t, faultstore.Fail(faultstore.Renew, 0, errDown), nil)
		b, c := a.process(t, nil), a.process(t, nil)
		for round := range 1000 {
			key := fmt.Sprint(round)
			doneA := a.execute(t.Context(), key, takes(lease, "A"))
			time.Sleep(lease)
			doneB := b.execute(t.Context(), key, returns("B"))
			doneC := c.execute(t.Context(), key, returns("C"))
			value := string(b.recordAfter(t, key, doneA, doneB, doneC).Outcome.Value)
			require.Contains(t, []string{"A", "B", "C"}, value)
		}
	})
}

// recordAfter waits for calls of a key and returns the record, which every
// answer must agree with.
func (w *world) recordAfter(t *testing.T, key string, calls ...<-chan ending) *idem.Record {
	t.Helper()
	ends := make([]ending, 0, len(calls))
	for _, c := range calls {
		ends = append(ends, <-c)
	}
	rec := w.record(t, key)
	for _, e := range ends {
		if e.err == nil {
			require.Equal(t, string(rec.Outcome.Value), string(e.res.Value))
		} else {
			require.True(t, errors.Is(e.err, idem.ErrLeaseLost) || errors.Is(e.err, idem.ErrInProgress), "%v", e.err)
		}
	}
	return rec
}

// C32: three kinds of failure, and what resolves the unknown one.
func TestAnUnknownEndIsResolvedByAnOperator(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		recovery idem.Recovery
		check    func(t *testing.T, n int, res idem.Result, err error)
	}{
		"not executed": {idem.NotExecuted(), func(t *testing.T, n int, res idem.Result, err error) {
			require.NoError(t, err)
			require.Equal(t, 2, n)
			require.False(t, res.Replayed)
		}},
		"failed": {idem.RecoveredFailure(errPermanent), func(t *testing.T, n int, res idem.Result, err error) {
			require.ErrorIs(t, err, idem.ErrRecordedFailure)
			require.ErrorContains(t, err, errPermanent.Error())
			require.True(t, res.Replayed && res.Recovered)
			require.Equal(t, 1, n)
		}},
		"succeeded with 7": {idem.Recovered(idem.Result{Value: []byte("7")}), func(t *testing.T, n int, res idem.Result, err error) {
			require.NoError(t, err)
			require.Equal(t, "7", string(res.Value))
			require.True(t, res.Replayed && res.Recovered)
			require.Equal(t, 1, n)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, nil)
			n := 0
			_, err := w.store.Execute(t.Context(), "k", counted(&n, fails(idem.Unknown(errUnknown))))
			require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
			_, err = w.store.Execute(t.Context(), "k", counted(&n, returns("8")))
			require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
			require.Equal(t, 1, n)
			before := w.record(t, "k")
			require.NoError(t, w.store.Resolve(t.Context(), "k", before.Token, idem.Resolution{Recovery: tc.recovery, By: "ann", Why: "asked the bank"}))
			require.Greater(t, w.record(t, "k").Token, before.Token)
			res, err := w.store.Execute(t.Context(), "k", counted(&n, returns("8")))
			tc.check(t, n, res, err)
		})
	}
}

// C34: absence of a key is not a key.
func TestNoKeyIsRefusedBeforeTheOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	for _, v := range ways() {
		_, err := v.call(t.Context(), w.store, "", forbidden(t))
		require.ErrorIs(t, err, idem.ErrInvalidKey)
		require.Equal(t, idem.EffectNotRun, infoOf(t, err).Effect)
	}
	_, err := w.store.Inspect(t.Context(), "")
	require.ErrorIs(t, err, idem.ErrInvalidKey)
	require.ErrorIs(t, w.store.Resolve(t.Context(), "", 1, idem.Resolution{Recovery: idem.NotExecuted()}), idem.ErrInvalidKey)
	require.ErrorIs(t, w.store.Redact(t.Context(), "", 1, ""), idem.ErrInvalidKey)
	require.ErrorIs(t, w.store.Reset(t.Context(), "", 1, ""), idem.ErrInvalidKey)
	require.Zero(t, w.faults.Count(""))
}

// C46: which keys are accepted is decided by the Store, before the operation.
func TestKeysAreAcceptedOrRefusedBeforeTheOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	for _, key := range []string{"", "\x00a", "a\x00", "\xff\xfe", "a\nb", "a\x7f", "\u0085", strings.Repeat("x", 513), strings.Repeat("\u00e9", 257), strings.Repeat("x", 1<<20)} {
		for _, v := range ways() {
			_, err := v.call(t.Context(), w.store, key, forbidden(t))
			require.ErrorIs(t, err, idem.ErrInvalidKey, "%.20q", key)
			require.Less(t, len(err.Error()), 4<<10, "the text stays readable")
		}
	}
	require.Zero(t, w.faults.Count(""))
	keys := []string{
		"K", "k", "k ", " k", "\u00e9", "e\u0301", strings.Repeat("x", 255), strings.Repeat("x", 512), strings.Repeat("\u00e9", 256),
		"{}", "{", "}{", "a{b}c", "%", "%%", "a:b", "a%3Ab", "0:k", "\u65e5\u672c", "\U0001f600", "'; DROP TABLE idem; --", "\\x00",
	}
	for i, key := range keys {
		n := 0
		_, err := w.store.Execute(t.Context(), key, counted(&n, returns(fmt.Sprint(i))))
		require.NoError(t, err, "%q", key)
		require.Equal(t, 1, n, "%q has a record of its own", key)
	}
	for i, key := range keys {
		res, err := w.store.Execute(t.Context(), key, forbidden(t))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), string(res.Value))
	}
}

// C25: what is legal in the program is legal in the record, byte for byte.
func TestAnyValueIsReplayedByteForByte(t *testing.T) {
	t.Parallel()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	w := newWorld(t, nil, nil)
	for i, value := range [][]byte{
		nil, {}, []byte("a\x00b"), {0xff, 0xfe, 0x00}, []byte(`"\u0000"`), []byte(`"\ud800"`), every, bytes.Repeat([]byte{0}, 1<<20),
	} {
		key := fmt.Sprint(i)
		n := 0
		for range 2 {
			res, err := w.store.Execute(t.Context(), key, counted(&n, func(context.Context) (idem.Result, error) {
				return idem.Result{Value: value}, nil
			}))
			require.NoError(t, err)
			require.True(t, bytes.Equal(value, res.Value))
		}
		require.Equal(t, 1, n)
	}
	for i, text := range []string{"a\x00b", "\"\\u0000\"", string([]byte{0xff, 0xfe}), "\U0001f600"} {
		got, err := viaDo(t.Context(), w.store, fmt.Sprint("do", i), func(context.Context) (idem.Result, error) {
			b, err := json.Marshal(text)
			return idem.Result{Value: b}, err
		})
		require.NoError(t, err)
		again, err := viaDo(t.Context(), w.store, fmt.Sprint("do", i), forbidden(t))
		require.NoError(t, err)
		require.Equal(t, string(got.Value), string(again.Value))
	}
}

// C25: an error's text may have anything in it, and be of any length.
func TestARecordedMessageIsStorableEverywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	for i, tc := range []struct{ text, want string }{
		{"a\x00b", "a\ufffdb"},
		{"a\xffb", "a\ufffdb"},
		{"", ""},
		{strings.Repeat("x", 4<<10), strings.Repeat("x", 4<<10)},
		{strings.Repeat("x", 4<<10+1), strings.Repeat("x", 4<<10)},
		{strings.Repeat("x", 4<<10-1) + "\u00e9", strings.Repeat("x", 4<<10-1)},
	} {
		key := fmt.Sprint(i)
		_, err := w.store.Execute(t.Context(), key, fails(idem.Permanent(errors.New(tc.text))))
		require.EqualError(t, err, tc.text, "the first time it comes as it is")
		_, err = w.store.Execute(t.Context(), key, forbidden(t))
		var recorded *idem.RecordedError
		require.ErrorAs(t, err, &recorded)
		require.Equal(t, tc.want, recorded.Message)
	}
}

// C37: the process's wall clock decides nothing. The process's clock cannot be
// set from here; what can be checked is that no instant crosses the seam, and
// that the backend's word alone counts: whatever its timestamps say.
func TestNoClockOfAProcessDecidesALease(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		synctestWorld(t, skew.String(), func(t *testing.T) {
			a := newWorld(t, nil, nil)
			skewed := newStore(t, skewedClock{a.memory, skew}, &idem.Options{Observer: idem.Discard})
			opts := []idem.ExecuteOption{idem.WithLease(2 * time.Second)}
			done := a.execute(t.Context(), "k", takes(6*time.Second, "1"), opts...)
			synctest.Wait()
			for range 29 {
				time.Sleep(200 * time.Millisecond)
				_, err := skewed.Execute(t.Context(), "k", forbidden(t), opts...)
				require.ErrorIs(t, err, idem.ErrInProgress)
			}
			require.NoError(t, (<-done).err)

			dies := end{op: op(obeys()), dies: true}
			w := dies.dieOver(t, t.Context(), a.memory, way{"Execute", func(ctx context.Context, s *idem.Store, _ string, op idem.Op, opts ...idem.ExecuteOption) (idem.Result, error) {
				return s.Execute(ctx, "k2", op, opts...)
			}}, policy{opts: opts})
			time.Sleep(2*time.Second - time.Nanosecond)
			_, err := skewed.Execute(t.Context(), "k2", forbidden(t), opts...)
			require.ErrorIs(t, err, idem.ErrInProgress)
			time.Sleep(time.Nanosecond)
			_, err = skewed.Execute(t.Context(), "k2", returns("2"), opts...)
			require.NoError(t, err, "the backend's clock alone decides")
			require.WithinDuration(t, time.Now(), w.record(t, "k2").RecordedAt, 0)
		})
	}
}

// skewedClock is a backend as a process sees it whose wall clock is wrong: all
// timestamps are off by the same amount.
type skewedClock struct {
	driver.Backend
	skew time.Duration
}

func (s skewedClock) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	res, err := s.Backend.Claim(ctx, p)
	if err == nil {
		res.Record.ClaimedAt = res.Record.ClaimedAt.Add(s.skew)
		res.Record.RecordedAt = res.Record.RecordedAt.Add(s.skew)
	}
	return res, err
}
