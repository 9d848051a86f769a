package memstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

// settledRecord leaves a completed record, and returns it with its claim.
func settledRecord(t *testing.T, b *memstore.Backend) (driver.Ref, *driver.Record) {
	t.Helper()
	ref := acquire(t, b, 1)
	complete(t, b, ref, "v")
	return ref, inspect(t, b, key)
}

func TestACallWhoseContextHasEndedChangesNothing(t *testing.T) {
	t.Parallel()
	errWhy := errors.New("the caller hung up")
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		ref, before := settledRecord(t, b)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errWhy)
		methods := everyStep(ctx, b, ref)
		_, methods["List"] = b.List(ctx, &driver.ListParams{})
		_, methods["Purge"] = b.Purge(ctx, &driver.PurgeParams{})
		for method, err := range methods {
			require.ErrorIs(t, err, errWhy, method)
			require.ErrorIs(t, err, context.Canceled, method)
			require.False(t, driver.NoEffect(err), "%s: the end of a context is no answer of a store", method)
		}
		require.Equal(t, before, inspect(t, b, key))
	})
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	_, err := memstore.New(nil).Inspect(ctx, key)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestAnEmptyKeyIsInvalid(t *testing.T) {
	t.Parallel()
	for method, err := range everyStep(t.Context(), memstore.New(nil), driver.Ref{Owner: owner(1), Token: 1}) {
		require.ErrorIs(t, err, driver.ErrInvalidKey, method)
	}
}

func TestAZeroOwnerIsRefused(t *testing.T) {
	t.Parallel()
	b := memstore.New(nil)
	ref, _ := settledRecord(t, b)
	require.NoError(t, b.Reset(t.Context(), key, edit(ref.Token))) // which leaves a record without an owner
	before := inspect(t, b, key)
	for method, err := range everyStep(t.Context(), b, driver.Ref{Key: key}) {
		switch method {
		case "Claim":
			require.ErrorContains(t, err, "owner")
			require.False(t, driver.NoEffect(err), "it answers no question about the key")
		case "Renew", "Annotate", "Complete", "Release":
			require.ErrorIs(t, err, driver.ErrLeaseLost, method)
		}
	}
	require.Equal(t, before.Token, inspect(t, b, key).Token)
	require.Equal(t, driver.Released, inspect(t, b, key).State)
}

// C53: such a duration never means "for ever" or "over".
func TestDurationsThatMeanNothingAreRefused(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{0, -time.Second, time.Millisecond - 1} {
		b := memstore.New(nil)
		ref := acquire(t, b, 1)
		_, err := b.Claim(t.Context(), params(2, forKey("new"), func(p *driver.ClaimParams) { p.Lease = d }))
		require.ErrorContains(t, err, "lease")
		require.ErrorContains(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: d, Retention: retention}), "lease")
		if d > 0 {
			continue // a retention may be that short
		}
		_, err = b.Claim(t.Context(), params(2, forKey("new"), func(p *driver.ClaimParams) { p.Retention = d }))
		require.ErrorContains(t, err, "retention")
		require.ErrorContains(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: lease, Retention: d}), "retention")
		require.ErrorContains(t, b.Complete(t.Context(), ref, &driver.CompleteParams{Retention: d}), "retention")
		require.ErrorContains(t, b.Release(t.Context(), ref, &driver.ReleaseParams{Retention: d}), "retention")
		require.ErrorContains(t, b.Reset(t.Context(), key, &driver.EditParams{Token: ref.Token, Retention: d}), "retention")
		require.Equal(t, driver.Claimed, inspect(t, b, key).State)
		require.EqualValues(t, 1, b.Stat().Records)
	}
}

func TestTheLongestDurationsDoNotOverflow(t *testing.T) {
	t.Parallel()
	const ever = time.Duration(1<<63 - 1)
	b := memstore.New(nil)
	ref := acquire(t, b, 1, func(p *driver.ClaimParams) { p.Lease, p.Retention = ever, ever })
	require.Equal(t, driver.Claimed, inspect(t, b, key).State)
	require.NoError(t, b.Complete(t.Context(), ref, &driver.CompleteParams{Retention: ever}))
	require.Greater(t, inspect(t, b, key).RetentionLeft, ever/2)
}

func TestAReleaseThatContradictsItselfIsRefused(t *testing.T) {
	t.Parallel()
	b := memstore.New(nil)
	ref := acquire(t, b, 1)
	for _, p := range []driver.ReleaseParams{{NotExecuted: true, Held: true}, {NotExecuted: true, Doubt: true}} {
		p.Retention = retention
		require.ErrorContains(t, b.Release(t.Context(), ref, &p), "contradicts")
	}
	require.Equal(t, driver.Claimed, inspect(t, b, key).State)
}

// K7: a key may identify a person, and the caller knows it anyway.
func TestErrorsDoNotNameTheKey(t *testing.T) {
	t.Parallel()
	b := memstore.New(&memstore.Options{MaxBytes: 1})
	for method, err := range everyStep(t.Context(), b, driver.Ref{Key: "ann@example.org", Owner: owner(1), Token: 1}) {
		if method != "Watch" {
			require.Error(t, err, method)
			require.NotContains(t, err.Error(), "ann@", method)
		}
	}
}
