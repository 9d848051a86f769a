package idem_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/internal/faultstore"
)

// An event speaks of the claim, or of the record that was found.
func TestEachEventNamesItsKeyItsAttemptAndItsToken(t *testing.T) {
	t.Parallel()
	for _, e := range ends() {
		for _, n := range nexts() {
			synctestWorld(t, e.name+"/"+n.name, func(t *testing.T) {
				v := ways()[0]
				first, _ := e.happen(t, v, policy{})
				rec := first.record(t, "k")
				for _, ev := range first.events.take() {
					require.Equal(t, "k", ev.Key)
					require.Equal(t, rec.Token, ev.Token, ev.Kind.String())
					require.Equal(t, rec.Attempt, ev.Attempt, ev.Kind.String())
				}
				w := first.process(t, e.opts)
				opts := n.recoverWith(&recovery{})
				if n.opts != nil {
					opts = n.opts(nil)
				}
				_, _ = v.call(t.Context(), w.store, "k", returns("2"), opts...)
				rec = w.record(t, "k")
				events := w.events.take()
				require.NotEmpty(t, events)
				for _, ev := range events {
					require.Equal(t, rec.Token, ev.Token, ev.Kind.String())
					require.Equal(t, rec.Attempt, ev.Attempt, ev.Kind.String())
				}
			})
		}
	}
}

func TestEventsCarryWhereTheTimeWent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := faultstore.Fault{Before: faultstore.Delay(300 * time.Millisecond)}
		w := newWorld(t, faultstore.First(faultstore.At(faultstore.Claim, 0, slow), faultstore.At(faultstore.Complete, 0, slow)), &idem.Options{Namespace: "ns"})
		done := w.execute(t.Context(), "k", takes(5*time.Second, "1"))
		time.Sleep(time.Second)
		_, err := w.store.Execute(t.Context(), "k", forbidden(t), idem.WithWait(time.Minute))
		require.NoError(t, err)
		require.NoError(t, (<-done).err)
		events := w.events.take()
		require.Len(t, events, 2)
		for _, e := range events {
			e.Token = 0
			e.Attempt = 0
			switch e.Kind { //nolint:exhaustive // the others do not happen here
			case idem.EventExecuted:
				require.Equal(t, idem.Event{
					Kind: e.Kind, Namespace: "ns", Key: "k", StoreTime: 600 * time.Millisecond, OpTime: 5 * time.Second,
				}, e)
			case idem.EventReplayed:
				waited := 4600*time.Millisecond + 300*time.Millisecond
				require.Equal(t, idem.Event{Kind: e.Kind, Namespace: "ns", Key: "k", StoreTime: 300 * time.Millisecond, Waited: waited}, e)
			}
		}
	})
}

// Events of the lease come from another goroutine than the call's own.
func TestEventsOfTheLeaseMayComeAsTheOperationReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faultstore.Fail(faultstore.Renew, 0, errDown), nil)
		for i := range 200 {
			_, err := w.store.Execute(t.Context(), fmt.Sprint(i), takes(renewEvery, "1"))
			require.NoError(t, err)
			synctest.Wait()
		}
	})
}

// A lost lease is told once, however many ways there are to find out.
func TestALostLeaseIsToldOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		hook   faultstore.Hook
		stolen time.Duration // when another process takes over
		takes  time.Duration
	}{
		{"by a renewal and the completion", nil, time.Second, time.Minute},
		{"by the completion alone", nil, time.Second, 2 * time.Second},
		{"by the trust window and the completion", faultstore.Fail(faultstore.Renew, 0, errDown), lease, time.Minute},
	} {
		synctestWorld(t, tc.name, func(t *testing.T) {
			w := newWorld(t, tc.hook, nil)
			done := w.execute(t.Context(), "k", takes(tc.takes, "1"))
			time.Sleep(tc.stolen)
			claim, ok := w.faults.Nth(faultstore.Claim, 1)
			require.True(t, ok)
			releaseByOwner(t, w, claim)
			_, err := w.process(t, nil).store.Execute(t.Context(), "k", returns("2"))
			require.NoError(t, err)
			require.ErrorIs(t, (<-done).err, idem.ErrLeaseLost)
			lost := 0
			for _, k := range w.events.kinds() {
				if k == idem.EventLeaseLost {
					lost++
				}
			}
			require.Equal(t, 1, lost)
		})
	}
}

func TestEveryKindOfEventHasAName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	k := idem.EventExecuted
	for ; k.String() != idem.EventKind(0).String(); k++ {
		require.NotEmpty(t, k.String())
		require.False(t, seen[k.String()], k.String())
		seen[k.String()] = true
	}
	require.Equal(t, idem.EventReset+1, k, "the last kind has a name too")
	require.Equal(t, "no event", idem.EventKind(200).String())
	grave := []idem.EventKind{}
	for k := range idem.EventReset + 1 {
		if k.Grave() {
			grave = append(grave, k)
		}
	}
	require.Equal(t, []idem.EventKind{idem.EventTakeover, idem.EventLeaseLost, idem.EventNotRecorded, idem.EventUnprotected}, grave)
}

