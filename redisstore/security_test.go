package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redisstore"
	"github.com/idem-go/idem/storetest"
)

const canary = "hunter2-canary-7f3a"

// documented returns the rights that the package documentation grants to a user:
// the lines of its ACL, joined.
func documented(t *testing.T, user string) []string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^//\tuser ` + user + ` on (.*(?:\n//\t  .*)*)$`).FindSubmatch(text)
	require.NotNil(t, found, "doc.go grants nothing")
	return strings.Fields(strings.ReplaceAll(string(found[1]), "//", ""))
}

// besides returns the rights that the package documentation says are needed for
// one thing more.
func besides(t *testing.T, rights string) []string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	require.Contains(t, strings.ReplaceAll(string(text), "\n// ", " "), "needs "+rights)
	return strings.Fields(rights)
}

// withRights starts a server with one user, and returns a harness of that user.
func withRights(t *testing.T, rights []string) *harness {
	t.Helper()
	s := testenv.OwnRedis(t, testenv.RedisConfig{ACL: "user default off\nuser idem on " + strings.Join(rights, " ")})
	rdb := connect(t, s.Addr(), func(o *redis.Options) { o.Username, o.Password = "idem", "password" })
	admin := connect(t, s.Addr(), func(o *redis.Options) { o.Username, o.Password = testenv.RedisAdmin, testenv.RedisAdminPassword })
	return &harness{
		prefix: "idem:", client: rdb, dial: func(testing.TB) redis.UniversalClient { return admin },
	}
}

// K12: the suite passes under exactly the rights that the documentation grants.
func TestTheContractHoldsUnderTheDocumentedRights(t *testing.T) {
	t.Parallel()
	storetest.Run(t, withRights(t, documented(t, "idem")).storetest())
}

// The same for a Cluster, whose client asks for more.
func TestTheDocumentedRightsAreEnoughOnACluster(t *testing.T) {
	t.Parallel()
	c := testenv.OwnRedisCluster(t)
	rights := append(documented(t, "idem"), besides(t, "+cluster|slots +command +readonly")...)
	rights = append(rights, besides(t, "+ping +wait")...)
	for _, node := range c.Nodes {
		_, err := node.Do(t.Context(), append([]any{"ACL", "SETUSER", "idem", "on"}, anys(rights)...)...)
		require.NoError(t, err)
	}
	as := func(o *redis.ClusterOptions) { o.Username, o.Password = "idem", "password" }
	b := open(t, cluster(t, c, as), func(o *redisstore.Options) { o.Prefix = "idem:" }, awaiting(1, patience/2))
	require.NoError(t, everything(t, b, patience))
	reading := func(o *redis.ClusterOptions) { as(o); o.ReadOnly = true }
	require.NoError(t, everything(t, open(t, cluster(t, c, reading), func(o *redisstore.Options) { o.Prefix = "idem:other" }), patience))
}

func anys(texts []string) (out []any) {
	for _, s := range texts {
		out = append(out, s)
	}
	return out
}

// K12: a Cache needs fewer, and each of them.
func TestACacheNeedsTheDocumentedRightsOnly(t *testing.T) {
	t.Parallel()
	rights := documented(t, "idem-cache")
	as := func(o *redis.Options) { o.Username, o.Password = "idem", "password" }
	work := func(t *testing.T, rights []string) error {
		t.Helper()
		s := testenv.OwnRedis(t, testenv.RedisConfig{ACL: "user default off\nuser idem on " + strings.Join(rights, " ")})
		c := openCache(t, connect(t, s.Addr(), as), "idem-cache:")
		p := &driver.PutParams{Record: revised(1), TTL: time.Hour}
		_, err := c.Get(t.Context(), "none")
		require.Error(t, err)
		errs := []error{c.Check(t.Context()), c.Put(t.Context(), p), c.Put(t.Context(), p)}
		_, err = c.Get(t.Context(), "k")
		return errors.Join(append(errs, err, c.Delete(t.Context(), "k", time.Hour), c.Delete(t.Context(), "k", time.Minute),
			c.Delete(t.Context(), "k2", 0))...)
	}
	require.NoError(t, work(t, rights))
	for i, right := range rights {
		if !strings.HasPrefix(right, "+") {
			continue
		}
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			err := work(t, slices.Delete(slices.Clone(rights), i, i+1))
			require.Error(t, err)
			require.Regexp(t, `NOPERM|can't run this command`, err.Error())
		})
	}
}

