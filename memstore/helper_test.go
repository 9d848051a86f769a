package memstore_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

const (
	key       = "invoice"
	lease     = 30 * time.Second
	retention = time.Hour
	everyTake = driver.TakeAbsent | driver.TakeReleased | driver.TakeDoubtful | driver.TakeUnknown | driver.TakeHeld
)

// owner makes owners that tests can tell apart.
func owner(n int) driver.Owner { return driver.Owner{0: 0xA5, 1: byte(n), 2: byte(n >> 8)} }

// params of a claim of key by owner(n) that may take everything.
func params(n int, change ...func(p *driver.ClaimParams)) *driver.ClaimParams {
	p := &driver.ClaimParams{Key: key, Owner: owner(n), Lease: lease, Retention: retention, Take: everyTake}
	for _, c := range change {
		c(p)
	}
	return p
}

func forKey(k string) func(p *driver.ClaimParams) { return func(p *driver.ClaimParams) { p.Key = k } }

// calling names a provider that the claim is going to call.
func calling(name string, window time.Duration) func(p *driver.ClaimParams) {
	return func(p *driver.ClaimParams) { p.Providers = []driver.ProviderWindow{{Name: name, Window: window}} }
}

func withRetention(p driver.ReleaseParams) *driver.ReleaseParams {
	p.Retention = retention
	return &p
}

// acquire claims a key and returns the claim's reference.
func acquire(tb testing.TB, b driver.Backend, n int, change ...func(p *driver.ClaimParams)) driver.Ref {
	tb.Helper()
	p := params(n, change...)
	res, err := b.Claim(tb.Context(), p)
	require.NoError(tb, err)
	require.Contains(tb, []driver.Fact{driver.Acquired, driver.TakenOver}, res.Fact)
	return driver.Ref{Key: p.Key, Owner: p.Owner, Token: res.Record.Token}
}

func complete(tb testing.TB, b driver.Backend, ref driver.Ref, value string) {
	tb.Helper()
	require.NoError(tb, b.Complete(tb.Context(), ref, success(value)))
}

func success(value string) *driver.CompleteParams {
	return &driver.CompleteParams{Outcome: driver.Outcome{Value: []byte(value), Codec: "json"}, Retention: retention}
}

func release(tb testing.TB, b driver.Backend, ref driver.Ref, p driver.ReleaseParams) {
	tb.Helper()
	require.NoError(tb, b.Release(tb.Context(), ref, withRetention(p)))
}

func inspect(tb testing.TB, b driver.Backend, k string) *driver.Record {
	tb.Helper()
	rec, err := b.Inspect(tb.Context(), k)
	require.NoError(tb, err)
	return rec
}

// fill completes n keys that begin with prefix.
func fill(tb testing.TB, b driver.Backend, prefix string, n int) {
	tb.Helper()
	for i := range n {
		complete(tb, b, acquire(tb, b, i, forKey(fmt.Sprintf("%s%04d", prefix, i))), "v")
	}
}

// inBubble runs f with a new Backend and a clock of its own.
func inBubble(t *testing.T, opts *memstore.Options, f func(t *testing.T, b *memstore.Backend)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, memstore.New(opts)) })
}

// everyStep calls each method once, with parameters that are valid but for what
// the test made of ref. The keys of the map name the methods.
func everyStep(ctx context.Context, b *memstore.Backend, ref driver.Ref) map[string]error {
	p := params(0)
	p.Key, p.Owner = ref.Key, ref.Owner
	_, claimErr := b.Claim(ctx, p)
	_, inspectErr := b.Inspect(ctx, ref.Key)
	_, watchErr := b.Watch(ctx, ref.Key)
	edit := &driver.EditParams{Token: ref.Token, Retention: retention}
	return map[string]error{
		"Claim":    claimErr,
		"Renew":    b.Renew(ctx, ref, &driver.RenewParams{Lease: lease, Retention: retention}),
		"Annotate": b.Annotate(ctx, ref, &driver.AnnotateParams{NotExecuted: true}),
		"Complete": b.Complete(ctx, ref, success("v")),
		"Release":  b.Release(ctx, ref, &driver.ReleaseParams{Retention: retention}),
		"Inspect":  inspectErr,
		"Watch":    watchErr,
		"Redact":   b.Redact(ctx, ref.Key, edit),
		"Reset":    b.Reset(ctx, ref.Key, edit),
	}
}
