package main

import "syscall"

// diesWithUs makes a process end with this one, even if this one is killed.
func diesWithUs() *syscall.SysProcAttr {
	// The process has a group of its own, because Ctrl-C is for this process, which stops the others in order.
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

func mountTmpfs(dir, options string) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, options)
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
