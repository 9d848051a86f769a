package retry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/benchmarks/retry"
)

var (
	errLast  = errors.New("last error")
	errCause = errors.New("cause")
)

// probe is a question to a library. Right is the answer that package backoff
// must give; what the others answer is printed, and may change with their next
// release.
type probe struct {
	name, right string
	ask         func(t *testing.T, p retry.Peer) string
}

func probes() []probe {
	return []probe{
		{"deadline in 1 s, delay 10 s: time slept", "0s", func(t *testing.T, p retry.Peer) string {
			slept, _ := beyondDeadline(t, p)
			return slept.String()
		}},
		{"... is the last error", "yes", func(t *testing.T, p retry.Peer) string {
			_, err := beyondDeadline(t, p)
			return is(err, errLast)
		}},
		{"... is context.DeadlineExceeded", "yes", func(t *testing.T, p retry.Peer) string {
			_, err := beyondDeadline(t, p)
			return is(err, context.DeadlineExceeded)
		}},
		{"context cancelled before: calls", "0", func(t *testing.T, p retry.Peer) string {
			calls, _ := cancelledBefore(t, p)
			return fmt.Sprint(calls)
		}},
		{"... is context.Canceled / the cause", "yes / yes", func(t *testing.T, p retry.Peer) string {
			_, err := cancelledBefore(t, p)
			return is(err, context.Canceled) + " / " + is(err, errCause)
		}},
		{"cancelled in the wait: last error kept", "yes", func(t *testing.T, p retry.Peer) string {
			return is(cancelledInTheWait(t, p), errLast)
		}},
		{"... is context.Canceled / the cause", "yes / yes", func(t *testing.T, p retry.Peer) string {
			err := cancelledInTheWait(t, p)
			return is(err, context.Canceled) + " / " + is(err, errCause)
		}},
		{"3 x 3 nested: calls", "3", nested},
		{"text around a mark kept", "yes", func(t *testing.T, p retry.Peer) string {
			if p.Outer == nil {
				return "-"
			}
			return yes(strings.Contains(p.Outer(t.Context(), errLast).Error(), "outer: "))
		}},
		{"last value comes with the error", "yes", func(t *testing.T, p retry.Peer) string {
			v, err := p.Loop(t.Context(), 2, time.Second, func(context.Context) (int, error) { return 7, errLast })
			require.Error(t, err)
			return yes(v == 7)
		}},
	}
}

// beyondDeadline is a second left, and ten to wait.
func beyondDeadline(t *testing.T, p retry.Peer) (time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	_, err := p.Loop(ctx, 3, 10*time.Second, func(context.Context) (int, error) { return 0, errLast })
	return time.Since(began), err
}

func cancelledBefore(t *testing.T, p retry.Peer) (int, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	calls := 0
	_, err := p.Loop(ctx, 3, time.Second, func(context.Context) (int, error) { calls++; return 0, errLast })
	return calls, err
}

func cancelledInTheWait(t *testing.T, p retry.Peer) error {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(time.Second, func() { cancel(errCause) })
	_, err := p.Loop(ctx, 3, 10*time.Second, func(context.Context) (int, error) { return 0, errLast })
	return err
}

func nested(t *testing.T, p retry.Peer) string {
	t.Helper()
	calls := 0
	_, err := p.Loop(t.Context(), 3, time.Second, func(ctx context.Context) (int, error) {
		return p.Loop(ctx, 3, time.Second, func(context.Context) (int, error) { calls++; return 0, errLast })
	})
	require.Error(t, err)
	return fmt.Sprint(calls)
}

func is(err, target error) string { return yes(errors.Is(err, target)) }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// The table of what the libraries do, and what package backoff must do. With -v
// it is printed.
func TestProbe(t *testing.T) {
	t.Parallel()
	rows := [][]string{{""}}
	peers := slices.Insert(retry.Peers(), 3, retry.LastErrorOnly()) // beside avast
	for _, p := range peers {
		rows[0] = append(rows[0], p.Name)
	}
	for _, q := range probes() {
		row := []string{q.name}
		for _, p := range peers {
			synctest.Test(t, func(t *testing.T) { row = append(row, q.ask(t, p)) })
		}
		require.Equal(t, q.right, row[1], q.name)
		rows = append(rows, row)
	}
	t.Log("\n" + table(rows))
}

func table(rows [][]string) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = w.Write([]byte(strings.Join(row, "\t") + "\n"))
	}
	_ = w.Flush()
	return out.String()
}
