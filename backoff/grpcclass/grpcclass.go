package grpcclass

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/idem-go/idem/backoff"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// DialOptions makes the errors of unary calls know what they mean, and switches
// off the retries that gRPC makes by service configuration: one layer retries,
// and that is the loop. Transparent retries, of calls that no server has looked
// at, remain.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithDisableRetry(), grpc.WithChainUnaryInterceptor(intercept)}
}

// intercept wraps the error of a call. gRPC tells the peer of a call once it has
// a stream; without one, nothing can have been sent. That would say little of the
// attempts before the last one, if gRPC made any: hence not without
// WithDisableRetry. An interceptor further in that makes several calls leaves the
// peer of any of them behind.
func intercept(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var to peer.Peer
	var trailer metadata.MD
	opts = append(slices.Clip(opts), grpc.Peer(&to), grpc.Trailer(&trailer))
	return wrap(invoke(ctx, method, req, reply, conn, opts...), trailer, to.Addr == nil)
}

// Wrap makes the error of a call know its class and its hint. trailer is that of
// the call, and may be nil. Wrap of nil is nil; an error without a status, and one
// that knows already, come back as they are.
func Wrap(err error, trailer metadata.MD) error { return wrap(err, trailer, false) }

// Classify returns the class of an error with a gRPC status, and the zero Class
// for any other: so it fits Policy.Classify, for errors that are not wrapped.
func Classify(err error) backoff.Class {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return 0
	}
	_, hinted := retryInfo(s)
	return class(s.Code(), hinted, false)
}

func wrap(err error, trailer metadata.MD, unsent bool) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	if known := (*callError)(nil); errors.As(err, &known) {
		return err
	}
	e := &callError{err: err, status: s, after: -1, unsent: unsent}
	hint, hinted := retryInfo(s)
	pushed, stop, ok := pushback(trailer)
	if ok {
		hint, hinted = max(hint, pushed), true
	}
	if hinted {
		e.after = hint
	}
	if e.class = class(s.Code(), hinted, unsent); stop {
		e.class = backoff.Permanent
	}
	return e
}

func class(code codes.Code, hinted, unsent bool) backoff.Class {
	switch code { //nolint:exhaustive // the rest is Permanent
	case codes.Unavailable, codes.DeadlineExceeded:
		if unsent {
			return backoff.Transient
		}
		return backoff.Ambiguous
	case codes.Aborted:
		return backoff.Transient
	case codes.ResourceExhausted:
		if hinted {
			return backoff.Throttled
		}
	}
	return backoff.Permanent
}

// retryInfo reads the hint in the details of a status.
func retryInfo(s *status.Status) (time.Duration, bool) {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok && info.GetRetryDelay() != nil {
			if after := info.GetRetryDelay().AsDuration(); after >= 0 {
				return after, true
			}
		}
	}
	return 0, false
}

// pushback reads the hint in a trailer; stop means that the server wants no retry.
func pushback(trailer metadata.MD) (after time.Duration, stop, ok bool) {
	values := trailer.Get("grpc-retry-pushback-ms")
	switch len(values) {
	case 0:
		return 0, false, false
	case 1:
		ms, err := strconv.ParseInt(values[0], 10, 32) // 32 bits, as gRFC A6 has it: 24 days
		if err == nil && ms >= 0 {
			return time.Duration(ms) * time.Millisecond, false, true
		}
	}
	return 0, true, false
}

// callError is the error of a call.
type callError struct {
	err    error
	status *status.Status
	class  backoff.Class
	after  time.Duration // negative without a hint
	unsent bool
}

func (e *callError) Error() string                 { return e.err.Error() }
func (e *callError) Unwrap() error                 { return e.err }
func (e *callError) GRPCStatus() *status.Status    { return e.status }
func (e *callError) RetryClass() backoff.Class     { return e.class }
func (e *callError) RetryAfterHint() time.Duration { return e.after }
func (e *callError) SafeToRetry() bool             { return e.unsent }

// Is lets a call that was cancelled, or that ran out of time, match what ended it.
func (e *callError) Is(target error) bool {
	switch e.status.Code() { //nolint:exhaustive // no other code is a context's
	case codes.Canceled:
		return target == context.Canceled
	case codes.DeadlineExceeded:
		return target == context.DeadlineExceeded
	}
	return false
}
