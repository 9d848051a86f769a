// Package backoff says what a failed call allows its caller to do: stop, try
// again, wait longer, or find out first whether the call took effect.
//
// It imports the standard library only, nothing else of idem, and never reads
// the text of an error.
//
//	resp, err := call(ctx)
//	switch backoff.Classify(err) {
//	case backoff.Transient, backoff.Throttled: // not applied: the same call may be made again
//	case backoff.Ambiguous: // perhaps applied: again only under an idempotency key
//	case backoff.Permanent: // again would fail again
//	}
//
// # Classes
//
// Load, safety and delay ask different questions, so there are four classes
// and not a boolean: see [Class].
//
// An explicit [Mark] outranks everything that is read from the error itself.
// Without a mark, [Classify] recognises, in this order:
//
//	source                                  class
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
// loops looks at the own context first.
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
// # Server hints
//
// A server that says how long to wait is quoted with [After] and read with
// [Hint]. A hint never changes the class.
package backoff
