package engine

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/millrace-go/millrace/storage/driver"
)

// writeLock is the byte of the shared memory that a connection locks while it writes.
const writeLock = 120

// holder names the process that is in a transaction that writes, or returns "". It asks the system's list of locks: to
// open the shared memory and close it again would drop the locks that this process has on it.
func holder(path string) string {
	info, err := os.Stat(path + "-shm")
	if err != nil {
		return ""
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return ""
	}
	defer locks.Close()
	pid := holderIn(locks, info.Sys().(*syscall.Stat_t).Ino)
	if pid <= 0 { // it is in another container
		return ""
	}
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // it only helps
	return strings.TrimSpace(fmt.Sprintf("process %d %s", pid, driver.Quote(strings.TrimSpace(string(name)))))
}

// holderIn looks in a list of locks for the process that has the write lock of a file, 0 for none. A line is like
// "1: POSIX  ADVISORY  WRITE 4711 fd:00:1234 120 120".
func holderIn(list io.Reader, inode uint64) (pid int) {
	for lines := bufio.NewScanner(list); lines.Scan(); {
		var number, kind, advisory, mode, device string
		var first, last int64
		if n, _ := fmt.Sscan(lines.Text(), &number, &kind, &advisory, &mode, &pid, &device, &first, &last); n == 8 && kind == "POSIX" && mode == "WRITE" &&
			strings.HasSuffix(device, fmt.Sprint(":", inode)) && first <= writeLock && writeLock <= last {
			return pid
		}
	}
	return 0
}
