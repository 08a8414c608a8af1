package raw

import (
	"os"
	"syscall"
)

// datasync is what SQLite asks of the disk at each commit.
func datasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
