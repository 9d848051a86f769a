package memstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

// fillUp claims keys until the backend is full and returns the claims.
func fillUp(t *testing.T, b *memstore.Backend) []driver.Ref {
	t.Helper()
	var refs []driver.Ref
	for i := range 1_000_000 {
		p := params(i, forKey(fmt.Sprintf("full%06d", i)))
		res, err := b.Claim(t.Context(), p)
		if err != nil {
			require.ErrorIs(t, err, driver.ErrUnavailable)
			return refs
		}
		refs = append(refs, driver.Ref{Key: p.Key, Owner: p.Owner, Token: res.Record.Token})
	}
	t.Fatal("it is never full")
	return nil
}

func TestAFullBackendRefusesNewKeysOnly(t *testing.T) {
	t.Parallel()
	inBubble(t, &memstore.Options{MaxBytes: 64 << 10}, func(t *testing.T, b *memstore.Backend) {
		refs := fillUp(t, b)
		require.LessOrEqual(t, b.Stat().Bytes, b.Stat().MaxBytes)
		_, err := b.Claim(t.Context(), params(1))
		require.ErrorContains(t, err, "MaxBytes")
		require.ErrorContains(t, err, "raise")
		require.True(t, driver.NoEffect(err))

		time.Sleep(lease)
		for i, ref := range refs {
			require.NoError(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: lease, Retention: retention}))
			require.NoError(t, b.Annotate(t.Context(), ref, &driver.AnnotateParams{Refs: []driver.ProviderRef{{Provider: "card", Ref: "1"}}}))
			if i%2 == 0 {
				complete(t, b, ref, strings.Repeat("v", 1000))
				continue
			}
			release(t, b, ref, driver.ReleaseParams{})
			again := acquire(t, b, len(refs)+i, forKey(ref.Key))
			require.Greater(t, again.Token, ref.Token)
		}
		require.Greater(t, b.Stat().Bytes, b.Stat().MaxBytes, "outcomes are recorded all the same")
	})
}

func TestAFullBackendMakesRoomOfWhatHasExpired(t *testing.T) {
	t.Parallel()
	inBubble(t, &memstore.Options{MaxBytes: 64 << 10}, func(t *testing.T, b *memstore.Backend) {
		for _, ref := range fillUp(t, b) {
			complete(t, b, ref, "")
		}
		time.Sleep(retention)
		for i := range 1000 {
			acquire(t, b, i, forKey(fmt.Sprintf("new%04d", i%50)), func(p *driver.ClaimParams) { p.Owner = owner(i) })
			time.Sleep(lease)
		}
		require.LessOrEqual(t, b.Stat().Bytes, b.Stat().MaxBytes)
	})
}

// Claimed, unknown and held records make no room, however old (I13).
func TestAFullBackendForgetsNothingUnsettled(t *testing.T) {
	t.Parallel()
	inBubble(t, &memstore.Options{MaxBytes: 64 << 10}, func(t *testing.T, b *memstore.Backend) {
		refs := fillUp(t, b)
		for _, ref := range refs[:10] {
			release(t, b, ref, driver.ReleaseParams{Held: true})
		}
		time.Sleep(10 * 365 * 24 * time.Hour)
		for i := range 100 {
			_, err := b.Claim(t.Context(), params(i))
			require.ErrorIs(t, err, driver.ErrUnavailable)
		}
		require.EqualValues(t, len(refs), b.Stat().Records)
		for _, ref := range refs {
			require.Equal(t, driver.Unknown, inspect(t, b, ref.Key).State)
		}
	})
}

func TestANegativeMaxBytesRefusesEveryKey(t *testing.T) {
	t.Parallel()
	b := memstore.New(&memstore.Options{MaxBytes: -1 << 63, Retention: -time.Second})
	_, err := b.Claim(t.Context(), params(1))
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.Equal(t, -time.Second, b.DefaultRetention(), "for the Store to refuse")
}

func TestTheDefaultsAreThoseOfTheComments(t *testing.T) {
	t.Parallel()
	for _, b := range []*memstore.Backend{memstore.New(nil), memstore.New(&memstore.Options{})} {
		require.Equal(t, 24*time.Hour, b.DefaultRetention())
		require.EqualValues(t, 1<<30, b.Stat().MaxBytes)
	}
	b := memstore.New(&memstore.Options{Retention: time.Hour, MaxBytes: 1})
	require.Equal(t, time.Hour, b.DefaultRetention())
	require.EqualValues(t, 1, b.Stat().MaxBytes)
}

// Insertions alone keep a backend from growing: nobody calls Purge here.
func TestExpiredRecordsDoNotPileUp(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		const alive = 1000 // keys whose retention has not ended, at any time
		highest := int64(0)
		for i := range 20 * alive {
			complete(t, b, acquire(t, b, i, forKey(fmt.Sprintf("k%06d", i))), "v")
			time.Sleep(retention / alive)
			highest = max(highest, b.Stat().Records)
		}
		require.Less(t, highest, int64(3*alive))
		require.Greater(t, highest, int64(alive))
	})
}

// The accounts balance: whatever happened to the records, none of their bytes
// stays behind.
func TestTheBytesOfAnEmptyBackendAreZero(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		for i := range 100 {
			ref := acquire(t, b, i, forKey(fmt.Sprintf("k%02d", i%50)), withPrints(print1("id", 1)...), func(p *driver.ClaimParams) {
				p.Providers = []driver.ProviderWindow{{Name: "card", Window: time.Hour}}
			})
			require.NoError(t, b.Annotate(t.Context(), ref, &driver.AnnotateParams{Refs: []driver.ProviderRef{{Provider: "card", Ref: "1"}}}))
			complete(t, b, ref, strings.Repeat("v", i))
			if i%3 == 0 {
				require.NoError(t, b.Redact(t.Context(), ref.Key, edit(ref.Token)))
			}
			if i%5 == 0 {
				require.NoError(t, b.Reset(t.Context(), ref.Key, edit(ref.Token)))
			}
			if i == 49 {
				time.Sleep(retention)
			}
		}
		require.NotZero(t, b.Stat().Bytes)
		time.Sleep(retention)
		_, err := b.Purge(t.Context(), &driver.PurgeParams{})
		require.NoError(t, err)
		require.Zero(t, b.Stat().Records)
		require.Zero(t, b.Stat().Bytes)
	})
}
