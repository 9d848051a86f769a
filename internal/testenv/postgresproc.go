package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
func startDaemon(cred *syscall.Credential, log string, sig syscall.Signal, path string, args ...string) (*daemon, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666) //nolint:gosec // the server may run as another user
	if err != nil {
		return nil, err
	}
	d := &daemon{cmd: exec.Command(path, args...), done: make(chan struct{})} //nolint:gosec,noctx // a test's own server; it outlives any one context
	d.cmd.Stdout, d.cmd.Stderr, d.cmd.Dir = out, out, filepath.Dir(log)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Pdeathsig: sig, Setpgid: true}
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

// signal sends sig and waits until the program has ended, for at most 30
// seconds.
func (d *daemon) signal(sig syscall.Signal) error {
	if !d.alive() {
		return nil
	}
	if err := d.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	select {
	case <-d.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("%s did not end within 30 s of signal %v", d.cmd.Path, sig)
	}
}

// freePort returns a loopback port that nobody listened on a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}

// tempDir makes a folder that another user may enter. Its name carries this
// process's id, so that what a killed process left behind is found and removed.
func tempDir(kind string) (string, error) {
	prefix := "idem-test-" + kind + "-"
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*")) // the pattern is well formed
	for _, dir := range old {
		pid, err := strconv.Atoi(strings.SplitN(strings.TrimPrefix(filepath.Base(dir), prefix), "-", 2)[0])
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
	dir, err := os.MkdirTemp("", prefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755) //nolint:gosec // see above
}

// own gives a file or folder to the server's user.
func own(cred *syscall.Credential, paths ...string) error {
	if cred == nil {
		return nil
	}
	for _, p := range paths {
		if err := os.Chown(p, int(cred.Uid), int(cred.Gid)); err != nil {
			return err
		}
	}
	return nil
}

// run runs a program to its end as the server's user.
func run(ctx context.Context, cred *syscall.Credential, dir, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // the arguments are ours
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
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
