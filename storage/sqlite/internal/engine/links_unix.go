//go:build unix

package engine

import (
	"io/fs"
	"syscall"
)

// countLinks tells how many names a file has.
func countLinks(info fs.FileInfo) uint64 { return uint64(info.Sys().(*syscall.Stat_t).Nlink) }
