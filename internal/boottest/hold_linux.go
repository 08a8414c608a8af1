package boottest

import (
	"io"
	"os"
	"sync"
	"syscall"
	"testing"
)

// HoldWrites makes this process one that is in a transaction that writes to a file of SQLite, as far as others can see,
// until the test or its caller releases it. Nobody may have the file open.
func HoldWrites(t testing.TB, file string) (release func()) {
	t.Helper()
	shared, err := os.OpenFile(file+"-shm", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() { _ = shared.Close() })
	t.Cleanup(release)
	const writeLock = 120
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: writeLock, Len: 1}
	if err := syscall.FcntlFlock(shared.Fd(), syscall.F_SETLK, &lock); err != nil {
		t.Fatal(err)
	}
	return release
}
