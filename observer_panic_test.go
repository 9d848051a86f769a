package idem_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/internal/faultstore"
)

// panicky is an Observer that panics at each event, with a text that names the
// key, or, of a replay, with a mistake that the runtime finds.
type panicky struct {
	mu   sync.Mutex
	seen map[idem.EventKind]int
}

func (p *panicky) Observe(_ context.Context, e idem.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[e.Kind]++
	if e.Kind == idem.EventReplayed {
		none := []int{}
		none[e.Attempt]++
	}
	panic(fmt.Errorf("no metric for %s", e.Key))
}

// An Observer that panics takes no operation with it, in whatever goroutine it
// is called: the caller's, the one of a renewal, the lease's timer, the one that
// gives a claim up. It changes slog.Default, so it does not run beside others.
func TestAnObserverThatPanicsChangesNothing(t *testing.T) { //nolint:paralleltest // see above
	before := slog.Default()
	defer slog.SetDefault(before)
	l, out := logger(slog.LevelDebug)
	slog.SetDefault(l)
	for _, tc := range []struct {
		name string
		hook faultstore.Hook
		kind idem.EventKind // what the goroutine in question tells
		run  func(t *testing.T, s *idem.Store)
	}{
		{"the caller's, of a run", nil, idem.EventExecuted, func(t *testing.T, s *idem.Store) {
			t.Helper()
			_, err := s.Execute(t.Context(), secretKey, returns("1"))
			require.NoError(t, err)
			res, err := s.Execute(t.Context(), secretKey, forbidden(t))
			require.NoError(t, err)
			require.True(t, res.Replayed)
		}},
		{"the caller's, of a failure", nil, idem.EventReleased, func(t *testing.T, s *idem.Store) {
			t.Helper()
			_, err := s.Execute(t.Context(), secretKey, fails(errBoom))
			require.ErrorIs(t, err, errBoom)
			_, err = s.Execute(t.Context(), secretKey, returns("1"))
			require.NoError(t, err)
		}},
		{"a renewal's", faultstore.Fail(faultstore.Renew, 1, errDown), idem.EventRenewFailed, func(t *testing.T, s *idem.Store) {
			t.Helper()
			_, err := s.Execute(t.Context(), secretKey, takes(2*lease, "1"))
			require.NoError(t, err, "the renewals go on")
		}},
		{"the timer's", faultstore.Fail(faultstore.Renew, 0, errDown), idem.EventLeaseLost, func(t *testing.T, s *idem.Store) {
			t.Helper()
			_, err := s.Execute(t.Context(), secretKey, func(ctx context.Context) (idem.Result, error) {
				<-ctx.Done()
				return idem.Result{}, context.Cause(ctx)
			})
			require.ErrorIs(t, err, idem.ErrLeaseLost)
		}},
		{"the one that gives up", func(_ context.Context, c faultstore.Call) faultstore.Fault {
			return faultstore.Fault{Drop: c.Method == faultstore.Release, Err: errDown}
		}, idem.EventNotReleased, func(t *testing.T, s *idem.Store) {
			t.Helper()
			_, err := s.Execute(t.Context(), secretKey, forbidden(t))
			require.ErrorIs(t, err, idem.ErrUnavailable)
			time.Sleep(time.Minute)
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			out.Reset()
			seen := &panicky{seen: map[idem.EventKind]int{}}
			s := newStore(t, newWorld(t, tc.hook, nil).faults, &idem.Options{Namespace: "ns", Observer: seen})
			tc.run(t, s)
			require.NoError(t, s.Close(t.Context()))
			synctest.Wait() // for the timer's
			require.NotZero(t, seen.seen[tc.kind], "%s: %v", tc.name, seen.seen)
			events := 0
			for _, n := range seen.seen {
				events += n
			}
			text := out.String()
			require.Equal(t, events, strings.Count(text, "the Observer panicked"), "%s:\n%s", tc.name, text)
			require.Contains(t, text, "level=ERROR")
			require.Contains(t, strings.ReplaceAll(text, `"`, ""), "event="+tc.kind.String(), "%s: %s", tc.name, text)
			require.Contains(t, text, "key_hash="+idem.HashKey("ns", secretKey))
			require.Contains(t, text, "observer_panic_test.go", "the stack")
			require.NotContains(t, text, secretKey)
		})
	}
}
