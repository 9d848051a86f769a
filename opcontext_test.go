package idem_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
)

// The operation's context ends with the run, whether somebody asked before or
// asks only afterwards.
func TestTheOperationsContextEndsWithTheRun(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(context.Context){
		"nobody asked":      func(context.Context) {},
		"Done was asked":    func(ctx context.Context) { _ = ctx.Done() },
		"Err was asked":     func(ctx context.Context) { _ = ctx.Err() },
		"one was derived":   func(ctx context.Context) { context.AfterFunc(ctx, func() {}) },
		"a value was asked": func(ctx context.Context) { _ = ctx.Value(traceKey{}) },
	} {
		for end, op := range map[string]error{"returned": nil, "failed": errBoom} {
			s := newStore(t, memstore.New(nil), nil)
			var kept context.Context
			_, err := s.Execute(context.WithValue(t.Context(), traceKey{}, "trace"), "k", func(ctx context.Context) (idem.Result, error) {
				kept = ctx //nolint:fatcontext // it is kept to be asked afterwards
				ask(ctx)
				require.NoError(t, ctx.Err())
				return idem.Result{}, op
			})
			require.ErrorIs(t, err, op)
			require.ErrorIs(t, kept.Err(), context.Canceled, "%s, %s", name, end)
			require.ErrorIs(t, context.Cause(kept), context.Canceled, "%s, %s", name, end)
			<-kept.Done()
			require.Equal(t, "trace", kept.Value(traceKey{}))
			derived, cancel := context.WithCancel(kept)
			require.Error(t, derived.Err(), "what is derived later has ended")
			cancel()
		}
	}
}

func TestTheOperationsContextHasTheCallersCauseAndDeadline(t *testing.T) {
	t.Parallel()
	gone := errors.New("the client has gone")
	s := newStore(t, memstore.New(nil), nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	want, _ := ctx.Deadline()
	ctx, end := context.WithCancelCause(ctx)
	_, err := s.Execute(ctx, "k", func(ctx context.Context) (idem.Result, error) {
		at, ok := ctx.Deadline()
		require.True(t, ok)
		require.Equal(t, want, at)
		end(gone)
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(ctx), gone)
		<-ctx.Done()
		return idem.Result{}, ctx.Err()
	})
	require.ErrorIs(t, err, gone)
}

// The cause is told also to an operation that has not asked before.
func TestALeaseThatEndsEndsAContextThatNobodyAskedAbout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := faultstore.New(memstore.New(nil), faultstore.Fail(faultstore.Renew, 0, errBoom))
		s := newStore(t, b, &idem.Options{Observer: idem.Discard})
		_, err := s.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
			time.Sleep(31 * time.Second)
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			require.ErrorIs(t, context.Cause(ctx), idem.ErrLeaseLost)
			return idem.Result{}, nil
		})
		require.NoError(t, err, "the backend still knows us")
	})
}

// Mocks print the context that they are called with; the claim in it is no
// business of theirs, and others are at work on it.
func TestAContextIsPrintedWithoutWhatItCarries(t *testing.T) {
	t.Parallel()
	b := faultstore.New(memstore.New(nil), func(ctx context.Context, _ faultstore.Call) faultstore.Fault {
		require.Equal(t, "idem.Bounded", fmt.Sprint(ctx))
		return faultstore.Fault{}
	})
	s := newStore(t, b, nil)
	_, err := s.Execute(t.Context(), secretKey, func(ctx context.Context) (idem.Result, error) {
		require.Equal(t, "idem.Operation", fmt.Sprint(ctx))
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		require.NotContains(t, fmt.Sprint(derived), secretKey)
		return idem.Result{}, nil
	})
	require.NoError(t, err)
}

// Many ask at the instant at which the run ends.
func TestTheOperationsContextMayBeAskedByManyWhileTheRunEnds(t *testing.T) {
	t.Parallel()
	s := newStore(t, memstore.New(nil), &idem.Options{Observer: idem.Discard})
	for i := range 200 {
		var wg sync.WaitGroup
		_, err := s.Execute(t.Context(), "k"+string(rune('a'+i%26))+string(rune('a'+i/26)), func(ctx context.Context) (idem.Result, error) {
			for n := range 4 {
				wg.Go(func() {
					switch n {
					case 0:
						<-ctx.Done()
					case 1:
						context.AfterFunc(ctx, func() {})
					case 2:
						_ = context.Cause(ctx)
					}
					for ctx.Err() == nil {
						runtime.Gosched()
					}
					if context.Cause(ctx) == nil {
						t.Error("an ended context without a cause")
					}
				})
			}
			return idem.Result{}, nil
		})
		require.NoError(t, err)
		wg.Wait()
	}
}
