package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/tcpproxy"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redisstore"
)

// behind returns a Backend that reaches a server of its own through a proxy,
// with a connection open and every script known to the server.
func behind(t *testing.T, change ...func(*redis.Options)) (*redisstore.Backend, *tcpproxy.Proxy, *testenv.RedisServer) {
	t.Helper()
	s := testenv.OwnRedis(t, testenv.RedisConfig{})
	p := tcpproxy.New(t, s.Addr())
	b := open(t, connect(t, p.Addr(), change...))
	warm(t, b)
	return b, p, s
}

// warm calls everything once.
func warm(t *testing.T, b *redisstore.Backend) {
	t.Helper()
	ctx, edit := t.Context(), &driver.EditParams{Retention: kept}
	ref := acquire(t, b, "warm", lease(time.Millisecond))
	require.NoError(t, b.Renew(ctx, ref, &driver.RenewParams{Lease: time.Hour, Retention: kept}))
	require.NoError(t, b.Annotate(ctx, ref, &driver.AnnotateParams{}))
	require.NoError(t, b.Release(ctx, ref, &driver.ReleaseParams{Retention: kept}))
	ref = acquire(t, b, "warm")
	complete(t, b, ref, "x")
	_, err := b.Inspect(ctx, "warm")
	require.NoError(t, err)
	edit.Token = ref.Token
	require.NoError(t, b.Redact(ctx, "warm", edit))
	require.NoError(t, b.Reset(ctx, "warm", edit))
	_, err = b.List(ctx, &driver.ListParams{})
	require.NoError(t, err)
}

// trips insists on the number of round trips that a call takes.
func trips(t *testing.T, p *tcpproxy.Proxy, want int64, what string, call func()) {
	t.Helper()
	before := p.RoundTrips()
	call()
	require.Equal(t, want, p.RoundTrips()-before, what)
}

func TestRoundTripsOfEachCall(t *testing.T) {
	t.Parallel()
	b, p, _ := behind(t)
	ctx := t.Context()
	var ref driver.Ref
	trips(t, p, 1, "a first claim", func() { ref = acquire(t, b, "k", printed("a")) })
	trips(t, p, 1, "a rejected duplicate", func() { wants(t, b, driver.InProgress, params("k")) })
	trips(t, p, 1, "another request", func() { wants(t, b, driver.Mismatch, params("k", printed("b"))) })
	trips(t, p, 1, "a renewal", func() {
		require.NoError(t, b.Renew(ctx, ref, &driver.RenewParams{Lease: time.Hour, Retention: kept}))
	})
	trips(t, p, 1, "references", func() {
		refs := []driver.ProviderRef{{Provider: "acme", Ref: "1"}, {Provider: "acme", Ref: "2"}}
		require.NoError(t, b.Annotate(ctx, ref, &driver.AnnotateParams{Refs: refs}))
	})
	trips(t, p, 1, "an outcome", func() { complete(t, b, ref, "done") })
	trips(t, p, 1, "a replay", func() { wants(t, b, driver.Completed, params("k")) })
	trips(t, p, 1, "a late copy of the claim", func() {
		wants(t, b, driver.Completed, params("k", func(p *driver.ClaimParams) { p.Owner = ref.Owner }))
	})
	trips(t, p, 1, "an inspection", func() {
		_, err := b.Inspect(ctx, "k")
		require.NoError(t, err)
	})
	ref = acquire(t, b, "r")
	trips(t, p, 1, "a release", func() { require.NoError(t, b.Release(ctx, ref, &driver.ReleaseParams{Held: true, Retention: kept})) })
	trips(t, p, 1, "a held duplicate", func() {
		wants(t, b, driver.Held, params("r", func(p *driver.ClaimParams) { p.Take = driver.TakeAbsent }))
	})
	trips(t, p, 2, "a takeover", func() { wants(t, b, driver.TakenOver, params("r")) })
}

func printed(keyID string) func(*driver.ClaimParams) {
	return func(p *driver.ClaimParams) {
		p.Fingerprints = []driver.Fingerprint{{KeyID: "k", Sum: [32]byte{keyID[0]}}}
	}
}

