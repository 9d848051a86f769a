package faultstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
)

func nth(t *testing.T, s *faultstore.Store, method string, n int) faultstore.Call {
	t.Helper()
	c, ok := s.Nth(method, n)
	require.True(t, ok)
	return c
}

// logged returns the parameters of the first call of method.
func logged[P any](t *testing.T, s *faultstore.Store, method string) P {
	t.Helper()
	p, ok := nth(t, s, method, 1).Params.(P)
	require.True(t, ok)
	return p
}

// I3, C02: the copy of each call of a former owner arrives after a takeover.
func TestALateDuplicateArrivesWithTheParametersThatItHad(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, s *faultstore.Store, inner driver.Backend) {
		ctx := t.Context()
		ref := claim(t, s, 1)
		require.NoError(t, s.Renew(ctx, ref, &driver.RenewParams{Lease: lease, Retention: time.Hour}))
		require.NoError(t, s.Annotate(ctx, ref, &driver.AnnotateParams{}))
		require.NoError(t, s.Release(ctx, ref, &driver.ReleaseParams{Doubt: true, Retention: time.Hour}))
		require.ErrorIs(t, s.Complete(ctx, ref, success("stale")), driver.ErrLeaseLost)
		second := claim(t, s, 2)
		before, err := inner.Inspect(ctx, key)
		require.NoError(t, err)

		for _, method := range []string{"Renew", "Annotate", "Release", "Complete"} {
			_, err := s.Replay(ctx, nth(t, s, method, 1))
			require.ErrorIs(t, err, driver.ErrLeaseLost, method)
		}
		fact, err := s.Replay(ctx, nth(t, s, "Claim", 1))
		require.NoError(t, err)
		require.Equal(t, driver.InProgress, fact)
		after, err := inner.Inspect(ctx, key)
		require.NoError(t, err)
		require.Equal(t, before, after)

		require.NoError(t, s.Complete(ctx, second, success("v")))
		fact, err = s.Replay(ctx, nth(t, s, "Claim", 1))
		require.NoError(t, err)
		require.Equal(t, driver.Completed, fact)

		entries := s.Log()
		last := entries[len(entries)-1]
		require.True(t, last.Late && last.Returned)
		require.Equal(t, 1, last.Sent)
		require.Zero(t, last.Nth)
		require.Equal(t, len(entries), last.Seq)
		require.Equal(t, 2, s.Count(faultstore.Claim), "replays do not count")
	})
}

// The request stayed in some buffer while its caller gave up, and arrives then.
func TestACallThatWasGivenUpIsAppliedLater(t *testing.T) {
	t.Parallel()
	hook := faultstore.At(faultstore.Claim, 1, faultstore.Fault{Before: faultstore.PauseUntil(nil)})
	inBubble(t, hook, func(t *testing.T, s *faultstore.Store, inner driver.Backend) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Claim(ctx, claimParams(1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, state(t, inner))
		fact, err := s.Replay(t.Context(), nth(t, s, faultstore.Claim, 1))
		require.NoError(t, err)
		require.Equal(t, driver.Acquired, fact)
		require.Equal(t, driver.Claimed, state(t, inner))
	})
}

// A hook may replay an older call in the middle of a newer one.
func TestAnOlderCallArrivesBetweenTwoNewerOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s *faultstore.Store
		s = faultstore.New(memstore.New(nil), faultstore.At(faultstore.Complete, 1, faultstore.Fault{
			Before: func(ctx context.Context) error {
				old, _ := s.Nth(faultstore.Renew, 1)
				_, err := s.Replay(ctx, old)
				return err
			},
		}))
		ref := claim(t, s, 1)
		require.NoError(t, s.Renew(t.Context(), ref, &driver.RenewParams{Lease: lease, Retention: time.Hour}))
		require.NoError(t, s.Complete(t.Context(), ref, success("v")))
		entries := s.Log()
		require.Equal(t, faultstore.Renew, entries[3].Method)
		require.True(t, entries[3].Late)
		require.NoError(t, entries[3].Inner)
	})
}

