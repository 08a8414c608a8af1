//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package peers

import (
	"os"
	"syscall"
)

// canLock reports that lock can be relied on. The lock belongs to the open file, not to the process, so two stores in
// one process exclude each other. It goes with the file's last descriptor.
const canLock = true

// lock tries to lock a file, without waiting for it.
func lock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
