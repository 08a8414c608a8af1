package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/storage"
)

// A store without files leaves no folder for them. The folder lies beside the database itself, whatever link leads
// there.
func TestFilesLieBesideTheDatabase(t *testing.T) {
	t.Parallel()
	path, link := filepath.Join(t.TempDir(), "test.db"), filepath.Join(t.TempDir(), "link.db")
	openAt(t, path, "")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	s := storage.New(openAt(t, link, ""))
	f := s.Files("inbox")
	if _, err := f.Stat(t.Context(), "key"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("stat: got error %v; want %v", err, storage.ErrNotFound)
	}
	if err := f.Delete(t.Context(), "key"); err != nil {
		t.Error(err)
	}
	for _, at := range []string{path, link} {
		if _, err := os.Lstat(at + "-files"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the folder beside %s is there before the first part: error %v", at, err)
		}
	}
	if err := f.PutPart(t.Context(), "key", 1, 4, strings.NewReader("body")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path + "-files"); err != nil || info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("the folder is %v, error %v; want one for this user only", info, err)
	}
	if _, err := os.Lstat(link + "-files"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder is beside the link, too: error %v", err)
	}
}
