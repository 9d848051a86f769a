package main

import "math/bits"

// Chance in this program is computed, not drawn from a shared source: what
// happens to a request depends on the seed and on the request alone, so that a
// seed reproduces however the consumers are scheduled. The functions are
// written out here because their values must never change: the shipped
// deliveries are checked against the generator.

// mix is the final step of splitmix64: every bit of x reaches every bit of the
// result.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hash64 is FNV-1a with a final mix. With a million keys, two of them share a
// hash with a probability of one in thirty million.
func hash64(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return mix(h)
}

// draw is one computed throw of the dice.
type draw uint64

// throw returns the dice for one event: salt tells apart the events that happen
// to the same thing.
func throw(seed uint64, salt, thing string, n int) draw {
	x := mix(seed ^ hash64(salt))
	x = mix(x ^ hash64(thing))
	return draw(mix(x + uint64(n)*0x9e3779b97f4a7c15))
}

// hits reports whether an event with the given probability happens.
func (d draw) hits(probability float64) bool { return d.share() < probability }

// share is in [0, 1).
func (d draw) share() float64 { return float64(d>>11) / (1 << 53) }

// rng is a splitmix64 sequence, for the generator, which runs in one goroutine.
type rng uint64

func (r *rng) draw() draw {
	*r += 0x9e3779b97f4a7c15
	return draw(mix(uint64(*r)))
}

func (r *rng) hits(probability float64) bool { return r.draw().hits(probability) }

// below returns a number in [0, n).
func (r *rng) below(n int) int {
	high, _ := bits.Mul64(uint64(r.draw()), uint64(n))
	return int(high)
}
