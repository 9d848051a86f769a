package tieredstore

import (
	"context"
	"time"

	"github.com/idem-go/idem/driver"
)

// copyRecord reads a record that was just completed, and puts its copy. Without a
// fast tier to put it in, nothing is read.
func (b *Backend) copyRecord(ctx context.Context, key string) {
	if !b.fast.usable() {
		return
	}
	began := time.Now()
	bound, cancel := context.WithTimeout(ctx, b.opts.FastTimeout)
	defer cancel()
	b.counts.inspects.Add(1)
	rec, err := b.archive.Inspect(bound, key)
	if err == nil && rec != nil {
		b.refill(ctx, rec, began)
	}
}

// refill puts a copy of rec, which a read of the archive returned that began at
// began, if there is a time for which it may be served. A reader that has been
// slower than half of RefillBound puts nothing: the marker of an edit that it has
// not seen may be gone by the time its copy arrives.
func (b *Backend) refill(ctx context.Context, rec *driver.Record, began time.Time) {
	age := time.Since(began)
	ttl := b.lifetime(rec) - age
	if !servable(rec, rec.Key) || ttl <= 0 || age >= b.opts.RefillBound/2 {
		return
	}
	b.fast.put(ctx, rec, ttl)
}

// lifetime of a copy that is as old as its record's read.
func (b *Backend) lifetime(rec *driver.Record) time.Duration {
	if rec.RetentionLeft == 0 { // the record does not end by itself
		return b.opts.Window
	}
	return min(b.opts.Window, rec.RetentionLeft)
}

// servable reports whether rec can be a copy of key's completed record: nothing
// that could still change, and nothing that this release does not understand
// (I12).
func servable(rec *driver.Record, key string) bool {
	o := &rec.Outcome
	return rec.Key == key && rec.State.Completed() && rec.Token != 0 &&
		rec.Format <= driver.FormatVersion && rec.RetentionLeft >= 0 &&
		o.Failed == (rec.State == driver.Failed) && o.Body <= driver.BodyRedacted
}
