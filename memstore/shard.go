package memstore

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// shard holds the records of the keys that hash to it, so that a busy key holds
// up few others.
type shard struct {
	// mu guards all fields below and the records in them. It is held for one step
	// of the contract, or for a bounded number of looks, never together with
	// another shard's, and never across code of the caller.
	mu sync.Mutex

	records map[string]*element[record]
	// order has the same records, in the order in which they came. Its root, and
	// the places of the walks under way, are elements without a key.
	order ring[record]
	// hand is the element of order that the next sweep looks at.
	hand *element[record]
	// watchers by key. No key has an empty set.
	watchers map[string]map[chan struct{}]struct{}

	bytes *atomic.Int64 // the Backend's; needs no mutex
}

func (sh *shard) init(bytes *atomic.Int64) {
	sh.records = make(map[string]*element[record])
	sh.watchers = make(map[string]map[chan struct{}]struct{})
	sh.order.init()
	sh.hand = &sh.order.root
	sh.bytes = bytes
}

// Methods from here to walk need mu.

// find returns the record of key, nil if there is none or its retention has
// ended (I13).
func (sh *shard) find(key string, now time.Time) *record {
	e := sh.records[key]
	if e == nil || e.item.expired(now) {
		return nil
	}
	return &e.item
}

// insert puts an empty record in the place of whatever is there for key. The
// caller has reserved its cost.
func (sh *shard) insert(key string, cost int64) *record {
	if old := sh.records[key]; old != nil {
		sh.remove(old)
	}
	e := &element[record]{item: record{key: key, bytes: cost}}
	sh.records[key] = e
	sh.order.push(e)
	return &e.item
}

func (sh *shard) remove(e *element[record]) {
	delete(sh.records, e.item.key)
	sh.unlink(e)
	sh.bytes.Add(-e.item.bytes)
}

// unlink takes e out of order, from under the hand too.
func (sh *shard) unlink(e *element[record]) {
	if sh.hand == e {
		sh.hand = e.next
	}
	e.unlink()
}

// changed notes that r is not what it was: the instant, and what it takes now.
// Every step that changes a record ends with it.
func (sh *shard) changed(r *record, now time.Time) {
	r.changedAt = now
	cost := r.cost()
	sh.bytes.Add(cost - r.bytes)
	r.bytes = cost
}

// sweep looks at some records, in rotation, and removes those whose retention
// has ended.
func (sh *shard) sweep(now time.Time, looks int) (removed int) {
	for range looks {
		e := sh.hand
		sh.hand = e.next
		if e.item.key != "" && e.item.expired(now) {
			sh.remove(e)
			removed++
		}
	}
	return removed
}

// Methods from here on take mu themselves.

func (sh *shard) makeRoom(looks int) (removed int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.sweep(time.Now(), looks)
}

func (sh *shard) count() int64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return int64(len(sh.records))
}

// walk is a way through all records of a shard that gives the mutex back between
// its steps. Its place is an element without a key, which stands behind the
// record that was visited last.
type walk struct {
	sh    *shard
	place element[record]
	left  int // at most so many records are still to be visited
}

// walk begins a walk that visits each record that is in the shard now and is not
// removed before its turn. The caller must end it.
func (sh *shard) walk() *walk {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	w := &walk{sh: sh, left: len(sh.records)}
	w.place.after(&sh.order.root)
	return w
}

// step visits at most n records, with the mutex held; visit may remove the one
// that it is given. It reports whether there are more.
func (w *walk) step(n int, visit func(e *element[record], now time.Time)) (more bool) {
	w.sh.mu.Lock()
	defer w.sh.mu.Unlock()
	now := time.Now()
	for n > 0 && w.left > 0 {
		e := w.place.next
		if e == &w.sh.order.root {
			return false
		}
		w.sh.unlink(&w.place)
		w.place.after(e)
		if e.item.key == "" {
			continue // another walk's place
		}
		n--
		w.left-- // records that came after the walk began are behind all others
		visit(e, now)
	}
	return w.left > 0
}

func (w *walk) end() {
	w.sh.mu.Lock()
	defer w.sh.mu.Unlock()
	w.sh.unlink(&w.place)
}

// smallest keeps the n smallest of keys, in order, in keys' memory.
func smallest(keys []string, n int) []string {
	slices.Sort(keys)
	return keys[:min(n, len(keys))]
}
