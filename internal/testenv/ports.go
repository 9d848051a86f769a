package testenv

import (
	"errors"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
)

// Ports come from below the ranges from which systems give ports to whoever
// connects or asks for any (32768 on Linux, 49152 elsewhere): a server that is
// down for a moment would lose its own to a passing connection.
const (
	firstPort = 20000
	lastPort  = 32000
)

// reserved holds what reserves ports: a listener that is collected is closed.
var reserved sync.Map //nolint:gochecknoglobals // for as long as the process lives

// freePort returns a loopback port on which nobody listens, and which no other
// call gets, in no process, as long as this process lives.
func freePort() (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort) //nolint:gosec // no secret
		if reserve(port) && unused(port) {
			return port, nil
		}
	}
	return 0, errors.New("no free loopback port")
}

// reserve takes a port for this process: a name without a file that the kernel
// frees when the process ends. Elsewhere than on Linux chance must do.
func reserve(port int) bool {
	if runtime.GOOS != "linux" {
		return true
	}
	l, err := net.Listen("unix", "@idem-test-port-"+strconv.Itoa(port)) //nolint:noctx // it does not wait
	if err != nil {
		return false
	}
	reserved.Store(port, l)
	return true
}

// unused reports whether nobody listens on a loopback port.
func unused(port int) bool {
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)) //nolint:noctx // it does not wait
	if err != nil {
		return false
	}
	return l.Close() == nil
}
