package sqlite

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/millrace-go/millrace/storage"
)

// bindMount mounts a file or a folder on another, which it makes, until the end of the test.
func bindMount(t *testing.T, from, to string) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		unable(t, "only root on Linux can mount a file")
	}
	info, err := os.Stat(from)
	switch {
	case err == nil && info.IsDir():
		err = os.Mkdir(to, 0o700)
	case err == nil:
		err = os.WriteFile(to, nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := mountBind(from, to); err != nil {
		unable(t, "can't mount a file: "+err.Error())
	}
	t.Cleanup(func() {
		if err := unmount(to); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
}

// unfinished returns the path of a file whose program was killed: the log has what it acknowledged last.
func unfinished(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "test.db")
	p := start(t, "send", path)
	p.read(10)
	p.kill()
	if size(t, path+"-wal") == 0 {
		t.Fatal("the log is empty")
	}
	return path
}

// TestOpenRefusesFileWithoutItsLog opens a file by ways that don't lead to its log, as in a container that has only
// the file.
func TestOpenRefusesFileWithoutItsLog(t *testing.T) {
	t.Parallel()
	mounted := func(t *testing.T, file, dir string) string {
		bindMount(t, file, filepath.Join(dir, "app.db"))
		return filepath.Join(dir, "app.db")
	}
	for name, c := range map[string]struct {
		way   func(t *testing.T, file, dir string) (path string)
		words []string
	}{
		"mounted": {mounted, []string{"mounted by itself", "-wal", "mount the folder"}},
		"a link to what is mounted": {func(t *testing.T, file, dir string) string {
			link := filepath.Join(t.TempDir(), "link.db")
			if err := os.Symlink(mounted(t, file, dir), link); err != nil {
				t.Fatal(err)
			}
			return link
		}, []string{"mounted by itself"}},
		"another name": {func(t *testing.T, file, dir string) string {
			if runtime.GOOS == "windows" {
				t.Skip("names are not counted on Windows")
			}
			if err := os.Link(file, filepath.Join(dir, "app.db")); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(dir, "app.db")
		}, []string{"2 names", "-wal", "remove the others"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, dir := unfinished(t), t.TempDir()
			path := c.way(t, file, dir)
			before, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), path)
			if err == nil {
				s.Close()
			}
			wantError(t, err, storage.ErrInvalid, append(c.words, path)...)
			if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, before) {
				t.Errorf("the file was changed (%v)", err)
			}
			if got := list(t, dir); !slices.Equal(got, []string{"app.db"}) {
				t.Errorf("%q are in the folder; want nothing beside the file", got)
			}
		})
	}
}

// TestOpenFindsTheLog opens a file by ways that lead to its log.
func TestOpenFindsTheLog(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]func(t *testing.T, file, dir string) (path string){
		"folder is mounted": func(t *testing.T, file, dir string) string {
			bindMount(t, filepath.Dir(file), filepath.Join(dir, "data"))
			return filepath.Join(dir, "data", filepath.Base(file))
		},
		"a link into a folder that is mounted": func(t *testing.T, file, dir string) string {
			bindMount(t, filepath.Dir(file), filepath.Join(dir, "data"))
			link := filepath.Join(dir, "link.db")
			if err := os.Symlink(filepath.Join(dir, "data", filepath.Base(file)), link); err != nil {
				t.Fatal(err)
			}
			return link
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := unfinished(t)
			s := openAt(t, way(t, file, t.TempDir()), "")
			if got := all(t, s, "queue"); len(got) < 10 {
				t.Errorf("%d messages; want those that were acknowledged, 10 at least", len(got))
			}
		})
	}
}
