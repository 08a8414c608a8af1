//go:build unix

package beside

import (
	"io/fs"
	"syscall"
)

// owner returns the numbers of a file's owner and group.
func owner(info fs.FileInfo) (uid, gid int) {
	s := info.Sys().(*syscall.Stat_t)
	return int(s.Uid), int(s.Gid)
}

// names tells how many names (hard links) a file has.
func names(info fs.FileInfo) uint64 { return uint64(info.Sys().(*syscall.Stat_t).Nlink) }
