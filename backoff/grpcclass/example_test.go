package grpcclass_test

import (
	"fmt"
	"time"

	"github.com/idem-go/idem/backoff"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/idem-go/idem/backoff/grpcclass"
)

// The errors of a connection know what they mean to a loop.
func ExampleDialOptions() {
	options := append(grpcclass.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("dns:///payments.example:443", options...)
	if err != nil {
		panic(err)
	}
	fmt.Println(conn.Target(), conn.Close())
	// Output: dns:///payments.example:443 <nil>
}

// The error of a stream, with its trailer: a pushback of less than zero says that
// there is to be no retry.
func ExampleWrap() {
	err := status.Error(codes.Unavailable, "shutting down")
	fmt.Println(backoff.Classify(grpcclass.Wrap(err, nil)))
	fmt.Println(backoff.Classify(grpcclass.Wrap(err, metadata.Pairs("grpc-retry-pushback-ms", "-1"))))
	// Output:
	// ambiguous
	// permanent
}

func ExampleClassify() {
	p := &backoff.Policy{Classify: grpcclass.Classify} // for errors that are not wrapped
	fmt.Println(p.Classify(status.Error(codes.Aborted, "conflict")))

	busy, err := status.New(codes.ResourceExhausted, "quota").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Classify(busy.Err()))
	// Output:
	// transient
	// throttled
}
