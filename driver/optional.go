package driver

import (
	"context"
	"time"
)

// Reuser answers claims into memory of the caller's, who uses it again for other
// claims: for backends that answer from memory, where allocating the answer
// costs more than finding it. Fallback: [Backend].Claim.
//
// It is no business of wrappers: [As] does not look for it, and whoever wraps a
// backend sees each claim in its own Claim.
type Reuser interface {
	// ClaimInto is Claim, with the answer in *into, all of which it writes. What
	// into.Record points to is new, as in a result of Claim, and the caller may
	// keep it. With an error *into is worth nothing. When ClaimInto has returned,
	// nothing may refer to ctx, p or into any more, except what waits for the
	// end of ctx.
	ClaimInto(ctx context.Context, p *ClaimParams, into *ClaimResult) error

	// Self returns the backend that ClaimInto claims from. A type that embeds a
	// backend has its ClaimInto, but not its identity: ClaimInto is used only of
	// a backend that Self returns, so that a Claim which the embedding type
	// declares is not passed by.
	Self() Backend
}

// Retainer tells a backend's own retention. Fallback: 7 days.
type Retainer interface {
	DefaultRetention() time.Duration
}

// Checker looks at the server and its settings. It returns its findings joined
// (each a [*Finding]), nil if there are none, or any other error if it could
// not look. Fallback: nothing is checked.
type Checker interface {
	Check(ctx context.Context) error
}

// Watcher gives hints that a key may have changed, for those who wait for
// another process. Hints may be late, coalesce, or get lost: the Store polls
// besides. Fallback: polling alone.
type Watcher interface {
	// Watch returns a channel that receives, or is closed, after the key may
	// have been settled. The watch ends with ctx, which the caller must end.
	// Errors only cost the hint.
	Watch(ctx context.Context, key string) (<-chan struct{}, error)
}

// Editor changes settled records for an operator, by compare-and-set on the
// token. Fallback: errors.ErrUnsupported.
type Editor interface {
	// Redact removes the body of a completed record and leaves a tombstone: it
	// stays completed, with the same token and retention and a higher revision.
	// The value, message and references are gone, and Body is BodyRedacted, of a
	// failure too; a failure keeps its Code.
	// ErrNotFound without a record, ErrConflict if the token differs or no
	// outcome is recorded. Redacting what is redacted changes nothing.
	Redact(ctx context.Context, key string, p *EditParams) error
	// Reset lets the key run again: it becomes Released, not in doubt and not
	// held, with a higher token and no outcome; attempts go on counting, the
	// fingerprint and the references stay. The owner is forgotten (zero), so an
	// old claim is fenced. ErrNotFound without a record, ErrConflict if the token
	// differs or an unexpired claim stands.
	Reset(ctx context.Context, key string, p *EditParams) error
}

// EditParams are the parameters of [Editor].
type EditParams struct {
	Token uint64
	// Audit is stored with the time of the backend.
	Audit Audit
	// Retention as in ClaimParams, for a record that has no outcome after the
	// edit.
	Retention time.Duration
}

// Lister lists records for operators and recovery passes. Fallback:
// errors.ErrUnsupported.
type Lister interface {
	List(ctx context.Context, p *ListParams) (*ListResult, error)
}

// ListParams are the parameters of [Lister].
type ListParams struct {
	// States to list; empty lists all.
	States []State
	// Prefix of the key.
	Prefix string
	// After is the Next of the page before; "" begins.
	After string
	// Limit is the page's size; 0 is 100.
	Limit int
}

// ListResult is one page. Records come in an order that stays the same from
// page to page, without their outcome's Value.
type ListResult struct {
	Records []Record
	// Next continues after this page; "" at the end.
	Next string
}

// Purger removes records whose retention has ended, in bounded steps that do
// not block claims. Fallback: the server expires by itself. A negative Batch,
// Rate or UnknownAfter is an error, and nothing is removed. The step that removes
// a record restates why it may (I11): what has been claimed, completed or changed
// since it was found stays. ctx ends a purge between two steps, or the one under
// way; what was removed stays removed. Any number of purges may run at once.
type Purger interface {
	Purge(ctx context.Context, p *PurgeParams) (*PurgeResult, error)
}

// PurgeParams are the parameters of [Purger].
type PurgeParams struct {
	// Batch is the most records one step removes; 0 is the backend's default.
	Batch int
	// Rate is the most records removed a second, taken over some steps; 0 is no
	// limit. Whoever gives a rate and no Batch gets steps of at most a tenth of a
	// second's records, so that the work is spread and not only its mean.
	Rate int
	// UnknownAfter, if positive, also removes records whose outcome has been
	// unknown, without a change, for longer than this (I13).
	UnknownAfter time.Duration
	// Progress, if set, is called after each step that removed something, with the
	// sum so far, by the goroutine that called Purge and before it waits for its
	// Rate. Nothing is held meanwhile: it may cancel the purge's context, or begin
	// another purge.
	Progress func(purged int64)
}

// PurgeResult is what [Purger] did. It is valid beside an error too.
type PurgeResult struct {
	Purged int64
}

// Cache is a fast tier: it holds copies of completed records only, may forget
// any of them at any time, and is never the place where a claim is decided.
type Cache interface {
	// Get returns the copy, or ErrNotFound. Anything unreadable is ErrNotFound:
	// the archive knows better.
	Get(ctx context.Context, key string) (*Record, error)
	// Put stores the copy for p.TTL, unless one that is newer by (Token,
	// Revision), or a marker of [Cache.Delete], is there.
	Put(ctx context.Context, p *PutParams) error
	// Delete removes the copy and refuses every Put for the key for the given
	// time.
	Delete(ctx context.Context, key string, refuse time.Duration) error
}

// PutParams are the parameters of [Cache.Put].
type PutParams struct {
	Record *Record
	// TTL is how long the copy may be served. Not positive: nothing is put.
	TTL time.Duration
}

// Refresher is implemented by wrappers that keep copies of records, for a record
// that was completed behind their back, in a transaction for instance. Refresh
// takes a copy of what is recorded for key, if it can; it has its own bound and
// no error. Call it only when the record is durable. Fallback: the copy is taken
// when somebody asks for the record.
type Refresher interface {
	Refresh(ctx context.Context, key string)
}

// Unwrapper is implemented by backends that wrap another one.
type Unwrapper interface {
	Unwrap() Backend
}

// As finds the first backend in b's chain of wrappers that implements T.
func As[T any](b Backend) (T, bool) {
	for b != nil {
		if t, ok := b.(T); ok {
			return t, true
		}
		u, ok := b.(Unwrapper)
		if !ok {
			break
		}
		b = u.Unwrap()
	}
	var zero T
	return zero, false
}
