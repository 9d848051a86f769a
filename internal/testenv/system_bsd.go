//go:build unix && !linux

package testenv

import "syscall"

// attributes of a process. Nothing tells it that its parent has died.
func attributes(as *account, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: credential(as), Setpgid: true}
}
