package redisstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
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

func noRetries(o *redis.Options) { o.MaxRetries = -1 }

// store returns a Store over b that tells nobody anything.
func store(t *testing.T, b driver.Backend, change ...func(*idem.Options)) *idem.Store {
	t.Helper()
	opts := &idem.Options{Retention: kept, Observer: idem.Discard, StoreTimeout: patience, RecordTimeout: patience}
	for _, f := range change {
		f(opts)
	}
	s, err := idem.New(b, opts)
	require.NoError(t, err)
	return s
}

// counted returns an operation that counts its runs and returns "7".
func counted(n *int) idem.Op {
	return func(context.Context) (idem.Result, error) {
		*n++
		return idem.Result{Value: []byte("7")}, nil
	}
}

// step is a call that changes a record, and what must be true once it was made
// exactly once.
type step struct {
	name    string
	script  string // that writes
	prepare func(t *testing.T, b *redisstore.Backend, key string) driver.Ref
	call    func(ctx context.Context, b *redisstore.Backend, ref driver.Ref) error
	made    func(t *testing.T, before, after *driver.Record)
}

func claimOf(ref driver.Ref) *driver.ClaimParams {
	return &driver.ClaimParams{Key: ref.Key, Owner: ref.Owner, Lease: time.Hour, Retention: kept, Take: takeAll}
}

// acquired is a claim that must be found to be its own.
func acquired(ctx context.Context, b *redisstore.Backend, ref driver.Ref) error {
	res, err := b.Claim(ctx, claimOf(ref))
	if err == nil && res.Fact != driver.Acquired && res.Fact != driver.TakenOver {
		err = fmt.Errorf("the claim found %v", res.Fact)
	}
	return err
}

func steps() []step {
	free := func(_ *testing.T, _ *redisstore.Backend, key string) driver.Ref {
		return driver.Ref{Key: key, Owner: owner()}
	}
	held := func(t *testing.T, b *redisstore.Backend, key string) driver.Ref {
		t.Helper()
		return acquire(t, b, key)
	}
	done := func(t *testing.T, b *redisstore.Backend, key string) driver.Ref {
		t.Helper()
		ref := acquire(t, b, key)
		complete(t, b, ref, "a secret")
		return ref
	}
	edit := func(ref driver.Ref) *driver.EditParams {
		return &driver.EditParams{Token: ref.Token, Audit: driver.Audit{By: "olga", Why: "ticket"}, Retention: kept}
	}
	return []step{
		{"Claim", "claim", free, acquired, func(t *testing.T, _, after *driver.Record) { require.Equal(t, 1, after.Attempt) }},
		{
			"Claim that takes over", "take", func(t *testing.T, b *redisstore.Backend, key string) driver.Ref {
				require.NoError(t, b.Release(t.Context(), acquire(t, b, key), &driver.ReleaseParams{Doubt: true, Retention: kept}))
				return driver.Ref{Key: key, Owner: owner()}
			},
			acquired, func(t *testing.T, _, after *driver.Record) { require.Equal(t, 2, after.Attempt) },
		},
		{"Renew", "renew", held, func(ctx context.Context, b *redisstore.Backend, ref driver.Ref) error {
			return b.Renew(ctx, ref, &driver.RenewParams{Lease: 2 * time.Hour, Retention: kept})
		}, func(t *testing.T, _, after *driver.Record) { require.Greater(t, after.LeaseLeft, 90*time.Minute) }},
		{"Annotate", "annotate", held, func(ctx context.Context, b *redisstore.Backend, ref driver.Ref) error {
			return b.Annotate(ctx, ref, &driver.AnnotateParams{Refs: []driver.ProviderRef{{Provider: "acme", Ref: "1"}}})
		}, func(t *testing.T, _, after *driver.Record) { require.Len(t, after.Refs, 1) }},
		{"Complete", "complete", held, func(ctx context.Context, b *redisstore.Backend, ref driver.Ref) error {
			return b.Complete(ctx, ref, &driver.CompleteParams{Outcome: success("done"), Retention: kept})
		}, func(t *testing.T, _, after *driver.Record) {
			require.Equal(t, success("done"), after.Outcome)
			require.EqualValues(t, 1, after.Revision)
		}},
		{"Release", "release", held, func(ctx context.Context, b *redisstore.Backend, ref driver.Ref) error {
			return b.Release(ctx, ref, &driver.ReleaseParams{Retention: kept})
		}, func(t *testing.T, _, after *driver.Record) { require.Equal(t, driver.Released, after.State) }},
		{"Redact", "redact", done, func(ctx context.Context, b *redisstore.Backend, ref driver.Ref) error {
			return b.Redact(ctx, ref.Key, edit(ref))
		}, func(t *testing.T, _, after *driver.Record) { require.EqualValues(t, 2, after.Revision) }},
		{"Reset", "reset", done, func(ctx context.Context, b *redisstore.Backend, ref driver.Ref) error {
			return b.Reset(ctx, ref.Key, edit(ref))
		}, func(t *testing.T, before, after *driver.Record) {
			require.Equal(t, driver.Released, after.State)
			require.Greater(t, after.Token, before.Token)
		}},
	}
}

