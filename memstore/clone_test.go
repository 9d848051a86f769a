package memstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

func TestTheStoreKeepsNothingThatTheCallerCanChange(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		p := params(1, withPrints(print1("id", 1)...), func(p *driver.ClaimParams) {
			p.Providers = []driver.ProviderWindow{{Name: "card", Window: time.Hour}}
		})
		res, err := b.Claim(t.Context(), p)
		require.NoError(t, err)
		ref := driver.Ref{Key: key, Owner: p.Owner, Token: res.Record.Token}
		p.Fingerprints[0] = driver.Fingerprint{KeyID: "changed"}
		p.Providers[0] = driver.ProviderWindow{Name: "changed"}

		refs := []driver.ProviderRef{{Provider: "card", Ref: "1"}}
		audit := driver.Audit{By: "ann"}
		require.NoError(t, b.Annotate(t.Context(), ref, &driver.AnnotateParams{Refs: refs, Audit: &audit}))
		refs[0].Ref, audit.By = "changed", "changed"

		value := []byte("value")
		require.NoError(t, b.Complete(t.Context(), ref, &driver.CompleteParams{Outcome: driver.Outcome{Value: value}, Retention: retention}))
		copy(value, "XXXXX")

		rec := inspect(t, b, key)
		require.Equal(t, print1("id", 1)[0], rec.Fingerprint)
		require.Equal(t, []driver.Provider{{Name: "card", Window: time.Hour}}, rec.Providers)
		require.Equal(t, []driver.ProviderRef{{Provider: "card", Ref: "1"}}, rec.Refs)
		require.Equal(t, "ann", rec.Audit.By)
		require.Equal(t, "value", string(rec.Outcome.Value))
	})
}

func TestWhatTheStoreHandsOutIsTheCallersOwn(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		ref := acquire(t, b, 1, func(p *driver.ClaimParams) {
			p.Providers = []driver.ProviderWindow{{Name: "card", Window: time.Hour}}
		})
		require.NoError(t, b.Annotate(t.Context(), ref, &driver.AnnotateParams{Refs: []driver.ProviderRef{{Provider: "card", Ref: "1"}}}))
		complete(t, b, ref, "value")
		want := *inspect(t, b, key)
		want.Outcome.Value = []byte("value")
		want.Refs = []driver.ProviderRef{{Provider: "card", Ref: "1"}}
		want.Providers = []driver.Provider{{Name: "card", Window: time.Hour}}
		spoil := func(rec *driver.Record) {
			copy(rec.Outcome.Value, "XXXXX")
			rec.Refs[0].Ref = "changed"
			rec.Providers[0].Name = "changed"
		}
		spoil(inspect(t, b, key))
		res, err := b.Claim(t.Context(), params(2))
		require.NoError(t, err)
		require.Equal(t, driver.Completed, res.Fact)
		spoil(&res.Record)
		page, err := b.List(t.Context(), &driver.ListParams{})
		require.NoError(t, err)
		spoil(&page.Records[0])
		require.Equal(t, &want, inspect(t, b, key))
	})
}

// An empty value and none are told apart, byte for byte (I4).
func TestAnEmptyValueStaysEmptyAndNoneStaysNone(t *testing.T) {
	t.Parallel()
	for _, value := range [][]byte{nil, {}} {
		b := memstore.New(nil)
		ref := acquire(t, b, 1)
		require.NoError(t, b.Complete(t.Context(), ref, &driver.CompleteParams{Outcome: driver.Outcome{Value: value}, Retention: retention}))
		require.Equal(t, value, inspect(t, b, key).Outcome.Value)
	}
}

// I7: what is for display carries no monotonic clock, and says so in UTC.
func TestTimestampsAreForDisplay(t *testing.T) {
	t.Parallel()
	b := memstore.New(nil)
	complete(t, b, acquire(t, b, 1), "v")
	rec := inspect(t, b, key)
	for _, at := range []time.Time{rec.ClaimedAt, rec.RecordedAt} {
		require.Equal(t, time.UTC, at.Location())
		require.NotContains(t, at.String(), "m=")
	}
}
