package redisstore_test

import (
	"context"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/tcpproxy"
	"github.com/idem-go/idem/internal/testenv"
)

// called returns how often the server has run a command.
func called(t *testing.T, s *testenv.RedisServer, command string) int {
	t.Helper()
	info, err := s.Do(t.Context(), "INFO", "commandstats")
	require.NoError(t, err)
	text, ok := info.(string)
	require.True(t, ok)
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			digits, _, _ := strings.Cut(rest, ",")
			n, err := strconv.Atoi(digits)
			require.NoError(t, err)
			return n
		}
	}
	return 0
}

func hinted(t *testing.T, hints <-chan struct{}, what string) {
	t.Helper()
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	select {
	case <-hints:
	case <-timer.C:
		require.Fail(t, "no hint after "+what)
	}
}

// A claim that nobody waits for publishes nothing; one that somebody waits for
// publishes once, and the mark is gone.
func TestOnlyAWatchedClaimPublishes(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, testenv.RedisConfig{})
	b := open(t, connect(t, server.Addr()))
	complete(t, b, acquire(t, b, "unwatched"), "7")
	require.NoError(t, b.Release(t.Context(), acquire(t, b, "released"), &driver.ReleaseParams{Retention: kept}))
	require.Zero(t, called(t, server, "publish"))

	for what, settle := range map[string]func(ref driver.Ref) error{
		"Complete": func(ref driver.Ref) error {
			return b.Complete(t.Context(), ref, &driver.CompleteParams{Outcome: success("7"), Retention: kept})
		},
		"Release": func(ref driver.Ref) error { return b.Release(t.Context(), ref, &driver.ReleaseParams{Retention: kept}) },
		"Release held": func(ref driver.Ref) error {
			return b.Release(t.Context(), ref, &driver.ReleaseParams{Held: true, Retention: kept})
		},
		"Reset": func(ref driver.Ref) error {
			require.NoError(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: time.Millisecond, Retention: kept}))
			require.Eventually(t, func() bool {
				return b.Reset(t.Context(), ref.Key, &driver.EditParams{Token: ref.Token, Retention: kept}) == nil
			}, 10*time.Second, time.Millisecond)
			return nil
		},
	} {
		ref := acquire(t, b, what)
		ctx, cancel := context.WithCancel(t.Context())
		hints, err := b.Watch(ctx, what)
		require.NoError(t, err)
		require.Empty(t, hints, "a claim is in progress")
		before := called(t, server, "publish")
		require.NoError(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: time.Hour, Retention: kept}))
		require.NoError(t, b.Annotate(t.Context(), ref, &driver.AnnotateParams{NotExecuted: true}))
		require.Equal(t, before, called(t, server, "publish"), "the claim goes on")
		require.NoError(t, settle(ref))
		hinted(t, hints, what)
		cancel()
		after := called(t, server, "publish")
		require.NotEqual(t, before, after, what)
		rec, err := b.Inspect(t.Context(), what)
		require.NoError(t, err)
		require.NotEqual(t, driver.Claimed, rec.State)
	}
}

// A takeover passes the mark on, so that those who wait for the key learn of its
// end.
func TestATakeoverKeepsTheWatch(t *testing.T) {
	t.Parallel()
	b := open(t, shared(t))
	first := acquire(t, b, "k", lease(time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hints, err := b.Watch(ctx, "k")
	require.NoError(t, err)
	var second driver.Ref
	require.Eventually(t, func() bool {
		p := params("k")
		res, err := b.Claim(t.Context(), p)
		require.NoError(t, err)
		second = driver.Ref{Key: "k", Owner: p.Owner, Token: res.Record.Token}
		return res.Fact == driver.TakenOver
	}, 10*time.Second, time.Millisecond)
	require.Greater(t, second.Token, first.Token)
	require.Empty(t, hints)
	complete(t, b, second, "7")
	hinted(t, hints, "the successor's outcome")
}

func TestAKeyWithoutAClaimIsHintedAtOnce(t *testing.T) {
	t.Parallel()
	b := open(t, shared(t))
	complete(t, b, acquire(t, b, "done"), "7")
	for _, key := range []string{"never seen", "done"} {
		ctx, cancel := context.WithCancel(t.Context())
		hints, err := b.Watch(ctx, key)
		require.NoError(t, err)
		hinted(t, hints, "nothing to wait for")
		cancel()
	}
}

// All watches share a connection, which comes back after it was cut and hints,
// because a message may have been missed.
func TestALostConnectionHintsAndHintsGoOn(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, testenv.RedisConfig{})
	p := tcpproxy.New(t, server.Addr())
	watching := open(t, connect(t, p.Addr()))
	settling := open(t, connect(t, server.Addr()), prefixed(watching))
	one, two := acquire(t, settling, "one"), acquire(t, settling, "two")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hintsOne, err := watching.Watch(ctx, "one")
	require.NoError(t, err)
	dials := p.Dials()
	hintsTwo, err := watching.Watch(ctx, "two")
	require.NoError(t, err)
	again, err := watching.Watch(ctx, "two")
	require.NoError(t, err)
	require.Equal(t, dials, p.Dials(), "one connection for all")
	p.Cut()
	hinted(t, hintsOne, "the cut")
	hinted(t, hintsTwo, "the cut")
	hinted(t, again, "the cut")
	require.Eventually(t, func() bool { // subscribed again
		n, err := server.Do(t.Context(), "PUBSUB", "NUMSUB", watching.RedisKey("one"))
		require.NoError(t, err)
		list, _ := n.([]any)
		return len(list) == 2 && list[1] == int64(1)
	}, 20*time.Second, 10*time.Millisecond)
	drain(hintsOne, hintsTwo, again)
	complete(t, settling, one, "7")
	hinted(t, hintsOne, "Complete")
	complete(t, settling, two, "8")
	hinted(t, hintsTwo, "Complete")
	hinted(t, again, "Complete")
}

func drain(hints ...<-chan struct{}) {
	for _, h := range hints {
		select {
		case <-h:
		default:
		}
	}
}

// A13: the last watch that ends closes the connection and leaves no goroutine.
func TestTheLastWatchLeavesNothingBehind(t *testing.T) { //nolint:paralleltest // it counts goroutines
	server := testenv.OwnRedis(t, testenv.RedisConfig{})
	b := open(t, connect(t, server.Addr()))
	acquireOnce(t, b, "a")
	baseline := runtime.NumGoroutine()
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		for _, key := range []string{"a", "b", "a"} {
			acquireOnce(t, b, key)
			_, err := b.Watch(ctx, key)
			require.NoError(t, err)
		}
		cancel()
		require.Eventually(t, func() bool {
			channels, err := server.Do(t.Context(), "PUBSUB", "CHANNELS")
			require.NoError(t, err)
			list, ok := channels.([]any)
			return ok && len(list) == 0 && runtime.NumGoroutine() <= baseline+1 // the one that asks
		}, 20*time.Second, 10*time.Millisecond)
	}
}