// C14, I6: the client repeats a command whose reply was lost, and finds itself.
func TestACallWhoseReplyIsLostIsRepeatedAndFindsItself(t *testing.T) {
	t.Parallel()
	b, p, _ := behind(t)
	for _, s := range steps() {
		ref := s.prepare(t, b, s.name)
		before, _ := b.Inspect(t.Context(), s.name)
		lost := p.LoseReply(redisstore.ScriptName(s.script))
		require.NoError(t, s.call(t.Context(), b, ref), s.name)
		<-lost
		after, err := b.Inspect(t.Context(), s.name)
		require.NoError(t, err)
		s.made(t, before, after)
	}
}

// I8: an error after which a call may have been applied matches no sentinel, and
// the call can be repeated by the caller.
func TestACallWhoseReplyIsLostForGoodIsNeverSaidToHaveChangedNothing(t *testing.T) {
	t.Parallel()
	b, p, _ := behind(t, noRetries)
	for _, s := range steps() {
		ref := s.prepare(t, b, s.name)
		before, _ := b.Inspect(t.Context(), s.name)
		lost := p.LoseReply(redisstore.ScriptName(s.script))
		err := s.call(t.Context(), b, ref)
		<-lost
		require.Error(t, err, s.name)
		require.False(t, driver.NoEffect(err), "%s was applied, and says %v", s.name, err)
		if s.name != "Reset" { // which is a compare-and-set: its caller looks
			require.NoError(t, s.call(t.Context(), b, ref), s.name)
		}
		after, err := b.Inspect(t.Context(), s.name)
		require.NoError(t, err)
		s.made(t, before, after)
	}
}

// I8: after a reply was lost, a refusal of the repetition does not say that
// nothing happened.
func TestARefusalAfterALostReplyIsNoPromise(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{})
	p := tcpproxy.New(t, s.Addr())
	b := open(t, connect(t, p.Addr(), func(o *redis.Options) {
		o.MinRetryBackoff = 300 * time.Millisecond
		o.MaxRetryBackoff = 300 * time.Millisecond
	}))
	warm(t, b)
	lost := p.LoseReply(redisstore.ScriptName("claim"))
	full := make(chan error, 1)
	go func() { // between the two tries
		<-lost
		_, err := s.Do(context.WithoutCancel(t.Context()), "REPLICAOF", "127.0.0.1", "1")
		full <- err
	}()
	ref := driver.Ref{Key: "k", Owner: owner()}
	err := acquired(t.Context(), b, ref)
	require.NoError(t, <-full)
	if err != nil { // the copy was refused by what is a replica now, or found itself there
		require.False(t, driver.NoEffect(err), "%v", err)
	}
	_, err = s.Do(t.Context(), "REPLICAOF", "NO", "ONE")
	require.NoError(t, err)
	require.NoError(t, acquired(t.Context(), b, ref))
}

// A request that was never forwarded is repeated too.
func TestACallWhoseRequestIsLostIsRepeated(t *testing.T) {
	t.Parallel()
	b, p, _ := behind(t)
	for _, s := range steps() {
		ref := s.prepare(t, b, s.name)
		before, _ := b.Inspect(t.Context(), s.name)
		lost := p.LoseRequest(redisstore.ScriptName(s.script))
		require.NoError(t, s.call(t.Context(), b, ref), s.name)
		<-lost
		after, err := b.Inspect(t.Context(), s.name)
		require.NoError(t, err)
		s.made(t, before, after)
	}
}

