package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// What is needed of go-redis's clients. Types that embed one of them qualify.
type (
	singleClient interface{ Options() *redis.Options }
	ringClient   interface{ Options() *redis.RingOptions }

	clusterClient interface {
		Options() *redis.ClusterOptions
		ForEachMaster(ctx context.Context, fn func(ctx context.Context, node *redis.Client) error) error
		MasterForKey(ctx context.Context, key string) (*redis.Client, error)
		ReloadState(ctx context.Context)
	}
)

// client is a go-redis client of a kind that is known.
type client struct {
	rdb     redis.UniversalClient
	cluster clusterClient // nil: one server, or one primary behind sentinels
	// replicas: the Cluster's client reads from replicas where it can, which is
	// everywhere but in scripts.
	replicas bool

	// What the client's own options say about repeating a command.
	tries      int
	minBackoff time.Duration
	maxBackoff time.Duration

	readTimeout time.Duration
}

var errContextTimeout = errors.New("redisstore: the client's ContextTimeoutEnabled is false: a call would outlive the deadline of its context (C26); " +
	"set ContextTimeoutEnabled: true in the client's options")

func newClient(rdb redis.UniversalClient) (*client, error) {
	c := &client{rdb: rdb}
	switch r := rdb.(type) {
	case nil:
		return nil, errors.New("redisstore: the client is nil")
	case ringClient:
		return nil, errors.New("redisstore: a Ring cannot be used: when one of its servers fails, its keys move to others, " +
			"where nothing is known of what runs or was recorded, so that operations would run again; use Sentinel or Cluster")
	case singleClient:
		o := r.Options()
		if !o.ContextTimeoutEnabled {
			return nil, errContextTimeout
		}
		c.tries = 1 + max(0, o.MaxRetries)
		c.minBackoff, c.maxBackoff, c.readTimeout = o.MinRetryBackoff, o.MaxRetryBackoff, o.ReadTimeout
	case clusterClient:
		o := r.Options()
		if !o.ContextTimeoutEnabled {
			return nil, errContextTimeout
		}
		c.cluster, c.replicas = r, o.ReadOnly || o.RouteByLatency || o.RouteRandomly
		c.tries = 1 + max(0, o.MaxRedirects)
		c.minBackoff, c.maxBackoff, c.readTimeout = o.MinRetryBackoff, o.MaxRetryBackoff, o.ReadTimeout
	default:
		return nil, fmt.Errorf("redisstore: a client of type %T does not tell its options: use *redis.Client, *redis.ClusterClient, "+
			"or a type that embeds one of them", rdb)
	}
	return c, nil
}

// primaries calls fn for every primary, one after another.
func (c *client) primaries(ctx context.Context, fn func(ctx context.Context, node redis.Cmdable) error) error {
	if c.cluster == nil {
		return fn(ctx, c.rdb)
	}
	turn := make(chan struct{}, 1) // ForEachMaster calls at the same time
	return c.cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		turn <- struct{}{}
		defer func() { <-turn }()
		return fn(ctx, node)
	})
}

// primaryOf returns the primary that holds the key of this name.
func (c *client) primaryOf(ctx context.Context, name string) (redis.Cmdable, error) {
	if c.cluster == nil {
		return c.rdb, nil
	}
	return c.cluster.MasterForKey(ctx, name)
}

// unanswered makes a Cluster's client ask anew who has which slots, in the
// background. By itself it asks when a node redirects it, which a dead one does
// not, and else once a minute.
func (c *client) unanswered(ctx context.Context) {
	if c.cluster != nil {
		c.cluster.ReloadState(ctx)
	}
}

func (c *client) subscribe(ctx context.Context) *redis.PubSub { return c.rdb.Subscribe(ctx) }
