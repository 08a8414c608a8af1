package engine

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// leadsElsewhere reports that a path leads to another file than info's, or to none. It asks for the file's number
// alone. os.Stat asks for the file's times as well, and from Linux 6.13 on that makes the next sync take half as long
// again.
func leadsElsewhere(path string, info os.FileInfo) bool {
	var now unix.Statx_t
	switch err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &now); {
	case err == nil:
		was := info.Sys().(*syscall.Stat_t)
		return now.Ino != was.Ino || unix.Mkdev(now.Dev_major, now.Dev_minor) != uint64(was.Dev)
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // some sandboxes forbid the call
		return otherFile(path, info)
	default:
		return isAbsence(err)
	}
}

// isMounted reports that a path leads to a file that is mounted by itself, as containers do it with a volume that is
// a file. Before Linux 5.8 this can't be told.
func isMounted(path string) bool {
	var s unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &s)
	return err == nil && s.Attributes_mask&s.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
