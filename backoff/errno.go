//go:build !windows

package backoff

import "syscall"

// refused reports whether the other side accepted no connection.
func refused(err error) bool { return is(err, syscall.ECONNREFUSED) }

// reset reports whether a connection broke.
func reset(err error) bool {
	return is(err, syscall.ECONNRESET) || is(err, syscall.EPIPE) || is(err, syscall.ECONNABORTED)
}
