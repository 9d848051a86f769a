package idem_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
)

// sentinels gives each sentinel, by its name, the code of its errors.
func sentinels() map[string]string {
	return map[string]string{
		"ErrAlreadyDone":         "already_done",
		"ErrInProgress":          "in_progress",
		"ErrFingerprintMismatch": "fingerprint_mismatch",
		"ErrOutcomeUnknown":      "outcome_unknown",
		"ErrLeaseLost":           "lease_lost",
		"ErrMaxRun":              "max_run",
		"ErrNotRecorded":         "not_recorded",
		"ErrNotEncoded":          "not_encoded",
		"ErrTooLarge":            "too_large",
		"ErrRedacted":            "redacted",
		"ErrUnavailable":         "unavailable",
		"ErrRecordedFailure":     "recorded_failure",
		"ErrNotDecoded":          "not_decoded",
		"ErrCorrupt":             "corrupt",
		"ErrInvalidKey":          "invalid_key",
		"ErrInvalidOption":       "invalid_option",
		"ErrClosed":              "closed",
		"ErrConflict":            "conflict",
		"ErrNotFound":            "not_found",
	}
}

// codes of errors.go: the text of every case in its function meaning.
func codes(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	require.NoError(t, err)
	var found []string
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Name.Name != "meaning" {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			c, ok := n.(*ast.CaseClause)
			if !ok {
				return true
			}
			for _, e := range c.List {
				if lit, ok := e.(*ast.BasicLit); ok {
					found = append(found, strings.Trim(lit.Value, `"`))
				}
			}
			return true
		})
	}
	slices.Sort(found)
	return found
}

// exported returns the names of the sentinels that errors.go declares.
func exported(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	require.NoError(t, err)
	var names []string
	for _, decl := range file.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			v, ok := spec.(*ast.ValueSpec)
			require.True(t, ok)
			for _, n := range v.Names {
				if strings.HasPrefix(n.Name, "Err") {
					names = append(names, n.Name)
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

func TestEverySentinelAndEveryCodeHasASectionInTheDocumentation(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("docs/errors.md")
	require.NoError(t, err)
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^## `([a-z_]+)`$").FindAllStringSubmatch(string(raw), -1) {
		documented = append(documented, m[1])
	}
	slices.Sort(documented)
	require.Equal(t, slices.Compact(slices.Clone(documented)), documented, "one section for each code")

	all := codes(t)
	require.NotEmpty(t, all)
	require.Equal(t, all, documented, "a section for each code, and no other")
	names := []string{}
	for name, code := range sentinels() {
		names = append(names, name)
		require.Contains(t, all, code)
		require.Contains(t, string(raw), name, "its section names the sentinel")
	}
	slices.Sort(names)
	require.Equal(t, exported(t), names)
}

// Sentinels are told apart by errors.Is.
func TestNoSentinelMatchesAnother(t *testing.T) {
	t.Parallel()
	all := []error{
		idem.ErrAlreadyDone, idem.ErrInProgress, idem.ErrFingerprintMismatch, idem.ErrOutcomeUnknown, idem.ErrLeaseLost,
		idem.ErrMaxRun, idem.ErrNotRecorded, idem.ErrNotEncoded, idem.ErrTooLarge, idem.ErrRedacted, idem.ErrUnavailable,
		idem.ErrRecordedFailure, idem.ErrNotDecoded, idem.ErrCorrupt, idem.ErrInvalidKey, idem.ErrInvalidOption,
		idem.ErrClosed, idem.ErrConflict, idem.ErrNotFound,
	}
	require.Len(t, all, len(sentinels()))
	for i, a := range all {
		for j, b := range all {
			require.Equal(t, i == j, errors.Is(a, b), "%v, %v", a, b)
		}
	}
}
