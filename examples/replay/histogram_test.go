package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEachValueFallsIntoTheBucketThatBoundsIt(t *testing.T) {
	t.Parallel()
	values := []uint64{0, 1, 31, 32, 63, 64, 65, 1000, math.MaxInt64, math.MaxUint64}
	for shift := range 64 {
		values = append(values, 1<<shift, 1<<shift-1, 1<<shift+1<<shift/3)
	}
	for _, v := range values {
		i := bucket(v)
		require.Less(t, i, buckets, "%d", v)
		require.GreaterOrEqual(t, upper(i), v)
		if i > 0 {
			require.Less(t, upper(i-1), v)
		}
	}
}

func TestAQuantileIsAtMostAThirtySecondTooHigh(t *testing.T) {
	t.Parallel()
	var h histogram
	r := rng(11)
	var exact []time.Duration
	for range 5000 {
		d := time.Duration(math.Exp(r.draw().share() * 20))
		exact = append(exact, d)
		h.add(d)
	}
	slices.Sort(exact)
	for _, q := range []float64{0.001, 0.5, 0.9, 0.99, 1} {
		want := exact[int(math.Ceil(q*5000))-1]
		have := h.quantile(q)
		require.GreaterOrEqual(t, have, want)
		require.LessOrEqual(t, float64(have), float64(want)*(1+1.0/subs)+1)
	}
	require.Equal(t, exact[4999], h.max())
	require.Equal(t, exact[4999], h.quantile(1), "never above the largest")
}

func TestAnEmptyHistogramHasZeroQuantiles(t *testing.T) {
	t.Parallel()
	var h histogram
	require.Equal(t, quantiles{}, h.quantiles())
	h.add(-time.Second)
	require.Equal(t, quantiles{Calls: 1}, h.quantiles(), "a negative duration counts as zero")
}