func TestAFirstExecutionTakesTwoRoundTripsAndAReplayOne(t *testing.T) {
	t.Parallel()
	b, p, _ := behind(t)
	s, err := idem.New(b, &idem.Options{Namespace: "pay", Retention: kept, Observer: idem.Discard})
	require.NoError(t, err)
	op := func(context.Context) (idem.Result, error) { return idem.Result{Value: []byte("7")}, nil }
	_, err = s.Execute(t.Context(), "warm", op) // looks at the server's settings once
	require.NoError(t, err)
	trips(t, p, 2, "a first execution", func() {
		res, err := s.Execute(t.Context(), "k", op)
		require.NoError(t, err)
		require.False(t, res.Replayed)
	})
	trips(t, p, 1, "a replay", func() {
		res, err := s.Execute(t.Context(), "k", op)
		require.NoError(t, err)
		require.True(t, res.Replayed)
	})
	ref := acquire(t, b, driver.JoinKey("pay", "elsewhere"))
	trips(t, p, 1, "a rejected duplicate", func() {
		_, err := s.Execute(t.Context(), "elsewhere", op)
		require.ErrorIs(t, err, idem.ErrInProgress)
	})
	complete(t, b, ref, "x")
}

// What is claimed does not depend on the length of what was recorded: a long
// record comes in the same round trip.
func TestALongReplayTakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	b, p, _ := behind(t)
	for _, n := range []int{900, 1100, 1 << 20} {
		key := time.Duration(n).String()
		complete(t, b, acquire(t, b, key), string(make([]byte, n)))
		trips(t, p, 1, "a replay", func() { require.Len(t, wants(t, b, driver.Completed, params(key)).Outcome.Value, n) })
	}
}

// A key that this process knows to be done is replayed without a script; one that
// it does not know, with one; and what became of the key meanwhile is seen.
func TestAKnownOutcomeIsReplayedWithoutAScript(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, testenv.RedisConfig{})
	rdb := connect(t, server.Addr())
	b := open(t, rdb)
	fresh := func() *redisstore.Backend { return open(t, rdb, prefixed(b)) }
	ref := acquire(t, b, "k", printed("a"))
	complete(t, b, ref, "7")
	replayed := func(b *redisstore.Backend, scripts int) *driver.Record {
		t.Helper()
		before := called(t, server, "evalsha") + called(t, server, "eval")
		rec := wants(t, b, driver.Completed, params("k", printed("a")))
		require.Equal(t, scripts, called(t, server, "evalsha")+called(t, server, "eval")-before)
		return rec
	}
	plain, other := replayed(b, 0), fresh()
	scripted := replayed(other, 1)
	require.LessOrEqual(t, scripted.RetentionLeft, plain.RetentionLeft)
	require.GreaterOrEqual(t, scripted.ClaimAge, plain.ClaimAge)
	scripted.RetentionLeft, scripted.ClaimAge = plain.RetentionLeft, plain.ClaimAge
	require.Equal(t, plain, scripted)
	replayed(other, 0)
	wants(t, b, driver.Mismatch, params("k", printed("b")))
	_, err := b.Claim(t.Context(), params("k", func(p *driver.ClaimParams) { p.Fingerprints = []driver.Fingerprint{{KeyID: "?", Sum: [32]byte{1}}} }))
	require.ErrorIs(t, err, driver.ErrCorrupt)

	require.NoError(t, fresh().Redact(t.Context(), "k", &driver.EditParams{Token: ref.Token}))
	require.Equal(t, driver.BodyRedacted, replayed(b, 1).Outcome.Body, "the unknown key id had it forgotten")
	require.Equal(t, driver.BodyRedacted, replayed(b, 0).Outcome.Body)
	require.NoError(t, fresh().Reset(t.Context(), "k", &driver.EditParams{Token: ref.Token, Retention: kept}))
	again := acquire(t, b, "k", printed("a"))
	require.Greater(t, again.Token, ref.Token)
	complete(t, b, again, "8")
	require.NoError(t, rdb.Del(t.Context(), b.RedisKey("k")).Err())
	require.NoError(t, rdb.RPush(t.Context(), b.RedisKey("k"), "x").Err())
	_, err = b.Claim(t.Context(), params("k"))
	require.ErrorIs(t, err, driver.ErrCorrupt)
	require.NoError(t, rdb.Del(t.Context(), b.RedisKey("k")).Err())
	require.Positive(t, acquire(t, b, "k").Token)
}
