package pgstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/tieredstore"
)

// A fast tier before the table is written after the commit only: never by a
// transaction that is still open, fails, or is the caller's to commit.
func TestAFastTierIsWrittenAfterTheCommitOnly(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.exec(t, l.pool, "ALTER TABLE "+l.effects+" ADD CONSTRAINT once UNIQUE (what) DEFERRABLE INITIALLY DEFERRED")
	for _, c := range txClients(l.pool) {
		cache := memstore.NewCache(nil)
		tiers, err := tieredstore.New(cache, l.backend(t, l.pool), nil)
		require.NoError(t, err)
		s := storeOver(t, tiers, nil)
		empty := func(key string) {
			t.Helper()
			_, err := cache.Get(t.Context(), join(key))
			require.ErrorIs(t, err, driver.ErrNotFound)
		}
		committed, refused, declined := c.name+" committed", c.name+" refused", c.name+" declined"
		_, err = c.execute(t.Context(), s, committed, func(_ context.Context, do do) (idem.Result, error) {
			empty(committed)
			return idem.Result{Value: []byte("paid")}, do(l.insert(), committed)
		})
		require.NoError(t, err)
		copied, err := cache.Get(t.Context(), join(committed))
		require.NoError(t, err, "committed, and not copied")
		require.Equal(t, "paid", string(copied.Outcome.Value))

		_, err = c.execute(t.Context(), s, refused, func(_ context.Context, do do) (idem.Result, error) {
			return idem.Result{}, errors.Join(do(l.insert(), refused), do(l.insert(), refused))
		})
		require.ErrorIs(t, err, idem.ErrUnavailable)
		empty(refused)

		_, err = c.execute(t.Context(), s, declined, func(context.Context, do) (idem.Result, error) {
			return idem.Result{}, idem.Permanent(errDeclined)
		})
		require.ErrorIs(t, err, errDeclined)
		copied, err = cache.Get(t.Context(), join(declined))
		require.NoError(t, err)
		require.True(t, copied.Outcome.Failed)
	}
	for name, begin := range l.callers(t) {
		cache := memstore.NewCache(nil)
		tiers, err := tieredstore.New(cache, l.backend(t, l.pool), nil)
		require.NoError(t, err)
		s, tx := storeOver(t, tiers, nil), begin("")
		_, err = tx.execute(t.Context(), s, name, l.pay(name))
		require.NoError(t, err)
		_, err = cache.Get(t.Context(), join(name))
		require.ErrorIs(t, err, driver.ErrNotFound, "nothing is committed")
		require.NoError(t, tx.rollback())
		require.Zero(t, l.happened(t, name))
		tx = begin("")
		_, err = tx.execute(t.Context(), s, name, l.pay(name))
		require.NoError(t, err)
		require.NoError(t, tx.commit())
		res, err := s.Execute(t.Context(), name, plain("other"))
		require.NoError(t, err)
		require.Equal(t, "paid "+name, string(res.Value))
		_, err = cache.Get(t.Context(), join(name))
		require.NoError(t, err, "it learns when it is asked")
	}
}
