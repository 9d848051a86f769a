package backoff

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
)

// Classify says what err means for the next call: by its mark if it has one
// ([Marked]), else by what is recognised in it, else [Permanent]. The package
// documentation has the table. Classify of nil is the zero Class.
//
// HTTP/2's REFUSED_STREAM and GOAWAY and the status of gRPC are not recognised:
// their types belong to other modules. A 409 is Permanent: whether it means "in
// progress" only the caller can tell.
func Classify(err error) Class {
	if err == nil {
		return 0
	}
	if c, ok := Marked(err); ok {
		return c
	}
	if c := recognise(err, 0); c != 0 {
		return c
	}
	return Permanent
}

// NothingSent reports whether err says for certain that the call had no effect:
// it never left, was refused, or was throttled. True only for an error that is
// [Transient] or [Throttled], by its mark or else as [Classify] recognises it.
//
// It is stricter than Classify, because here a wrong "yes" doubles an effect
// and a wrong "no" costs a look-up. Every branch of a join must say that nothing
// was sent, and an [Ambiguous] mark anywhere, even below another mark, makes the
// answer no. What an error says with a RetryClass method is advice for the next
// call, and makes no yes. A caller who wraps with two %w and knows better marks
// the result:
//
//	backoff.Mark(fmt.Errorf("%w: %w", ErrGatewayDown, err), backoff.Transient)
//
// False means "not known", never "something was sent".
func NothingSent(err error) bool {
	return !hasMark(err, Ambiguous) && recognise(err, Permanent).notApplied()
}

// recognise returns what the tree of err says, marks included, and the zero
// Class if it says nothing. A branch of a join that says nothing counts as silent.
func recognise(err error, silent Class) Class {
	var room [shortChain]error
	nodes, branches := chain(err, room[:])
	if m, ok := last[*marked](nodes); ok {
		return m.class
	}
	if _, ok := Marked(err); !ok { // a mark further down outranks what stands above the join
		c := ownClass(nodes)
		if silent != 0 && c.notApplied() {
			c = 0 // a wish to be called again is no proof that nothing was sent
		}
		if c != 0 {
			return c
		}
		if c := firstRow(nodes); c != 0 {
			return c
		}
	}
	if e, ok := last[*Error](nodes); ok {
		return e.recognise(silent)
	}
	var joined Class
	for _, b := range branches {
		if isNil(b) {
			continue
		}
		c := recognise(b, silent)
		if c == 0 {
			c = silent
		}
		joined = moreCareful(joined, c)
	}
	if joined == 0 && timedOut(nodes) {
		return Ambiguous
	}
	return joined
}

// firstRow applies the rows of the table, except the first and the last one, to a
// chain.
//
// DNS and TLS stand before "dial" because net.Dialer wraps both of them in a
// dial error: the name that does not exist will not exist in a second either.
// "dial" stands before the contexts and the resets because a dial error wraps
// those too, and whatever it wraps, nothing was sent.
func firstRow(nodes []error) Class {
	for _, row := range [...]func(error) Class{
		httpStatus, sqlState, safeToRetry, dns, certificate, dial, closedOrCancelled, broken,
	} {
		for _, n := range nodes {
			if c := row(n); c != 0 {
				return c
			}
		}
	}
	return hungUp(nodes)
}

// ownClass asks errors that know what they mean for the next call.
func ownClass(nodes []error) Class {
	for _, n := range nodes {
		if e, ok := as[interface{ RetryClass() Class }](n); ok {
			if c := e.RetryClass(); c.care() != 0 {
				return c
			}
		}
	}
	return 0
}

