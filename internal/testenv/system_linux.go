package testenv

import "syscall"

// attributes of a process: a group of its own, so that a terminal's interrupt
// does not reach it, and a signal that it gets when the thread that started it
// ends.
func attributes(as *account, death syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: credential(as), Pdeathsig: death, Setpgid: true}
}
