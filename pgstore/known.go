package pgstore

import (
	"hash/maphash"
	"sync/atomic"
)

// known remembers, roughly, which keys have a record: those that this process
// has claimed or found lately. A claim of such a key looks before it tries to
// create the record, which costs a third more even where there is nothing to
// create. It decides nothing: being wrong costs one round trip.
//
// It is a table of hashes without chains: a key that lands on another one's
// place forgets it.
type known struct {
	seed  maphash.Seed
	slots []atomic.Uint64
}

// knownSlots is a power of two; a slot is 8 bytes.
const knownSlots = 1 << 15

func newKnown() *known {
	return &known{seed: maphash.MakeSeed(), slots: make([]atomic.Uint64, knownSlots)}
}

func (k *known) hash(key string) (h uint64, slot *atomic.Uint64) {
	h = maphash.String(k.seed, key)
	return h | 1, &k.slots[(h>>1)%uint64(len(k.slots))] // 0 is an empty slot
}

func (k *known) has(key string) bool {
	h, slot := k.hash(key)
	return slot.Load() == h
}

func (k *known) add(key string) {
	h, slot := k.hash(key)
	if slot.Load() != h {
		slot.Store(h)
	}
}

func (k *known) remove(key string) {
	h, slot := k.hash(key)
	slot.CompareAndSwap(h, 0)
}
