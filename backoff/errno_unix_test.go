//go:build !windows

package backoff_test

import "syscall"

const (
	errRefused = syscall.ECONNREFUSED
	errReset   = syscall.ECONNRESET
	errPipe    = syscall.EPIPE
	errAborted = syscall.ECONNABORTED
)
