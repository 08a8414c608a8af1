package beside_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/beside"
)

// A link is followed neither to read nor to write, and its target stays as it is. Replace puts a file in its place.
func TestNoLinkIsFollowed(t *testing.T) {
	t.Parallel()
	for name, link := range map[string]func(old, at string) error{"symbolic": os.Symlink, "hard": os.Link} {
		for _, inside := range []bool{true, false} {
			dir := t.TempDir()
			target := filepath.Join(dir, "precious")
			if !inside {
				target = filepath.Join(t.TempDir(), "precious")
			}
			at := filepath.Join(dir, "file-lock")
			if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := link(target, at); err != nil {
				t.Fatal(err)
			}
			if f, err := beside.Open(at, dir); err == nil || !strings.Contains(err.Error(), "remove it") {
				t.Errorf("%s link: opened %v, %v; want an error that says what to do", name, f, err)
			}
			if data, err := beside.Read(at); err == nil {
				t.Errorf("%s link: read %q", name, data)
			}
			if err := beside.Replace(at, dir, []byte("new")); err != nil {
				t.Error(err)
			}
			if data, err := os.ReadFile(target); err != nil || string(data) != "precious" {
				t.Errorf("%s link: the target is now %q (%v)", name, data, err)
			}
			if data, err := beside.Read(at); err != nil || string(data) != "new" {
				t.Errorf("%s link: after Replace got %q (%v)", name, data, err)
			}
		}
	}
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "absent"), filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	if _, err := beside.Open(filepath.Join(dir, "dangling"), dir); err == nil {
		t.Error("a link to nothing was opened")
	}
	if _, err := os.Stat(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link's target was made: %v", err)
	}
}

// A file is made where it is missing, opened again as it is, and replaced as a whole.
func TestOpenReadReplace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for range 2 {
		f, err := beside.Open(path, dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("0123456789"); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"0123456789", "new"} {
		if data, err := beside.Read(path); err != nil || string(data) != want {
			t.Errorf("got %q (%v), want %q", data, err, want)
		}
		if err := beside.Replace(path, dir, []byte("new")); err != nil {
			t.Error(err)
		}
	}
	if _, err := beside.Read(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that it isn't there", err)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(names) != 1 {
		t.Errorf("got %v (%v), want the file alone", names, err)
	}
}