// The parameters belong to the caller once the call has returned.
func TestTheLogKeepsCopiesOfTheParameters(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, s *faultstore.Store, inner driver.Backend) {
		ctx := t.Context()
		p := claimParams(1)
		p.Fingerprints = []driver.Fingerprint{{KeyID: "k"}}
		p.Providers = []driver.ProviderWindow{{Name: "card", Window: time.Hour}}
		res, err := s.Claim(ctx, p)
		require.NoError(t, err)
		ref := driver.Ref{Key: key, Owner: p.Owner, Token: res.Record.Token}
		a := &driver.AnnotateParams{Refs: []driver.ProviderRef{{Provider: "card", Ref: "1"}}, Audit: &driver.Audit{By: "ann"}}
		require.NoError(t, s.Annotate(ctx, ref, a))
		c := success("value")
		c.Audit = &driver.Audit{By: "ann"}
		require.NoError(t, s.Complete(ctx, ref, c))
		r := &driver.ReleaseParams{Retention: time.Hour, Audit: &driver.Audit{By: "ann"}}
		require.Error(t, s.Release(ctx, ref, r))

		p.Fingerprints[0].KeyID, p.Providers[0].Name, p.Key = "x", "x", "x"
		a.Refs[0].Ref, a.Audit.By, r.Audit.By, c.Audit.By = "x", "x", "x", "x"
		copy(c.Outcome.Value, "XXXXX")

		claimed, annotated := logged[*driver.ClaimParams](t, s, "Claim"), logged[*driver.AnnotateParams](t, s, "Annotate")
		require.Equal(t, "k", claimed.Fingerprints[0].KeyID)
		require.Equal(t, "card", claimed.Providers[0].Name)
		require.Equal(t, "1", annotated.Refs[0].Ref)
		require.Equal(t, "ann", annotated.Audit.By)
		require.Equal(t, "ann", logged[*driver.CompleteParams](t, s, "Complete").Audit.By)
		require.Equal(t, "ann", logged[*driver.ReleaseParams](t, s, "Release").Audit.By)
		_, err = s.Replay(ctx, nth(t, s, "Complete", 1))
		require.NoError(t, err, "the same outcome (I6)")
		require.Equal(t, driver.Succeeded, state(t, inner))
	})
}

func TestEditsAndLooksCanBeReplayedWatchesNot(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, s *faultstore.Store, inner driver.Backend) {
		ctx := t.Context()
		ref := claim(t, s, 1)
		require.NoError(t, s.Complete(ctx, ref, success("v")))
		edit := &driver.EditParams{Token: ref.Token, Retention: time.Hour}
		require.NoError(t, s.Redact(ctx, key, edit))
		_, err := s.Inspect(ctx, key)
		require.NoError(t, err)
		_, err = s.Watch(ctx, key)
		require.NoError(t, err)
		for method, want := range map[string]error{"Redact": nil, "Inspect": nil, "Watch": errors.ErrUnsupported} {
			_, err = s.Replay(ctx, nth(t, s, method, 1))
			require.ErrorIs(t, err, want, method)
		}
		require.NoError(t, s.Reset(ctx, key, edit))
		_, err = s.Replay(ctx, nth(t, s, "Reset", 1))
		require.ErrorIs(t, err, driver.ErrConflict, "the token rose")
		require.Equal(t, driver.Released, state(t, inner))
		_, ok := s.Nth("Reset", 2)
		require.False(t, ok)
	})
}

// bare hides the optional interfaces of a backend.
type bare struct{ driver.Backend }

func TestOptionalInterfacesAreThoseOfTheBackendWithin(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := faultstore.New(bare{memstore.New(nil)}, nil)
	_, err := s.Watch(ctx, key)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorIs(t, s.Redact(ctx, key, &driver.EditParams{}), errors.ErrUnsupported)
	require.ErrorIs(t, s.Reset(ctx, key, &driver.EditParams{}), errors.ErrUnsupported)
	_, ok := driver.As[driver.Retainer](s)
	require.False(t, ok)

	s = faultstore.New(memstore.New(nil), nil)
	retainer, ok := driver.As[driver.Retainer](s)
	require.True(t, ok, "through Unwrap")
	require.Equal(t, 24*time.Hour, retainer.DefaultRetention())
	_, ok = driver.As[driver.Purger](s)
	require.True(t, ok)

	lost := faultstore.New(memstore.New(nil), faultstore.Lose(faultstore.Watch, 1))
	hints, err := lost.Watch(ctx, key)
	require.ErrorIs(t, err, faultstore.ErrReplyLost)
	require.Nil(t, hints)
}
