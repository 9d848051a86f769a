package redisstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redisstore"
)

// refusedWrites checks a server that answers reads but takes no writes: those
// are refused for certain, and duplicates get their answers.
func refusedWrites(t *testing.T, b *redisstore.Backend, running driver.Ref, done string) {
	t.Helper()
	ctx := t.Context()
	_, claim := b.Claim(ctx, params("never seen"))
	for what, err := range map[string]error{
		"Claim":    claim,
		"Renew":    b.Renew(ctx, running, &driver.RenewParams{Lease: time.Hour, Retention: kept}),
		"Annotate": b.Annotate(ctx, running, &driver.AnnotateParams{Refs: []driver.ProviderRef{{Provider: "acme", Ref: "1"}}}),
		"Complete": b.Complete(ctx, running, &driver.CompleteParams{Outcome: success("x"), Retention: kept}),
		"Release":  b.Release(ctx, running, &driver.ReleaseParams{Retention: kept}),
	} {
		require.ErrorIs(t, err, driver.ErrUnavailable, what)
	}
	require.Equal(t, "7", string(wants(t, b, driver.Completed, params(done)).Outcome.Value))
	wants(t, b, driver.InProgress, params(running.Key))
	_, err := b.Inspect(ctx, "never seen")
	require.ErrorIs(t, err, driver.ErrNotFound)
}

// C05: a server that is full refuses writes. What it has, it answers; an
// operation that ran keeps its claim, and is never run again in silence.
func TestAFullServerRefusesAndAnswersDuplicates(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, testenv.RedisConfig{})
	b := open(t, connect(t, server.Addr(), noRetries))
	running := acquire(t, b, "running")
	complete(t, b, acquire(t, b, "done"), "7")
	set := func(limit string) {
		_, err := server.Do(context.WithoutCancel(t.Context()), "CONFIG", "SET", "maxmemory", limit)
		require.NoError(t, err)
	}
	set("1mb")
	refusedWrites(t, b, running, "done")
	set("0")

	s, n := store(t, b, func(o *idem.Options) {
		o.RecordTimeout = 300 * time.Millisecond
		o.OnUnknown = idem.Hold
	}), 0
	res, err := s.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
		set("1mb")
		return counted(&n)(ctx)
	})
	require.ErrorIs(t, err, idem.ErrNotRecorded)
	require.Equal(t, "7", string(res.Value))
	rec, err := b.Inspect(t.Context(), driver.JoinKey("", "k"))
	require.NoError(t, err, "the record is not deleted")
	require.Equal(t, driver.Claimed, rec.State)
	set("0")
	_, err = s.Execute(t.Context(), "k", counted(&n))
	require.ErrorIs(t, err, idem.ErrInProgress)
	ref := driver.Ref{Key: rec.Key, Owner: rec.Owner, Token: rec.Token}
	require.NoError(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: time.Millisecond, Retention: kept}))
	require.Eventually(t, func() bool { // once the lease has ended, the policy decides
		_, err := store(t, b, func(o *idem.Options) { o.OnUnknown = idem.Hold }).Execute(t.Context(), "k", counted(&n))
		return errors.Is(err, idem.ErrOutcomeUnknown)
	}, 20*time.Second, 20*time.Millisecond)
	require.Equal(t, 1, n)
}

func TestAReplicaRefusesWritesAndCheckRefusesIt(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, testenv.RedisConfig{})
	b := open(t, connect(t, server.Addr(), func(o *redis.Options) { o.MaxRetries = 1 }))
	running := acquire(t, b, "running")
	complete(t, b, acquire(t, b, "done"), "7")
	_, err := server.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1")
	require.NoError(t, err)
	refusedWrites(t, b, running, "done")
	require.ErrorContains(t, b.Check(t.Context()), "refused: replica")
	n := 0
	_, err = store(t, b).Execute(t.Context(), "k", counted(&n)) // C62
	require.ErrorContains(t, err, "connect to the primary")
	require.Zero(t, n)
}

func TestAServerWithoutItsReplicasRefuses(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, testenv.RedisConfig{})
	b := open(t, connect(t, server.Addr(), noRetries))
	running := acquire(t, b, "running")
	complete(t, b, acquire(t, b, "done"), "7")
	_, err := server.Do(t.Context(), "CONFIG", "SET", "min-replicas-to-write", 1)
	require.NoError(t, err)
	refusedWrites(t, b, running, "done")
}

