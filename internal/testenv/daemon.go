package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// daemon is a server that runs as long as this process at most: the kernel ends
// it with its parent.
type daemon struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended
	err  error         // of Wait; read after done
}

// startDaemon starts a program. Its output goes to the file log. sig is what it
// gets when this process ends.
func startDaemon(cred *account, log string, sig syscall.Signal, path string, args ...string) (*daemon, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666) //nolint:gosec // the server may run as another user
	if err != nil {
		return nil, err
	}
	d := &daemon{cmd: exec.Command(path, args...), done: make(chan struct{})} //nolint:gosec,noctx // a test's own server; it outlives any one context
	d.cmd.Stdout, d.cmd.Stderr, d.cmd.Dir = out, out, filepath.Dir(log)
	d.cmd.SysProcAttr = attributes(cred, sig)
	started := make(chan error)
	go func() {
		// The signal is sent when the thread that started the program ends: keep it.
		runtime.LockOSThread()
		defer close(d.done)
		err := d.cmd.Start()
		started <- err
		if err == nil {
			d.err = d.cmd.Wait()
		}
		_ = out.Close()
	}()
	return d, <-started
}

// alive reports whether the program still runs.
func (d *daemon) alive() bool {
	select {
	case <-d.done:
		return false
	default:
		return true
	}
}

// errEnded says that a server ended instead of answering.
var errEnded = errors.New("it has ended")

// until calls f until it returns nil, the program has ended, or two minutes are
// over: a machine may be slow.
func (d *daemon) until(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-d.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := every(ctx, 10*time.Millisecond, 2*time.Minute, f)
	if !d.alive() { // then somebody else answered, if anybody did
		return errors.Join(errEnded, err)
	}
	return err
}

// signal sends sig and waits until the program has ended, for at most a
// minute.
func (d *daemon) signal(sig syscall.Signal) error {
	if !d.alive() {
		return nil
	}
	if err := d.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(time.Minute)
	defer timer.Stop()
	select {
	case <-d.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("%s did not end within a minute of signal %v", d.cmd.Path, sig)
	}
}

// tempDir makes a folder that another user may enter. Its name carries this
// process's id, so that what a killed process left behind is found and removed.
func tempDir(kind string) (string, error) {
	prefix := "idem-test-" + kind + "-"
	base := tempBase()
	old, _ := filepath.Glob(filepath.Join(base, prefix+"*")) // the pattern is well formed
	for _, dir := range old {
		pid, err := strconv.Atoi(strings.SplitN(strings.TrimPrefix(filepath.Base(dir), prefix), "-", 2)[0])
		if err == nil && gone(pid) {
			_ = os.RemoveAll(dir)
		}
	}
	dir, err := os.MkdirTemp(base, prefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755) //nolint:gosec // see above
}

// tempBase returns the folder for temporary folders: the system's, unless other
// users cannot reach it and this process is root, whose servers run as somebody
// else.
func tempBase() string {
	base := os.TempDir()
	if os.Geteuid() != 0 {
		return base
	}
	for dir := filepath.Clean(base); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode()&0o001 == 0 {
			return "/tmp"
		}
		if dir == filepath.Dir(dir) {
			return base
		}
	}
}

// own gives a file or folder to the server's user.
func own(cred *account, paths ...string) error {
	if cred == nil {
		return nil
	}
	for _, p := range paths {
		if err := os.Chown(p, int(cred.uid), int(cred.gid)); err != nil {
			return err
		}
	}
	return nil
}

// run runs a program to its end as the server's user. Like a daemon it ends with
// this process.
func run(ctx context.Context, cred *account, dir, path string, args ...string) error {
	runtime.LockOSThread() // see startDaemon
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // the arguments are ours
	cmd.Dir = dir
	cmd.SysProcAttr = attributes(cred, syscall.SIGKILL)
	cmd.Env = append(os.Environ(), "HOME="+dir, "PGPASSWORD="+PostgresPassword)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(path), err, tail(out, 2000))
	}
	return nil
}

// logTail returns the end of a log file, for messages.
func logTail(path string) string {
	f, err := os.Open(path) //nolint:gosec // our own log
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return tail(b, 2000)
}

// every calls f until it returns nil, ctx ends, or the time is up; then it
// returns the last error.
func every(ctx context.Context, pause, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}
