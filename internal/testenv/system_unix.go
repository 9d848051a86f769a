//go:build unix

package testenv

import (
	"errors"
	"os"
	"syscall"
)

// gone reports whether there is no process of this id.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// killGroup kills what is left of the process group of a process that this one
// started, and reports whether something was left.
func killGroup(pid int) bool { return !errors.Is(syscall.Kill(-pid, syscall.SIGKILL), syscall.ESRCH) }

func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

func credential(as *account) *syscall.Credential {
	if as == nil {
		return nil
	}
	return &syscall.Credential{Uid: as.uid, Gid: as.gid}
}
