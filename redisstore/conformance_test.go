package redisstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redisstore"
	"github.com/idem-go/idem/storetest"
)

// harness runs the suite over clients of one server, all with one prefix.
type harness struct {
	dial   func(tb testing.TB) redis.UniversalClient // also to look behind the backend
	prefix string
	client redis.UniversalClient // of the backend, if it is another one
}

func (h *harness) open(tb testing.TB) driver.Backend {
	tb.Helper()
	rdb := h.client
	if rdb == nil {
		rdb = h.dial(tb)
	}
	return open(tb, rdb, func(o *redisstore.Options) { o.Prefix = h.prefix })
}

func (h *harness) storetest() storetest.Harness {
	return storetest.Harness{
		New:      h.open,
		Pair:     func(tb testing.TB) (a, b driver.Backend) { tb.Helper(); return h.open(tb), h.open(tb) },
		Corrupt:  h.corrupt,
		RawBytes: h.raw,
		Unit:     time.Second,
		Rounds:   10,
		Capabilities: storetest.Capabilities{
			Checker: true, Editor: true, Lister: true, Retainer: true, Watcher: true,
		},
	}
}

// name of the Redis key that b keeps the record of key under.
func name(tb testing.TB, b driver.Backend, key string) string {
	tb.Helper()
	r, ok := driver.As[*redisstore.Backend](b)
	require.True(tb, ok)
	return r.RedisKey(key)
}

// raw is what is stored, whatever its type.
func (h *harness) raw(tb testing.TB, b driver.Backend, key string) []byte {
	tb.Helper()
	rdb := h.dial(tb)
	raw, err := rdb.Get(tb.Context(), name(tb, b, key)).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return nil
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		raw, err = rdb.Dump(tb.Context(), name(tb, b, key)).Bytes()
	}
	require.NoError(tb, err)
	return raw
}

// Where some fields are in format 1.
const (
	atVersion = 0
	atPhase   = 1
	atSettled = 39 // of a claim: the end of its lease
	atDetails = 67 // two lengths, of the details and of the value
)

func (h *harness) corrupt(tb testing.TB, b driver.Backend, key string, kind storetest.CorruptKind) bool {
	tb.Helper()
	ctx, rdb, at := tb.Context(), h.dial(tb), name(tb, b, key)
	raw, err := rdb.Get(ctx, at).Bytes()
	require.NoError(tb, err)
	switch kind {
	case storetest.Truncated:
		raw = raw[:len(raw)-1]
	case storetest.UnknownState:
		raw[atPhase] = 9
	case storetest.HigherFormat:
		raw[atVersion]++
	case storetest.Empty:
		raw = nil
	case storetest.WrongType:
		require.NoError(tb, rdb.Del(ctx, at).Err())
		require.NoError(tb, rdb.RPush(ctx, at, "x").Err())
		return true
	case storetest.MissingDeadline:
		raw = append(raw[:atSettled:atSettled], raw[atSettled+8:]...)
	case storetest.ZeroDeadline:
		binary.BigEndian.PutUint64(raw[atSettled:], 0)
	case storetest.MissingOutcome:
		gone := binary.BigEndian.Uint32(raw[atDetails:]) + binary.BigEndian.Uint32(raw[atDetails+4:])
		binary.BigEndian.PutUint64(raw[atDetails:], 0)
		raw = raw[:len(raw)-int(gone)]
	}
	require.NoError(tb, rdb.Set(ctx, at, raw, redis.KeepTTL).Err())
	return true
}

// paused calls between before the script that writes: before the first one of a
// claim that finds no record, else before the one that takes what was found.
type paused struct {
	exists  func(ctx context.Context, name string) bool
	between func()
}

func (h paused) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h paused) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h paused) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		at, ok := args[3].(string)
		switch {
		case !ok:
		case args[1] == redisstore.ScriptName("take"), args[1] == redisstore.ScriptName("claim") && !h.exists(ctx, at):
			h.between()
		}
		return next(ctx, cmd)
	}
}

func (h *harness) pause(tb testing.TB, between func()) (first, other driver.Backend) {
	tb.Helper()
	rdb := shared(tb)
	look := shared(tb)
	rdb.AddHook(paused{
		exists:  func(ctx context.Context, name string) bool { return look.Exists(ctx, name).Val() == 1 },
		between: between,
	})
	return open(tb, rdb, func(o *redisstore.Options) { o.Prefix = h.prefix }), h.open(tb)
}

func TestTheContractHoldsOverRESP3(t *testing.T) {
	t.Parallel()
	rdb := shared(t, func(o *redis.Options) { o.Protocol = 3 })
	h := &harness{prefix: prefix(), dial: func(testing.TB) redis.UniversalClient { return rdb }}
	suite := h.storetest()
	suite.Pause = h.pause
	storetest.Run(t, suite)
}

func TestTheContractHoldsOverRESP2AndARestart(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	rdb := connect(t, s.Addr(), func(o *redis.Options) { o.Protocol = 2 })
	h := &harness{prefix: prefix(), dial: func(testing.TB) redis.UniversalClient { return rdb }}
	suite := h.storetest()
	suite.Restart = func(tb testing.TB, _ driver.Backend) driver.Backend {
		tb.Helper()
		require.NoError(tb, s.Kill())
		require.NoError(tb, s.Start(tb.Context()))
		return h.open(tb)
	}
	storetest.Run(t, suite)
}

func TestTheContractHoldsBehindSentinel(t *testing.T) {
	t.Parallel()
	g := testenv.OwnRedisSentinel(t)
	for protocol, title := range map[int]string{2: "RESP2", 3: "RESP3"} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			rdb := sentinel(t, g, func(o *redis.FailoverOptions) { o.Protocol = protocol })
			h := &harness{prefix: prefix(), dial: func(testing.TB) redis.UniversalClient { return rdb }}
			storetest.Run(t, h.storetest())
		})
	}
}

func TestTheContractHoldsOnACluster(t *testing.T) {
	t.Parallel()
	c := testenv.OwnRedisCluster(t)
	for protocol, title := range map[int]string{2: "RESP2", 3: "RESP3"} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			rdb := cluster(t, c, func(o *redis.ClusterOptions) { o.Protocol = protocol })
			h := &harness{prefix: prefix(), dial: func(testing.TB) redis.UniversalClient { return rdb }}
			storetest.Run(t, h.storetest())
		})
	}
}
