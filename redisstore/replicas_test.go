package redisstore_test

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redisstore"
)

func port(t *testing.T, s *testenv.RedisServer) string {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr())
	require.NoError(t, err)
	return port
}

// withReplica starts a primary and a replica that follows it.
func withReplica(t *testing.T) (primary, replica *testenv.RedisServer) {
	t.Helper()
	primary = testenv.OwnRedis(t, testenv.RedisConfig{})
	replica = testenv.OwnRedis(t, testenv.RedisConfig{Args: []string{"--replicaof", "127.0.0.1 " + port(t, primary)}})
	rdb := connect(t, primary.Addr())
	require.Eventually(t, func() bool { return rdb.Wait(t.Context(), 1, time.Second).Val() == 1 }, 20*time.Second, 50*time.Millisecond)
	return primary, replica
}

func awaiting(n int, timeout time.Duration) func(*redisstore.Options) {
	return func(o *redisstore.Options) { o.MinReplicas, o.ReplicaTimeout = n, timeout }
}

func TestWithMinReplicasACallSaysThatReplicasHaveIt(t *testing.T) {
	t.Parallel()
	primary, replica := withReplica(t)
	b := open(t, connect(t, primary.Addr()), awaiting(1, patience/2))
	copied := connect(t, replica.Addr())
	for i := range 50 {
		key := strconv.Itoa(i)
		ref := acquire(t, b, key)
		raw, err := copied.Get(t.Context(), b.RedisKey(key)).Bytes()
		require.NoError(t, err, "the claim")
		require.EqualValues(t, 1, raw[atPhase])
		complete(t, b, ref, "7")
		raw, err = copied.Get(t.Context(), b.RedisKey(key)).Bytes()
		require.NoError(t, err, "the outcome")
		require.EqualValues(t, 3, raw[atPhase])
	}
}

// A change that no replica acknowledges is made, and not acknowledged; repeating
// it waits again, although there is nothing left to write.
func TestWithoutAcknowledgementACallIsNotSaidToBeMade(t *testing.T) {
	t.Parallel()
	primary, replica := withReplica(t)
	b := open(t, connect(t, primary.Addr()), awaiting(1, 100*time.Millisecond))
	hasty := open(t, connect(t, primary.Addr()), prefixed(b))
	held, done := acquire(t, hasty, "held"), acquire(t, hasty, "done")
	require.NoError(t, replica.Freeze())
	fresh := driver.Ref{Key: "fresh", Owner: owner()}
	calls := map[string]func() error{
		"Claim": func() error { return acquired(t.Context(), b, fresh) },
		"Renew": func() error {
			return b.Renew(t.Context(), held, &driver.RenewParams{Lease: time.Hour, Retention: kept})
		},
		"Complete": func() error {
			return b.Complete(t.Context(), done, &driver.CompleteParams{Outcome: success("7"), Retention: kept})
		},
	}
	for range 2 {
		for what, call := range calls {
			err := call()
			require.ErrorContains(t, err, "MinReplicas", what)
			require.False(t, driver.NoEffect(err), what)
		}
	}
	require.Equal(t, "7", string(wants(t, b, driver.Completed, params("done")).Outcome.Value), "a duplicate is answered all the same")
	require.NoError(t, replica.Thaw())
	for what, call := range calls {
		require.Eventually(t, func() bool { return call() == nil }, 20*time.Second, 20*time.Millisecond, what)
	}
}

func TestExecuteWithoutAcknowledgementSaysThatItIsNotRecorded(t *testing.T) {
	t.Parallel()
	primary, replica := withReplica(t)
	b := open(t, connect(t, primary.Addr()), awaiting(1, patience/2))
	s, n := store(t, b, func(o *idem.Options) { o.RecordTimeout = 1500 * time.Millisecond }), 0
	res, err := s.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
		require.NoError(t, replica.Freeze())
		return counted(&n)(ctx)
	})
	require.ErrorIs(t, err, idem.ErrNotRecorded)
	require.Equal(t, "7", string(res.Value))
	require.NoError(t, replica.Thaw())
	res, err = s.Execute(t.Context(), "k", counted(&n))
	require.NoError(t, err)
	require.True(t, res.Replayed)
	require.Equal(t, 1, n)
}

// The primary is killed before its replica has what was acknowledged: the loss
// is there to be seen (reliability.md 2.6), and tokens rise all the same (I2).
func TestAFailoverLosesWhatNoReplicaHadAndTokensStillRise(t *testing.T) {
	t.Parallel()
	primary, replica := withReplica(t)
	b := open(t, connect(t, primary.Addr()))
	early := acquire(t, b, "early")
	complete(t, b, early, "7")
	acquire(t, open(t, connect(t, primary.Addr()), awaiting(1, patience/2)), "everything before has arrived too")
	require.NoError(t, replica.Freeze())
	late := acquire(t, b, "late")
	complete(t, b, late, "8")
	require.NoError(t, primary.Kill())
	require.NoError(t, replica.Thaw())
	_, err := replica.Do(t.Context(), "REPLICAOF", "NO", "ONE")
	require.NoError(t, err)
	after, err := redisstore.New(connect(t, replica.Addr()), &redisstore.Options{Prefix: prefixOf(b)})
	require.NoError(t, err)
	require.Equal(t, "7", string(wants(t, after, driver.Completed, params("early")).Outcome.Value))
	// What the replica read from its socket before it froze may have arrived.
	res, err := after.Claim(t.Context(), params("late"))
	require.NoError(t, err)
	if res.Fact == driver.Acquired {
		require.Greater(t, res.Record.Token, late.Token)
	}
	require.NoError(t, after.Reset(t.Context(), "early", &driver.EditParams{Token: early.Token, Retention: kept}))
	require.Greater(t, acquire(t, after, "early").Token, early.Token)
}
