package idem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"
)

// Observer sees what happens to each key: one call of Observe per event, after
// the fact. It is called by the goroutine that runs the call, or by one that
// keeps the lease, so it must be safe for concurrent use and should be quick.
// ctx is for its values.
//
// An Observer that panics changes nothing for the operation, wherever it is
// called: the panic ends there, and is logged to slog.Default at Error with the
// kind of event, the key's digest and the stack.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// Event is one thing that happened to a key.
type Event struct {
	Kind      EventKind
	Namespace string
	Key       string
	// Attempt and Token of the claim, or of the record that was found; 0 if not
	// known.
	Attempt int
	Token   uint64
	// Err tells more where the kind speaks of a failure.
	Err error
	// StoreTime is the time spent in the store by the call so far, OpTime the
	// time in the operation, Waited the time spent waiting for a duplicate
	// (calls to the store included).
	StoreTime time.Duration
	OpTime    time.Duration
	Waited    time.Duration
}

// EventKind says what happened.
type EventKind uint8

const (
	// EventExecuted: the operation ran and its result is recorded.
	EventExecuted EventKind = iota + 1
	// EventFailed: the operation ran and its permanent failure is recorded.
	EventFailed
	// EventReplayed: the recorded outcome answered the call; Err tells of a
	// recorded failure or a value that was not kept.
	EventReplayed
	// EventReleased: the operation failed and the key is free again.
	EventReleased
	// EventHeld: the operation may have had its effect; the key is held.
	EventHeld
	// EventTakeover: a key in doubt was claimed: some earlier attempt may have
	// had its effect.
	EventTakeover
	// EventInProgress: the call was refused, a live claim is elsewhere.
	EventInProgress
	// EventMismatch: the call was refused, the key stands for another request.
	EventMismatch
	// EventOutcomeUnknown: the call was refused, the key's outcome is unknown.
	EventOutcomeUnknown
	// EventUnavailable: the call was refused, the store or the caller's context
	// did not allow a claim.
	EventUnavailable
	// EventCorrupt: the call was refused, the record cannot be read.
	EventCorrupt
	// EventRenewFailed: a renewal failed; it is tried again.
	EventRenewFailed
	// EventLeaseLost: somebody took the key over while the operation ran.
	EventLeaseLost
	// EventNotRecorded: the operation ran and its outcome could not be recorded.
	EventNotRecorded
	// EventNotReleased: the key could not be released; its lease runs out.
	EventNotReleased
	// EventUnprotected: the operation runs without a claim (FailOpen).
	EventUnprotected
	// EventRecovered: a recovery supplied the outcome, and it is recorded.
	EventRecovered
	// EventNotExecuted: a recovery said that the effect did not happen.
	EventNotExecuted
	// EventResolved: an operator resolved the key.
	EventResolved
	// EventRedacted: an operator removed the recorded value.
	EventRedacted
	// EventReset: an operator let the key run again.
	EventReset
)

// String returns the kind in words.
func (k EventKind) String() string {
	names := [...]string{
		"no event", "executed", "failed", "replayed", "released", "held", "takeover", "in progress", "mismatch",
		"outcome unknown", "unavailable", "corrupt", "renewal failed", "lease lost", "not recorded",
		"not released", "unprotected", "recovered", "not executed", "resolved", "redacted", "reset",
	}
	if int(k) < len(names) {
		return names[k]
	}
	return names[0]
}

// Grave reports whether an engineer should know: takeovers, lost leases,
// outcomes not recorded, and unprotected runs.
func (k EventKind) Grave() bool {
	switch k { //nolint:exhaustive // the others are not
	case EventTakeover, EventLeaseLost, EventNotRecorded, EventUnprotected:
		return true
	}
	return false
}

// Discard is an Observer that drops everything.
var Discard Observer = discard{} //nolint:gochecknoglobals // a value without state, to be named in Options

type discard struct{}

func (discard) Observe(context.Context, Event) {}

// defaultObserver logs the grave events to slog.Default at Warn, with hashed
// keys.
type defaultObserver struct{}

func (defaultObserver) Observe(ctx context.Context, e Event) {
	if e.Kind.Grave() {
		logEvent(ctx, slog.Default(), slog.LevelWarn, e, true)
	}
}

// SlogOptions configure a [SlogObserver]. Nil and the zero value are valid.
type SlogOptions struct {
	// PlainKeys logs keys as they are. The default is a digest, see [HashKey].
	PlainKeys bool
	// Level of the events that are not grave; those are at Warn. The default is
	// Info.
	Level slog.Level
}

