package redisstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/corecases"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redisstore"
)

// C01, C02, C05, C07, C08, C10, C13, C14, C17, C25, C28, C31, C32, C34, C46, C53,
// C55, C56, C58, C61: the cases that say nothing about a backend.
func TestTheCasesFromTheFieldHold(t *testing.T) {
	t.Parallel()
	for title, dial := range map[string]func() redis.UniversalClient{
		"one server": func() redis.UniversalClient { return shared(t) },
		"a cluster":  func() redis.UniversalClient { return cluster(t, testenv.OwnRedisCluster(t)) },
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			rdb := dial()
			h := &harness{prefix: prefix(), dial: func(testing.TB) redis.UniversalClient { return rdb }}
			corecases.Run(t, h.storetest())
		})
	}
}

// crashEnv makes this test program a process that claims a key and waits to be
// killed: it has the address of the server and the prefix.
const (
	crashEnv       = "IDEM_TEST_CRASH_ADDR"
	crashPrefixEnv = "IDEM_TEST_CRASH_PREFIX"
)

// crash executes the key "k", and says so once it runs.
func crash() error {
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv(crashEnv), ContextTimeoutEnabled: true})
	b, err := redisstore.New(rdb, &redisstore.Options{Prefix: os.Getenv(crashPrefixEnv)})
	if err != nil {
		return err
	}
	s, err := idem.New(b, &idem.Options{Retention: kept, Lease: time.Hour})
	if err != nil {
		return err
	}
	_, err = s.Execute(context.Background(), "k", func(ctx context.Context) (idem.Result, error) {
		fmt.Println("running")
		<-ctx.Done()
		return idem.Result{}, ctx.Err()
	})
	return err
}

// C13: a process is killed inside its operation. Its key is in progress until the
// lease ends, not for a retention, and then the policy decides.
func TestAKilledProcessBlocksItsKeyForTheLeaseOnly(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, testenv.RedisConfig{})
	b := open(t, connect(t, server.Addr()))
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), crashEnv+"="+server.Addr(), crashPrefixEnv+"="+prefixOf(b))
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "running\n", line)
	require.NoError(t, child.Process.Kill())
	_, _ = io.Copy(io.Discard, out)
	require.Error(t, child.Wait())

	hold := func(o *idem.Options) { o.OnUnknown = idem.Hold }
	key, n := driver.JoinKey("", "k"), 0
	for _, s := range []*idem.Store{store(t, b), store(t, b, hold)} {
		_, err := s.Execute(t.Context(), "k", counted(&n))
		var busy *idem.InProgressError
		require.ErrorAs(t, err, &busy)
		require.LessOrEqual(t, busy.LeaseLeft, time.Hour)
	}
	dead, err := b.Inspect(t.Context(), key)
	require.NoError(t, err)
	ref := driver.Ref{Key: key, Owner: dead.Owner, Token: dead.Token}
	require.NoError(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: time.Millisecond, Retention: kept}))
	require.Eventually(t, func() bool {
		_, err := store(t, b, hold).Execute(t.Context(), "k", counted(&n))
		return errors.Is(err, idem.ErrOutcomeUnknown)
	}, 20*time.Second, 5*time.Millisecond)
	require.Zero(t, n)
	res, err := store(t, b).Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
		claim, ok := idem.ClaimFrom(ctx)
		require.True(t, ok)
		require.True(t, claim.Takeover())
		require.Equal(t, 2, claim.Attempt())
		require.Greater(t, claim.Token(), dead.Token)
		return counted(&n)(ctx)
	})
	require.NoError(t, err)
	require.False(t, res.Replayed)
	require.Equal(t, 1, n)
}

// C16: no connection is held while an operation runs, so operations may use the
// same small pool.
func TestOperationsMayUseTheSamePool(t *testing.T) {
	t.Parallel()
	rdb := shared(t, func(o *redis.Options) { o.PoolSize, o.PoolTimeout = 2, 20*time.Second })
	b := open(t, rdb)
	s := store(t, b, func(o *idem.Options) { o.RenewEvery, o.StoreTimeout = 10*time.Millisecond, 20*time.Second })
	const calls = 8
	var inside, ran atomic.Int32
	var wg sync.WaitGroup
	all := make(chan struct{})
	for i := range calls {
		wg.Go(func() {
			_, err := s.Execute(t.Context(), fmt.Sprint(i), func(ctx context.Context) (idem.Result, error) {
				if inside.Add(1) == calls {
					close(all)
				}
				<-all // every operation runs, and no claim waits for a connection
				for range 3 {
					if err := rdb.Ping(ctx).Err(); err != nil {
						return idem.Result{}, err
					}
				}
				ran.Add(1)
				return idem.Result{}, nil
			})
			if err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, calls, ran.Load())
}

// C40: what has ended is removed by the server, bit by bit, while calls go on;
// there is nothing to purge.
func TestWhatHasEndedIsRemovedByTheServer(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t, testenv.RedisConfig{})
	rdb := connect(t, server.Addr())
	b := open(t, rdb)
	live := acquire(t, b, "live")
	const many = 3000
	for i := range many {
		ref := acquire(t, b, fmt.Sprint(i))
		require.NoError(t, b.Complete(t.Context(), ref, &driver.CompleteParams{Outcome: success("7"), Retention: time.Millisecond}))
	}
	require.Eventually(t, func() bool {
		require.NoError(t, b.Renew(t.Context(), live, &driver.RenewParams{Lease: time.Hour, Retention: kept}))
		return rdb.DBSize(t.Context()).Val() == 1
	}, 60*time.Second, 10*time.Millisecond)
	wants(t, b, driver.InProgress, params("live"))
	complete(t, b, live, "7")
}
