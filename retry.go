package idem

import (
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/draw"
)

// finalWrite is a call that must reach the store: one of the three is set.
type finalWrite struct {
	ref      driver.Ref
	complete *driver.CompleteParams
	release  *driver.ReleaseParams
	annotate *driver.AnnotateParams
}

func (w *finalWrite) send(ctx context.Context, b driver.Backend) error {
	switch {
	case w.complete != nil:
		return b.Complete(ctx, w.ref, w.complete)
	case w.release != nil:
		return b.Release(ctx, w.ref, w.release)
	}
	return b.Annotate(ctx, w.ref, w.annotate)
}

// retry makes the final write of a claim until the store has answered for
// certain, for at most RecordTimeout, whatever becomes of ctx. A write whose
// effect is unknown, or that the store refused to take, is repeated with the
// same owner and token (I6, I8).
func (s *Store) retry(ctx context.Context, c *Claim, w finalWrite) error {
	started := s.now()
	left := func() time.Duration { return s.opts.RecordTimeout - (s.now() - started) }
	bound := &bounded{parent: ctx, timeout: min(s.opts.StoreTimeout, s.opts.RecordTimeout), detached: true}
	for try := 1; ; try++ {
		err := w.send(bound, s.b)
		bound.end()
		if err == nil || driver.NoEffect(err) && !errors.Is(err, driver.ErrUnavailable) {
			c.spent(started)
			return err
		}
		if !pause(context.WithoutCancel(ctx), try, left()) {
			c.spent(started)
			return err
		}
		bound = &bounded{parent: ctx, timeout: min(s.opts.StoreTimeout, left()), detached: true}
	}
}

// tries is how often a call that runs under the caller's context is sent, if
// its effect stays unknown.
const tries = 3

// try makes a call that may be repeated (I6), until the store has answered for
// certain, for at most StoreTimeout in all.
func (s *Store) try(ctx context.Context, call func(context.Context) error) error {
	started := s.now()
	bound := &bounded{parent: ctx, timeout: s.opts.StoreTimeout}
	defer bound.end()
	for try := 1; ; try++ {
		err := call(bound)
		if err == nil || driver.NoEffect(err) || try == tries {
			return err
		}
		if !pause(ctx, try, s.opts.StoreTimeout-(s.now()-started)) {
			return err
		}
	}
}

// Pauses between two tries to reach the store: the ceiling doubles from
// pauseFirst to pauseMost, and each pause is drawn from the upper half below
// it (equal jitter: it spreads callers, and never returns at once).
const (
	pauseFirst = 10 * time.Millisecond
	pauseMost  = 500 * time.Millisecond
)

// pause waits before the next try; try counts from 1. It reports false, without
// waiting, if nothing would be left of the time for another one, and as soon as
// ctx ends.
func pause(ctx context.Context, try int, left time.Duration) bool {
	ceiling := min(pauseFirst<<min(try-1, 10), pauseMost)
	d := ceiling/2 + time.Duration(draw.Int64N(ctx, int64(ceiling/2)+1))
	if left <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
