package redis

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

func TestFilesAreInTheFolderOfTheURL(t *testing.T) {
	t.Parallel()
	server, err := shared()
	must(t, err)
	without, _ := openStore(t, server.URL(redistest.Fresh()))
	_, err = without.Files("inbox").Stat(t.Context(), "key")
	wantError(t, err, storage.ErrUnsupported)
	if without.Files("kept").Kept() {
		t.Error("a store without a folder keeps files")
	}
	folder := filepath.Join(t.TempDir(), "a folder")
	s, _ := openStore(t, server.URL(redistest.Fresh())+"&files="+url.QueryEscape(folder))
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is there before the first part: error %v", err)
	}
	must(t, s.Files("inbox").PutPart(t.Context(), "key", 1, 4, strings.NewReader("body")))
	if _, err := os.Stat(folder); err != nil {
		t.Error(err)
	}
}

func TestFolderOfAURL(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	must(t, err)
	for query, want := range map[string]string{"": "", "&files=/srv/files": "/srv/files", "&files=data/my%20files": filepath.Join(here, "data/my files")} {
		p, err := parse("redis://host/?prefix=app" + query)
		if err != nil || p.files != want {
			t.Errorf("%s: got %q, error %v; want %q", query, p.files, err, want)
		}
	}
	for query, want := range map[string]string{"&files=": "path of a folder", "&bell=yes&files=x": "keeps nothing", "&files=a&files=b": "twice"} {
		_, err := parse("redis://host/?prefix=app" + query)
		wantError(t, err, storage.ErrInvalid, want)
	}
}
