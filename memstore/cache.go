package memstore

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/idem-go/idem/driver"
)

var _ driver.Cache = (*Cache)(nil)

const (
	defaultCacheBytes = 64 << 20
	// cacheShardBytes is the least that a shard of a Cache may hold, so that a
	// large value has room in it, and a small Cache is one shard that evicts
	// strictly by use.
	cacheShardBytes = 4 << 20
	maxCacheShards  = 64
)

// CacheOptions of a [Cache]. The zero value is valid.
type CacheOptions struct {
	// MaxBytes is how much the copies may take, by an estimate that counts the
	// bookkeeping too. With a negative one nothing is kept. The default value is
	// 64 MiB.
	MaxBytes int64
}

// Cache keeps copies of completed records, for a fast tier in front of an
// archive. It never refuses a copy for want of room: it evicts those that were
// not used for longest, and a copy larger than its room is not kept. It is safe
// for concurrent use.
//
// The room is divided among up to 64 shards of at least 4 MiB. Each evicts by
// itself, so that "not used for longest" is exact in a Cache below 8 MiB and
// near enough in a larger one, and a copy of more than a shard's room is too
// large.
type Cache struct {
	seed   maphash.Seed
	shards []cacheShard
}

// NewCache returns an empty Cache. A nil opts is valid.
func NewCache(opts *CacheOptions) *Cache {
	size := int64(defaultCacheBytes)
	if opts != nil && opts.MaxBytes != 0 {
		size = opts.MaxBytes
	}
	n := min(max(size/cacheShardBytes, 1), maxCacheShards)
	c := &Cache{seed: maphash.MakeSeed(), shards: make([]cacheShard, n)}
	for i := range c.shards {
		c.shards[i].init(size / n)
	}
	return c
}

// Get implements [driver.Cache]. The copy is the caller's own; its durations are
// as of now. Whatever is not there is exactly [driver.ErrNotFound].
func (c *Cache) Get(ctx context.Context, key string) (*driver.Record, error) {
	if err := errors.Join(ended(ctx), checkKey(key)); err != nil {
		return nil, err
	}
	rec, age := c.shard(key).get(key)
	if rec == nil {
		return nil, driver.ErrNotFound
	}
	return copyRecord(rec, age), nil
}

// Put implements [driver.Cache]. A copy is not served beyond its RetentionLeft,
// whatever the TTL (I13).
func (c *Cache) Put(ctx context.Context, p *driver.PutParams) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if p.Record == nil || !p.Record.State.Completed() {
		return errors.New("memstore: a Cache keeps completed records only")
	}
	if err := checkKey(p.Record.Key); err != nil {
		return err
	}
	ttl := p.TTL
	if left := p.Record.RetentionLeft; left > 0 {
		ttl = min(ttl, left)
	}
	if ttl <= 0 {
		return nil
	}
	rec := copyRecord(p.Record, 0)
	rec.Key = strings.Clone(rec.Key)
	c.shard(rec.Key).put(rec, ttl)
	return nil
}

// Delete implements [driver.Cache]. When refuse is not positive, later Puts are
// accepted. A marker never ends earlier because of another Delete, nor for want
// of room.
func (c *Cache) Delete(ctx context.Context, key string, refuse time.Duration) error {
	if err := errors.Join(ended(ctx), checkKey(key)); err != nil {
		return err
	}
	c.shard(key).delete(key, refuse)
	return nil
}

// CacheStat is a snapshot of a [Cache].
type CacheStat struct {
	Records   int64 // copies kept, those that nobody may get any more included
	Bytes     int64 // that copies and markers of Delete take, by estimate
	Evictions int64 // copies that were dropped for want of room, since the start
}

// Stat counts shard by shard: what changes meanwhile may or may not be in it.
func (c *Cache) Stat() CacheStat {
	var s CacheStat
	for i := range c.shards {
		c.shards[i].addTo(&s)
	}
	return s
}

func (c *Cache) shard(key string) *cacheShard {
	if len(c.shards) == 1 {
		return &c.shards[0]
	}
	return &c.shards[maphash.String(c.seed, key)%uint64(len(c.shards))]
}

// copyRecord returns a copy that shares nothing with rec, as of age after rec
// was put. It needs no mutex: a record in a Cache is never changed, only
// replaced.
func copyRecord(rec *driver.Record, age time.Duration) *driver.Record {
	c := *rec
	c.Outcome.Value = bytes.Clone(rec.Outcome.Value)
	c.Refs = slices.Clone(rec.Refs)
	c.Providers = slices.Clone(rec.Providers)
	for i := range c.Providers {
		c.Providers[i].Elapsed += age
	}
	c.ClaimAge += age
	if c.RetentionLeft > 0 {
		c.RetentionLeft -= age
	}
	return &c
}

// copyCost estimates what a copy takes.
func copyCost(rec *driver.Record) int64 {
	n := recordCost + len(rec.Key) + textCost(&rec.Fingerprint, &rec.Audit, &rec.Outcome, rec.Refs)
	for _, p := range rec.Providers {
		n += providerCost + len(p.Name)
	}
	return int64(n)
}