// C14: the same through Execute, with the client's defaults and without retries
// of its own: executed once, never in progress against itself.
func TestExecuteSurvivesALostReply(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claim", "complete"} {
		for title, change := range map[string]func(*redis.Options){"defaults": func(*redis.Options) {}, "no retries": noRetries} {
			b, p, _ := behind(t, change)
			s, n := store(t, b), 0
			lost := p.LoseReply(redisstore.ScriptName(name))
			res, err := s.Execute(t.Context(), "k", counted(&n))
			require.NoError(t, err, "%s, %s", name, title)
			<-lost
			require.Equal(t, "7", string(res.Value))
			res, err = s.Execute(t.Context(), "k", counted(&n))
			require.NoError(t, err)
			require.True(t, res.Replayed)
			require.Equal(t, 1, n)
		}
	}
}

// C26: a context's deadline bounds a call to a server that does not answer, and
// the claim that may have been made does not stay in the way.
func TestADeadlineBoundsACallToAServerThatStalls(t *testing.T) {
	t.Parallel()
	b, _, server := behind(t)
	s, n := store(t, b), 0
	_, err := s.Execute(t.Context(), "warm up", counted(&n))
	require.NoError(t, err)
	for pause := 3 * time.Second; ; pause *= 2 {
		began := time.Now()
		_, err = server.Do(t.Context(), "CLIENT", "PAUSE", pause.Milliseconds(), "ALL")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = s.Execute(ctx, "k", counted(&n))
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, n)
		if time.Since(began) < pause { // else this machine is too slow to tell
			break
		}
		require.Less(t, pause, time.Minute, "the call outlives its deadline")
	}
	require.Eventually(t, func() bool { // at worst in progress until the abandoned claim was released
		_, err := s.Execute(t.Context(), "k", counted(&n))
		return err == nil
	}, 10*time.Second, 50*time.Millisecond)
	require.Equal(t, 2, n)
}

// A deadline says so, whoever noticed it first: the context, or the connection.
func TestADeadlineIsTheErrorsCause(t *testing.T) {
	t.Parallel()
	b, p, _ := behind(t)
	ref := acquire(t, b, "k")
	p.Stall()
	defer p.Resume()
	for i := range 5 {
		timeout := 20 * time.Millisecond
		if i == 0 {
			timeout = 2 * time.Second // it is sent by then
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		err := b.Renew(ctx, ref, &driver.RenewParams{Lease: time.Hour, Retention: kept})
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		// Later calls need a new connection, whose greeting stalls: they are not sent.
		require.Equal(t, i > 0, driver.NoEffect(err))
	}
	ended, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the caller left")
	cancel(why)
	err := b.Renew(ended, ref, &driver.RenewParams{Lease: time.Hour, Retention: kept})
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, driver.ErrUnavailable, "nothing was sent")
}

// Connections that were cut between two calls cost nothing but new ones.
func TestCutConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	b, p, _ := behind(t)
	ref := acquire(t, b, "k")
	for range 3 {
		p.Cut()
		require.NoError(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: time.Hour, Retention: kept}))
	}
	p.Cut()
	complete(t, b, ref, "done")
}

// C50: scripts that the server has forgotten come back, also within an operation
// and in a pipeline.
func TestScriptsThatWereFlushedComeBack(t *testing.T) {
	t.Parallel()
	b, _, server := behind(t)
	flush := func() {
		_, err := server.Do(context.WithoutCancel(t.Context()), "SCRIPT", "FLUSH")
		require.NoError(t, err)
	}
	s, n := store(t, b, func(o *idem.Options) { o.RenewEvery = 20 * time.Millisecond }), 0
	ends := func(key string) uint64 { return leaseEnd(t, b, server, driver.JoinKey("", key)) }
	for _, key := range []string{"k1", "k2"} {
		flush()
		_, err := s.Execute(t.Context(), key, func(ctx context.Context) (idem.Result, error) {
			for range 3 { // between two renewals each
				flush()
				before := ends(key)
				require.Eventually(t, func() bool { return ends(key) > before }, 20*time.Second, 5*time.Millisecond, "renewals go on")
			}
			return counted(&n)(ctx)
		})
		require.NoError(t, err)
	}
	require.Equal(t, 2, n)
	flush()
	page, err := b.List(t.Context(), &driver.ListParams{})
	require.NoError(t, err)
	require.Len(t, page.Records, 3, "two, and one from before")
	for _, st := range steps() {
		ref := st.prepare(t, b, st.name)
		before, _ := b.Inspect(t.Context(), st.name)
		flush()
		require.NoError(t, st.call(t.Context(), b, ref), st.name)
		after, err := b.Inspect(t.Context(), st.name)
		require.NoError(t, err)
		st.made(t, before, after)
	}
	require.NoError(t, server.Kill())
	require.NoError(t, server.Start(t.Context())) // with nothing
	res, err := s.Execute(t.Context(), "k1", counted(&n))
	require.NoError(t, err)
	require.False(t, res.Replayed)
	res, err = s.Execute(t.Context(), "k1", counted(&n))
	require.NoError(t, err)
	require.True(t, res.Replayed)
}