// happenings is an event of each kind, about a key that must not be read.
func happenings() []idem.Event {
	var all []idem.Event
	for k := idem.EventExecuted; k <= idem.EventReset; k++ {
		all = append(all, idem.Event{Kind: k, Namespace: "ns", Key: secretKey, Attempt: 2, Token: 7})
	}
	return all
}

func logger(level slog.Level) (*slog.Logger, *bytes.Buffer) {
	var out bytes.Buffer
	return slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})), &out
}

func lines(out *bytes.Buffer) [][]byte {
	return bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
}

// It changes slog.Default, so it does not run beside other tests.
func TestTheDefaultObserverLogsGraveEventsWithHashedKeys(t *testing.T) { //nolint:paralleltest // see above
	before := slog.Default()
	defer slog.SetDefault(before)
	l, out := logger(slog.LevelDebug)
	slog.SetDefault(l)
	run := func(o idem.Observer) {
		synctest.Test(t, func(t *testing.T) {
			hook := faultstore.Fail(faultstore.Complete, 0, errDown)
			s := newStore(t, newWorld(t, hook, nil).faults, &idem.Options{Namespace: "ns", Observer: o})
			_, err := s.Execute(t.Context(), secretKey, fails(errBoom))
			require.ErrorIs(t, err, errBoom)
			_, err = s.Execute(t.Context(), secretKey, returns("1"))
			require.ErrorIs(t, err, idem.ErrNotRecorded)
			_, err = s.Execute(t.Context(), secretKey, forbidden(t))
			require.ErrorIs(t, err, idem.ErrInProgress)
		})
	}
	run(nil)
	require.Len(t, lines(out), 2, "%s", out)
	for i, want := range []string{"takeover", "not recorded"} {
		line := string(lines(out)[i])
		require.Contains(t, line, "level=WARN")
		require.Contains(t, line, want)
		require.Contains(t, line, "key_hash="+idem.HashKey("ns", secretKey))
		require.Contains(t, line, "attempt=2")
		require.NotContains(t, line, secretKey)
	}
	out.Reset()
	run(idem.Discard)
	require.Empty(t, out.String())
	idem.NewSlogObserver(nil, nil).Observe(t.Context(), happenings()[0])
	require.Contains(t, out.String(), "executed", "nil is slog.Default at the time of the event")
}

func TestASlogObserverLogsEveryEvent(t *testing.T) {
	t.Parallel()
	l, out := logger(slog.LevelInfo)
	o := idem.NewSlogObserver(l, nil)
	for _, e := range happenings() {
		out.Reset()
		o.Observe(t.Context(), e)
		line := out.String()
		require.Contains(t, line, "idem: "+e.Kind.String())
		require.Equal(t, e.Kind.Grave(), bytes.Contains(out.Bytes(), []byte("level=WARN")), line)
		require.Contains(t, line, "key_hash="+idem.HashKey("ns", secretKey))
		require.Contains(t, line, "namespace=ns")
		require.Contains(t, line, "attempt=2")
		require.Contains(t, line, "token=7")
		require.NotContains(t, line, secretKey)
		require.NotContains(t, line, "_time", "nothing that was not measured")
	}
}

// An error's text names the key, so with hashed keys its code or type is told.
func TestASlogObserverHashesKeysInErrorsToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, faultstore.Fail(faultstore.Claim, 0, errDown), nil)
	_, err := w.store.Execute(t.Context(), secretKey, forbidden(t))
	require.ErrorContains(t, err, secretKey)
	for name, tc := range map[string]struct {
		opts *idem.SlogOptions
		err  error
		want string
	}{
		"hashed":              {nil, err, "error_code=unavailable"},
		"hashed, other error": {nil, errBoom, "error_type=*errors.errorString"},
		"plain":               {&idem.SlogOptions{PlainKeys: true}, err, secretKey},
		"plain, other error":  {&idem.SlogOptions{PlainKeys: true}, errBoom, "error=boom"},
	} {
		l, out := logger(slog.LevelInfo)
		e := happenings()[0]
		e.Err, e.StoreTime, e.OpTime, e.Waited = tc.err, time.Second, time.Minute, time.Hour
		idem.NewSlogObserver(l, tc.opts).Observe(t.Context(), e)
		require.Contains(t, out.String(), tc.want, name)
		require.Equal(t, tc.opts != nil, bytes.Contains(out.Bytes(), []byte(secretKey)), name)
		require.Contains(t, out.String(), "store_time=1s op_time=1m0s waited=1h0m0s")
	}
}

func TestASlogObserverHasALevel(t *testing.T) {
	t.Parallel()
	l, out := logger(slog.LevelInfo)
	quiet := idem.NewSlogObserver(l, &idem.SlogOptions{Level: slog.LevelDebug})
	for _, e := range happenings() {
		quiet.Observe(context.WithoutCancel(t.Context()), e)
	}
	require.Len(t, lines(out), 4, "grave events stay at Warn")
	for _, line := range lines(out) {
		require.Contains(t, string(line), "level=WARN")
	}
}
