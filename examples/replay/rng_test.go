package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The values are part of the shipped deliveries: a change here changes them.
func TestTheDiceFallTheSameInEveryRelease(t *testing.T) {
	t.Parallel()
	require.Equal(t, uint64(0xf52a15e9a9b5e89b), hash64(""))
	require.Equal(t, uint64(0x5d37a112bec4d29e), hash64("charge:inv_0000001"))
	require.Equal(t, draw(0x14c0d77ef1620ba), throw(1, "crash", "dlv_0000001", 0))
	r := rng(1)
	require.Equal(t, []int{566, 745, 971}, []int{r.below(1000), r.below(1000), r.below(1000)})
}

func TestDifferentEventsOfOneThingAreIndependent(t *testing.T) {
	t.Parallel()
	const n = 20000
	var crash, silent, both int
	for i := range n {
		a := throw(7, "crash", "dlv", i).hits(0.3)
		b := throw(7, "silence", "dlv", i).hits(0.3)
		if a {
			crash++
		}
		if b {
			silent++
		}
		if a && b {
			both++
		}
	}
	require.InDelta(t, 0.3*n, crash, 0.02*n)
	require.InDelta(t, 0.3*n, silent, 0.02*n)
	require.InDelta(t, 0.09*n, both, 0.02*n)
}

func TestBelowStaysBelow(t *testing.T) {
	t.Parallel()
	r := rng(3)
	seen := make(map[int]int)
	for range 3000 {
		seen[r.below(3)]++
	}
	require.Len(t, seen, 3)
	for i := range 3 {
		require.InDelta(t, 1000, seen[i], 150)
	}
}
