package memstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

func edit(token uint64) *driver.EditParams {
	return &driver.EditParams{Token: token, Retention: retention, Audit: driver.Audit{By: "ann", Why: "asked for"}}
}

func TestRedactLeavesATombstone(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]driver.Outcome{
		"success": {Value: []byte("card 4111"), Codec: "json"},
		"failure": {Failed: true, Code: "declined", Message: "card 4111"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
				ref := acquire(t, b, 1)
				require.NoError(t, b.Annotate(t.Context(), ref, &driver.AnnotateParams{Refs: []driver.ProviderRef{{Provider: "card", Ref: "4111"}}}))
				require.NoError(t, b.Complete(t.Context(), ref, &driver.CompleteParams{Outcome: outcome, Retention: retention}))
				before := inspect(t, b, key)
				bytes := b.Stat().Bytes
				time.Sleep(time.Minute)
				require.NoError(t, b.Redact(t.Context(), key, edit(ref.Token)))
				rec := inspect(t, b, key)
				require.Equal(t, driver.Outcome{
					Failed: outcome.Failed, Codec: outcome.Codec, Code: outcome.Code, Body: driver.BodyRedacted,
				}, rec.Outcome)
				require.Empty(t, rec.Refs)
				require.Equal(t, before.State, rec.State)
				require.Equal(t, before.Token, rec.Token)
				require.True(t, rec.Newer(before))
				require.Equal(t, retention-time.Minute, rec.RetentionLeft)
				require.Equal(t, driver.Audit{By: "ann", Why: "asked for", At: time.Now().UTC().Round(0)}, rec.Audit)
				require.Less(t, b.Stat().Bytes, bytes)

				require.NoError(t, b.Redact(t.Context(), key, &driver.EditParams{Token: ref.Token}))
				require.Equal(t, rec, inspect(t, b, key), "redacting what is redacted changes nothing")
			})
		})
	}
}

func TestAnEditorIsRefusedWhatItDidNotSee(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		ctx := t.Context()
		require.ErrorIs(t, b.Redact(ctx, key, edit(1)), driver.ErrNotFound)
		require.ErrorIs(t, b.Reset(ctx, key, edit(1)), driver.ErrNotFound)
		ref := acquire(t, b, 1)
		require.ErrorIs(t, b.Redact(ctx, key, edit(ref.Token)), driver.ErrConflict, "no outcome")
		require.ErrorIs(t, b.Reset(ctx, key, edit(ref.Token)), driver.ErrConflict, "in progress")
		complete(t, b, ref, "v")
		before := inspect(t, b, key)
		require.ErrorIs(t, b.Redact(ctx, key, edit(ref.Token+1)), driver.ErrConflict)
		require.ErrorIs(t, b.Reset(ctx, key, edit(ref.Token+1)), driver.ErrConflict)
		require.Equal(t, before, inspect(t, b, key))
		time.Sleep(retention)
		require.ErrorIs(t, b.Redact(ctx, key, edit(ref.Token)), driver.ErrNotFound, "expired")
		require.ErrorIs(t, b.Reset(ctx, key, edit(ref.Token)), driver.ErrNotFound, "expired")
	})
}

func TestResetLetsTheKeyRunAgainAndFencesTheOldClaim(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, b *memstore.Backend, ref driver.Ref){
		"completed": func(t *testing.T, b *memstore.Backend, ref driver.Ref) { complete(t, b, ref, "v") },
		"held": func(t *testing.T, b *memstore.Backend, ref driver.Ref) {
			release(t, b, ref, driver.ReleaseParams{Held: true})
		},
		"unknown": func(*testing.T, *memstore.Backend, driver.Ref) { time.Sleep(lease) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
				ref := acquire(t, b, 1, withPrints(print1("k", 1)...))
				refs := []driver.ProviderRef{{Provider: "card", Ref: "1"}}
				require.NoError(t, b.Annotate(t.Context(), ref, &driver.AnnotateParams{Refs: refs}))
				end(t, b, ref)
				require.NoError(t, b.Reset(t.Context(), key, edit(ref.Token)))
				rec := inspect(t, b, key)
				require.Equal(t, driver.Released, rec.State)
				require.False(t, rec.Doubt || rec.Held)
				require.Greater(t, rec.Token, ref.Token)
				require.Equal(t, print1("k", 1)[0], rec.Fingerprint)
				require.Equal(t, refs, rec.Refs)
				require.Zero(t, rec.Owner)
				require.Equal(t, driver.Outcome{}, rec.Outcome)
				require.Zero(t, rec.Revision)
				require.Zero(t, rec.RecordedAt)
				require.Equal(t, retention, rec.RetentionLeft)
				require.Equal(t, "ann", rec.Audit.By)

				require.ErrorIs(t, b.Complete(t.Context(), ref, success("late")), driver.ErrLeaseLost)
				for _, token := range []uint64{rec.Token, 0} {
					nobody := driver.Ref{Key: key, Token: token}
					require.ErrorIs(t, b.Complete(t.Context(), nobody, success("late")), driver.ErrLeaseLost, "the zero owner")
					require.ErrorIs(t, b.Release(t.Context(), nobody, withRetention(driver.ReleaseParams{Held: true})), driver.ErrLeaseLost)
				}
				require.Equal(t, rec, inspect(t, b, key))
				require.ErrorIs(t, b.Reset(t.Context(), key, edit(ref.Token)), driver.ErrConflict, "the token rose")
				res, err := b.Claim(t.Context(), params(2, withTake(driver.TakeReleased)))
				require.NoError(t, err)
				require.Equal(t, driver.Acquired, res.Fact)
				require.Equal(t, 2, res.Record.Attempt)
				require.Greater(t, res.Record.Token, rec.Token)
			})
		})
	}
}