// K12: each right is needed, and without it something says so.
func TestOneRightFewerFailsClearly(t *testing.T) {
	t.Parallel()
	rights := documented(t, "idem")
	for i, right := range rights {
		if !strings.HasPrefix(right, "+") && !strings.HasPrefix(right, "&") ||
			right == "+unsubscribe" { // without it, channels stay subscribed until the last watch ends
			continue
		}
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			h := withRights(t, slices.Delete(slices.Clone(rights), i, i+1))
			err := everything(t, h.open(t), 2*time.Second)
			require.Error(t, err)
			require.Regexp(t, `NOPERM|can't run this command|no permissions|settings_hidden|no hint`, err.Error())
		})
	}
	t.Run("another prefix", func(t *testing.T) {
		t.Parallel()
		h := withRights(t, rights)
		h.prefix = "other:"
		require.ErrorIs(t, everything(t, h.open(t), patience), driver.ErrUnavailable)
	})
}

// everything makes each call once and returns the first error, or finding that
// tells of a missing right: also that no hint came within wait.
func everything(t *testing.T, d driver.Backend, wait time.Duration) error {
	t.Helper()
	b, ok := d.(*redisstore.Backend)
	require.True(t, ok)
	ctx := t.Context()
	if err := b.Check(ctx); err != nil && (!driver.OnlyWarnings(err) || strings.Contains(err.Error(), "settings_hidden")) {
		return err
	}
	p := params("k")
	res, err := b.Claim(ctx, p)
	if err != nil {
		return err
	}
	ref := driver.Ref{Key: "k", Owner: p.Owner, Token: res.Record.Token}
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	hints, err := b.Watch(watch, "k")
	if err != nil {
		return err
	}
	other, cancelOther := context.WithCancel(ctx)
	if _, err := b.Watch(other, "k2"); err != nil {
		cancelOther()
		return err
	}
	cancelOther() // unsubscribes while the first goes on
	if err := b.Complete(ctx, ref, &driver.CompleteParams{Outcome: success("7"), Retention: kept}); err != nil {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-hints:
	case <-timer.C:
		return errors.New("no hint came")
	}
	_, err = b.List(ctx, &driver.ListParams{})
	return err
}

// K13: TLS with client certificates; a server that another authority vouches for
// is not talked to.
func TestTheContractHoldsOverTLSWithClientCertificates(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{TLS: true})
	rdb := connect(t, s.Addr(), func(o *redis.Options) { o.TLSConfig = s.TLS() })
	h := &harness{prefix: prefix(), dial: func(testing.TB) redis.UniversalClient { return rdb }}
	storetest.Run(t, h.storetest())
}

func TestAServerOfAnotherAuthorityIsNotTalkedTo(t *testing.T) {
	t.Parallel()
	s, stranger := testenv.OwnRedis(t, testenv.RedisConfig{TLS: true}), testenv.OwnRedis(t, testenv.RedisConfig{TLS: true})
	bare := s.TLS()
	bare.Certificates = nil
	for title, cfg := range map[string]*tls.Config{"other authority": stranger.TLS(), "no certificate": bare, "plain": nil} {
		b := open(t, connect(t, s.Addr(), func(o *redis.Options) { o.TLSConfig = cfg; o.MaxRetries = -1 }))
		n := 0
		_, err := store(t, b).Execute(t.Context(), "k", counted(&n))
		require.Error(t, err, title)
		require.Zero(t, n)
		_, err = b.Claim(t.Context(), params("k"))
		require.Error(t, err, title)
	}
}

