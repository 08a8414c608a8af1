//go:build unix

package mail_test

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-go/millrace/sample/reservations/mail"
)

const fullDisk = "TEST_FULL_DISK_FOLDER"

// A write on a full disk fails, and leaves nothing that looks like a mail. The test limits the size of files instead,
// for a process of its own, because the limit holds for a whole process.
func TestFolderFull(t *testing.T) {
	if dir := os.Getenv(fullDisk); dir != "" {
		sendWithoutRoom(t, dir)
		return
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "mail")
	child := exec.CommandContext(within(t), os.Args[0], "-test.run=^TestFolderFull$")
	child.Env = append(os.Environ(), fullDisk+"="+dir)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("got %q, want nothing left behind", got)
	}
}

func sendWithoutRoom(t *testing.T, dir string) {
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before) }() // the coverage report needs room
	m := confirmation()
	m.Text = strings.Repeat("long ", 100)
	err := mail.NewFolder(dir).Send(t.Context(), m)
	if !errors.Is(err, syscall.EFBIG) || errors.Is(err, mail.ErrRefused) {
		t.Fatalf("got %v, want EFBIG", err)
	}
}
