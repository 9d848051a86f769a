package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

// ended returns the error of a loop that calls an operation with each of the
// errors.
func ended(t *testing.T, errs ...error) error {
	t.Helper()
	op := failing(errs...)
	p := &backoff.Policy{Base: backoff.NoDelay, ThrottledBase: backoff.NoDelay, MaxAttempts: len(errs)}
	err := backoff.Run(t.Context(), p, op.run)
	require.Equal(t, len(errs), op.count)
	return err
}

func TestTheErrorOfALoopBeginsWithTheLastOne(t *testing.T) {
	t.Parallel()
	declined := errors.New("card declined")
	require.EqualError(t, ended(t, declined), "card declined (backoff: permanent failure, 1 attempt)")
	require.EqualError(t, ended(t, transient(), transient()), "x (backoff: attempts exhausted, 2 attempts)")
	err := backoff.Run(cancelled(t.Context(), errCause), nil, failing(nil).run)
	require.EqualError(t, err, "backoff: not attempted: the operator said stop")
	require.EqualError(t, &backoff.Error{}, "backoff: not attempted: stopped")
	require.EqualError(t, &backoff.Error{Attempts: 1, Last: (*net.OpError)(nil)}, "<nil> (backoff: stopped, 1 attempt)")
}

// Only the operation's own mark makes idem record a failure: neither the reason
// of the loop nor a classifier's verdict is one.
func TestTheErrorOfALoopHasNoMarkOfItsOwn(t *testing.T) {
	t.Parallel()
	marked := backoff.Mark(errCause, backoff.Permanent)
	during := func() error {
		ctx, cancel := context.WithCancelCause(t.Context())
		return backoff.Run(ctx, nil, func(context.Context) error { cancel(marked); return errX })
	}
	for name, err := range map[string]error{
		"unknown, so permanent":     ended(t, errX),
		"classified as permanent":   ended(t, &httpError{404, nil}),
		"exhausted":                 ended(t, &httpError{503, nil}, &httpError{503, nil}),
		"cancelled before":          backoff.Run(cancelled(t.Context(), marked), nil, failing(nil).run),
		"cancelled during":          during(),
		"refused by a breaker":      backoff.Run(t.Context(), &backoff.Policy{Breaker: refusing{marked}}, failing(nil).run),
		"made by hand":              &backoff.Error{Attempts: 1, Reason: marked, Last: errX},
		"wrapped, for good measure": fmt.Errorf("w: %w", ended(t, errX)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, ok := backoff.Marked(err)
			require.False(t, ok, "%v", c)
			require.Zero(t, c)
		})
	}
}

// refusing is a breaker that refuses with an error.
type refusing struct{ err error }

func (r refusing) Allow() (func(error), error) { return nil, r.err }

func TestTheErrorOfALoopHasTheMarkOfTheOperation(t *testing.T) {
	t.Parallel()
	mark := func(c backoff.Class) error { return backoff.Mark(errX, c) }
	unmarked := &httpError{500, nil}
	for name, tc := range map[string]struct {
		errs []error
		want backoff.Class
		ok   bool
	}{
		"permanent":                        {[]error{mark(backoff.Permanent)}, backoff.Permanent, true},
		"not applied":                      {[]error{mark(backoff.Transient)}, backoff.Transient, true},
		"ambiguous":                        {[]error{mark(backoff.Ambiguous)}, backoff.Ambiguous, true},
		"permanent after a retry":          {[]error{unmarked, mark(backoff.Permanent)}, backoff.Permanent, true},
		"an ambiguous one settled":         {[]error{mark(backoff.Ambiguous), mark(backoff.Permanent)}, backoff.Permanent, true},
		"an ambiguous one, then a refusal": {[]error{mark(backoff.Ambiguous), mark(backoff.Transient)}, backoff.Ambiguous, true},
		"an ambiguous one, then no mark":   {[]error{mark(backoff.Ambiguous), unmarked}, backoff.Ambiguous, true},
		"an ambiguous one, long ago":       {[]error{mark(backoff.Ambiguous), transient(), transient(), errX}, backoff.Ambiguous, true},
		"no mark, though ambiguous":        {[]error{unmarked, unmarked}, 0, false},
		"not applied after no mark":        {[]error{unmarked, transient()}, backoff.Transient, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := ended(t, tc.errs...)
			for _, err := range []error{err, fmt.Errorf("w: %w", err), errors.Join(err, context.Canceled)} {
				c, ok := backoff.Marked(err)
				require.Equal(t, tc.want, c)
				require.Equal(t, tc.ok, ok)
			}
			again, _ := backoff.Marked(backoff.Mark(err, backoff.Throttled))
			require.Equal(t, backoff.Throttled, again, "whoever marks the whole knows more")
		})
	}
}

