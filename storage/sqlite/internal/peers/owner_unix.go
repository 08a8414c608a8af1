//go:build unix

package peers

import (
	"io/fs"
	"syscall"
)

// owner returns the numbers of a file's owner and group.
func owner(info fs.FileInfo) (uid, gid int) {
	s := info.Sys().(*syscall.Stat_t)
	return int(s.Uid), int(s.Gid)
}
