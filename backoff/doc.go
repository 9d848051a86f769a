// Package backoff retries calls that may succeed on another attempt, and keeps
// retries from making an outage worse.
//
//	charge, err := backoff.Do(ctx, policy, func(ctx context.Context) (Charge, error) {
//		return payments.Charge(ctx, key, amount)
//	})
//
// It stands alone: it imports the standard library only, nothing else of idem, and
// never reads the text of an error. Which layer retries, with which policy, and
// why, is a page of its own: docs/retries.md
// (https://github.com/idem-go/idem/blob/main/docs/retries.md).
//
// # What a loop does
//
// [Do] (and [Run], for operations that return nothing but an error) calls the
// operation at most 3 times by default and waits between the calls, each time up
// to twice as long, randomly ([Policy], [Jitter]). Around that:
//
//   - It never waits for nothing: a wait beyond the context's deadline, an open
//     breaker or an empty budget end it at once.
//   - It retries only what is known to be worth it: see Classes.
//   - Below another loop it retries nothing, so that layers do not multiply
//     their attempts; [Detach] is the way out.
//   - A [Budget], shared by all calls to one target, bounds what retries add to
//     its load, also in a full outage: to 10 % by default.
//   - A breaker ([Circuit], or another behind [Breaker]) stops the first attempts
//     too, while most of them fail.
//   - Policy.Timeout bounds each attempt, the context bounds them all.
//
// A loop that ends without success returns an [*Error]: why it ended, and what the
// operation said last. errors.Is sees both.
//
//	reason                        matches
//	the failure is permanent      ErrPermanent
//	perhaps applied (on request)  ErrAmbiguous
//	all attempts made             ErrExhausted
//	nothing left in the budget    ErrBudget
//	the breaker is open           ErrOpen
//	server asks for too long      ErrHint
//	no time before the deadline   ErrDeadline, context.DeadlineExceeded
//	the context ended             context.Cause(ctx), ctx.Err()
//
// Policies, budgets and circuits are safe for concurrent use. All time is that of
// package time, so tests can run in a bubble of testing/synctest.
//
// # Classes
//
// Load, safety and delay ask different questions, so there are four classes
// and not a boolean: see [Class]. Permanent failures are not retried; Ambiguous
// ones are, so an operation that is given to a loop must bear to be applied twice,
// or carry an idempotency key; else say so with Policy.Unrepeatable.
//
// An explicit [Mark] outranks everything that is read from the error itself.
// Without a mark, [Classify] recognises, in this order:
//
//	source                                  class
//	RetryClass()                            what it returns
//	HTTPStatusCode() 408, 421, 425          Transient
//	HTTPStatusCode() 429, 503               Throttled
//	HTTPStatusCode() 501, 505, 3xx, 4xx     Permanent
//	HTTPStatusCode() 5xx otherwise          Ambiguous
//	SQLState() 40001 40P01 55P03 57P03
//	           25006 08001 08004            Transient
//	SQLState() class 53                     Throttled
//	SQLState() 08000 08003 08006 08007
//	           40003 57P01 57P02            Ambiguous
//	SQLState() otherwise                    Permanent
//	SafeToRetry() true                      Transient
//	*net.DNSError, not found                Permanent
//	*net.DNSError, timeout or temporary     Transient
//	certificate, x509, not a TLS server     Permanent
//	*net.OpError, Op "dial"                 Transient
//	connection refused                      Transient
//	net.ErrClosed (closed on this side)     Permanent
//	context.Canceled                        Permanent
//	context.DeadlineExceeded                Ambiguous
//	connection reset or aborted, EPIPE,
//	io.ErrUnexpectedEOF, io.EOF in a
//	*url.Error                              Ambiguous
//	Timeout() true                          Ambiguous
//	anything else                           Permanent
//
// The last row is deliberate: an error that nobody knows is not retried. The
// caller says what is retryable, with Mark.
//
// A context error is judged here as if the caller's own context were alive: a
// deadline belongs to one attempt, a cancellation to somebody else. Whoever
// loops looks at the own context first. [Do] does; and when an attempt has run
// into Policy.Timeout, what would be Permanent is Ambiguous.
//
// gRPC is judged by the module backoff/grpcclass.
//
// # Chains and joins
//
// In a chain, the row that stands first in the table decides, and of two errors
// in one row the outer one. In a join (errors.Join, or fmt.Errorf with several
// %w) every branch is judged by itself and the most careful verdict counts, in
// the order Ambiguous, Permanent, Throttled, Transient; branches that say
// nothing are passed over, so that
//
//	fmt.Errorf("%w: %w", ErrGatewayDown, err)
//
// is what err is. [NothingSent] does not pass them over.
//
// The error of a loop is judged by the last one, but says that nothing was applied
// only if no attempt was: see [Error].
//
// # Server hints
//
// A server that says how long to wait is quoted with [After] or [Response] and
// read with [Hint]. A hint never changes the class. To a loop it is a minimum, on
// top of which it adds up to one Base, because a server tells all its clients the
// same. Beyond Policy.MaxHint, or the deadline, the loop ends and the hint can be
// read from its error.
package backoff
