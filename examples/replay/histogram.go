package main

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Each power of two is divided into this many buckets, so that a quantile is
// read at most 1/32 (3 %) too high.
const (
	subBits = 5
	subs    = 1 << subBits
	buckets = (64 - subBits + 1) * subs
)

// histogram counts durations in logarithmic buckets of nanoseconds. Its size is
// fixed, whatever is counted. It is safe for concurrent use; read it when
// nobody adds any more.
type histogram struct {
	count   [buckets]atomic.Uint64
	n       atomic.Int64
	highest atomic.Int64
}

// add counts one duration; a negative one is counted as zero.
func (h *histogram) add(d time.Duration) {
	v := max(d.Nanoseconds(), 0)
	h.count[bucket(uint64(v))].Add(1)
	h.n.Add(1)
	for old := h.highest.Load(); v > old; old = h.highest.Load() {
		if h.highest.CompareAndSwap(old, v) {
			return
		}
	}
}

// bucket returns the index for v: exact below subs, then subs of them for each
// power of two.
func bucket(v uint64) int {
	if v < subs {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - subBits
	return shift*subs + int(v>>shift)
}

// upper returns the largest value that falls into bucket i.
func upper(i int) uint64 {
	if i < 2*subs {
		return uint64(i)
	}
	shift := i/subs - 1
	return uint64(i-shift*subs+1)<<shift - 1
}

// quantile returns the duration that the share q of those added do not exceed;
// 0 if there are none. Never more than the largest one added.
func (h *histogram) quantile(q float64) time.Duration {
	n := h.n.Load()
	if n == 0 {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(n)))
	var seen uint64
	for i := range h.count {
		if seen += h.count[i].Load(); seen >= rank {
			return time.Duration(min(upper(i), uint64(h.highest.Load())))
		}
	}
	return h.max()
}

func (h *histogram) max() time.Duration { return time.Duration(h.highest.Load()) }
