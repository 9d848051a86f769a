package backoff_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

// Random numbers for Policy.Rand: with most every delay is its ceiling, with
// least it is the shortest that the jitter allows.
func most() uint64  { return math.MaxUint64 }
func least() uint64 { return 0 }

// calls is an operation that fails with each of its errors in turn, and with the
// last one for ever; nil succeeds. It returns the number of the call.
type calls struct {
	errs  []error
	count int
	at    []time.Time
}

func failing(errs ...error) *calls { return &calls{errs: errs} }

func (c *calls) do(context.Context) (int, error) {
	err := c.errs[min(c.count, len(c.errs)-1)]
	c.count++
	c.at = append(c.at, time.Now())
	return c.count, err
}

func (c *calls) run(ctx context.Context) error {
	_, err := c.do(ctx)
	return err
}

// gaps returns the times between the calls.
func (c *calls) gaps() []time.Duration {
	gaps := []time.Duration{}
	for i := 1; i < len(c.at); i++ {
		gaps = append(gaps, c.at[i].Sub(c.at[i-1]))
	}
	return gaps
}

// requireStopped requires that err is the end of a loop after some attempts.
func requireStopped(tb testing.TB, err, reason error, attempts int) {
	tb.Helper()
	require.NotNil(tb, stopped(tb, err, reason, attempts))
}

// stopped is requireStopped, and returns the error.
func stopped(tb testing.TB, err, reason error, attempts int) *backoff.Error {
	tb.Helper()
	var e *backoff.Error
	require.ErrorAs(tb, err, &e)
	require.ErrorIs(tb, e.Reason, reason)
	require.ErrorIs(tb, err, reason)
	require.Equal(tb, attempts, e.Attempts)
	if attempts > 0 {
		require.Error(tb, e.Last)
	} else {
		require.NoError(tb, e.Last)
	}
	return e
}

func newBudget(tb testing.TB, opts *backoff.BudgetOptions) *backoff.Budget {
	tb.Helper()
	b, err := backoff.NewBudget(opts)
	require.NoError(tb, err)
	return b
}

func newCircuit(tb testing.TB, opts *backoff.CircuitOptions) *backoff.Circuit {
	tb.Helper()
	c, err := backoff.NewCircuit(opts)
	require.NoError(tb, err)
	return c
}

func transient() error { return backoff.Mark(errX, backoff.Transient) }

// ms are milliseconds.
func ms(n ...int) []time.Duration {
	all := []time.Duration{}
	for _, n := range n {
		all = append(all, time.Duration(n)*time.Millisecond)
	}
	return all
}
