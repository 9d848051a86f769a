// Package idem makes an operation safe to attempt more than once.
//
// Every queue delivers some messages twice, and every time-out is ambiguous:
// the call may have happened. A Store gives each logical operation a key,
// claims the key under a lease, runs the operation, records its outcome
// durably, and answers every later call from that record:
//
//	store, err := idem.New(memstore.New(nil), &idem.Options{Namespace: "billing"})
//	...
//	key, err := idem.Key("charge", invoice.ID)
//	...
//	charge, err := idem.Do(ctx, store, key, func(ctx context.Context, c *idem.Claim) (Charge, error) {
//		return payments.Charge(ctx, c.ProviderKey("payments"), invoice.Amount)
//	})
//
// The first call charges. A second one, in this process or another, now or next
// week, gets the same Charge back and charges nothing.
//
// # Guarantees
//
// With at-least-once delivery idem gives effectively-once effects, as follows.
//
//   - At most one unexpired claim per key: two operations for one key do not
//     run side by side while the holder's lease lasts, and a holder is told,
//     through its context, before its lease can be anybody else's.
//   - A recorded outcome is replayed byte for byte until its retention ends.
//     Nothing overwrites it: a holder that stalled and comes back is refused.
//   - An attempt whose end nobody saw is never taken for one that did not
//     happen. The next one knows it ([Claim.Takeover]), and [Hold] or a recovery
//     can keep it from running.
//   - Nothing is silent. Each error says whether the effect happened; takeovers,
//     lost leases and outcomes not recorded reach the [Observer].
//
// # Non-guarantees
//
// idem cannot make a foreign effect atomic with its record: a process can die
// between the two. Under the default policy, [Rerun], the operation then runs
// again. So an operation must be one of: transactional; deduplicated by its
// provider, through [Claim.ProviderKey]; fenced at the resource, by
// [Claim.Token]; or guarded by [Hold] or [WithRecover]. A lease alone is no
// protection: an operation that ignores its context can outlive it. How durable
// a record is, is the backend's to say. docs/guarantees.md tells the whole.
//
// # How an operation ends
//
//	the operation …                                        the key is …          the next call
//	returns a result                                       succeeded             replays it
//	returns an error marked Permanent                      failed                replays a *RecordedError
//	returns an error marked Unknown                        unknown, held         recovers, or ErrOutcomeUnknown
//	returns an error marked NotApplied, or one that says
//	that nothing was sent (refused, throttled)             released              runs again
//	returns any other error, panics, calls Goexit, or its
//	context ended; neither Hold nor WithRecover is set     released, in doubt    runs again, Takeover() is true
//	… the same, and Hold or WithRecover is set             unknown, held         recovers, or ErrOutcomeUnknown
//	dies with its process                                  unknown at the        OnUnknown decides
//	                                                       lease's end
//	succeeds but cannot be recorded                        claimed until then    as after a death
//	succeeds, its value cannot be encoded or is too large  succeeded, no body    ErrNotEncoded, ErrTooLarge
//
// Only an explicit mark records a failure; see [Permanent], [Unknown] and
// [NotApplied].
//
// # Errors
//
//	match                   did the effect happen?      the caller may
//	ErrInProgress           running elsewhere           wait (InProgressError.RetryAfter), call again
//	ErrFingerprintMismatch  not by this call            fix the caller; never retry
//	ErrOutcomeUnknown       unknown                     resolve, or give a recovery
//	ErrLeaseLost            ran here, not recorded      call again, same key
//	ErrMaxRun               unknown                     call again, same key
//	ErrNotRecorded          ran here                    use the result; call again, same key
//	ErrNotEncoded           ran; recorded without body  stop
//	ErrTooLarge             ran; recorded without body  stop
//	ErrRedacted             ran; value removed later    stop
//	*DecodeError            ran earlier                 fix the type; never re-run
//	ErrUnavailable          not run                     call again
//	*RecordedError          ran earlier, failed         stop
//	ErrCorrupt              unknown                     an operator; never treated as absent
//	ErrInvalidKey, ErrInvalidOption, ErrClosed
//	                        not run                     fix the caller
//
// An error of the operation comes back as it is, or inside one of these. When
// the caller's context has ended, the error matches its cause too, unless the
// failure was recorded as the outcome. Each is, or wraps, an [*Error], whose Code
// has a section in docs/errors.md.
//
// # Choosing a backend
//
// memstore keeps records in the process: for tests and for a single process.
// Processes share redisstore and pgstore; tieredstore puts a fast tier in front of
// an archive, and movestore moves from one to another. Anything else implements
// package driver; package storetest proves that it does.
//
// # Testing your code
//
// memstore works in a testing/synctest bubble, so that leases end when the test
// says so.
package idem

import (
	"context"
	"errors"
	"time"
)

// Op is an operation that must not happen twice. It returns the result to
// record, or an error. ctx ends with the caller's context, with the trust
// window of the lease (cause [ErrLeaseLost]) and after MaxRun (cause
// [ErrMaxRun]); an operation that goes on after that risks running beside its
// successor. [ClaimFrom] gives it its claim.
type Op func(ctx context.Context) (Result, error)

// Result is what an operation returned, and how the caller came by it.
type Result struct {
	// Value is what the operation returned; replayed byte for byte.
	Value []byte
	// Replayed: it was recorded by an earlier call. Set also beside a
	// [*RecordedError].
	Replayed bool
	// Recovered: a recovery or a resolution supplied it.
	Recovered bool
	// Unprotected: the operation ran without a claim, because FailOpen was
	// chosen and the store was down.
	Unprotected bool
	// Token is the fencing token of the claim that recorded it.
	Token uint64
	// RecordedAt is by the store's clock. Zero in the call that recorded it.
	RecordedAt time.Time
}

// Do is [Store.Execute] for a typed value: it encodes the value with the
// Store's codec for the record, decodes it for a replay, and hands the
// operation its claim.
//
// The value comes back beside [ErrNotRecorded], [ErrNotEncoded] and
// [ErrTooLarge] too, in the call that ran the operation or its recovery; with
// any other error it is the zero value. A recorded value that cannot be decoded into T is a
// [*DecodeError]: the operation has run and does not run again. [ReportTo]
// tells the rest of the [Result]. Everything else is as for Execute.
func Do[T any](ctx context.Context, s *Store, key string, op func(context.Context, *Claim) (T, error), opts ...ExecuteOption) (T, error) {
	var value, zero T
	if s == nil || op == nil {
		return zero, invalidOption("Do: the Store or the operation is nil")
	}
	q, err := s.begin(ctx, key, opts)
	if err != nil {
		return zero, err
	}
	defer s.end(q)
	ran := false
	res, err := s.execute(ctx, q, func(ctx context.Context, c *Claim) (Result, error) {
		v, err := op(ctx, c)
		if err != nil {
			return Result{}, err
		}
		value, ran = v, true
		c.codec = s.opts.Codec.ID()
		b, err := s.encode(v)
		if err != nil {
			return Result{}, &notEncoded{err}
		}
		return Result{Value: b}, nil
	})
	switch {
	case ran && (err == nil || !errors.Is(err, ErrLeaseLost)):
		return value, err
	case err != nil && (!res.Recovered || res.Replayed || !errors.Is(err, ErrNotRecorded) && !errors.Is(err, ErrTooLarge)):
		return zero, err
	}
	if failed := s.decode(q, res.Value, &value); failed != nil {
		return zero, orBoth(failed, err)
	}
	return value, err
}
