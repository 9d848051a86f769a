package backoff

import "syscall"

// Windows reports sockets with numbers of its own, which the names that package
// syscall shares with other systems do not match.
const (
	wsaConnAborted syscall.Errno = 10053
	wsaConnReset   syscall.Errno = 10054
	wsaConnRefused syscall.Errno = 10061
)

// refused reports whether the other side accepted no connection.
func refused(err error) bool { return is(err, wsaConnRefused) }

// reset reports whether a connection broke.
func reset(err error) bool {
	return is(err, wsaConnReset) || is(err, wsaConnAborted) || is(err, syscall.ERROR_BROKEN_PIPE)
}
