package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASeedGivesTheSameDeliveries(t *testing.T) {
	t.Parallel()
	a := all(t, newGenerator(3000, 0.35, 5))
	require.Equal(t, a, all(t, newGenerator(3000, 0.35, 5)))
	require.NotEqual(t, a, all(t, newGenerator(3000, 0.35, 6)))
}

func TestTheShippedDeliveriesAreWhatTheGeneratorWrites(t *testing.T) {
	t.Parallel()
	var want bytes.Buffer
	n, err := writeLines(&want, newGenerator(shippedDeliveries, shippedDuplicates, shippedSeed))
	require.NoError(t, err)
	require.Equal(t, shippedDeliveries, n)
	z, err := gzip.NewReader(bytes.NewReader(shipped))
	require.NoError(t, err)
	have, err := io.ReadAll(z)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want.Bytes(), have), "go generate ./examples/replay writes them anew")
}

func TestTheShippedDeliveriesHaveEveryKindOfTrouble(t *testing.T) {
	t.Parallel()
	src, total, done, err := openSource(&config{}, nil)
	require.NoError(t, err)
	ds := all(t, src)
	require.NoError(t, done())
	require.Len(t, ds, total)
	require.GreaterOrEqual(t, len(ds), 20000)
	bodies := make(map[string]string)
	ids := make(map[string]bool)
	var redelivered, otherBody, lateArrival, malformed, declined, unreadable, last int
	for _, d := range ds {
		if d.unreadable {
			unreadable++
			continue
		}
		require.False(t, ids[d.ID], "each delivery has an id of its own")
		ids[d.ID] = true
		first, seen := bodies[d.Key]
		switch {
		case seen && first != string(d.body()):
			otherBody++
		case seen:
			redelivered++
		case d.Seq < last:
			lateArrival++
		}
		if !seen {
			bodies[d.Key] = string(d.body())
			last = d.Seq
			if d.validate() != nil {
				malformed++
			} else if d.Source == declinedSource {
				declined++
			}
		}
	}
	require.InDelta(t, 0.35, float64(redelivered+otherBody)/float64(len(ds)), 0.02)
	require.Greater(t, otherBody, 40)
	require.Greater(t, lateArrival, 3000)
	require.Greater(t, malformed, 40)
	require.Greater(t, declined, 80)
	require.Greater(t, unreadable, 2)
}

func TestTheGeneratorKeepsNoMoreThanItsWindow(t *testing.T) {
	t.Parallel()
	g := newGenerator(50000, 0.2, 1)
	all(t, g)
	require.LessOrEqual(t, cap(g.recent), 2*recentOperations)
	require.LessOrEqual(t, cap(g.pool), 2*shuffled)
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"d.ndjson", "d.ndjson.gz"} {
		path := filepath.Join(t.TempDir(), name)
		n, err := writeDeliveries(path, newGenerator(500, 0.35, 2))
		require.NoError(t, err)
		require.Equal(t, 500, n)
		src, _, done, err := openSource(&config{in: path}, nil)
		require.NoError(t, err)
		require.Equal(t, all(t, newGenerator(500, 0.35, 2)), all(t, src))
		require.NoError(t, done())
	}
}

func TestAChainReadsOneSourceAfterTheOther(t *testing.T) {
	t.Parallel()
	whole := all(t, newGenerator(100, 0.35, 2))
	src := newGenerator(100, 0.35, 2)
	head, err := take(src, 30)
	require.NoError(t, err)
	require.Len(t, head, 30)
	require.Equal(t, whole, all(t, &chain{&sliceSource{head}, src}))
	few, err := take(newGenerator(5, 0, 1), 30)
	require.NoError(t, err)
	require.Len(t, few, 5)
}
