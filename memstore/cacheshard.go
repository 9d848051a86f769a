package memstore

import (
	"strings"
	"sync"
	"time"

	"github.com/idem-go/idem/driver"
)

// markerCost is about what a marker of Delete takes besides its key.
const markerCost = 160

// entry of a Cache: a copy, or the marker that a Delete left.
type entry struct {
	key   string
	rec   *driver.Record // never changed; nil in a marker
	putAt time.Time
	until time.Time // the copy may be served, or Puts are refused, until then
	bytes int64
}

// cacheShard holds the entries of the keys that hash to it.
type cacheShard struct {
	// mu guards all fields below but maxBytes. It is held for one step, and not
	// while a record is copied.
	mu sync.Mutex

	entries map[string]*element[entry]
	copies  ring[entry] // by last use
	markers ring[entry] // by the Delete that made them
	// refuseUntil stands for the markers that had no room: no key of this shard
	// may be put until then.
	refuseUntil time.Time

	bytes       int64 // of all entries
	markerBytes int64 // of the markers among them
	evictions   int64
	maxBytes    int64
}

func (sh *cacheShard) init(maxBytes int64) {
	sh.entries = make(map[string]*element[entry])
	sh.copies.init()
	sh.markers.init()
	sh.maxBytes = maxBytes
}

// get returns the copy and how long ago it was put, or nil.
func (sh *cacheShard) get(key string) (*driver.Record, time.Duration) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := time.Now()
	e := sh.entries[key]
	switch {
	case e == nil || e.item.rec == nil:
		return nil, 0
	case !now.Before(e.item.until):
		sh.remove(e)
		return nil, 0
	}
	e.unlink()
	sh.copies.push(e) // used last
	return e.item.rec, now.Sub(e.item.putAt)
}

// put keeps rec, which is the shard's own from now on.
func (sh *cacheShard) put(rec *driver.Record, ttl time.Duration) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := time.Now()
	if now.Before(sh.refuseUntil) {
		return
	}
	if e := sh.entries[rec.Key]; e != nil {
		stands := now.Before(e.item.until)
		if stands && (e.item.rec == nil || e.item.rec.Newer(rec)) {
			return // a marker, or a newer copy
		}
		sh.remove(e) // also when rec has no room: it supersedes this copy
	}
	cost := copyCost(rec)
	sh.dropOver(now)
	if sh.evict(now, cost) {
		sh.add(&sh.copies, &element[entry]{item: entry{key: rec.Key, rec: rec, putAt: now, until: now.Add(ttl), bytes: cost}})
	}
}

// delete removes the copy and leaves a marker, or lets the longer one stand.
func (sh *cacheShard) delete(key string, refuse time.Duration) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := time.Now()
	until := now.Add(refuse)
	if e := sh.entries[key]; e != nil {
		if e.item.rec == nil && e.item.until.After(until) {
			return
		}
		sh.remove(e)
	}
	if refuse <= 0 {
		return
	}
	cost := int64(markerCost + len(key))
	sh.dropOver(now)
	for !sh.evict(now, cost) {
		oldest := sh.markers.oldest()
		if oldest == nil {
			return // a copy, which takes more than a marker, has no room either
		}
		sh.refuse(oldest.item.until)
		sh.remove(oldest)
	}
	sh.add(&sh.markers, &element[entry]{item: entry{key: strings.Clone(key), until: until, bytes: cost}})
}

// Methods from here to addTo need mu.

// dropOver removes a few entries that are over, so that a shard that is seldom
// full shrinks too.
func (sh *cacheShard) dropOver(now time.Time) {
	for range insertLooks {
		sh.removeIfOver(sh.copies.oldest(), now)
		sh.removeIfOver(sh.markers.oldest(), now)
	}
}

// evict drops copies, those not used for longest first, until cost fits. It
// reports false, and drops none, if the markers leave no room for it.
func (sh *cacheShard) evict(now time.Time, cost int64) bool {
	for sh.markerBytes+cost > sh.maxBytes {
		if !sh.removeIfOver(sh.markers.oldest(), now) {
			return false
		}
	}
	for sh.bytes+cost > sh.maxBytes {
		sh.remove(sh.copies.oldest())
		sh.evictions++
	}
	return true
}

// removeIfOver reports whether it removed e, which may be nil.
func (sh *cacheShard) removeIfOver(e *element[entry], now time.Time) bool {
	over := e != nil && !now.Before(e.item.until)
	if over {
		sh.remove(e)
	}
	return over
}

// refuse makes up for a marker that has no room.
func (sh *cacheShard) refuse(until time.Time) {
	if until.After(sh.refuseUntil) {
		sh.refuseUntil = until
	}
}

func (sh *cacheShard) add(r *ring[entry], e *element[entry]) {
	sh.entries[e.item.key] = e
	r.push(e)
	sh.account(e, e.item.bytes)
}

func (sh *cacheShard) remove(e *element[entry]) {
	delete(sh.entries, e.item.key)
	e.unlink()
	sh.account(e, -e.item.bytes)
}

func (sh *cacheShard) account(e *element[entry], bytes int64) {
	sh.bytes += bytes
	if e.item.rec == nil {
		sh.markerBytes += bytes
	}
}

// addTo takes mu itself.
func (sh *cacheShard) addTo(s *CacheStat) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, e := range sh.entries {
		if e.item.rec != nil {
			s.Records++
		}
	}
	s.Bytes += sh.bytes
	s.Evictions += sh.evictions
}
