package backoff

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// CircuitOptions configure a [Circuit]. The zero value is valid, and nil stands
// for it.
type CircuitOptions struct {
	// FailureRatio of the calls within Window at which the circuit opens: at most
	// 1. The default value is 0.5.
	FailureRatio float64
	// MinCalls within Window before the ratio means anything. The default value
	// is 20.
	MinCalls int
	// Window is how far back calls count, to a tenth of it. The default value is
	// 10 s.
	Window time.Duration
	// Open is how long the circuit refuses calls, drawn from the upper half of
	// it, so that clients do not return in step. It is also how long a probe may
	// take until another caller gets its slot. The default value is 5 s.
	Open time.Duration
	// MaxOpen is the limit to which Open doubles each time the circuit opens
	// again before it has closed. The default value is Open: it does not grow.
	MaxOpen time.Duration
	// Probes is how many calls at most run at a time while the circuit is
	// half-open. The default value is 1.
	Probes int
	// Successes is how many probes must succeed, with none that fails, to close
	// the circuit. The default value is Probes.
	Successes int
	// Rand returns random numbers, and is safe for concurrent use. The default
	// value is nil: Uint64 of math/rand/v2.
	Rand func() uint64
}

// State of a [Circuit].
type State uint8

const (
	// Closed: calls are made.
	Closed State = iota
	// Open: calls are refused.
	Open
	// HalfOpen: a few calls are made to see how the target is.
	HalfOpen
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half-open"
	}
	return "invalid"
}

// CircuitStats is a snapshot of a [Circuit].
type CircuitStats struct {
	State State
	// Calls that ended within the window, and Failures among them. Both are 0
	// unless the circuit is closed.
	Calls, Failures int
	// OpenFor is how long calls are still refused; 0 unless the circuit is open.
	OpenFor time.Duration
}

// Circuit is a circuit breaker for one target: share one between all policies
// for it. Where a service is sharded, the target is the shard: one circuit for
// all would turn the failure of one part into a failure of the whole. It is safe
// for concurrent use.
//
//	          ratio reached                Open is over
//	CLOSED ──────────────────► OPEN ──────────────────────► HALF-OPEN
//	   ▲                         ▲                            │  │
//	   │                         └───── a probe failed ───────┘  │
//	   └─────────────── Successes probes succeeded ──────────────┘
//
// What counts is the outcome of single attempts, so it belongs inside the retry
// loop, where [Policy] has it. A success and a [Permanent] failure are answers:
// the target is well. [Transient], [Throttled] and [Ambiguous] failures, among
// them an attempt that ran into Policy.Timeout or into the caller's own
// deadline, and panics are failures. A call whose caller gave up is neither; the
// slot of such a probe is free again. A call that was admitted before the
// circuit last changed its state no longer counts when it ends.
type Circuit struct {
	opts  CircuitOptions
	began time.Time

	closed atomic.Pointer[term] // the current term while the circuit is closed, else nil

	mu     sync.Mutex // guards what follows; nothing waits under it
	state  State
	term   *term
	window window
	until  time.Duration // since began: the end of Open
	opened int           // times in a row
	probes []probe       // under way, oldest first
	issued uint64        // number of the newest probe
	good   int           // probes that succeeded
}

// term is the time between two changes of state. Its identity tells late calls
// from current ones.
type term struct {
	done func(error) // of every call admitted in a closed term
}

// probe is a call in a half-open circuit.
type probe struct {
	number uint64
	lease  time.Duration // since began: then its slot is anybody's
}

// ticket is what an admitted call shows when it has ended.
type ticket struct {
	term  *term
	probe uint64 // 0 unless it is a probe
}

// NewCircuit returns a closed circuit.
func NewCircuit(opts *CircuitOptions) (*Circuit, error) {
	var o CircuitOptions
	if opts != nil {
		o = *opts
	}
	o.setDefaults()
	switch {
	case !(o.FailureRatio > 0 && o.FailureRatio <= 1): // also NaN
		return nil, fmt.Errorf("%w: FailureRatio is %v, not within (0, 1]", ErrInvalidOption, o.FailureRatio)
	case o.MinCalls < 1:
		return nil, fmt.Errorf("%w: MinCalls is %d", ErrInvalidOption, o.MinCalls)
	case o.Window < parts:
		return nil, fmt.Errorf("%w: Window is %v", ErrInvalidOption, o.Window)
	case o.Open < 0:
		return nil, negative("Open", o.Open)
	case o.MaxOpen < o.Open:
		return nil, fmt.Errorf("%w: MaxOpen, %v, is less than Open, %v", ErrInvalidOption, o.MaxOpen, o.Open)
	case o.Probes < 1:
		return nil, fmt.Errorf("%w: Probes is %d", ErrInvalidOption, o.Probes)
	case o.Successes < 1:
		return nil, fmt.Errorf("%w: Successes is %d", ErrInvalidOption, o.Successes)
	}
	c := &Circuit{opts: o, began: time.Now()}
	c.window.width = o.Window / parts
	c.enter(Closed)
	return c, nil
}

func (o *CircuitOptions) setDefaults() {
	if o.FailureRatio == 0 {
		o.FailureRatio = 0.5
	}
	if o.MinCalls == 0 {
		o.MinCalls = 20
	}
	if o.Probes == 0 {
		o.Probes = 1
	}
	if o.Successes == 0 {
		o.Successes = o.Probes
	}
	if o.Rand == nil {
		o.Rand = rand.Uint64
	}
	o.Window = orDefault(o.Window, 10*time.Second)
	o.Open = orDefault(o.Open, 5*time.Second)
	o.MaxOpen = orDefault(o.MaxOpen, o.Open)
}

// Allow implements [Breaker], for callers without a loop. Call done once, when
// the call has ended. It judges errors with [Classify]; one that matches
// context.Canceled counts as neither success nor failure.
func (c *Circuit) Allow() (done func(error), err error) {
	t, err := c.admit()
	switch {
	case err != nil:
		return nil, err
	case t.probe == 0:
		return t.term.done, nil
	}
	return func(err error) { c.settle(t, judged(err)) }, nil
}

func judged(err error) outcome {
	if err == nil {
		return succeeded
	}
	c, marked := Marked(err)
	if !marked {
		c = Classify(err)
	}
	return verdict{err: err, class: c, marked: marked}.health(nil)
}

// Stats returns a snapshot.
func (c *Circuit) Stats() CircuitStats {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := CircuitStats{State: c.state}
	switch c.state {
	case Closed:
		c.window.forget(now)
		s.Calls, s.Failures = c.window.sum.calls, c.window.sum.failures
	case Open:
		s.OpenFor = max(c.until-now, 0)
	case HalfOpen:
	}
	return s
}

func (c *Circuit) now() time.Duration { return time.Since(c.began) }
