package backoff_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

func TestTheLongestOpenPeriodDoesNotOverflow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, random := range []func() uint64{least, most} {
			time.Sleep(time.Hour)
			c := newCircuit(t, &backoff.CircuitOptions{MinCalls: 1, Window: forever, Open: forever, Probes: 2, Rand: random})
			time.Sleep(time.Hour)
			trip(t, c)
			require.Greater(t, refused(t, c), forever/2-2*time.Hour)
		}
	})
}

// A source of random numbers is the caller's code: whatever it does, the circuit
// stays in order.
func TestASourceThatPanicsLeavesTheCircuitUnlocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c *backoff.Circuit
		broken := true
		c = newCircuit(t, &backoff.CircuitOptions{MinCalls: 1, Rand: func() uint64 {
			require.Equal(t, backoff.Closed, c.Stats().State, "it may look at the circuit")
			if broken {
				panic("boom")
			}
			return 0
		}})
		require.Panics(t, func() { call(t, c, transient()) })
		broken = false
		trip(t, c)
		require.Positive(t, refused(t, c))
	})
}

// history is a circuit with the calls that are under way, and what has to be true of
// it after every event.
type history struct {
	t       *testing.T
	c       *backoff.Circuit
	under   []underWay
	changes int // of state, so far
}

// underWay is a call that was admitted.
type underWay struct {
	done    func(error)
	changes int       // of state, when it was admitted
	lease   time.Time // until then it holds a slot, if it is a probe
}

const (
	probesAtATime = 2
	openPeriod    = 2 * time.Second
)

// event is something that can happen; the second half of them end a call.
type event struct {
	name string
	do   func(h *history)
	ends bool
}

func events() []event {
	ends := func(name string, newest bool, outcome error) event {
		return event{name, func(h *history) { h.end(newest, outcome) }, true}
	}
	return []event{
		{"a call", (*history).call, false},
		{"a second", func(*history) { time.Sleep(openPeriod / 2) }, false},
		ends("oldest good", false, nil),
		ends("oldest bad", false, transient()),
		ends("oldest gives up", false, context.Canceled),
		ends("newest good", true, nil),
		ends("newest bad", true, transient()),
	}
}

func (h *history) call() {
	before := h.c.Stats()
	done, err := h.c.Allow()
	after := h.c.Stats()
	if before.State == backoff.Open && after.State == backoff.HalfOpen {
		require.Zero(h.t, before.OpenFor, "half-open only once Open is over")
		h.changes++
	}
	if err == nil {
		require.NotEqual(h.t, backoff.Open, after.State)
		h.under = append(h.under, underWay{done, h.changes, time.Now().Add(openPeriod)})
		return
	}
	require.ErrorIs(h.t, err, backoff.ErrOpen)
	left, ok := backoff.Hint(err)
	require.True(h.t, ok)
	require.Positive(h.t, left)
	switch after.State {
	case backoff.Open:
		require.Equal(h.t, after.OpenFor, left)
	case backoff.HalfOpen:
		require.Equal(h.t, probesAtATime, h.probes(), "refused although a slot was free")
	case backoff.Closed:
		require.Fail(h.t, "refused by a closed circuit")
	}
}

// probes counts the slots that are taken.
func (h *history) probes() (n int) {
	for _, u := range h.under {
		if u.changes == h.changes && time.Now().Before(u.lease) {
			n++
		}
	}
	return n
}

func (h *history) end(newest bool, outcome error) {
	i := 0
	if newest {
		i = len(h.under) - 1
	}
	u := h.under[i]
	h.under = append(h.under[:i:i], h.under[i+1:]...)
	before := h.c.Stats()
	u.done(outcome)
	after := h.c.Stats()
	if before.State == after.State {
		return
	}
	h.changes++
	require.Equal(h.t, h.changes-1, u.changes, "a late call changed the state")
	switch {
	case before.State == backoff.Closed, before.State == backoff.HalfOpen && after.State == backoff.Open:
		require.Equal(h.t, backoff.Open, after.State)
		require.Equal(h.t, transient(), outcome, "only a failure opens it")
		require.Equal(h.t, openPeriod, after.OpenFor)
	default:
		require.Equal(h.t, []any{backoff.HalfOpen, backoff.Closed, nil}, []any{before.State, after.State, outcome}, "only a good probe closes it")
	}
}

// Every sequence of seven events after one failure has opened the circuit while
// another call was under way: generations, slots and leases are kept whatever
// the order is.
func TestACircuitIsInOrderAfterEverySequenceOfEvents(t *testing.T) {
	t.Parallel()
	const length = 7
	synctest.Test(t, func(t *testing.T) {
		sequences, closed := 0, 0
		var sequence []event
		var extend func(underWay int)
		extend = func(underWay int) {
			if len(sequence) == length {
				sequences++
				if replay(t, sequence) == backoff.Closed {
					closed++
				}
				return
			}
			for _, e := range events() {
				if e.ends && underWay == 0 {
					continue
				}
				sequence = append(sequence, e)
				switch {
				case e.ends:
					extend(underWay - 1)
				case e.name == "a call" && underWay == probesAtATime+2:
					// more calls under way show nothing new
				case e.name == "a call":
					extend(underWay + 1)
				default:
					extend(underWay)
				}
				sequence = sequence[:len(sequence)-1]
			}
		}
		extend(1)
		require.Greater(t, sequences, 20_000)
		require.Greater(t, closed, 100)
		t.Logf("%d sequences, %d of which closed the circuit", sequences, closed)
	})
}

// replay makes a sequence of events happen to a new circuit, and returns its state.
// An event that ends a call is passed over if the call was refused.
func replay(t *testing.T, sequence []event) backoff.State {
	t.Helper()
	h := &history{t: t, c: newCircuit(t, &backoff.CircuitOptions{MinCalls: 1, Open: openPeriod, Probes: probesAtATime, Rand: most})}
	h.call()
	h.call()
	h.end(true, transient())
	for i, e := range sequence {
		if e.ends && len(h.under) == 0 {
			continue
		}
		e.do(h)
		if n := h.probes(); h.c.Stats().State == backoff.HalfOpen && n > probesAtATime {
			require.Fail(t, "too many probes", "%d after %s", n, names(sequence[:i+1]))
		}
	}
	return h.c.Stats().State
}

func names(sequence []event) string {
	all := []string{}
	for _, e := range sequence {
		all = append(all, e.name)
	}
	return fmt.Sprint(all)
}
