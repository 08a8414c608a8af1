package sqlite

import "syscall"

func mountTmpfs(dir, options string, again, readOnly bool) error {
	var flags uintptr
	if again {
		flags |= syscall.MS_REMOUNT
	}
	if readOnly {
		flags |= syscall.MS_RDONLY
	}
	return syscall.Mount("tmpfs", dir, "tmpfs", flags, options)
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

func mountBind(from, to string) error { return syscall.Mount(from, to, "", syscall.MS_BIND, "") }
