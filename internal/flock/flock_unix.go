//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package flock

import (
	"os"
	"syscall"
)

// Works reports that Lock can be relied on. The lock belongs to the open file, not to the process, so two holders in
// one process exclude each other. It goes with the file's last descriptor.
const Works = true

// Lock tries to lock a file, without waiting for it.
func Lock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
