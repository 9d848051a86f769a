package testenv_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/internal/testenv"
)

// system is a folder with an apt-get and a dpkg-query of the test's own, which
// do to this folder what the real ones do to a system.
type system struct {
	dir string
	env []string
}

// newSystem makes a system whose apt-get runs the given lines before it does
// what it was asked for.
func newSystem(t *testing.T, lines string) *system {
	t.Helper()
	s := &system{dir: t.TempDir()}
	s.env = []string{
		"PATH=" + s.dir + ":" + os.Getenv("PATH"), "IDEM_TEST_APT_LOCK=" + s.path("lock"),
		"IDEM_TEST_POLICY_RC_D=" + s.path("policy-rc.d"), "DIR=" + s.dir,
	}
	s.program(t, "dpkg-query", `[ -e "$DIR/thing-server" ] && printf 'install ok installed'`)
	s.program(t, "apt-get", `echo "$@" >>"$DIR/log"
`+lines+`
case "$*" in
*install*)
	[ "$("$DIR/policy-rc.d"; echo $?)" = 101 ] && echo "no service starts" >>"$DIR/log"
	for p in thing-server thing-helper; do printf '#!/bin/sh\n' >"$DIR/$p"; chmod 755 "$DIR/$p"; done ;;
esac`)
	return s
}

func (s *system) path(name string) string { return filepath.Join(s.dir, name) }

func (s *system) program(t *testing.T, name, lines string) {
	t.Helper()
	require.NoError(t, os.WriteFile(s.path(name), []byte("#!/bin/sh\n"+lines+"\n"), 0o755))
}

// log is what apt-get was asked for.
func (s *system) log(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(s.path("log"))
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// onLinux skips what is about Debian's tools elsewhere.
func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("install.sh is for Debian; not checked here: how packages are installed")
	}
}

func TestWhatIsMissingIsInstalledOnceAlthoughManyMissIt(t *testing.T) {
	t.Parallel()
	onLinux(t)
	s := newSystem(t, "")
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			path, err := testenv.Get(t.Context(), s.dir, s.env, 0)
			assert.NoError(t, err)
			assert.Equal(t, s.path("thing-server"), path)
		})
	}
	all.Wait()
	log := s.log(t)
	require.Len(t, log, 3, "%q", log)
	require.Contains(t, log[0], "update")
	require.Contains(t, log[1], "install --no-install-recommends")
	require.True(t, strings.HasSuffix(log[1], " thing"), log[1])
	require.Equal(t, "no service starts", log[2])
	require.NoFileExists(t, s.path("policy-rc.d"), "services start again afterwards")
}

func TestNothingIsInstalledWhereTheProgramIsFound(t *testing.T) {
	t.Parallel()
	s := newSystem(t, "")
	s.program(t, "thing-server", "")
	s.program(t, "thing-helper", "")
	path, err := testenv.Get(t.Context(), s.dir, s.env, 0)
	require.NoError(t, err)
	require.Equal(t, s.path("thing-server"), path)
	require.NoFileExists(t, s.path("log"))
}

func TestThePackageSystemIsWaitedForWhileOthersUseIt(t *testing.T) {
	t.Parallel()
	onLinux(t)
	s := newSystem(t, `[ "$(grep -c install "$DIR/log")" != 1 ] || { echo "E: Could not get lock /var/lib/dpkg/lock-frontend" >&2; exit 100; }`)
	_, err := testenv.Get(t.Context(), s.dir, s.env, 0)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(strings.Join(s.log(t), "\n"), " install "))
}

func TestAListThatCannotBeUpdatedMayDo(t *testing.T) {
	t.Parallel()
	onLinux(t)
	s := newSystem(t, `case "$*" in *update*) echo "E: no network" >&2; exit 100 ;; esac`)
	_, err := testenv.Get(t.Context(), s.dir, s.env, 0)
	require.NoError(t, err)
}

func TestAPolicyOfTheSystemsOwnStays(t *testing.T) {
	t.Parallel()
	onLinux(t)
	s := newSystem(t, "")
	s.program(t, "policy-rc.d", "exit 101")
	_, err := testenv.Get(t.Context(), s.dir, s.env, 0)
	require.NoError(t, err)
	require.FileExists(t, s.path("policy-rc.d"))
}

func TestWhereNothingCanBeInstalledTheErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	onLinux(t)
	const what = "no Thing: set THING, or install it (Debian, Ubuntu: apt-get install thing): "
	broken := newSystem(t, `echo "E: Unable to locate package thing" >&2; exit 100`)
	empty := newSystem(t, "exit 0")
	for name, tc := range map[string]struct {
		s    *system
		env  []string
		euid int
		why  string
	}{
		"not root":           {broken, broken.env, 1000, "only root can install it"},
		"no apt-get":         {broken, []string{"PATH=" + t.TempDir()}, 0, "there is no apt-get"},
		"apt-get fails":      {broken, broken.env, 0, "E: Unable to locate package thing"},
		"nothing is in it":   {empty, empty.env, 0, "the package thing has no such program"},
		"root has to do it":  {empty, empty.env, 7, "only root can install it"},
		"the helper is gone": {halfASystem(t), halfASystem(t).env, 7, "only root can install it"},
	} {
		_, err := testenv.Get(t.Context(), tc.s.dir, tc.env, tc.euid)
		require.ErrorContains(t, err, what, name)
		require.ErrorContains(t, err, tc.why, name)
	}
}

// halfASystem has the server without the program that must be beside it.
func halfASystem(t *testing.T) *system {
	t.Helper()
	s := newSystem(t, "")
	s.program(t, "thing-server", "")
	return s
}

func TestTheNewestVersionIsTaken(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, version := range []int{9, 15, 13, 100} {
		dir := filepath.Join(root, fmt.Sprint(version), "bin")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		s := &system{dir: dir}
		s.program(t, "thing-server", "")
		if version != 100 { // without what must be beside it
			s.program(t, "thing-helper", "")
		}
	}
	path, err := testenv.Get(t.Context(), filepath.Join(root, "*", "bin"), nil, 1)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(root, "15", "bin", "thing-server"), path)
}
