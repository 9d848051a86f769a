package backoff_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

type httpError struct {
	status int
	cause  error
}

func (e *httpError) Error() string       { return "http " + strconv.Itoa(e.status) }
func (e *httpError) Unwrap() error       { return e.cause }
func (e *httpError) HTTPStatusCode() int { return e.status }

type sqlError struct {
	code  string
	cause error
}

func (e *sqlError) Error() string    { return "sql " + e.code }
func (e *sqlError) Unwrap() error    { return e.cause }
func (e *sqlError) SQLState() string { return e.code }

type safeError struct {
	safe  bool
	cause error
}

func (e *safeError) Error() string     { return "safe" }
func (e *safeError) Unwrap() error     { return e.cause }
func (e *safeError) SafeToRetry() bool { return e.safe }

type timeoutError struct {
	timeout bool
	cause   error
}

func (e *timeoutError) Error() string { return "timeout" }
func (e *timeoutError) Unwrap() error { return e.cause }
func (e *timeoutError) Timeout() bool { return e.timeout }

// isError matches a target by its Is method alone, as errors of package net do.
type isError struct{ target, cause error }

func (e isError) Error() string        { return "is" }
func (e isError) Unwrap() error        { return e.cause }
func (e isError) Is(target error) bool { return target == e.target }

func TestHTTPStatusesHaveClasses(t *testing.T) {
	t.Parallel()
	want := map[int]backoff.Class{
		408: backoff.Transient, 421: backoff.Transient, 425: backoff.Transient,
		429: backoff.Throttled, 503: backoff.Throttled,
		501: backoff.Permanent, 505: backoff.Permanent,
	}
	for status := 300; status <= 499; status++ {
		if _, ok := want[status]; !ok {
			want[status] = backoff.Permanent
		}
	}
	for status := 500; status <= 599; status++ {
		if _, ok := want[status]; !ok {
			want[status] = backoff.Ambiguous
		}
	}
	for status, c := range want {
		require.Equal(t, c, backoff.Classify(&httpError{status, nil}), "%d", status)
		require.Equal(t, c, backoff.Classify(fmt.Errorf("w: %w", &httpError{status, io.ErrUnexpectedEOF})), "%d", status)
	}
	require.Len(t, want, 300)
}

// smithy's errors carry 0 when there was no response, and a success that could
// not be decoded carries its 200: the cause decides then.
func TestAStatusThatIsNoFailureSaysNothing(t *testing.T) {
	t.Parallel()
	for _, status := range []int{-1, 0, 100, 200, 204, 299, 600, 999} {
		require.Equal(t, backoff.Ambiguous, backoff.Classify(&httpError{status, io.ErrUnexpectedEOF}), "%d", status)
		require.Equal(t, backoff.Permanent, backoff.Classify(&httpError{status, errX}), "%d", status)
		require.False(t, backoff.NothingSent(&httpError{status, errX}), "%d", status)
	}
}

func TestSQLStatesHaveClasses(t *testing.T) {
	t.Parallel()
	for c, codes := range map[backoff.Class][]string{
		backoff.Transient: {"40001", "40P01", "55P03", "57P03", "25006", "08001", "08004"},
		backoff.Throttled: {"53000", "53100", "53200", "53300", "53400"},
		backoff.Ambiguous: {"08000", "08003", "08006", "08007", "40003", "57P01", "57P02"},
		backoff.Permanent: {
			"23000", "23505", "23P01", "22001", "22P02", "42601", "42P01", "57014", "0A000",
			"08P01", "40000", "40002", "25000", "55006", "28P01", "XX000", "P0001", "99999",
		},
	} {
		for _, code := range codes {
			require.Equal(t, c, backoff.Classify(&sqlError{code, nil}), code)
			require.Equal(t, c, backoff.Classify(fmt.Errorf("w: %w", &sqlError{code, io.ErrUnexpectedEOF})), code)
		}
	}
	for _, code := range []string{"", "4", "400010", "53"} {
		require.Equal(t, backoff.Ambiguous, backoff.Classify(&sqlError{code, io.ErrUnexpectedEOF}), "%q says nothing", code)
		require.Equal(t, backoff.Permanent, backoff.Classify(&sqlError{code, nil}), "%q says nothing", code)
	}
}

