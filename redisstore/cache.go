package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/driver"
)

var (
	_ driver.Cache   = (*Cache)(nil)
	_ driver.Checker = (*Cache)(nil)
)

const (
	defaultCachePrefix = "idem-cache:"
	// cacheTag stands where a Backend has its tag, so that no copy has the name of
	// a record under the same prefix.
	cacheTag = "c" + tag
)

// CacheOptions of a [Cache]. The zero value is valid.
type CacheOptions struct {
	// Prefix is what every key of this cache begins with. It must be another one
	// than a Backend's; the default of a Backend is refused. The default value is
	// "idem-cache:".
	Prefix string
}

// Cache keeps copies of completed records for a fast tier. It is safe for
// concurrent use.
//
// A copy is served only in the life of the server in which it was put: a server
// that has restarted, from whatever file, and a replica that was promoted, have
// none, even if they have its bytes. They may be from before a redaction. What
// remains: a client that has not noticed that its primary was replaced reads what
// that one still has, until it notices.
//
// It may run on a server that evicts, because a copy that is gone is a miss; but
// an evicted marker of Delete lets an older copy in. Its prefix must be another
// one than a [Backend]'s: the default of a Backend is refused, its names are never
// those of a Backend with the same prefix, and what looks like a Backend's record
// is neither served nor overwritten. The rights it needs are in the package
// documentation.
type Cache struct {
	on  *Backend // over the same client, with the names of copies
	get script
	put script
	del script
}

// NewCache returns a Cache over a client that the caller keeps and closes. A nil
// opts is valid. The same clients are refused as by [New].
func NewCache(rdb redis.UniversalClient, opts *CacheOptions) (*Cache, error) {
	prefix := defaultCachePrefix
	if opts != nil && opts.Prefix != "" {
		prefix = opts.Prefix
	}
	if prefix == defaultPrefix {
		return nil, fmt.Errorf("redisstore: CacheOptions.Prefix = %q is the default of a Backend: a cache needs another one", prefix)
	}
	b, err := newBackend(rdb, &Options{Prefix: prefix})
	if err != nil {
		return nil, err
	}
	b.tag = cacheTag
	return &Cache{on: b, get: stamped("get"), put: stamped("put"), del: newScript(readScript("delete"))}, nil
}

// RedisKey returns the name under which the copy of key is stored.
func (c *Cache) RedisKey(key string) string { return c.on.RedisKey(key) }

// Get implements [driver.Cache]. It is one round trip, to the primary. The
// copy's durations are as of now.
func (c *Cache) Get(ctx context.Context, key string) (*driver.Record, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	reply, _, err := c.on.run(ctx, &c.get, key, nil)
	if errors.Is(err, driver.ErrCorrupt) { // another type
		return nil, errNotFound()
	}
	if err != nil {
		return nil, err
	}
	if reply == int64(0) {
		return nil, errNotFound()
	}
	raw, _, now, err := answer(reply)
	if err != nil {
		return nil, err
	}
	rec, ok := decodeCopy(raw, key, now)
	if !ok {
		return nil, errNotFound()
	}
	return rec, nil
}

// Put implements [driver.Cache]. A copy is not served beyond its RetentionLeft,
// whatever the TTL (I13).
func (c *Cache) Put(ctx context.Context, p *driver.PutParams) error {
	if p.Record == nil || !p.Record.State.Completed() {
		return errors.New("redisstore: a Cache keeps completed records only")
	}
	if err := checkKey(p.Record.Key); err != nil {
		return err
	}
	ttl := p.TTL
	if left := p.Record.RetentionLeft; left > 0 {
		ttl = min(ttl, left)
	}
	if ttl < time.Millisecond {
		return nil
	}
	first := append(make([]byte, 0, 17), copyMark)
	first = binary.BigEndian.AppendUint64(first, p.Record.Token)
	first = binary.BigEndian.AppendUint64(first, p.Record.Revision)
	reply, _, err := c.on.run(ctx, &c.put, p.Record.Key, first, encodeCopy(p.Record), min(ttl, longest).Milliseconds())
	return cacheAnswer(reply, err)
}

// Delete implements [driver.Cache]. When refuse is not positive, later Puts are
// accepted. A marker never ends earlier because of another Delete.
func (c *Cache) Delete(ctx context.Context, key string, refuse time.Duration) error {
	if err := checkKey(key); err != nil {
		return err
	}
	ms := (min(max(refuse, 0), longest) + time.Millisecond - 1).Milliseconds()
	reply, _, err := c.on.run(ctx, &c.del, key, []byte{deletedMark}, ms)
	return cacheAnswer(reply, err)
}

func cacheAnswer(reply any, err error) error {
	switch {
	case err != nil:
		return err
	case reply == int64(answerDone), reply == int64(answerSaidAgain):
		return nil
	case reply == int64(answerUnreadable):
		return unreadable("a record of a Backend has this name: give the cache a prefix that no Backend's begins with")
	}
	return errReply(reply)
}
