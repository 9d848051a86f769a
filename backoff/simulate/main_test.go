package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheTableHasARowForEachNumberOfClients(t *testing.T) {
	t.Parallel()
	var first, second strings.Builder
	require.NoError(t, run(t.Context(), &first, 7, 1, ""))
	require.NoError(t, run(t.Context(), &second, 7, 1, ""))
	require.Equal(t, first.String(), second.String(), "the seed decides")
	lines := strings.Split(strings.TrimSpace(first.String()), "\n")
	require.Len(t, lines, 9)
	require.Equal(t, []string{"clients", "none", "exponential", "equal", "full", "decorrelated"}, strings.Fields(lines[0]))
	for i, clients := range []string{"10", "20", "30", "40", "50", "100", "200"} {
		fields := strings.Fields(lines[i+1])
		require.Equal(t, clients, fields[0])
		require.Len(t, fields, 1+3*5)
	}
}

func TestThePlotModuleIsFoundBesideTheCommand(t *testing.T) {
	t.Parallel()
	dir, err := plotModule(t.Context())
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "main.go"))
}
