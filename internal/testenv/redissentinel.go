package testenv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// RedisSentinelName is the name under which sentinels know the primary.
const RedisSentinelName = "idem"

// RedisSentinel is a primary with two replicas, watched by three sentinels.
type RedisSentinel struct {
	// Servers: the first is the primary until a failover.
	Servers   []*RedisServer
	Sentinels []*RedisServer
}

// StartRedisSentinel starts six processes and waits until they know each other.
// The caller must Close it.
func StartRedisSentinel(ctx context.Context) (_ *RedisSentinel, err error) {
	g := &RedisSentinel{}
	defer func() {
		if err != nil {
			_ = g.Close()
		}
	}()
	for i := range 3 {
		var args []string
		if i > 0 {
			args = []string{"--replicaof", "127.0.0.1 " + strconv.Itoa(g.Servers[0].port)}
		}
		s, err := StartRedis(ctx, RedisConfig{Args: append(args, "--repl-ping-replica-period", "1")})
		if err != nil {
			return nil, err
		}
		g.Servers = append(g.Servers, s)
	}
	for range 3 {
		s, err := StartRedis(ctx, RedisConfig{sentinel: fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\n"+
			"sentinel down-after-milliseconds %[1]s 60000\nsentinel failover-timeout %[1]s 10000\n", RedisSentinelName, g.Servers[0].port)})
		if err != nil {
			return nil, err
		}
		g.Sentinels = append(g.Sentinels, s)
	}
	return g, g.ready(ctx)
}

// ready waits until every sentinel knows the others and both replicas.
func (g *RedisSentinel) ready(ctx context.Context) error {
	for _, s := range g.Sentinels {
		err := every(ctx, 50*time.Millisecond, 2*time.Minute, func(ctx context.Context) error {
			answer, err := s.Do(ctx, "SENTINEL", "MASTER", RedisSentinelName)
			fields, _ := answer.([]any)
			known := map[any]any{}
			for i := 0; i+1 < len(fields); i += 2 {
				known[fields[i]] = fields[i+1]
			}
			if known["num-slaves"] != "2" || known["num-other-sentinels"] != "2" || known["flags"] != "master" {
				return errors.Join(err, errors.New("a sentinel does not know everybody yet"))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ExpectFailure makes the sentinels take a server for dead after a second of
// silence. Before, they wait for a minute, so that a machine that stalls is no
// failover that no test asked for.
func (g *RedisSentinel) ExpectFailure(ctx context.Context) error {
	var errs []error
	for _, s := range g.Sentinels {
		_, err := s.Do(ctx, "SENTINEL", "SET", RedisSentinelName, "down-after-milliseconds", 1000)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Addrs returns the addresses of the sentinels.
func (g *RedisSentinel) Addrs() []string {
	var out []string
	for _, s := range g.Sentinels {
		out = append(out, s.Addr())
	}
	return out
}

// Close ends all processes at once and removes their folders.
func (g *RedisSentinel) Close() error {
	return errors.Join(closeAll(g.Sentinels), closeAll(g.Servers))
}
