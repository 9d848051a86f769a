package main

import (
	"context"
	"time"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/redisstore"
	"github.com/idem-go/idem/tieredstore"
)

// openTiered opens Redis in front of Postgres. The Redis server that is started
// for it keeps nothing on disk: it comes back empty.
func (o *opened) openTiered(ctx context.Context, cfg *config, tell say) error {
	rdb, prefix, err := o.openRedis(ctx, cfg, tell, false)
	if err != nil {
		return err
	}
	fast, err := redisstore.NewCache(rdb, &redisstore.CacheOptions{Prefix: prefix})
	if err != nil {
		return err
	}
	t := &tier{name: "redis"}
	o.tiers = append(o.tiers, t)
	archive, err := o.openPostgres(ctx, cfg, tell)
	if err != nil {
		return err
	}
	o.backend, err = tieredstore.New(&countedCache{fast, t}, o.counted("postgres", archive), nil)
	return err
}

// countedCache is a fast tier whose calls are counted.
type countedCache struct {
	driver.Cache
	tier *tier
}

// Get implements driver.Cache.
func (c *countedCache) Get(ctx context.Context, key string) (*driver.Record, error) {
	rec, err := c.Cache.Get(ctx, key)
	kind := cacheHit
	if err != nil {
		kind = cacheMiss
	}
	c.tier.count(kind, err)
	return rec, err
}

// Put implements driver.Cache.
func (c *countedCache) Put(ctx context.Context, p *driver.PutParams) error {
	err := c.Cache.Put(ctx, p)
	c.tier.count(cachePut, err)
	return err
}

// Delete implements driver.Cache.
func (c *countedCache) Delete(ctx context.Context, key string, refuse time.Duration) error {
	err := c.Cache.Delete(ctx, key, refuse)
	c.tier.count(cacheDelete, err)
	return err
}
