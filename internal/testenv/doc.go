// Package testenv starts real servers for tests and examples: on free loopback
// ports, with temporary folders, stopped again by their own process ids and, on
// Linux, by the kernel if this process dies.
//
// Where a server's program is missing, Debian and Ubuntu get it with apt-get if
// the process is root. Otherwise whoever needs it fails, and is told what to
// install: nothing here skips a test.
package testenv
