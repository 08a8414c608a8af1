package main

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// clock reads a clock that all processes of this machine share, and that nobody sets, in nanoseconds.
func clock() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(fmt.Sprintf("read the clock: %v", err)) // Linux always has it
	}
	return now.Nano()
}

// diesWithUs makes a process end with this one, even if this one is killed.
func diesWithUs() *syscall.SysProcAttr {
	// The process has a group of its own, because Ctrl-C is for this process, which stops the others in order.
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

func mountTmpfs(dir, options string) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, options)
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