// leaseEnd is when the lease of a claim ends, by the server's clock.
func leaseEnd(t *testing.T, b *redisstore.Backend, server *testenv.RedisServer, key string) uint64 {
	t.Helper()
	raw, err := server.Do(t.Context(), "GET", b.RedisKey(key))
	require.NoError(t, err)
	text, ok := raw.(string)
	require.True(t, ok)
	return binary.BigEndian.Uint64([]byte(text[atSettled:]))
}

// A server that cannot be reached has certainly done nothing.
func TestAServerThatCannotBeReachedIsUnavailable(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{})
	b := open(t, connect(t, s.Addr(), func(o *redis.Options) { o.MaxRetries = 1 }))
	ref := acquire(t, b, "k")
	require.NoError(t, s.Kill())
	for _, st := range steps() {
		require.ErrorIs(t, st.call(t.Context(), b, ref), driver.ErrUnavailable, st.name)
	}
	n := 0
	_, err := store(t, b).Execute(t.Context(), "k2", counted(&n))
	require.ErrorIs(t, err, idem.ErrUnavailable)
	require.Zero(t, n)
}

// With "appendfsync always", what was acknowledged is there after a crash.
func TestWhatWasAcknowledgedSurvivesAKilledServer(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	b := open(t, connect(t, s.Addr()))
	running, held, done := acquire(t, b, "running"), acquire(t, b, "held"), acquire(t, b, "done")
	require.NoError(t, b.Release(t.Context(), held, &driver.ReleaseParams{Held: true, Retention: kept}))
	complete(t, b, done, "7")
	for range 3 {
		require.NoError(t, s.Kill())
		require.NoError(t, s.Start(t.Context()))
		wants(t, b, driver.InProgress, params("running"))
		wants(t, b, driver.Held, params("held", func(p *driver.ClaimParams) { p.Take = takeAll &^ driver.TakeHeld }))
		require.Equal(t, "7", string(wants(t, b, driver.Completed, params("done")).Outcome.Value))
		require.Greater(t, acquire(t, b, testenv.Random(8)).Token, done.Token)
	}
	complete(t, b, running, "after the crash")
}

// reliability.md 2.6: whatever is cut off the end of the append-only file, what
// was acknowledged before is whole, and nothing is half there.
func TestACutAppendOnlyFileLosesNothingThatWasSyncedBefore(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{Args: []string{"--appendonly", "yes", "--appendfsync", "always", "--aof-load-truncated", "yes"}})
	b := open(t, connect(t, s.Addr()))
	complete(t, b, acquire(t, b, "before"), "7")
	before := len(readFile(t, s))
	complete(t, b, acquire(t, b, "after"), "8")
	require.NoError(t, s.Kill())
	file, err := s.AppendOnlyFile()
	require.NoError(t, err)
	whole := readFile(t, s)
	for end := before; end < len(whole); end += (len(whole) - before) / 8 {
		require.NoError(t, os.WriteFile(file, whole[:end], 0o600))
		require.NoError(t, s.Start(t.Context()))
		require.Equal(t, "7", string(wants(t, b, driver.Completed, params("before")).Outcome.Value))
		res, err := b.Claim(t.Context(), params("after", func(p *driver.ClaimParams) { p.Take = 0 }))
		if !errors.Is(err, driver.ErrNotFound) {
			require.NoError(t, err)
			require.Contains(t, []driver.Fact{driver.Completed, driver.InProgress}, res.Fact)
		}
		require.NoError(t, s.Kill())
	}
}

func readFile(t *testing.T, s *testenv.RedisServer) []byte {
	t.Helper()
	file, err := s.AppendOnlyFile()
	require.NoError(t, err)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	return b
}
