package testenv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	clusterPrimaries = 3
	clusterSlots     = 16384
)

// RedisCluster is a local cluster: three primaries, then a replica of each.
type RedisCluster struct {
	Nodes []*RedisServer
}

// StartRedisCluster starts six servers and joins them. The caller must Close
// it.
func StartRedisCluster(ctx context.Context) (_ *RedisCluster, err error) {
	c := &RedisCluster{}
	defer func() {
		if err != nil {
			_ = c.Close()
		}
	}()
	var ports []int
	for range 2 * clusterPrimaries {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		s, err := StartRedis(ctx, RedisConfig{Args: []string{
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(port), "--cluster-node-timeout", "2000",
			"--cluster-replica-validity-factor", "0", "--repl-ping-replica-period", "1",
		}})
		if err != nil {
			return nil, err
		}
		c.Nodes, ports = append(c.Nodes, s), append(ports, port)
	}
	if err := c.meet(ctx, ports); err != nil {
		return nil, err
	}
	if err := c.replicate(ctx); err != nil {
		return nil, err
	}
	return c, c.calm(ctx)
}

// calm keeps a machine that stalls from being taken for a failure. To meet, nodes
// need a short time-out.
func (c *RedisCluster) calm(ctx context.Context) error {
	for _, s := range c.Nodes {
		if _, err := s.Do(ctx, "CONFIG", "SET", "cluster-node-timeout", 60_000); err != nil {
			return err
		}
	}
	return nil
}

// meet gives each primary a third of the slots, and introduces everybody to the
// first node.
func (c *RedisCluster) meet(ctx context.Context, ports []int) error {
	for i, s := range c.Nodes {
		if _, err := s.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
			return err
		}
		if i < clusterPrimaries {
			from, to := i*clusterSlots/clusterPrimaries, (i+1)*clusterSlots/clusterPrimaries-1
			if _, err := s.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", from, to); err != nil {
				return err
			}
		}
		if i > 0 {
			if _, err := s.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].port, ports[0]); err != nil {
				return err
			}
		}
	}
	return c.all(ctx, func(info string) bool {
		return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", len(c.Nodes)))
	}, "CLUSTER", "INFO")
}

// replicate makes the second half replicas of the first, and waits until they
// follow.
func (c *RedisCluster) replicate(ctx context.Context) error {
	for i, s := range c.Nodes[clusterPrimaries:] {
		id, err := c.Nodes[i].Do(ctx, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		// The primary may not have been heard of yet.
		err = every(ctx, 20*time.Millisecond, time.Minute, func(ctx context.Context) error {
			_, err := s.Do(ctx, "CLUSTER", "REPLICATE", id)
			return err
		})
		if err != nil {
			return err
		}
	}
	err := c.all(ctx, func(info string) bool {
		return strings.Contains(info, "master_link_status:up") || strings.Contains(info, "connected_slaves:1")
	}, "INFO", "replication")
	if err != nil {
		return err
	}
	// A replica is listed once its offset is known.
	return c.all(ctx, func(slots string) bool { return strings.Count(slots, "127.0.0.1") == len(c.Nodes) }, "CLUSTER", "SLOTS")
}

// all waits until every node answers the command with what is good.
func (c *RedisCluster) all(ctx context.Context, good func(answer string) bool, args ...any) error {
	for _, s := range c.Nodes {
		err := every(ctx, 20*time.Millisecond, time.Minute, func(ctx context.Context) error {
			answer, err := s.Do(ctx, args...)
			if text := fmt.Sprint(answer); err != nil || !good(text) {
				return fmt.Errorf("%v: %w\n%s", args, errors.Join(err, errors.New("not yet")), text)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Addrs returns the addresses of all nodes.
func (c *RedisCluster) Addrs() []string {
	var out []string
	for _, s := range c.Nodes {
		out = append(out, s.Addr())
	}
	return out
}

// Close ends all nodes at once and removes their folders.
func (c *RedisCluster) Close() error { return closeAll(c.Nodes) }

func closeAll(servers []*RedisServer) error {
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
