// Package grpcclass tells a loop of package backoff what the status of a gRPC
// call means. It is a module of its own, because gRPC is more than the rest of
// idem together.
//
//	conn, err := grpc.NewClient(target, append(grpcclass.DialOptions(), more...)...)
//
// Errors of unary calls on such a connection know their class, what the server
// said about when to come back, and whether anything was sent. They are gRPC
// errors as before: status.FromError and status.Code read them.
//
//	code                                         class
//	UNAVAILABLE, DEADLINE_EXCEEDED, not sent     Transient
//	ABORTED (retry the whole operation)          Transient
//	RESOURCE_EXHAUSTED with a hint               Throttled
//	UNAVAILABLE, DEADLINE_EXCEEDED otherwise     Ambiguous
//	CANCELLED, RESOURCE_EXHAUSTED without a
//	hint, INTERNAL, UNKNOWN, all the others      Permanent
//
// A service whose INTERNAL means "try again" marks it:
//
//	if status.Code(err) == codes.Internal {
//		err = backoff.Mark(err, backoff.Ambiguous)
//	}
//
// A hint is a RetryInfo in the details of the status, or a pushback in the
// trailer (grpc-retry-pushback-ms, gRFC A6). A pushback that is negative, garbled
// or given twice says "do not retry": the class is Permanent then. None of this
// is a mark, so idem records no failure for it.
//
// Without DialOptions, [Wrap] does the same for one error, such as that of a
// stream, and [Classify] reads the class alone; neither can know that nothing was
// sent.
package grpcclass
