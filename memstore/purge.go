package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/pace"
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
	if err := checkPurge(p); err != nil {
		return res, err
	}
	speed := pace.New(p.Rate)
	for i := range b.shards {
		if err := b.shards[i].purge(ctx, p, speed, res); err != nil {
			return res, err
		}
	}
	return res, nil
}

func checkPurge(p *driver.PurgeParams) error {
	switch {
	case p.Batch < 0:
		return fmt.Errorf("memstore: a batch of %d records is not possible", p.Batch)
	case p.Rate < 0:
		return fmt.Errorf("memstore: a rate of %d records a second is not possible", p.Rate)
	case p.UnknownAfter < 0:
		return fmt.Errorf("memstore: unknown after %v is not possible", p.UnknownAfter)
	}
	return nil
}

// looksOf is how many records a step of a purge looks at.
func looksOf(p *driver.PurgeParams) int {
	looks := walkChunk
	if p.Batch > 0 {
		looks = min(looks, p.Batch)
	} else if p.Rate > 0 {
		looks = min(looks, max(1, p.Rate/10))
	}
	return looks
}

func (sh *shard) purge(ctx context.Context, p *driver.PurgeParams, speed *pace.Pace, res *driver.PurgeResult) error {
	looks := looksOf(p)
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
		speed.Wait(ctx, res.Purged-before)
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
