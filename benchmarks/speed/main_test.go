package main

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//nolint:paralleltest // it sets a flag of the process
func TestEachLibraryHasARatio(t *testing.T) {
	before := flag.Lookup("test.benchtime").Value.String()
	require.NoError(t, flag.Set("test.benchtime", "10x"))
	defer func() { require.NoError(t, flag.Set("test.benchtime", before)) }()
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, 2))
	require.Equal(t, 4, strings.Count(out.String(), "idem backoff"))
	require.Equal(t, 3, strings.Count(out.String(), "sethvargo"))
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "idem backoff") {
			require.Equal(t, "1.00", strings.Fields(line)[5], "the others are compared with idem")
		}
	}
}
