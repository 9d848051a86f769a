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

// bounded is ctx for one call: no longer than the time-out, nor than half of what
// is left to the caller, so that the archive has its share also when the tier does
// not answer. fair reports whether the call has time enough to judge the tier by.
func (f *fastTier) bounded(ctx context.Context) (_ context.Context, _ context.CancelFunc, fair bool) {
	d := f.timeout
	if deadline, ok := ctx.Deadline(); ok {
		d = min(d, time.Until(deadline)/2)
	}
	bound, cancel := context.WithTimeout(ctx, d)
	return bound, cancel, d >= f.timeout/fairShare
}

// fairShare is which part of the time-out a call must have had for its silence to
// speak against the tier: a caller that is late opens no breaker for the others.
const fairShare = 4

// get returns the copy, or nil: whatever is not a copy is a miss.
func (f *fastTier) get(ctx context.Context, key string) *driver.Record {
	if !f.breaker.allow() {
		f.counts.skipped.Add(1)
		return nil
	}
	bound, cancel, fair := f.bounded(ctx)
	defer cancel()
	f.counts.gets.Add(1)
	rec, err := f.cache.Get(bound, key)
	f.settle(ctx, fair, err)
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
	bound, cancel, fair := f.bounded(ctx)
	defer cancel()
	f.counts.puts.Add(1)
	f.settle(ctx, fair, f.cache.Put(bound, &driver.PutParams{Record: rec, TTL: ttl}))
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
	f.settle(ctx, true, err)
	if errors.Is(err, driver.ErrInvalidKey) {
		return nil // it can hold no copy either
	}
	return err
}

// usable reports whether a call would be made now.
func (f *fastTier) usable() bool { return f.breaker.closed() }

// settle tells the breaker how a call ended. An answer is an answer, also "there
// is none"; the end of the caller's own context, or of a call that had no fair share
// of the time-out, says nothing about the tier.
func (f *fastTier) settle(ctx context.Context, fair bool, err error) {
	switch {
	case err == nil, errors.Is(err, driver.ErrNotFound), errors.Is(err, driver.ErrCorrupt), errors.Is(err, driver.ErrInvalidKey):
		f.breaker.succeeded()
	case fair && ctx.Err() == nil:
		f.counts.failures.Add(1)
		f.breaker.failed()
	}
}
