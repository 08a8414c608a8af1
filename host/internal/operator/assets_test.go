package operator

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/files/assets"
	"github.com/millrace-go/millrace/internal/boottest"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
)

// folderOf makes a folder with files.
func folderOf(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Files are pushed apart from the program, under the names by which its pages know them. A repeat changes nothing.
func TestAssetsPush(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "azure:"+azuretest.Place(t, azuretest.Launch, azure.Wipe))
	dir := folderOf(t, map[string]string{"css/site.css": "a{background:url(../mark.svg)}", "mark.svg": "<svg/>"})
	set, err := assets.New(os.DirFS(dir), assets.Config{})
	if err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSpace(w.want(t, 0, "assets", "push", dir).out)
	for range 2 {
		got := jsonLines[acts.Pushed](t, w.want(t, 0, "assets", "push", dir, "-json"))
		if len(got) != 1 || got[0] != (acts.Pushed{Base: base, Files: 2}) {
			t.Errorf("got %+v, want 2 files at %s", got, base)
		}
	}
	for _, name := range []string{"css/site.css", "mark.svg"} {
		if status, text := boottest.Get(t, base+set.Name(name)); status != http.StatusOK || name == "css/site.css" && !strings.Contains(text, set.Name("mark.svg")) {
			t.Errorf("%s: anybody gets %d, %q", name, status, text)
		}
	}
	next := folderOf(t, map[string]string{"css/site.css": "a{color:red}", "LICENSE": "free", "img/1.png": "p"})
	if got := strings.TrimSpace(w.want(t, 0, "assets", "push", next).out); got != base {
		t.Errorf("the next version: got %s, want %s", got, base)
	}
	bare := folderOf(t, map[string]string{"LICENSE": "39", "NOTICE": "9"}) // their digests begin with 0 and 1, which Azure's keys use as marks
	for range 2 {
		w.want(t, 0, "assets", "push", bare, "-container", "bare")
	}
	if r := w.want(t, 0, "assets", "push", dir, "-container", "other", "-by", "ada", "-why", "a try"); !strings.Contains(r.out, "other/") {
		t.Errorf("another container: got %s", r.out)
	}
	if r := w.want(t, 0, "audit", "list"); !strings.Contains(r.out, "a try") {
		t.Errorf("the audit doesn't tell of the push: %s", r.out)
	}
	w.want(t, 2, "assets", "push", dir, "-container", "No")
	w.want(t, 1, "assets", "push", dir, "-container", "assets")
	w.want(t, 2, "assets", "push")
	w.want(t, 3, "assets", "push", filepath.Join(dir, "nothing"))
	w.want(t, 1, "assets", "push", folderOf(t, map[string]string{"a.css": "b{background:url(gone.svg)}"}))
	w.want(t, 1, "assets", "push", folderOf(t, nil))
}

// Files stay out of a container that has documents of the store, since a mixed container can't be listed.
func TestAssetsPushBesideDocuments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "azure:"+azuretest.Place(t, azuretest.Launch, azure.Wipe))
	documents := w.store.Blobs("evenings")
	if _, err := documents.Put(t.Context(), "2026-11-30", []byte("{}"), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	dir := folderOf(t, map[string]string{".env": "hidden", "a.js": "x", "robots.txt": "y"})
	if r := w.want(t, 1, "assets", "push", dir, "-container", "evenings"); !strings.Contains(r.err, "2026-11-30") {
		t.Errorf("got %s", r.err)
	}
	var keys []string
	for info, err := range documents.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	if len(keys) != 1 {
		t.Errorf("got %v, want the document alone", keys)
	}
}

// A store whose engine serves no files to browsers says so.
func TestAssetsPushOnAFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite:"+filepath.Join(t.TempDir(), "a.db"))
	r := w.want(t, 1, "assets", "push", folderOf(t, map[string]string{"a.js": "x"}))
	if !strings.Contains(r.err, "serves no files to browsers") {
		t.Errorf("got %s", r.err)
	}
}
