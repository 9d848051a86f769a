package main

import (
	"context"
	"sync"
)

// disturbance is something that happens once, beside the deliveries, when a
// number of them are settled. A nil one is none.
type disturbance struct {
	at int64
	do func(ctx context.Context) error

	once sync.Once
	now  chan struct{} // closed when it is time
}

// await begins to wait for the time. failed is called if the disturbance itself
// fails. The function it returns must be called at the end: it waits until what
// has begun is done.
func (d *disturbance) await(ctx context.Context, failed context.CancelCauseFunc) (wait func()) {
	if d == nil {
		return func() {}
	}
	d.now = make(chan struct{})
	over, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-d.now:
		case <-over.Done():
			select {
			case <-d.now:
			default:
				return
			}
		}
		if err := d.do(ctx); err != nil {
			failed(err)
		}
	})
	return func() {
		d.once.Do(func() {}) // too late now
		stop()
		wg.Wait()
	}
}

// reached tells how many deliveries are settled; 0 tells nothing.
func (d *disturbance) reached(settled int64) {
	if d != nil && settled >= d.at {
		d.once.Do(func() { close(d.now) })
	}
}
