package idem_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/idem-go/idem"

// core returns the packages whose users must compile nothing but the standard
// library and idem itself.
func core() []string {
	return []string{
		module,
		module + "/driver", module + "/memstore", module + "/tieredstore", module + "/movestore", module + "/backoff",
		module + "/storetest", module + "/idemhttp", module + "/idemqueue",
	}
}

func TestTheCoreHasNoForeignDependencies(t *testing.T) {
	t.Parallel()
	packages := slices.DeleteFunc(goList(t, "./..."), func(p string) bool { return !slices.Contains(core(), p) })
	require.Contains(t, packages, module, "go list saw nothing")
	for _, p := range packages {
		for _, d := range foreign(t, p) {
			require.True(t, isOurs(d), "%s depends on %s", p, d)
		}
	}
}

// The contract of a backend and the retry loop are of use without idem, and
// idem must be free to import both.
func TestDriverAndBackoffHaveNoDependencyOnIdem(t *testing.T) {
	t.Parallel()
	for _, p := range []string{module + "/driver", module + "/backoff"} {
		require.Equal(t, []string{p}, foreign(t, p))
	}
}

func TestTestLibrariesAreNoDependencyOfAnyPackage(t *testing.T) {
	t.Parallel()
	for _, d := range foreign(t, "./...") {
		require.False(t, strings.HasPrefix(d, "github.com/stretchr/"), "%s would reach users' binaries", d)
	}
}

func isOurs(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// foreign returns what compiling pattern needs beyond the standard library,
// pattern itself included.
func foreign(t *testing.T, pattern string) []string {
	t.Helper()
	return goList(t, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pattern)
}

// goList asks the go command, of which the test cache knows nothing: run these
// tests with -count=1 ("make deps" does) after an import has changed.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}
