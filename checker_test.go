package idem_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
)

// checked is a backend whose server has findings.
type checked struct {
	*faultstore.Store
	looks atomic.Int32
	find  func(ctx context.Context) error
}

func (c *checked) Check(ctx context.Context) error {
	c.looks.Add(1)
	return c.find(ctx)
}

func newChecked(find func(ctx context.Context) error) *checked {
	return &checked{Store: faultstore.New(memstore.New(nil), nil), find: find}
}

func finds(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

func warning() error {
	return &driver.Finding{Severity: driver.Warn, Code: "no_persistence", Remedy: "set appendonly yes"}
}

func refusal() error {
	return &driver.Finding{Severity: driver.Refuse, Code: "evicts", Remedy: "set maxmemory-policy noeviction"}
}

// Refusals are checked once, before the first claim; warnings pass.
func TestABackendIsCheckedOnceBeforeTheFirstClaim(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"nothing found": nil, "a warning": warning(), "two warnings": errors.Join(warning(), warning()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newChecked(finds(err))
			s := newStore(t, b, &idem.Options{Observer: idem.Discard})
			require.Zero(t, b.looks.Load(), "New does not touch the server")
			for _, v := range ways() {
				for _, key := range []string{"a", "b"} {
					_, err := v.call(t.Context(), s, key+v.name, returns("1"))
					require.NoError(t, err)
				}
			}
			require.EqualValues(t, 1, b.looks.Load())
		})
	}
}

func TestARefusedBackendRunsNothing(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"a refusal": refusal(), "among warnings": errors.Join(warning(), refusal(), warning()),
	} {
		for _, failOpen := range []bool{false, true} {
			b := newChecked(finds(err))
			s := newStore(t, b, &idem.Options{Observer: idem.Discard, FailOpen: failOpen})
			for _, v := range ways() {
				_, got := v.call(t.Context(), s, "k", forbidden(t))
				require.ErrorIs(t, got, idem.ErrInvalidOption, name)
				require.ErrorContains(t, got, "evicts", name)
				require.ErrorContains(t, got, "noeviction", name)
				require.Equal(t, idem.EffectNotRun, infoOf(t, got).Effect)
				var finding *driver.Finding
				require.ErrorAs(t, got, &finding)
			}
			require.ErrorIs(t, s.Resolve(t.Context(), "k", 1, idem.Resolution{Recovery: idem.NotExecuted()}), idem.ErrInvalidOption)
			require.Zero(t, b.Count(""), "nothing is claimed")
		}
	}
}

// The server is mended: the Store goes on without being made anew.
func TestABackendThatWasRefusedIsCheckedAgain(t *testing.T) {
	t.Parallel()
	found := refusal()
	b := newChecked(func(context.Context) error { return found })
	s := newStore(t, b, &idem.Options{Observer: idem.Discard})
	_, err := s.Execute(t.Context(), "k", forbidden(t))
	require.ErrorIs(t, err, idem.ErrInvalidOption)
	found = warning()
	_, err = s.Execute(t.Context(), "k", returns("1"))
	require.NoError(t, err)
	found = refusal()
	_, err = s.Execute(t.Context(), "k2", returns("1"))
	require.NoError(t, err, "it is not checked while it works")
}

func TestABackendThatCannotBeCheckedIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, find := range map[string]func(ctx context.Context) error{
		"it fails":     finds(errDown),
		"it is silent": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		synctestWorld(t, name, func(t *testing.T) {
			b := newChecked(find)
			events := &events{}
			s := newStore(t, b, &idem.Options{Observer: events})
			line := newTimeline()
			_, err := s.Execute(t.Context(), "k", forbidden(t))
			require.ErrorIs(t, err, idem.ErrUnavailable)
			require.LessOrEqual(t, line.now(), 2*time.Second, "StoreTimeout")
			require.Equal(t, []idem.EventKind{idem.EventUnavailable}, events.kinds())
			require.Zero(t, b.Count(""))
			require.ErrorIs(t, s.Check(t.Context()), idem.ErrUnavailable)
			require.ErrorIs(t, s.Resolve(t.Context(), "k", 1, idem.Resolution{Recovery: idem.NotExecuted()}), idem.ErrUnavailable)

			open := newStore(t, b, &idem.Options{Observer: idem.Discard, FailOpen: true})
			res, err := open.Execute(t.Context(), "k", returns("1"))
			require.NoError(t, err)
			require.True(t, res.Unprotected)
		})
	}
}

func TestCheckTellsWhatTheBackendFinds(t *testing.T) {
	t.Parallel()
	both := errors.Join(warning(), refusal())
	b := newChecked(finds(both))
	s := newStore(t, b, nil)
	err := s.Check(t.Context())
	require.Equal(t, both, err)
	require.False(t, driver.OnlyWarnings(err))
	require.NoError(t, newWorld(t, nil, nil).store.Check(t.Context()), "nothing to check")
	require.NoError(t, newStore(t, newChecked(finds(nil)), nil).Check(t.Context()))
}

// A wrapper hides nothing that stands behind Unwrap.
func TestACheckerIsFoundThroughWrappers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newChecked(finds(refusal()))
		s := newStore(t, faultstore.New(b, nil), &idem.Options{Observer: idem.Discard})
		_, err := s.Execute(t.Context(), "k", forbidden(t))
		require.ErrorIs(t, err, idem.ErrInvalidOption)
	})
}
