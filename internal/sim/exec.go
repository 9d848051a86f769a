package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/draw"
)

// exec is one delivery: one caller's use of a key, from beginning to end. Its
// fields are guarded by world.mu, except those that are set before it begins.
type exec struct {
	n      int
	w      *world
	p      *proc
	key    *key
	s      script
	parent *exec // the delivery whose operation made this one
	random source
	ctx    context.Context //nolint:containedctx // the caller's
	cancel context.CancelCauseFunc
	began  time.Time
	// other: when it began, in this epoch, the key stood for another request.
	other bool
	epoch int

	bytes []byte // of the key, if the caller changes them
	body  []byte // of the request

	cancelled bool
	ids       map[itemID]int
	owners    []driver.Owner
	owner     driver.Owner // of the last claim
	asked     time.Time    // when the first claim with the last owner was sent
	retrying  bool         // the answer to the last claim was lost: the next one has the same owner
	run       *run         // of its operation; nil before it runs
	recovered *recovery

	// What the delivery may truthfully be told, because it was so while it waited.
	saw struct{ live, mismatch, unknown, corrupt, unreadable, foreignKey, absent, closed, company bool }

	events      [eventCount + 1]int
	settled     *call // the settling call that the backend took
	lost        bool  // the engine was told that the lease is lost
	renewFailed bool
	hinted      bool
	waiting     bool // it was told "in progress" and has not returned
	finished    bool
	finishedAt  time.Time
	ret         ret
}

// ret is how a delivery ended.
type ret struct {
	res    idem.Result
	err    error
	value  *payload // of Do
	normal bool     // it returned; else it panicked or called Goexit
	panic  any
	step   string // of the three steps, which one returned this
}

type (
	deliveryKey struct{}
	originKey   struct{}
)

func deliveryOf(ctx context.Context) *exec {
	e, _ := ctx.Value(deliveryKey{}).(*exec)
	return e
}

// errCancelled is the cause with which callers give up.
var errCancelled = errors.New("sim: the caller gave up")

// deliver makes a delivery that has not begun. parent is nil, or the delivery
// whose operation makes this one: then the caller holds mu.
func (w *world) deliver(ctx context.Context, k *key, p *proc, s script, parent *exec) *exec {
	e := &exec{n: len(w.execs), w: w, p: p, key: k, s: s, parent: parent, began: time.Now(), other: s.differs(k.request), epoch: k.epoch}
	e.random.state = w.plan.seed<<20 ^ uint64(e.n)
	e.ids = make(map[itemID]int, 8)
	ctx = context.WithValue(draw.With(ctx, e.random.next), deliveryKey{}, e)
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	w.execs = append(w.execs, e)
	return e
}

// idFor names the item of a call. The caller holds mu.
func (e *exec) idFor(ctx context.Context, c *call) itemID {
	id := itemID{exec: e.n, method: c.method}
	if ctx.Value(originKey{}) == fromOperation {
		id.origin = fromOperation
	}
	if c.method != mInspect && c.method != mWatch && c.method != mRedact && c.method != mReset && c.method != mCheck {
		id.owner = e.ordinal(c.ref.Owner)
	}
	e.ids[id]++
	id.nth = e.ids[id]
	return id
}

// ordinal of an owner among those of this delivery.
func (e *exec) ordinal(o driver.Owner) int {
	for i, have := range e.owners {
		if have == o {
			return i
		}
	}
	e.owners = append(e.owners, o)
	return len(e.owners) - 1
}

// main is the goroutine of a delivery.
func (e *exec) main() {
	defer e.finish()
	switch e.s.kind {
	case kExecute:
		e.ret.res, e.ret.err = e.p.store.Execute(e.ctx, e.keyText(), e.operation, e.options()...)
	case kDo:
		e.do()
	case kSteps:
		e.steps()
	case kResolve, kRedact, kReset:
		e.ret.err = e.operator()
	case kInvalid:
		e.ret.err = e.invalid()
	case kinds:
	}
	e.ret.normal = true
}

// finish notes how the delivery ended. A panic ends here; Goexit goes on.
func (e *exec) finish() {
	if p := recover(); p != nil {
		e.ret.panic = p
	}
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	e.finished, e.finishedAt = true, time.Now()
	e.w.returned = append(e.w.returned, e)
}

