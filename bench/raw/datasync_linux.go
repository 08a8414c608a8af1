package raw

import (
	"os"
	"syscall"
)

// datasync is the cheapest call that makes writes durable. SQLite asks for fsync here, which does no more for a file
// that keeps its length.
func datasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
