package testenv_test

import (
	"bufio"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A test process that is killed takes its servers with it, and nobody else's.
func TestServersEndWithAProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a process that its parent has died; not checked here")
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	doomedOne, addrs := startDoomed(t, exe)
	_, others := startDoomed(t, exe)
	for _, addr := range append(addrs, others...) {
		require.True(t, answers(t, addr), addr)
	}
	require.NoError(t, doomedOne.Process.Kill())
	_ = doomedOne.Wait()
	for _, addr := range addrs {
		require.Eventually(t, func() bool { return !answers(t, addr) }, time.Minute, 20*time.Millisecond, addr)
	}
	for _, addr := range others {
		require.True(t, answers(t, addr), addr)
	}
}

// startDoomed starts this binary as a process that starts servers, and returns
// their addresses.
func startDoomed(t *testing.T, exe string) (cmd *exec.Cmd, addrs []string) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), doomed+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for lines := bufio.NewScanner(out); len(addrs) < 3 && lines.Scan(); {
		addr := lines.Text()
		if strings.Contains(addr, "://") {
			u, err := url.Parse(addr)
			require.NoError(t, err)
			addr = u.Host
		}
		addrs = append(addrs, addr)
	}
	require.Len(t, addrs, 3, "Redis, Postgres, pgbouncer")
	return cmd, addrs
}

// answers reports whether somebody accepts connections.
func answers(t *testing.T, addr string) bool {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}