// SlogObserver logs every event to a logger.
type SlogObserver struct {
	log  *slog.Logger
	opts SlogOptions
}

// NewSlogObserver returns an observer that logs to l; nil is slog.Default at
// the time of each event.
func NewSlogObserver(l *slog.Logger, opts *SlogOptions) *SlogObserver {
	o := &SlogObserver{log: l}
	if opts != nil {
		o.opts = *opts
	}
	return o
}

// Observe implements [Observer].
func (o *SlogObserver) Observe(ctx context.Context, e Event) {
	l, level := o.log, o.opts.Level
	if l == nil {
		l = slog.Default()
	}
	if e.Kind.Grave() {
		level = slog.LevelWarn
	}
	logEvent(ctx, l, level, e, !o.opts.PlainKeys)
}

// logEvent logs one event. With hashed keys, errors are told by their code
// alone: their text names the key.
func logEvent(ctx context.Context, l *slog.Logger, level slog.Level, e Event, hashed bool) {
	if !l.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs, slog.String("namespace", e.Namespace))
	if hashed {
		attrs = append(attrs, slog.String("key_hash", HashKey(e.Namespace, e.Key)))
	} else {
		attrs = append(attrs, slog.String("key", e.Key))
	}
	attrs = append(attrs, slog.Int("attempt", e.Attempt), slog.Uint64("token", e.Token))
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"store_time", e.StoreTime}, {"op_time", e.OpTime}, {"waited", e.Waited}} {
		if d.value > 0 {
			attrs = append(attrs, slog.Duration(d.name, d.value))
		}
	}
	var own *Error
	switch {
	case e.Err == nil:
	case !hashed:
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	case errors.As(e.Err, &own):
		attrs = append(attrs, slog.String("error_code", own.Code))
	default:
		attrs = append(attrs, slog.String("error_type", fmt.Sprintf("%T", e.Err)))
	}
	l.LogAttrs(ctx, level, "idem: "+e.Kind.String(), attrs...)
}

// observe completes an event about c and hands it to the observer.
func (s *Store) observe(ctx context.Context, c *Claim, e Event) {
	e.Namespace, e.Key, e.Attempt, e.Token = s.opts.Namespace, c.key, c.attempt, max(c.token, c.found)
	e.StoreTime, e.OpTime, e.Waited = time.Duration(c.storeTime.Load()), time.Duration(c.opTime.Load()), c.waited
	s.tell(ctx, &e)
}

// observeCall is observe for a call that has no claim.
func (s *Store) observeCall(ctx context.Context, q *call, e Event) {
	e.Namespace, e.Key, e.Attempt = s.opts.Namespace, q.key, q.attempt
	if e.Token == 0 {
		e.Token = q.found
	}
	e.StoreTime, e.Waited = q.storeTime, q.waited
	s.tell(ctx, &e)
}

// tell calls the observer. What watches must not decide: a panic of its own,
// also in a goroutine that renews a lease, would end operations that have
// nothing to do with it.
func (s *Store) tell(ctx context.Context, e *Event) {
	defer func() {
		if p := recover(); p != nil {
			logPanic(ctx, e, p)
		}
	}()
	s.observer.Observe(ctx, *e)
}

// logPanic tells of an observer that panicked. The text of what it panicked
// with may name the key, so only the runtime's own is told; of the others the
// type. A logger that panics too has nobody left to be told.
func logPanic(ctx context.Context, e *Event, p any) {
	defer func() { _ = recover() }()
	what := fmt.Sprintf("%T", p)
	if err, ok := p.(runtime.Error); ok {
		what = err.Error()
	}
	slog.Default().LogAttrs(ctx, slog.LevelError, "idem: the Observer panicked",
		slog.String("event", e.Kind.String()), slog.String("namespace", e.Namespace),
		slog.String("key_hash", HashKey(e.Namespace, e.Key)),
		slog.String("panic", what), slog.String("stack", string(debug.Stack())))
}

// observeAnswer tells how a call was answered that does not run its operation.
func (s *Store) observeAnswer(ctx context.Context, q *call, replay bool, err error) {
	if replay {
		s.observeCall(ctx, q, Event{Kind: EventReplayed, Err: err})
		return
	}
	kind := EventUnavailable
	switch {
	case errors.Is(err, ErrInProgress):
		kind = EventInProgress
	case errors.Is(err, ErrFingerprintMismatch):
		kind = EventMismatch
	case errors.Is(err, ErrOutcomeUnknown):
		kind = EventOutcomeUnknown
	case errors.Is(err, ErrCorrupt):
		kind = EventCorrupt
	}
	s.observeCall(ctx, q, Event{Kind: kind, Err: err})
}
