package tieredstore

import (
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem/driver"
)

// fastTier makes the calls of the fast tier: each with its bound, through the
// breaker, and without an error that anybody would have to handle.
type fastTier struct {
	cache   driver.Cache
	timeout time.Duration
	breaker breaker
	counts  *counts
}

func (f *fastTier) init(cache driver.Cache, timeout time.Duration, c *counts) {
	f.cache, f.timeout, f.counts = cache, timeout, c
	f.breaker.start = time.Now()
}

// get returns the copy, or nil: whatever is not a copy is a miss.
func (f *fastTier) get(ctx context.Context, key string) *driver.Record {
	if !f.breaker.allow() {
		f.counts.skipped.Add(1)
		return nil
	}
	bound, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	f.counts.gets.Add(1)
	rec, err := f.cache.Get(bound, key)
	f.settle(ctx, err)
	if err != nil || rec == nil || !servable(rec, key) {
		return nil
	}
	f.counts.hits.Add(1)
	return rec
}

// put stores a copy, if it can.
func (f *fastTier) put(ctx context.Context, rec *driver.Record, ttl time.Duration) {
	if !f.breaker.allow() {
		f.counts.skipped.Add(1)
		return
	}
	bound, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	f.counts.puts.Add(1)
	f.settle(ctx, f.cache.Put(bound, &driver.PutParams{Record: rec, TTL: ttl}))
}

// deletePatience is how many times longer than another call an edit waits for the
// fast tier, whose answer it needs.
const deletePatience = 4

// delete removes the copy and refuses others for the given time. It asks whatever
// the breaker says, because its error matters.
func (f *fastTier) delete(ctx context.Context, key string, refuse time.Duration) error {
	bound, cancel := context.WithTimeout(ctx, deletePatience*f.timeout)
	defer cancel()
	f.counts.deletes.Add(1)
	err := f.cache.Delete(bound, key, refuse)
	f.settle(ctx, err)
	if errors.Is(err, driver.ErrInvalidKey) {
		return nil // it can hold no copy either
	}
	return err
}

// usable reports whether a call would be made now.
func (f *fastTier) usable() bool { return f.breaker.closed() }

// settle tells the breaker how a call ended. An answer is an answer, also "there
// is none"; the end of the caller's own context says nothing about the tier.
func (f *fastTier) settle(ctx context.Context, err error) {
	switch {
	case err == nil, errors.Is(err, driver.ErrNotFound), errors.Is(err, driver.ErrCorrupt), errors.Is(err, driver.ErrInvalidKey):
		f.breaker.succeeded()
	case ctx.Err() == nil:
		f.counts.failures.Add(1)
		f.breaker.failed()
	}
}
