package backoff

import "time"

// parts is how many parts a window has: the oldest part of it is forgotten at
// a time.
const parts = 10

// window counts the calls of the last while, and those of them that failed. Its
// owner guards it.
type window struct {
	width time.Duration // of a slice
	epoch int64         // number of the newest slice
	end   time.Duration // of the newest slice
	slice [parts]counts
	sum   counts
}

type counts struct{ calls, failures int }

// add counts a call that ended at now, a time since some fixed instant.
func (w *window) add(now time.Duration, bad bool) {
	if now >= w.end {
		w.forget(now)
	}
	part := &w.slice[w.epoch%parts]
	part.calls++
	w.sum.calls++
	if bad {
		part.failures++
		w.sum.failures++
	}
}

// forget drops the slices that are out of the window at now.
func (w *window) forget(now time.Duration) {
	epoch := int64(now / w.width)
	for range min(epoch-w.epoch, parts) {
		w.epoch++
		part := &w.slice[w.epoch%parts]
		w.sum.calls -= part.calls
		w.sum.failures -= part.failures
		*part = counts{}
	}
	w.epoch = max(w.epoch, epoch)
	w.end = time.Duration(w.epoch+1) * w.width
}
