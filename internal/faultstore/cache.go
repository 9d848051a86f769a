package faultstore

import (
	"context"
	"time"

	"github.com/idem-go/idem/driver"
)

var _ driver.Cache = (*Cache)(nil)

// Methods of a call of a [Cache].
const (
	Get    = "Get"
	Put    = "Put"
	Delete = "Delete"
)

// Cache is a fast tier that makes faults, as a [Store] is a backend that does. A
// Call's Token is that of the record of a Put; Params is a copy of the PutParams,
// the time of a Delete, nil for a Get. It is safe for concurrent use.
type Cache struct {
	inner driver.Cache
	calls *Store // its hook and its log
}

// NewCache wraps inner. A nil hook makes no faults.
func NewCache(inner driver.Cache, hook Hook) *Cache {
	return &Cache{inner: inner, calls: New(nil, hook)}
}

// Log is as [Store.Log].
func (c *Cache) Log() []Entry { return c.calls.Log() }

// Count is as [Store.Count].
func (c *Cache) Count(method string) int { return c.calls.Count(method) }

// Get implements [driver.Cache].
func (c *Cache) Get(ctx context.Context, key string) (*driver.Record, error) {
	return do(ctx, c.calls, Call{Method: Get, Key: key}, func() (*driver.Record, error) { return c.inner.Get(ctx, key) })
}

// Put implements [driver.Cache].
func (c *Cache) Put(ctx context.Context, p *driver.PutParams) error {
	sent := *p
	call := Call{Method: Put, Key: p.Record.Key, Token: p.Record.Token, Params: &sent}
	return c.calls.doErr(ctx, call, func() error { return c.inner.Put(ctx, p) })
}

// Delete implements [driver.Cache].
func (c *Cache) Delete(ctx context.Context, key string, refuse time.Duration) error {
	call := Call{Method: Delete, Key: key, Params: refuse}
	return c.calls.doErr(ctx, call, func() error { return c.inner.Delete(ctx, key, refuse) })
}