func acquireOnce(t *testing.T, b driver.Backend, key string) {
	t.Helper()
	_, err := b.Claim(t.Context(), params(key))
	require.NoError(t, err)
}

// A user who may not subscribe is told so at once; waiting goes on by polling.
func TestWithoutTheRightToSubscribeWaitingPolls(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, testenv.RedisConfig{ACL: "user default off\nuser app on >secret ~* resetchannels +@all -subscribe"})
	rdb := connect(t, server.Addr(), func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	b := open(t, rdb)
	ref := acquire(t, b, driver.JoinKey("", "k"))
	began := time.Now()
	_, err := b.Watch(t.Context(), driver.JoinKey("", "k"))
	require.ErrorContains(t, err, "NOPERM")
	require.Less(t, time.Since(began), patience)
	s := store(t, b)
	done := make(chan error, 1)
	go func() {
		res, err := s.Execute(t.Context(), "k", func(context.Context) (idem.Result, error) { return idem.Result{}, nil }, idem.WithWait(20*time.Second))
		if err == nil && !res.Replayed {
			err = context.Canceled
		}
		done <- err
	}()
	complete(t, b, ref, "7")
	require.NoError(t, <-done)
}

// A waiter in another process is woken by the hint, long before it would poll.
func TestAWaiterIsWokenByAHint(t *testing.T) {
	t.Parallel()
	rdb := shared(t)
	here := open(t, rdb)
	there := open(t, rdb, prefixed(here))
	waiting := store(t, here)
	ref := acquire(t, there, driver.JoinKey("", "k"))
	done := make(chan error, 1)
	go func() {
		res, err := waiting.Execute(t.Context(), "k", func(context.Context) (idem.Result, error) { return idem.Result{}, nil }, idem.WithWait(30*time.Second))
		if err == nil && string(res.Value) != "7" {
			err = context.Canceled
		}
		done <- err
	}()
	require.Eventually(t, func() bool { // the mark: somebody waits
		raw, err := rdb.Get(t.Context(), here.RedisKey(ref.Key)).Bytes()
		require.NoError(t, err)
		return raw[2] == 4
	}, 20*time.Second, 5*time.Millisecond)
	complete(t, there, ref, "7")
	require.NoError(t, <-done)
}

// The connection of the hints breaks, and no new one can be opened: whoever waits
// returns when it said it would, and so does a Watch.
func TestAWatchReturnsWithItsContextWhileNoConnectionCanBeOpened(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, testenv.RedisConfig{})
	var hangs atomic.Bool
	hung, release := make(chan struct{}, 100), make(chan struct{})
	b := open(t, connect(t, server.Addr(), func(o *redis.Options) {
		o.PoolSize = 1
		dial := redis.NewDialer(o)
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if hangs.Load() {
				hung <- struct{}{}
				<-release // whatever its context says
			}
			return dial(ctx, network, addr)
		}
	}))
	s := store(t, b)
	t.Cleanup(func() { close(release) })
	for _, key := range []string{"a", "b"} {
		_, err := s.Claim(t.Context(), key, time.Hour)
		require.NoError(t, err)
	}
	_, err := b.Watch(t.Context(), driver.JoinKey("", "a"))
	require.NoError(t, err)
	hangs.Store(true)
	_, err = server.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub")
	require.NoError(t, err)
	<-hung

	done := make(chan error, 2)
	other := store(t, b)
	go func() {
		_, err := other.Execute(t.Context(), "b", func(context.Context) (idem.Result, error) { return idem.Result{}, nil }, idem.WithWait(200*time.Millisecond))
		done <- err
	}()
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := b.Watch(ctx, driver.JoinKey("", "b"))
		done <- err
	}()
	for range 2 {
		select {
		case err := <-done:
			require.Error(t, err)
		case <-time.After(patience):
			t.Fatal("it waits for a connection that does not come")
		}
	}
}
