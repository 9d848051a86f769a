package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

func TestPagesHoldEachRecordOnceInTheOrderOfTheKeys(t *testing.T) {
	t.Parallel()
	b := memstore.New(nil)
	const n = 1234 // more than a page, and than a step
	fill(t, b, "a", n)
	fill(t, b, "b", 10)
	var keys []string
	p := &driver.ListParams{Prefix: "a", Limit: 100}
	pages := 0
	for more := true; more; pages++ {
		res, err := b.List(t.Context(), p)
		require.NoError(t, err)
		require.LessOrEqual(t, len(res.Records), 100)
		for _, rec := range res.Records {
			keys = append(keys, rec.Key)
			require.Empty(t, rec.Outcome.Value)
			require.Equal(t, driver.Succeeded, rec.State)
		}
		p.After, more = res.Next, res.Next != ""
	}
	require.Equal(t, 13, pages)
	require.Len(t, keys, n)
	for i, k := range keys {
		require.Equal(t, fmt.Sprintf("a%04d", i), k)
	}
	require.Equal(t, "v", string(inspect(t, b, "a0000").Outcome.Value), "the list leaves the stored value alone")
}

func TestListShowsTheStatesAskedForAndNothingExpired(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		complete(t, b, acquire(t, b, 1, forKey("expired")), "v")
		time.Sleep(retention - lease)
		acquire(t, b, 2, forKey("unknown"))
		time.Sleep(lease)
		acquire(t, b, 3, forKey("claimed"))
		release(t, b, acquire(t, b, 4, forKey("held")), driver.ReleaseParams{Held: true})
		release(t, b, acquire(t, b, 5, forKey("released")), driver.ReleaseParams{})
		complete(t, b, acquire(t, b, 6, forKey("succeeded")), "v")
		list := func(states ...driver.State) (keys []string) {
			res, err := b.List(t.Context(), &driver.ListParams{States: states})
			require.NoError(t, err)
			require.Empty(t, res.Next)
			for _, rec := range res.Records {
				keys = append(keys, rec.Key)
			}
			return keys
		}
		require.Equal(t, []string{"claimed", "held", "released", "succeeded", "unknown"}, list())
		require.Equal(t, []string{"held", "unknown"}, list(driver.Unknown))
		require.Equal(t, []string{"claimed", "released"}, list(driver.Claimed, driver.Released))
		require.Empty(t, list(driver.Failed))
	})
}

// What has expired takes no room in a page.
func TestAPageIsFullWhileThereIsMore(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		fill(t, b, "a", 50)
		time.Sleep(retention)
		for i := range 20 {
			acquire(t, b, i, forKey(fmt.Sprintf("b%d", i)))
		}
		require.Greater(t, b.Stat().Records, int64(20), "some of what has expired is still there")
		res, err := b.List(t.Context(), &driver.ListParams{Limit: 10})
		require.NoError(t, err)
		require.Len(t, res.Records, 10)
		require.Equal(t, driver.Claimed, res.Records[0].State)
	})
}

func TestAPageIsOf100UnlessAskedOtherwise(t *testing.T) {
	t.Parallel()
	b := memstore.New(nil)
	fill(t, b, "k", 101)
	res, err := b.List(t.Context(), &driver.ListParams{})
	require.NoError(t, err)
	require.Len(t, res.Records, 100)
	require.Equal(t, "k0099", res.Next)
	_, err = b.List(t.Context(), &driver.ListParams{Limit: -1})
	require.ErrorContains(t, err, "-1")
}
