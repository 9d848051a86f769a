package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// errNoPostgres says what to install.
var errNoPostgres = errors.New("no Postgres: set IDEM_TEST_POSTGRES_URL, or install the server (Debian, Ubuntu: apt-get install postgresql)")

// postgresBin returns the folder of initdb and postgres, the highest version
// first. Where there is none, and the process may, it installs the package.
func postgresBin(ctx context.Context) (string, error) {
	if dir := findPostgres(); dir != "" {
		return dir, nil
	}
	if err := aptInstall(ctx, "postgresql"); err != nil {
		return "", fmt.Errorf("%w: %w", errNoPostgres, err)
	}
	if dir := findPostgres(); dir != "" {
		return dir, nil
	}
	return "", errNoPostgres
}

func findPostgres() string {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well formed
	slices.SortFunc(dirs, func(a, b string) int { return postgresVersion(b) - postgresVersion(a) })
	dirs = append(dirs, "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql/bin")
	if path, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir
		}
	}
	return ""
}

// postgresVersion of a folder like /usr/lib/postgresql/15/bin.
func postgresVersion(dir string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	if err != nil {
		return 0
	}
	return n
}

// aptInstall installs Debian packages; only root can.
func aptInstall(ctx context.Context, packages ...string) error {
	if os.Geteuid() != 0 {
		return errors.New("only root can install it")
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return errors.New("there is no apt-get")
	}
	for _, args := range [][]string{{"update", "-q"}, append([]string{"install", "-y", "-q", "--no-install-recommends"}, packages...)} {
		cmd := exec.CommandContext(ctx, apt, args...) //nolint:gosec // the arguments are ours
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, tail(out, 2000))
		}
	}
	return nil
}

// serverUser returns the system user that a server runs as which refuses root;
// nil keeps the process's own.
func serverUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // none is needed
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("root cannot run the server, and there is no user postgres or nobody")
}

// tail returns the last n bytes of b as text.
func tail(b []byte, n int) string {
	return strings.TrimSpace(string(b[max(0, len(b)-n):]))
}
