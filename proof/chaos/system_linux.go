package main

import "syscall"

// diesWithUs makes a process end with this one, also when this one is killed.
func diesWithUs() *syscall.SysProcAttr {
	// In a group of its own: Ctrl-C is for this process, which ends the others in its own way.
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

func mountTmpfs(dir, options string) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, options)
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
