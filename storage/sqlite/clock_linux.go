package sqlite

import (
	"bytes"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// bootName names what the monotonic clock counts in. It consists of two parts:
//
//   - the boot, by an ID that the kernel draws
//   - the time namespace, in which a container may have a monotonic clock of its own.
//
// It is empty where the boot can't be told.
func bootName() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	id = bytes.TrimSpace(id)
	if err != nil || len(id) == 0 {
		return ""
	}
	namespace, _ := os.Readlink("/proc/self/ns/time") // kernels without it have one clock
	return string(id) + " " + namespace
}

// monotonic reads the clock that time.Since and timers follow too. It counts while the machine runs. All processes of
// a boot see the same time, and no program can set it.
func monotonic() (at time.Duration, ok bool) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return time.Duration(now.Nano()), err == nil
}
