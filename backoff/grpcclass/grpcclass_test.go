package grpcclass_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/idem-go/idem/backoff"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/idem-go/idem/backoff/grpcclass"
)

var errX = errors.New("x")

func of(c codes.Code) error { return status.Error(c, "said the server") }

func withInfo(t *testing.T, c codes.Code, d time.Duration) error {
	t.Helper()
	s, err := status.New(c, "said the server").WithDetails(&errdetails.ErrorInfo{}, &errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	require.NoError(t, err)
	return s.Err()
}

func pushback(values ...string) metadata.MD { return metadata.MD{"grpc-retry-pushback-ms": values} }

// backoff.md 4a.
func TestCodesHaveClasses(t *testing.T) {
	t.Parallel()
	want := map[codes.Code]backoff.Class{
		codes.Unavailable: backoff.Ambiguous, codes.DeadlineExceeded: backoff.Ambiguous, codes.Aborted: backoff.Transient,
	}
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		if _, ok := want[c]; !ok {
			want[c] = backoff.Permanent
		}
	}
	require.Len(t, want, 16)
	for code, class := range want {
		require.Equal(t, class, grpcclass.Classify(of(code)), code)
		require.Equal(t, class, grpcclass.Classify(fmt.Errorf("w: %w", of(code))), code)
		wrapped := grpcclass.Wrap(of(code), nil)
		require.Equal(t, class, backoff.Classify(wrapped), code)
		require.Equal(t, class, grpcclass.Classify(wrapped), code)
		require.Equal(t, code, status.Code(fmt.Errorf("w: %w", wrapped)))
		require.EqualError(t, wrapped, of(code).Error())
		_, marked := backoff.Marked(wrapped)
		require.False(t, marked, "a verdict is no mark")
		require.False(t, backoff.NothingSent(wrapped))
		require.Equal(t, code == codes.Canceled, errors.Is(wrapped, context.Canceled))
		require.Equal(t, code == codes.DeadlineExceeded, errors.Is(wrapped, context.DeadlineExceeded))
	}
}

func TestOtherErrorsAreLeftAlone(t *testing.T) {
	t.Parallel()
	require.NoError(t, grpcclass.Wrap(nil, pushback("1")))
	require.Equal(t, errX, grpcclass.Wrap(errX, pushback("1")))
	for _, err := range []error{nil, errX, context.DeadlineExceeded} {
		require.Zero(t, grpcclass.Classify(err))
	}
}

func TestHintsAreRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err     error
		trailer metadata.MD
		hint    time.Duration
		hinted  bool
		class   backoff.Class
	}{
		"none":                      {of(codes.ResourceExhausted), nil, 0, false, backoff.Permanent},
		"RetryInfo":                 {withInfo(t, codes.ResourceExhausted, 3*time.Second), nil, 3 * time.Second, true, backoff.Throttled},
		"RetryInfo of nothing":      {withInfo(t, codes.ResourceExhausted, 0), nil, 0, true, backoff.Throttled},
		"RetryInfo, negative":       {withInfo(t, codes.ResourceExhausted, -1), nil, 0, false, backoff.Permanent},
		"RetryInfo elsewhere":       {withInfo(t, codes.Unavailable, time.Second), nil, time.Second, true, backoff.Ambiguous},
		"pushback":                  {of(codes.ResourceExhausted), pushback("250"), 250 * time.Millisecond, true, backoff.Throttled},
		"pushback of nothing":       {of(codes.Unavailable), pushback("0"), 0, true, backoff.Ambiguous},
		"pushback does not allow":   {of(codes.NotFound), pushback("250"), 250 * time.Millisecond, true, backoff.Permanent},
		"the longer one":            {withInfo(t, codes.Aborted, time.Second), pushback("2000"), 2 * time.Second, true, backoff.Transient},
		"pushback, negative":        {of(codes.Unavailable), pushback("-1"), 0, false, backoff.Permanent},
		"pushback, garbled":         {of(codes.Unavailable), pushback("soon"), 0, false, backoff.Permanent},
		"pushback, a fraction":      {of(codes.Unavailable), pushback("1.5"), 0, false, backoff.Permanent},
		"pushback, out of range":    {of(codes.Unavailable), pushback("99999999999999999999"), 0, false, backoff.Permanent},
		"pushback, twice":           {of(codes.Unavailable), pushback("1", "2"), 0, false, backoff.Permanent},
		"pushback, empty":           {of(codes.Unavailable), pushback(""), 0, false, backoff.Permanent},
		"pushback outranks details": {withInfo(t, codes.ResourceExhausted, time.Second), pushback("-1"), time.Second, true, backoff.Permanent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := grpcclass.Wrap(tc.err, tc.trailer)
			require.Equal(t, tc.class, backoff.Classify(err))
			hint, ok := backoff.Hint(err)
			require.Equal(t, tc.hinted, ok)
			require.Equal(t, tc.hint, hint)
		})
	}
	require.Equal(t, backoff.Throttled, grpcclass.Classify(withInfo(t, codes.ResourceExhausted, time.Second)))
}

