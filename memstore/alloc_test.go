package memstore_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

// Not parallel: testing.AllocsPerRun counts what the whole process allocates.
//
//nolint:paralleltest // see above
func TestAllocationsStayWithinTheirBudgets(t *testing.T) {
	const runs = 1000
	ctx := t.Context()
	b := memstore.New(nil)
	complete(t, b, acquire(t, b, 1), "value")

	keys := make([]string, 2*runs+2)
	for i := range keys {
		keys[i] = fmt.Sprintf("key%06d", i)
	}
	claims := keys
	next := func() string { k := claims[0]; claims = claims[1:]; return k }

	replay := params(2)
	budget(t, "a replay", 2, runs, func() bool {
		res, err := b.Claim(ctx, replay)
		return err == nil && res.Fact == driver.Completed && len(res.Record.Outcome.Value) == 5
	})
	claim := params(3)
	budget(t, "a claim", 4, runs, func() bool {
		claim.Key = next()
		res, err := b.Claim(ctx, claim)
		return err == nil && res.Fact == driver.Acquired
	})
	again := params(4, forKey(keys[0]))
	budget(t, "in progress", 1, runs, func() bool {
		res, err := b.Claim(ctx, again)
		return err == nil && res.Fact == driver.InProgress
	})
	claims = keys
	renewal := &driver.RenewParams{Lease: lease, Retention: retention}
	ref := driver.Ref{Key: keys[0], Owner: owner(3), Token: inspect(t, b, keys[0]).Token}
	budget(t, "a renewal", 0, runs, func() bool { return b.Renew(ctx, ref, renewal) == nil })
	outcome := success("value")
	budget(t, "a completion", 2, runs, func() bool {
		return b.Complete(ctx, driver.Ref{Key: next(), Owner: owner(3)}, outcome) == nil
	})
	c := memstore.NewCache(nil)
	put(t, c, copyOf(key, 1, 1, 100))
	budget(t, "a copy", 2, runs, func() bool { rec, err := c.Get(ctx, key); return err == nil && rec.Token == 1 })
	budget(t, "a missing copy", 0, runs, func() bool { _, err := c.Get(ctx, "none"); return err != nil })
}

func budget(t *testing.T, what string, allocs float64, runs int, f func() bool) {
	t.Helper()
	ok := true
	got := testing.AllocsPerRun(runs, func() { ok = f() && ok })
	require.True(t, ok, "%s: another answer was measured", what)
	require.LessOrEqual(t, got, allocs, what)
}
