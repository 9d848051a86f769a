package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A patch that fits nothing any more breaks nothing, and would be noticed hours
// later: each must find its text, once, in the files as they are.
func TestEveryPatchFitsTheCode(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	mutants, err := read(filepath.Join("internal", "mutants", "patches"), "")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(mutants), 40)
	for _, m := range mutants {
		require.NotEmpty(t, m.what)
		_, err := m.overlay(t.TempDir())
		require.NoError(t, err)
	}
}