// do is a delivery by Do, whose value is a payload.
func (e *exec) do() {
	opts := append(e.options(), idem.ReportTo(&e.ret.res))
	v, err := idem.Do(e.ctx, e.p.store, e.keyText(), func(ctx context.Context, _ *idem.Claim) (payload, error) {
		res, err := e.operation(ctx)
		return payload{text: res.Value, bad: e.run != nil && e.run.end == endNotEncoded}, err
	}, opts...)
	e.ret.value, e.ret.err = &v, err
}

// payload is the type that Do records: bytes that are JSON already.
type payload struct {
	text []byte
	bad  bool
}

var errEncoding = errors.New("sim: this value cannot be encoded")

func (p payload) MarshalJSON() ([]byte, error) {
	if p.bad {
		return nil, errEncoding
	}
	return p.text, nil
}

func (p *payload) UnmarshalJSON(b []byte) error {
	p.text = bytes.Clone(b)
	return nil
}

var (
	_ json.Marshaler   = payload{}
	_ json.Unmarshaler = (*payload)(nil)
)

// request is the body that a fingerprint is made of.
func (s *script) body() []byte {
	if s.request == otherRequest {
		return []byte("another request")
	}
	return []byte("the request")
}

// options of the delivery, each given only if it differs from the Store's.
func (e *exec) options() []idem.ExecuteOption {
	s := &e.s
	var opts []idem.ExecuteOption
	if s.zeros {
		opts = append(opts, idem.WithLease(0), idem.WithMaxRun(0), idem.WithWait(0), idem.WithRetention(0))
	}
	if e.s.request != noRequest {
		opts = append(opts, e.fingerprintOption())
	}
	if want := s.policy(); want != e.p.plan.opts.OnUnknown {
		opts = append(opts, idem.OnUnknown(want))
	}
	if s.recover {
		opts = append(opts, idem.WithRecover(e.recovery))
	}
	for _, pw := range s.windows(e.key) {
		opts = append(opts, idem.WithProvider(pw.Name, pw.Window))
	}
	if s.wait > 0 {
		opts = append(opts, idem.WithWait(s.wait))
	}
	if s.lease > 0 && s.kind != kSteps {
		opts = append(opts, idem.WithLease(s.lease))
	}
	if s.maxRun > 0 {
		opts = append(opts, idem.WithMaxRun(s.maxRun))
	}
	if s.retention > 0 {
		opts = append(opts, idem.WithRetention(s.retention))
	}
	return opts
}

func (s *script) policy() idem.UnknownPolicy {
	if s.hold {
		return idem.Hold
	}
	return idem.Rerun
}

// What the engine must make of the options.

func (e *exec) lease() time.Duration { return orDefault(e.s.lease, e.p.lease()) }

func (e *exec) maxRun() time.Duration {
	return orDefault(e.s.maxRun, orDefault(e.p.plan.opts.MaxRun, 15*time.Minute))
}

func (e *exec) retention() time.Duration { return orDefault(e.s.retention, e.p.plan.opts.Retention) }

func (e *exec) recordTimeout() time.Duration {
	return orDefault(e.p.plan.opts.RecordTimeout, 5*time.Second)
}

func (e *exec) maxValue() int { return e.p.plan.opts.MaxValue }

func (e *exec) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "e%d %v of %s at p%d", e.n, e.s.kind, e.key.name, e.p.n)
	for _, o := range []struct {
		on   bool
		text string
	}{
		{e.s.hold, "hold"},
		{e.s.recover, "recover"},
		{e.s.provider, "provider"},
		{e.s.wait > 0, "wait " + e.s.wait.String()},
		{e.s.request == sameRequest, "the request"},
		{e.s.request == otherRequest, "another request"},
		{e.s.lease > 0, "lease " + e.s.lease.String()},
		{e.s.maxRun > 0, "max run " + e.s.maxRun.String()},
		{e.s.retention > 0, "retention " + e.s.retention.String()},
		{e.p.plan.opts.FailOpen, "fail open"},
	} {
		if o.on {
			b.WriteString(", " + o.text)
		}
	}
	return b.String()
}