func TestNothingWasSentOnlyIfNoAttemptSentAnything(t *testing.T) {
	t.Parallel()
	refused, reset, busy := &net.OpError{Op: "dial", Err: errRefused}, &net.OpError{Op: "read", Err: errReset}, &httpError{503, nil}
	for name, tc := range map[string]struct {
		errs  []error
		want  bool
		class backoff.Class
	}{
		"refused":                              {[]error{refused}, true, backoff.Transient},
		"refused twice":                        {[]error{refused, busy}, true, backoff.Throttled},
		"perhaps sent":                         {[]error{reset}, false, backoff.Ambiguous},
		"perhaps sent, then refused":           {[]error{reset, refused}, false, backoff.Ambiguous},
		"perhaps sent, long ago":               {[]error{reset, busy, refused, refused}, false, backoff.Ambiguous},
		"perhaps sent, then marked":            {[]error{reset, transient()}, false, backoff.Transient},
		"marked ambiguous, then refused":       {[]error{backoff.Mark(errX, backoff.Ambiguous), refused}, false, backoff.Ambiguous},
		"refused, then perhaps sent":           {[]error{refused, reset}, false, backoff.Ambiguous},
		"refused, then unknown":                {[]error{refused, errX}, false, backoff.Permanent},
		"a refusal beside something":           {[]error{errors.Join(refused, errX), refused}, false, backoff.Ambiguous},
		"an answer after all":                  {[]error{reset, &httpError{404, nil}}, false, backoff.Permanent},
		"marked as not applied, all the times": {[]error{transient(), transient()}, true, backoff.Transient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := ended(t, tc.errs...)
			for _, err := range []error{err, fmt.Errorf("w: %w", err)} {
				require.Equal(t, tc.want, backoff.NothingSent(err))
				require.Equal(t, tc.class, backoff.Classify(err))
			}
		})
	}
	byHand := &backoff.Error{Attempts: 2, Reason: backoff.ErrExhausted, Last: refused}
	require.False(t, backoff.NothingSent(byHand), "nobody knows what the first attempt did")
	require.False(t, backoff.NothingSent(backoff.Mark(ended(t, backoff.Mark(errX, backoff.Ambiguous), refused), backoff.Transient)),
		"an ambiguous mark anywhere makes the answer no")
}

func TestARefusalByABreakerSentNothing(t *testing.T) {
	t.Parallel()
	closed := errors.New("breaker says no")
	err := backoff.Run(t.Context(), &backoff.Policy{Breaker: refusing{closed}}, failing(nil).run)
	e := stopped(t, err, backoff.ErrOpen, 0)
	require.ErrorIs(t, err, closed)
	require.ErrorIs(t, e.Reason, closed)
	require.True(t, backoff.NothingSent(err))
	require.Equal(t, backoff.Transient, backoff.Classify(err))
	_, ok := backoff.Hint(err)
	require.False(t, ok)
	require.EqualError(t, err, "backoff: not attempted: breaker open: breaker says no")

	err = backoff.Run(t.Context(), &backoff.Policy{Breaker: refusing{backoff.After(closed, time.Minute)}}, failing(nil).run)
	d, ok := backoff.Hint(err)
	require.True(t, ok, "a breaker may tell when")
	require.Equal(t, time.Minute, d)
}

func TestErrDeadlineIsADeadline(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, backoff.ErrDeadline, context.DeadlineExceeded)
	require.NotErrorIs(t, context.DeadlineExceeded, backoff.ErrDeadline)
	var timeout interface{ Timeout() bool }
	require.ErrorAs(t, backoff.ErrDeadline, &timeout)
	require.True(t, timeout.Timeout())
	require.EqualError(t, backoff.ErrDeadline, "no time left before the deadline")
}