func TestErrorsHaveClasses(t *testing.T) {
	t.Parallel()
	dial := func(cause error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: cause} }
	read := func(cause error) error { return &net.OpError{Op: "read", Net: "tcp", Err: cause} }
	get := func(cause error) error { return &url.Error{Op: "Get", URL: "http://x", Err: cause} }
	for name, tc := range map[string]struct {
		err  error
		want backoff.Class
	}{
		"unknown":         {errX, backoff.Permanent},
		"unknown wrapped": {fmt.Errorf("w: %w", errX), backoff.Permanent},

		"safe to retry":                     {&safeError{true, nil}, backoff.Transient},
		"safe to retry, the context ended":  {&safeError{true, context.Canceled}, backoff.Transient},
		"safe to retry, attempt timed out":  {&safeError{true, context.DeadlineExceeded}, backoff.Transient},
		"not known to be safe":              {&safeError{false, nil}, backoff.Permanent},
		"not known to be safe, broken":      {&safeError{false, io.ErrUnexpectedEOF}, backoff.Ambiguous},
		"a status outranks safe to retry":   {&safeError{true, &httpError{500, nil}}, backoff.Ambiguous},
		"an SQLSTATE outranks the dialling": {dial(&sqlError{"28P01", nil}), backoff.Permanent},

		"no such host":             {&net.DNSError{IsNotFound: true}, backoff.Permanent},
		"no such host, dialled":    {get(dial(&net.DNSError{IsNotFound: true})), backoff.Permanent},
		"name server timed out":    {&net.DNSError{IsTimeout: true}, backoff.Transient},
		"name server failed":       {get(&net.DNSError{IsTemporary: true}), backoff.Transient},
		"name server, no details":  {&net.DNSError{}, backoff.Permanent},
		"name, no details, dialed": {dial(&net.DNSError{}), backoff.Transient},

		"wrong certificate":     {get(&tls.CertificateVerificationError{Err: x509.HostnameError{}}), backoff.Permanent},
		"wrong cert., dialled":  {dial(&tls.CertificateVerificationError{}), backoff.Permanent},
		"not a TLS server":      {get(tls.RecordHeaderError{}), backoff.Permanent},
		"ECH rejected":          {&tls.ECHRejectionError{}, backoff.Permanent},
		"x509 invalid":          {x509.CertificateInvalidError{}, backoff.Permanent},
		"x509 hostname":         {x509.HostnameError{}, backoff.Permanent},
		"x509 authority":        {x509.UnknownAuthorityError{}, backoff.Permanent},
		"x509 roots, timed out": {&timeoutError{true, x509.SystemRootsError{}}, backoff.Permanent},
		"x509 constraint":       {x509.ConstraintViolationError{}, backoff.Permanent},
		"x509 extension":        {x509.UnhandledCriticalExtension{}, backoff.Permanent},
		"x509 algorithm":        {x509.InsecureAlgorithmError(1), backoff.Permanent},

		"dial refused":                  {get(dial(os.NewSyscallError("connect", errRefused))), backoff.Transient},
		"dial timed out":                {get(dial(os.ErrDeadlineExceeded)), backoff.Transient},
		"dial, attempt timed out":       {dial(context.DeadlineExceeded), backoff.Transient},
		"dial, reset":                   {dial(errReset), backoff.Transient},
		"dial, cancelled":               {dial(isError{context.Canceled, nil}), backoff.Transient},
		"refused":                       {os.NewSyscallError("connect", errRefused), backoff.Transient},
		"read timed out":                {read(os.ErrDeadlineExceeded), backoff.Ambiguous},
		"read reset":                    {get(read(os.NewSyscallError("read", errReset))), backoff.Ambiguous},
		"write on a broken pipe":        {&net.OpError{Op: "write", Err: os.NewSyscallError("write", errPipe)}, backoff.Ambiguous},
		"aborted":                       {read(errAborted), backoff.Ambiguous},
		"connection ended early":        {get(io.ErrUnexpectedEOF), backoff.Ambiguous},
		"server hung up on the request": {fmt.Errorf("w: %w", get(fmt.Errorf("w: %w", io.EOF))), backoff.Ambiguous},
		"the ordinary end of something": {fmt.Errorf("w: %w", io.EOF), backoff.Permanent},
		"closed on this side":           {read(net.ErrClosed), backoff.Permanent},
		"closed on this side, timeout":  {&timeoutError{true, net.ErrClosed}, backoff.Permanent},
		"some timeout":                  {&timeoutError{true, nil}, backoff.Ambiguous},
		"no timeout":                    {&timeoutError{false, nil}, backoff.Permanent},

		"cancelled by somebody else": {get(context.Canceled), backoff.Permanent},
		"cancelled, with a timeout":  {&timeoutError{true, context.Canceled}, backoff.Permanent},
		"cancelled at a deadline":    {isError{context.DeadlineExceeded, context.Canceled}, backoff.Permanent},
		"attempt timed out":          {get(context.DeadlineExceeded), backoff.Ambiguous},
		"timed out, by Is":           {isError{context.DeadlineExceeded, nil}, backoff.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, backoff.Classify(tc.err))
			require.Equal(t, tc.want, backoff.Classify(fmt.Errorf("outer: %w", tc.err)))
			require.Equal(t, tc.want == backoff.Transient, backoff.NothingSent(tc.err))
			_, marked := backoff.Marked(tc.err)
			require.False(t, marked)
		})
	}
}

