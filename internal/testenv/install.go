package testenv

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed install.sh
var installScript string

// installer installs packages. The zero value is for the real system.
type installer struct {
	// env is added to the environment of the script.
	env []string
	// euid is the user to be taken for; 0 is the process's own.
	euid int
}

// install installs Debian packages where that can be done: with apt-get, by
// root. It waits for others who install. It is not cut off when ctx ends:
// packages would stay half installed.
func (i installer) install(ctx context.Context, packages ...string) error {
	uid := i.euid
	if uid == 0 {
		uid = os.Geteuid()
	}
	if uid != 0 {
		return errors.New("only root can install it")
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "sh", append([]string{"-c", installScript, "install.sh"}, packages...)...) //nolint:gosec // our own script
	cmd.Env = append(os.Environ(), i.env...)
	if !slices.ContainsFunc(pathOf(cmd.Env), func(dir string) bool { return isProgram(filepath.Join(dir, "apt-get")) }) {
		return errors.New("there is no apt-get")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("installing %s: %w\n%s", strings.Join(packages, " "), err, tail(out, 2000))
	}
	return nil
}

// pathOf returns the folders of the last PATH in an environment.
func pathOf(env []string) []string {
	for _, e := range slices.Backward(env) {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			return filepath.SplitList(path)
		}
	}
	return nil
}

// isProgram reports whether path is a file that may be executed.
func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
