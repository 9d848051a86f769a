package idem_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/internal/faultstore"
)

type traceKey struct{}

// Every call of the backend is bounded, whether it asks for the deadline or for
// the end, and carries the caller's values: traces go through.
func TestEveryCallOfTheBackendHasABoundAndTheCallersValues(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(t *testing.T, ctx context.Context) time.Duration{
		"deadline": func(t *testing.T, ctx context.Context) time.Duration {
			t.Helper()
			at, ok := ctx.Deadline()
			require.True(t, ok)
			return time.Until(at)
		},
		"end": func(t *testing.T, ctx context.Context) time.Duration {
			t.Helper()
			began := time.Now()
			<-ctx.Done()
			require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
			return time.Since(began)
		},
		"end of a derived context": func(t *testing.T, ctx context.Context) time.Duration {
			t.Helper()
			began := time.Now()
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), context.DeadlineExceeded)
			return time.Since(began)
		},
	} {
		for method, call := range map[string]func(ctx context.Context, s *idem.Store){
			faultstore.Claim:   func(ctx context.Context, s *idem.Store) { _, _ = s.Execute(ctx, "k", returns("1")) },
			faultstore.Inspect: func(ctx context.Context, s *idem.Store) { _, _ = s.Inspect(ctx, "k") },
			faultstore.Redact:  func(ctx context.Context, s *idem.Store) { _ = s.Redact(ctx, "k", 1, "") },
			faultstore.Complete: func(ctx context.Context, s *idem.Store) {
				_, _ = s.Execute(ctx, "k", returns("1"))
			},
			faultstore.Release: func(ctx context.Context, s *idem.Store) {
				_, _ = s.Execute(ctx, "k", fails(errBoom))
			},
			faultstore.Renew: func(ctx context.Context, s *idem.Store) {
				_, _ = s.Execute(ctx, "k", takes(renewEvery+5*time.Second, "1"))
			},
			faultstore.Annotate: func(ctx context.Context, s *idem.Store) {
				_, _ = s.Execute(ctx, "k", func(ctx context.Context) (idem.Result, error) {
					c, _ := idem.ClaimFrom(ctx)
					return idem.Result{}, c.SaveRef(ctx, "bank", "r")
				})
			},
		} {
			synctestWorld(t, method+"/"+name, func(t *testing.T) {
				asked := false
				w := newWorld(t, faultstore.At(method, 1, faultstore.Fault{Before: func(ctx context.Context) error {
					asked = true
					require.Equal(t, "trace", ctx.Value(traceKey{}))
					require.NoError(t, ctx.Err())
					require.Equal(t, 2*time.Second, ask(t, ctx), "StoreTimeout")
					require.Equal(t, "trace", ctx.Value(traceKey{}))
					return ctx.Err()
				}}), nil)
				call(context.WithValue(t.Context(), traceKey{}, "trace"), w.store)
				require.True(t, asked)
			})
		}
	}
}

// A backend that asks for the cause of its context's end sees none of the caller's
// in the bookkeeping after an operation, whatever it asks first.
func TestTheFinalWriteShowsNoCauseOfTheCallersContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		w := newWorld(t, faultstore.At(faultstore.Complete, 0, faultstore.Fault{Before: context.Cause}), nil)
		_, err := w.store.Execute(ctx, "k", func(context.Context) (idem.Result, error) {
			cancel(errLeft)
			return idem.Result{}, nil
		})
		require.NoError(t, err)
	})
}

// The bookkeeping after an operation goes on when the caller's context ends
// while it is under way.
func TestTheFinalWriteOutlivesTheCallersContext(t *testing.T) {
	t.Parallel()
	for _, method := range []string{faultstore.Complete, faultstore.Release} {
		synctestWorld(t, method, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			w := newWorld(t, faultstore.At(method, 1, faultstore.Fault{Before: func(ctx context.Context) error {
				cancel()
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(time.Second):
					return nil
				}
			}}), nil)
			op, want := returns("1"), error(nil)
			if method == faultstore.Release {
				op, want = fails(errBoom), errBoom
			}
			_, err := w.store.Execute(ctx, "k", op)
			require.ErrorIs(t, err, want)
			require.Equal(t, 1, w.faults.Count(method), "the first try is not cut off")
		})
	}
}
