package folder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// smallDisk returns a folder on a file system of its own.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Getuid() != 0 {
		unable(t, "only root can mount a small disk")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		unable(t, "can't mount a small disk: "+err.Error())
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func unable(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// All that root makes belongs to the owner of the file beside the folder, as whom the programs run.
func TestRootGivesAllToTheOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	const nobody = 65534
	of := filepath.Join(t.TempDir(), "file")
	if err := errors.Join(os.WriteFile(of, nil, 0o600), os.Chown(of, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	d := New(of+"-files", of)
	info := commit(t, d, "key", "one", "two")
	if _, err := d.Copy(t.Context(), "inbox", "key", info.ETag, "files", "key"); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(d.disk.path, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != nobody {
			t.Errorf("%s is root's", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
