package backoff_test

import "syscall"

const (
	errRefused syscall.Errno = 10061 // WSAECONNREFUSED
	errReset   syscall.Errno = 10054 // WSAECONNRESET
	errPipe                  = syscall.ERROR_BROKEN_PIPE
	errAborted syscall.Errno = 10053 // WSAECONNABORTED
)
