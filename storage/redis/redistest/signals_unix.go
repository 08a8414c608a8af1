//go:build unix

package redistest

import (
	"os"
	"syscall"
)

// stallSignals are the signals that stop a process and let it go on.
func stallSignals() (stop, goOn os.Signal) { return syscall.SIGSTOP, syscall.SIGCONT }
