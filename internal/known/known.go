// Package known remembers, roughly, which keys were met lately, so that a call
// can begin with what most likely answers it. It decides nothing: being wrong
// costs a round trip.
package known

import (
	"hash/maphash"
	"sync/atomic"
)

// slots is a power of two; a slot is 8 bytes.
const slots = 1 << 15

// Set is a table of hashes without chains: a key that lands on another one's
// place forgets it. It is safe for concurrent use.
type Set struct {
	seed  maphash.Seed
	slots []atomic.Uint64
}

// New returns an empty Set, of 256 KiB.
func New() *Set {
	return &Set{seed: maphash.MakeSeed(), slots: make([]atomic.Uint64, slots)}
}

func (s *Set) slot(key string) (h uint64, slot *atomic.Uint64) {
	h = maphash.String(s.seed, key)
	return h | 1, &s.slots[(h>>1)%uint64(len(s.slots))] // 0 is an empty slot
}

// Has reports whether key was added, and neither removed nor forgotten.
func (s *Set) Has(key string) bool {
	h, slot := s.slot(key)
	return slot.Load() == h
}

// Add remembers key.
func (s *Set) Add(key string) {
	h, slot := s.slot(key)
	if slot.Load() != h {
		slot.Store(h)
	}
}

// Remove forgets key.
func (s *Set) Remove(key string) {
	h, slot := s.slot(key)
	slot.CompareAndSwap(h, 0)
}