// classError is an error that knows what it means for the next call.
type classError struct {
	class backoff.Class
	cause error
}

func (e *classError) Error() string             { return "class " + e.class.String() }
func (e *classError) Unwrap() error             { return e.cause }
func (e *classError) RetryClass() backoff.Class { return e.class }

func TestAnErrorMayKnowItsOwnClass(t *testing.T) {
	t.Parallel()
	for _, c := range classes() {
		for _, cause := range []error{nil, &httpError{500, nil}, &sqlError{"40001", nil}, context.Canceled, errors.Join(errX, io.ErrUnexpectedEOF)} {
			err := fmt.Errorf("w: %w", &classError{c, cause})
			require.Equal(t, c, backoff.Classify(err))
			_, ok := backoff.Marked(err)
			require.False(t, ok, "it is no mark: nothing is recorded for it")
			require.Equal(t, backoff.Throttled, backoff.Classify(&classError{c, backoff.Mark(errX, backoff.Throttled)}), "a mark outranks it")
		}
	}
	for _, none := range []backoff.Class{0, backoff.Ambiguous + 1, 255} {
		require.Equal(t, backoff.Transient, backoff.Classify(&classError{none, &sqlError{"40001", nil}}), "it says nothing")
	}
}

// An error of a store that could not be reached may come after the effect.
func TestWhatAnErrorWishesIsNoProofThatNothingWasSent(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial"}
	for c, want := range map[backoff.Class]bool{backoff.Transient: true, backoff.Throttled: true, backoff.Ambiguous: false, backoff.Permanent: false} {
		require.Equal(t, want, backoff.NothingSent(&classError{c, refused}), "%v: the cause is proof, unless the error knows better", c)
		require.Equal(t, want, backoff.NothingSent(&classError{c, &safeError{true, nil}}))
		require.False(t, backoff.NothingSent(errors.Join(&classError{c, nil}, refused)))
		require.False(t, backoff.NothingSent(&classError{c, nil}), "advice is no proof")
	}
}

func TestNilHasNoClass(t *testing.T) {
	t.Parallel()
	require.Zero(t, backoff.Classify(nil))
	require.False(t, backoff.NothingSent(nil))
}

func TestAMarkOutranksWhatTheErrorSays(t *testing.T) {
	t.Parallel()
	for _, c := range classes() {
		for _, err := range []error{
			&httpError{500, nil}, &httpError{404, nil}, &sqlError{"40001", nil}, &safeError{true, nil},
			context.Canceled, io.ErrUnexpectedEOF, &net.OpError{Op: "dial"},
		} {
			require.Equal(t, c, backoff.Classify(fmt.Errorf("w: %w", backoff.Mark(err, c))))
			require.Equal(t, c, backoff.Classify(errors.Join(err, backoff.Mark(errX, c))))
		}
	}
}

