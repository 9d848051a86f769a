package known_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/internal/known"
)

func TestASetKnowsWhatItWasTold(t *testing.T) {
	t.Parallel()
	s := known.New()
	require.False(t, s.Has("k"))
	require.False(t, s.Has(""))
	s.Add("k")
	s.Add("k")
	require.True(t, s.Has("k"))
	require.False(t, s.Has("other"))
	s.Remove("other")
	require.True(t, s.Has("k"))
	s.Remove("k")
	require.False(t, s.Has("k"))
}

// Many more keys than slots: the latest are known, and nothing grows.
func TestASetForgetsRatherThanGrows(t *testing.T) {
	t.Parallel()
	s := known.New()
	const n = 100_000
	for i := range n {
		s.Add(fmt.Sprint(i))
	}
	require.True(t, s.Has(fmt.Sprint(n-1)))
	have := 0
	for i := range n {
		if s.Has(fmt.Sprint(i)) {
			have++
		}
	}
	require.Positive(t, have)
	require.LessOrEqual(t, have, 1<<15)
}
