package idem_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

// embedding has memstore's methods, and a Claim of its own.
type embedding struct {
	*memstore.Backend
	claims int
}

func (b *embedding) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	b.claims++
	return b.Backend.Claim(ctx, p)
}

// driver.Reuser: a Claim that the embedding type declares is not passed by.
func TestABackendThatEmbedsAnotherIsAskedByItsOwnClaim(t *testing.T) {
	t.Parallel()
	b := &embedding{Backend: memstore.New(nil)}
	s := newStore(t, b, nil)
	for range 3 {
		_, err := s.Execute(t.Context(), "k", returns("1"))
		require.NoError(t, err)
	}
	require.Equal(t, 3, b.claims)
}

// A Store over memstore uses the memory of its questions and their answers
// again. What a caller was given stays as it was, whatever others ask meanwhile,
// and is the caller's own.
func TestNothingThatACallReturnedChangesWithLaterCalls(t *testing.T) {
	t.Parallel()
	s := newStore(t, memstore.New(nil), &idem.Options{Namespace: "ns", Observer: idem.Discard})
	const callers, keys, rounds = 8, 5, 200
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			type given struct {
				key   string
				value []byte
				claim *idem.Claim
				err   error
			}
			var all []given
			for n := range rounds {
				key := fmt.Sprintf("k%d", (i+n)%keys)
				res, err := s.Execute(t.Context(), key, returns(key), fingerprint(key))
				all = append(all, given{key: key, value: res.Value, err: err})
				c, err := s.Claim(t.Context(), key, 0, fingerprint(key))
				if c != nil {
					all = append(all, given{key: key, value: c.Result.Value, claim: c})
				}
				_, other := s.Execute(t.Context(), key, returns("no"), fingerprint("another"))
				all = append(all, given{key: key, err: other})
				_ = err
			}
			for _, g := range all {
				if g.err != nil {
					require.Contains(t, g.err.Error(), fmt.Sprintf("%q", g.key))
					continue
				}
				require.Equal(t, g.key, string(g.value))
				for j := range g.value {
					g.value[j] = '#' // the caller's own
				}
				if g.claim != nil {
					require.Equal(t, g.key, g.claim.Key())
				}
			}
		})
	}
	wg.Wait()
	for i := range keys {
		key := fmt.Sprintf("k%d", i)
		res, err := s.Execute(t.Context(), key, returns("no"))
		require.NoError(t, err)
		require.Equal(t, key, string(res.Value))
	}
}

// A claim may be kept by its operation for as long as it likes: its memory is
// never another call's.
func TestAClaimIsItsOperationsForEver(t *testing.T) {
	t.Parallel()
	s := newStore(t, memstore.New(nil), &idem.Options{Namespace: "ns", Observer: idem.Discard})
	var kept []*idem.Claim
	var contexts []context.Context
	for i := range 50 {
		_, err := s.Execute(t.Context(), fmt.Sprintf("k%d", i), func(ctx context.Context) (idem.Result, error) {
			c, _ := idem.ClaimFrom(ctx)
			kept, contexts = append(kept, c), append(contexts, ctx)
			return idem.Result{}, nil
		})
		require.NoError(t, err)
	}
	for i, c := range kept {
		require.Equal(t, fmt.Sprintf("k%d", i), c.Key())
		require.Zero(t, c.Remaining())
		require.Error(t, contexts[i].Err(), "it has ended with the run")
		again, ok := idem.ClaimFrom(contexts[i])
		require.True(t, ok)
		require.Same(t, c, again)
	}
}

// An error of ClaimInto is one of Claim.
func TestAFullMemoryIsUnavailable(t *testing.T) {
	t.Parallel()
	s := newStore(t, memstore.New(&memstore.Options{MaxBytes: -1}), nil)
	for range 3 { // with the memory of the question before
		_, err := s.Execute(t.Context(), "k", forbidden(t))
		require.ErrorIs(t, err, idem.ErrUnavailable)
	}
}

// silent answers nothing.
type silent struct{ driver.Backend }

func (silent) Claim(context.Context, *driver.ClaimParams) (*driver.ClaimResult, error) {
	return nil, nil //nolint:nilnil // what a careless backend does
}

func (silent) Inspect(context.Context, string) (*driver.Record, error) {
	return nil, nil //nolint:nilnil // as above
}

// I12: what cannot be read is never taken for absent.
func TestABackendThatAnswersNothingIsUnreadable(t *testing.T) {
	t.Parallel()
	s := newStore(t, silent{memstore.New(nil)}, nil)
	_, err := s.Execute(t.Context(), "k", forbidden(t))
	require.ErrorIs(t, err, idem.ErrCorrupt)
	require.ErrorContains(t, err, "answered nothing")
	err = s.Resolve(t.Context(), "k", 1, idem.Resolution{Recovery: idem.NotExecuted()})
	require.ErrorIs(t, err, idem.ErrCorrupt)
	_, err = s.Inspect(t.Context(), "k")
	require.ErrorIs(t, err, idem.ErrCorrupt)
}