func TestAcrossAJoinTheMostCarefulVerdictCounts(t *testing.T) {
	t.Parallel()
	byCare := []error{&httpError{408, nil}, &httpError{429, nil}, &httpError{404, nil}, &httpError{500, nil}}
	for i, less := range byCare {
		for _, more := range byCare[i:] {
			want := backoff.Classify(more)
			for _, err := range []error{errors.Join(less, more), errors.Join(more, less), &timeoutError{true, errors.Join(less, more)}} {
				require.Equal(t, want, backoff.Classify(err), "%v with %v", less, more)
			}
		}
	}
}

func TestABranchThatSaysNothingIsPassedOver(t *testing.T) {
	t.Parallel()
	for _, err := range []error{&httpError{408, nil}, &httpError{429, nil}, &httpError{500, nil}} {
		require.Equal(t, backoff.Classify(err), backoff.Classify(fmt.Errorf("%w: %w", errX, err)))
	}
	require.Equal(t, backoff.Permanent, backoff.Classify(errors.Join(errX, io.EOF)))
	require.Equal(t, backoff.Ambiguous, backoff.Classify(&timeoutError{true, errors.Join(errX, io.EOF)}))
}

func TestNothingSentWantsItFromEveryBranch(t *testing.T) {
	t.Parallel()
	mark := backoff.Mark
	refused := &net.OpError{Op: "dial"}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"refused":                         {refused, true},
		"throttled":                       {&httpError{429, nil}, true},
		"all refused":                     {fmt.Errorf("w: %w", errors.Join(refused, &httpError{503, nil})), true},
		"refused beside a nil pointer":    {errors.Join(refused, (*typed)(nil)), true},
		"marked transient":                {mark(errX, backoff.Transient), true},
		"marked throttled":                {fmt.Errorf("w: %w", mark(errX, backoff.Throttled)), true},
		"marked against what it says":     {mark(&httpError{500, nil}, backoff.Transient), true},
		"a join, marked as a whole":       {mark(fmt.Errorf("%w: %w", errX, refused), backoff.Transient), true},
		"one marked, one refused":         {errors.Join(mark(errX, backoff.Transient), refused), true},
		"one refused, one unknown":        {fmt.Errorf("%w: %w", errX, refused), false},
		"one marked, one unknown":         {errors.Join(mark(errX, backoff.Transient), io.EOF), false},
		"one marked, one reset":           {errors.Join(mark(errX, backoff.Transient), errReset), false},
		"one refused, one not found":      {errors.Join(refused, &httpError{404, nil}), false},
		"marked permanent":                {mark(refused, backoff.Permanent), false},
		"marked ambiguous":                {mark(refused, backoff.Ambiguous), false},
		"ambiguous below transient":       {mark(fmt.Errorf("w: %w", mark(errX, backoff.Ambiguous)), backoff.Transient), false},
		"ambiguous in a marked join":      {mark(errors.Join(refused, mark(errX, backoff.Ambiguous)), backoff.Transient), false},
		"ambiguous in a join":             {errors.Join(refused, mark(refused, backoff.Ambiguous)), false},
		"permanent below transient":       {mark(mark(errX, backoff.Permanent), backoff.Transient), true},
		"a status above a marked branch":  {&httpError{503, errors.Join(errX, mark(errX, backoff.Transient))}, false},
		"a status above unmarked details": {&httpError{503, errors.Join(errX, io.EOF)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, backoff.NothingSent(tc.err))
		})
	}
}

// The texts are those of real failures; none of them may be read.
func TestTheTextOfAnErrorIsNeverRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"connection refused", "dial tcp: timeout", "EOF", "connection reset by peer", "429 Too Many Requests",
		"context deadline exceeded", "SQLSTATE 40001",
	} {
		require.Equal(t, backoff.Permanent, backoff.Classify(errors.New(text)), text)
	}
}

func TestARefusedConnectionIsRecognisedFromTheSystem(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	var d net.Dialer
	_, err = d.DialContext(t.Context(), "tcp", addr)
	require.Error(t, err)
	require.Equal(t, backoff.Transient, backoff.Classify(err))
	require.True(t, backoff.NothingSent(err))
	_, err = l.Accept()
	require.Equal(t, backoff.Permanent, backoff.Classify(err))
}
