package memstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idem-go/idem/driver"
)

const (
	defaultPage = 100
	maxPage     = 10_000
	// walkChunk is how many records a walk looks at before it gives the mutex of
	// the shard back.
	walkChunk = 256
)

// List implements [driver.Lister]. Pages are in the order of the keys, and hold
// at most 10,000 records. A page looks at every record of the backend; ctx ends
// it between two steps.
func (b *Backend) List(ctx context.Context, p *driver.ListParams) (*driver.ListResult, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if p.Limit < 0 {
		return nil, fmt.Errorf("memstore: a page of %d records is not possible", p.Limit)
	}
	limit := min(p.Limit, maxPage)
	if limit == 0 {
		limit = defaultPage
	}
	keys, err := b.listKeys(ctx, p, limit+1)
	if err != nil {
		return nil, err
	}
	res := &driver.ListResult{}
	if len(keys) > limit {
		keys = keys[:limit]
		res.Next = keys[limit-1]
	}
	for _, key := range keys {
		// What changed since it was found, and is no longer asked for, is left out.
		if rec := b.inspect(key); rec != nil && wanted(rec.State, p) {
			rec.Outcome.Value = nil
			res.Records = append(res.Records, *rec)
		}
	}
	return res, nil
}

// listKeys returns the n smallest keys that p asks for, in order.
func (b *Backend) listKeys(ctx context.Context, p *driver.ListParams, n int) ([]string, error) {
	var keys []string
	visit := func(e *element[record], now time.Time) {
		r := &e.item
		if r.key > p.After && strings.HasPrefix(r.key, p.Prefix) && !r.expired(now) && wanted(r.state(now), p) {
			keys = append(keys, r.key)
		}
	}
	for i := range b.shards {
		if err := b.shards[i].visitAll(ctx, visit); err != nil {
			return nil, err
		}
		if len(keys) > 2*n { // bounded by a page and a shard, whatever the backend holds
			keys = smallest(keys, n)
		}
	}
	return smallest(keys, n), nil
}

// visitAll shows every record to visit, which must not change it.
func (sh *shard) visitAll(ctx context.Context, visit func(e *element[record], now time.Time)) error {
	w := sh.walk()
	defer w.end()
	for more := true; more; {
		if err := ended(ctx); err != nil {
			return err
		}
		more = w.step(walkChunk, visit)
	}
	return nil
}

func wanted(s driver.State, p *driver.ListParams) bool {
	return len(p.States) == 0 || slices.Contains(p.States, s)
}
