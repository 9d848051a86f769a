package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/idem-go/idem/driver"
)

// Purge implements [driver.Purger]. A step looks at no more than Batch records,
// and at no more than 256, which is the default. ctx ends it between two steps;
// what was removed until then stays removed. Progress is called for steps that
// removed something, without any mutex held.
func (b *Backend) Purge(ctx context.Context, p *driver.PurgeParams) (*driver.PurgeResult, error) {
	res := &driver.PurgeResult{}
	if err := ended(ctx); err != nil {
		return res, err
	}
	if p.Batch < 0 {
		return res, fmt.Errorf("memstore: a batch of %d records is not possible", p.Batch)
	}
	for i := range b.shards {
		if err := b.shards[i].purge(ctx, p, res); err != nil {
			return res, err
		}
	}
	return res, nil
}

func (sh *shard) purge(ctx context.Context, p *driver.PurgeParams, res *driver.PurgeResult) error {
	looks := walkChunk
	if p.Batch > 0 {
		looks = min(p.Batch, walkChunk)
	}
	w := sh.walk()
	defer w.end()
	for more := true; more; {
		if err := ended(ctx); err != nil {
			return err
		}
		before := res.Purged
		more = w.step(looks, func(e *element[record], now time.Time) {
			if purgeable(&e.item, p, now) {
				sh.remove(e)
				res.Purged++
			}
		})
		if p.Progress != nil && res.Purged > before {
			p.Progress(res.Purged)
		}
	}
	return nil
}

// purgeable restates in the step that removes a record all that it relies on
// (I11, C23).
func purgeable(r *record, p *driver.PurgeParams, now time.Time) bool {
	if r.expired(now) {
		return true
	}
	return p.UnknownAfter > 0 && r.state(now) == driver.Unknown && r.unknownFor(now) > p.UnknownAfter
}
