package beside_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/millrace-go/millrace/internal/beside"
)

// A file that root makes, or has left, belongs to the owner of the file beside it.
func TestWhatRootMakesBelongsToTheOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	const nobody = 65534
	dir := t.TempDir()
	of, left, opened, replaced := filepath.Join(dir, "file"), filepath.Join(dir, "left"), filepath.Join(dir, "opened"), filepath.Join(dir, "replaced")
	for _, path := range []string{of, left} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(of, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{left, opened} {
		f, err := beside.Open(path, of)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := beside.Replace(replaced, of, nil); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{left, opened, replaced} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if s := info.Sys().(*syscall.Stat_t); s.Uid != nobody || s.Gid != nobody {
			t.Errorf("%s is of user %d, group %d; want %d", path, s.Uid, s.Gid, nobody)
		}
	}
}
