package main

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/benchmarks/retry"
)

// briefly makes each turn ten operations long.
func briefly(t *testing.T) {
	t.Helper()
	before := flag.Lookup("test.benchtime").Value.String()
	require.NoError(t, flag.Set("test.benchtime", "10x"))
	t.Cleanup(func() { require.NoError(t, flag.Set("test.benchtime", before)) })
}

//nolint:paralleltest // it sets a flag of the process
func TestEachLibraryHasARatio(t *testing.T) {
	briefly(t)
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, 2))
	require.Equal(t, 4, strings.Count(out.String(), "idem backoff"))
	require.Equal(t, 3, strings.Count(out.String(), "sethvargo"))
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "idem backoff") {
			fields := strings.Fields(line)
			require.Equal(t, []string{"1.00", "1.00"}, fields[len(fields)-2:], "the others are compared with idem")
		}
	}
}

//nolint:paralleltest // as above
func TestEachRoundBeginsWithAnother(t *testing.T) {
	briefly(t)
	require.Error(t, run(t.Context(), &strings.Builder{}, 0))
	order := []string{}
	subjects := []retry.Subject{}
	for _, name := range []string{"a", "b", "c"} {
		subjects = append(subjects, retry.Subject{Name: name, Run: func(b *testing.B) { //nolint:thelper // it is the benchmark itself
			if len(order) == 0 || order[len(order)-1] != name {
				order = append(order, name)
			}
			for b.Loop() {
				continue
			}
		}})
	}
	for _, f := range measure(subjects, 3) {
		require.Len(t, f.nanos, 3)
		require.IsNonDecreasing(t, f.nanos)
	}
	require.Equal(t, []string{"a", "b", "c", "b", "c", "a", "c", "a", "b"}, order)
}