func TestAMarkOutranksACode(t *testing.T) {
	t.Parallel()
	err := grpcclass.Wrap(fmt.Errorf("%w: %w", of(codes.NotFound), backoff.Mark(errX, backoff.Transient)), nil)
	require.Equal(t, backoff.Transient, backoff.Classify(err))
}

// server answers health checks.
type server struct {
	grpc_health_v1.UnimplementedHealthServer
	check func(ctx context.Context) error
	calls int
}

func (s *server) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	s.calls++
	return &grpc_health_v1.HealthCheckResponse{}, s.check(ctx)
}

// connect starts a server, and returns a client of it and how to stop it.
func connect(t *testing.T, s *server) (client grpc_health_v1.HealthClient, stop func()) {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	srv := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(srv, s)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	options := append(grpcclass.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	conn, err := grpc.NewClient("passthrough:///server", options...)
	require.NoError(t, err)
	t.Cleanup(func() {
		srv.Stop()
		require.NoError(t, conn.Close())
		require.NoError(t, <-served)
	})
	return grpc_health_v1.NewHealthClient(conn), srv.Stop
}

func check(ctx context.Context, c grpc_health_v1.HealthClient) error {
	_, err := c.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	return err
}

func TestACallThatFindsNoServerSentNothing(t *testing.T) {
	t.Parallel()
	options := append(grpcclass.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, errX }))
	conn, err := grpc.NewClient("passthrough:///nowhere", options...)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	err = check(t.Context(), grpc_health_v1.NewHealthClient(conn))
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Equal(t, backoff.Transient, backoff.Classify(err))
	require.True(t, backoff.NothingSent(err))
	require.Equal(t, err, grpcclass.Wrap(err, nil), "it knows already")
}

func TestACallThatReachedTheServerMayHaveBeenApplied(t *testing.T) {
	t.Parallel()
	s := &server{}
	client, stop := connect(t, s)
	s.check = func(ctx context.Context) error {
		go stop() // the connection breaks under the call
		<-ctx.Done()
		return nil
	}
	err := check(t.Context(), client)
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Equal(t, backoff.Ambiguous, backoff.Classify(err))
	require.False(t, backoff.NothingSent(err))
}

func TestALoopHeedsWhatTheServerSays(t *testing.T) {
	t.Parallel()
	s := &server{}
	client, _ := connect(t, s)
	s.check = func(ctx context.Context) error {
		if s.calls == 3 {
			return nil
		}
		return errors.Join(grpc.SetTrailer(ctx, pushback("1")), of(codes.ResourceExhausted))
	}
	var waits []time.Duration
	p := &backoff.Policy{
		Base: backoff.NoDelay, ThrottledBase: backoff.NoDelay,
		OnRetry: func(_ context.Context, r backoff.Retry) {
			waits = append(waits, r.Delay)
			require.Equal(t, backoff.Throttled, r.Class)
		},
	}
	require.NoError(t, backoff.Run(t.Context(), p, func(ctx context.Context) error { return check(ctx, client) }))
	require.Equal(t, []time.Duration{time.Millisecond, time.Millisecond}, waits)

	s.calls = 0
	s.check = func(ctx context.Context) error {
		return errors.Join(grpc.SetTrailer(ctx, pushback("-1")), of(codes.Unavailable))
	}
	err := backoff.Run(t.Context(), p, func(ctx context.Context) error { return check(ctx, client) })
	require.ErrorIs(t, err, backoff.ErrPermanent)
	require.Equal(t, 1, s.calls)
	_, marked := backoff.Marked(err)
	require.False(t, marked)
}
