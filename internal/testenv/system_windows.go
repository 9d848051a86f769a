package testenv

import (
	"errors"
	"os"
	"syscall"
)

func gone(int) bool { return false }

func killGroup(int) bool { return false }

func freeze(*os.Process) error { return errors.ErrUnsupported }

func thaw(*os.Process) error { return errors.ErrUnsupported }

func attributes(*account, syscall.Signal) *syscall.SysProcAttr { return nil }