// K14, K6: no password, key or value is in any error.
func TestErrorsCarryNoSecret(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{ACL: "user default off\nuser app on >" + canary + " ~* &* +@all -evalsha -eval"})
	as := func(user, password string) func(*redis.Options) {
		return func(o *redis.Options) {
			o.Username, o.Password, o.MaxRetries, o.DialTimeout = user, password, -1, 500*time.Millisecond
		}
	}
	quoting := "-ERR unknown command 'EVALSHA', with args beginning with: '" + canary + "' \r\n"
	old := "-ERR unknown command `evalsha`, with args beginning with: `" + canary + "`, \r\n"
	for title, rdb := range map[string]*redis.Client{
		"wrong password": connect(t, s.Addr(), as("app", canary+"x")),
		"wrong user":     connect(t, s.Addr(), as(canary, "x")),
		"no right":       connect(t, s.Addr(), as("app", canary)),
		"nobody there":   connect(t, "127.0.0.1:1", as("app", canary)),
		"wrong host":     connect(t, "no-such-host.invalid:6379", as("app", canary)),
		"quoting server": connect(t, answering(t, quoting), as("", "")),
		"old server":     connect(t, answering(t, old), as("", "")),
		"not a Redis":    connect(t, answering(t, "HTTP/1.1 400 "+canary+"\r\n"), as("", "")),
	} {
		b := open(t, rdb)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		key, value := canary+"-key", canary+"-value"
		ref := driver.Ref{Key: key, Owner: owner(), Token: 1}
		_, claim := b.Claim(ctx, params(key))
		_, inspect := b.Inspect(ctx, key)
		_, list := b.List(ctx, &driver.ListParams{Prefix: key})
		_, watch := b.Watch(ctx, key)
		for what, err := range map[string]error{
			"Claim": claim, "Inspect": inspect, "List": list, "Watch": watch, "Check": b.Check(ctx),
			"Complete": b.Complete(ctx, ref, &driver.CompleteParams{Outcome: success(value), Retention: kept}),
			"Annotate": b.Annotate(ctx, ref, &driver.AnnotateParams{Refs: []driver.ProviderRef{{Provider: canary, Ref: value}}}),
			"Redact":   b.Redact(ctx, key, &driver.EditParams{Token: 1, Audit: driver.Audit{Why: value}}),
		} {
			if err != nil {
				require.NotContains(t, err.Error(), canary, "%s, %s", title, what)
			}
		}
		require.Error(t, claim, title)
		cancel()
	}
}

// K11, C46: names that mean something to a server or a pattern mean nothing
// here, as a key and as a prefix.
func TestHostileNamesAreNamesAndNothingElse(t *testing.T) {
	t.Parallel()
	rdb := shared(t)
	outside := prefix()
	require.NoError(t, rdb.Set(t.Context(), outside, "x", time.Hour).Err())
	hostile := []string{"*", "?", "[a-z]", "\\", "^", "{", "}", "{}", "a\r\nDEL x\r\n", "\x00", "\xff", "'; redis.call('FLUSHALL')", strings.Repeat("k", 100_000)}
	for _, p := range hostile {
		b := open(t, rdb, func(o *redisstore.Options) { o.Prefix = prefix() + p })
		for _, key := range hostile {
			complete(t, b, acquire(t, b, key), key)
		}
		for _, key := range hostile {
			require.Equal(t, key, string(wants(t, b, driver.Completed, params(key)).Outcome.Value))
			page, err := b.List(t.Context(), &driver.ListParams{Prefix: key})
			require.NoError(t, err)
			for _, r := range page.Records {
				require.True(t, strings.HasPrefix(r.Key, key))
				require.Contains(t, hostile, r.Key)
			}
			require.NotEmpty(t, page.Records)
		}
		page, err := b.List(t.Context(), &driver.ListParams{})
		require.NoError(t, err)
		require.Len(t, page.Records, len(hostile))
	}
	require.Equal(t, "x", rdb.Get(t.Context(), outside).Val())
	_, err := open(t, rdb).Claim(t.Context(), params(""))
	require.ErrorIs(t, err, driver.ErrInvalidKey)
}