// httpStatus reads the status of errors that carry one (smithy and others name
// the method so). Without a response they return 0, which says nothing; so does
// a success that could not be read.
func httpStatus(err error) Class {
	e, ok := as[interface{ HTTPStatusCode() int }](err)
	if !ok {
		return 0
	}
	switch s := e.HTTPStatusCode(); {
	case s < 300 || s > 599:
		return 0
	case s == http.StatusRequestTimeout || s == http.StatusMisdirectedRequest || s == http.StatusTooEarly:
		return Transient
	case s == http.StatusTooManyRequests || s == http.StatusServiceUnavailable:
		return Throttled
	case s < 500 || s == http.StatusNotImplemented || s == http.StatusHTTPVersionNotSupported:
		return Permanent
	}
	// Also the codes that proxies invent: RFC 9110 section 15 has a client treat
	// a 5xx it does not know as a 500.
	return Ambiguous
}

// sqlState reads SQLSTATE from errors of pgx, lib/pq and others. An empty or
// malformed code says nothing.
func sqlState(err error) Class {
	e, ok := as[interface{ SQLState() string }](err)
	if !ok {
		return 0
	}
	code := e.SQLState()
	if len(code) != 5 {
		return 0
	}
	switch code {
	case "40001", "40P01", // serialization failure, deadlock: the transaction was rolled back
		"55P03", "57P03", // lock not available, server starting up
		"25006",          // read-only: a standby, after a failover
		"08001", "08004": // not connected, connection rejected
		return Transient
	case "08000", "08003", "08006", "08007", // the connection broke
		"40003",          // statement completion unknown
		"57P01", "57P02": // server shutting down or crashed
		return Ambiguous
	}
	if code[:2] == "53" { // insufficient resources
		return Throttled
	}
	return Permanent
}

// safeToRetry trusts a driver that says it sent nothing (pgx names the method so).
func safeToRetry(err error) Class {
	if e, ok := as[interface{ SafeToRetry() bool }](err); ok && e.SafeToRetry() {
		return Transient
	}
	return 0
}

func dns(err error) Class {
	e, ok := as[*net.DNSError](err)
	switch {
	case !ok:
		return 0
	case e.IsNotFound:
		return Permanent
	case e.IsTimeout || e.IsTemporary:
		return Transient
	}
	return 0
}

// certificate recognises a peer that is the wrong one, or does not speak TLS.
func certificate(err error) Class {
	switch any(err).(type) {
	case *tls.CertificateVerificationError, tls.RecordHeaderError, *tls.ECHRejectionError,
		x509.CertificateInvalidError, x509.HostnameError, x509.UnknownAuthorityError, x509.SystemRootsError,
		x509.ConstraintViolationError, x509.UnhandledCriticalExtension, x509.InsecureAlgorithmError:
		return Permanent
	}
	return 0
}

// dial recognises calls that never had a connection.
func dial(err error) Class {
	if e, ok := as[*net.OpError](err); ok && e.Op == "dial" || refused(err) {
		return Transient
	}
	return 0
}

func closedOrCancelled(err error) Class {
	if is(err, net.ErrClosed) || is(err, context.Canceled) {
		return Permanent
	}
	return 0
}

// broken recognises calls that ended after they may have been sent.
func broken(err error) Class {
	if is(err, context.DeadlineExceeded) || is(err, io.ErrUnexpectedEOF) || reset(err) {
		return Ambiguous
	}
	return 0
}

// hungUp recognises a server that closed the connection instead of answering:
// net/http says io.EOF then. Elsewhere io.EOF is the ordinary end of something.
func hungUp(nodes []error) Class {
	request := false
	for _, n := range nodes {
		if _, ok := as[*url.Error](n); ok {
			request = true
		}
		if request && is(n, io.EOF) {
			return Ambiguous
		}
	}
	return 0
}

// timedOut is the last row: wrappers such as url.Error have the method too, and
// answer for whatever they wrap, so that a dial or a branch must be seen first.
func timedOut(nodes []error) bool {
	for _, n := range nodes {
		if e, ok := as[interface{ Timeout() bool }](n); ok && e.Timeout() {
			return true
		}
	}
	return false
}