// A server that loads its data answers with LOADING: that is certain, and passes.
func TestAServerThatLoadsItsDataIsWaitedFor(t *testing.T) {
	t.Parallel()
	const many = 8000 // half a millisecond each
	server := testenv.OwnRedis(t, testenv.RedisConfig{Args: []string{"--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024"}})
	rdb := connect(t, server.Addr())
	hasty := open(t, connect(t, server.Addr(), noRetries))
	b := open(t, connect(t, server.Addr(), func(o *redis.Options) {
		o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = 2000, 20*time.Millisecond, 20*time.Millisecond
	}), prefixed(hasty))
	ref := acquire(t, b, "k")
	pipe := rdb.Pipeline()
	for i := range many {
		pipe.Set(t.Context(), fmt.Sprint("filler", i), "x", 0)
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	require.NoError(t, rdb.Save(t.Context()).Err())
	require.NoError(t, server.Kill())
	started := make(chan error, 1)
	go func() { started <- server.Start(t.Context()) }()
	require.Eventually(t, func() bool {
		_, err := hasty.Claim(t.Context(), params("never seen"))
		require.ErrorIs(t, err, driver.ErrUnavailable)
		return strings.Contains(err.Error(), "LOADING")
	}, 30*time.Second, 5*time.Millisecond)
	complete(t, b, ref, "7")
	require.NoError(t, <-started)
	require.Equal(t, "7", string(wants(t, hasty, driver.Completed, params("k")).Outcome.Value))
}

// answering is a server that answers every script with the same text.
func answering(t *testing.T, text string) (addr string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c, text)
		}
	}()
	return l.Addr().String()
}

func answer(c net.Conn, text string) {
	defer func() { _ = c.Close() }()
	for in := bufio.NewReader(c); ; {
		var n, size int
		if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
			return
		}
		var args []string
		for range n {
			if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
				return
			}
			b := make([]byte, size+2)
			if _, err := io.ReadFull(in, b); err != nil {
				return
			}
			args = append(args, strings.ToLower(string(b[:size])))
		}
		reply := "-ERR unknown command\r\n"
		if args[0] == "evalsha" || args[0] == "eval" {
			reply = text
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

// Every refusal that a server can answer with says that nothing was changed.
func TestEachRefusalIsCertain(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"LOADING Redis is loading the dataset in memory", "MASTERDOWN Link with MASTER is down", "CLUSTERDOWN The cluster is down",
		"TRYAGAIN Multiple keys request during rehashing of slot", "MISCONF Redis is configured to save RDB snapshots",
		"READONLY You can't write against a read only replica.", "NOREPLICAS Not enough good replicas to write.",
		"OOM command not allowed when used memory > 'maxmemory'.", "BUSY Redis is busy running a script.", "NOAUTH Authentication required.",
		"NOPERM this user has no permissions", "ERR max number of clients reached", "ERR something new",
	} {
		b := open(t, connect(t, answering(t, "-"+text+"\r\n"), func(o *redis.Options) { o.MaxRetries = 1; o.Protocol = 2 }))
		_, err := b.Claim(t.Context(), params("a key"))
		require.ErrorIs(t, err, driver.ErrUnavailable, text)
		require.ErrorContains(t, err, strings.Fields(text)[0])
		require.NotContains(t, err.Error(), "a key")
	}
	b := open(t, connect(t, answering(t, "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"), func(o *redis.Options) { o.Protocol = 2 }))
	_, err := b.Claim(t.Context(), params("k"))
	require.ErrorIs(t, err, driver.ErrCorrupt)
}

// Replies that no script of ours makes are no answers.
func TestRepliesThatNobodyMakesAreErrors(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{"+OK\r\n", ":-1\r\n", "+1 2\r\n", "+a b c\r\n", "+1 2 \r\n", "$3\r\nabc\r\n", "*1\r\n$1\r\nx\r\n", "*2\r\n:1\r\n:2\r\n", "$-1\r\n", "*0\r\n"} {
		b := open(t, connect(t, answering(t, reply), func(o *redis.Options) { o.Protocol = 2; o.MaxRetries = -1 }))
		_, err := b.Claim(t.Context(), params("k"))
		require.Error(t, err, reply)
		require.NotErrorIs(t, err, driver.ErrNotFound, reply)
		ref := driver.Ref{Key: "k", Owner: owner(), Token: 1}
		err = b.Renew(t.Context(), ref, &driver.RenewParams{Lease: time.Hour, Retention: kept})
		require.Error(t, err, reply)
		require.Error(t, b.Reset(t.Context(), "k", &driver.EditParams{Token: 1, Retention: kept}), reply)
	}
}
