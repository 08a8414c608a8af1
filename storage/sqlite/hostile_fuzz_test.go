package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/storage"
)

// A keeper is a store whose folder may hold nothing but its own files.
type keeper struct{ *storage.Store }

func newKeeper(t testing.TB) keeper {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	s, err := Open(context.WithoutCancel(t.Context()), filepath.Join(dir, "test.db")+"?sync=normal")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for folder, want := range map[string][]string{dir: {"test.db", "test.db-shm", "test.db-wake", "test.db-wal"}, filepath.Dir(dir): {"data"}} {
			entries, err := os.ReadDir(folder)
			if err != nil {
				t.Error(err)
			}
			for _, e := range entries {
				if !slices.Contains(want, e.Name()) {
					t.Errorf("a file %q has appeared", e.Name())
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return keeper{s}
}

// checkKey writes, finds and deletes a blob and a row of a key, beside a blob and a row that stay. The names may be
// invalid.
func (k keeper) checkKey(t *testing.T, name, key, from, to string) {
	t.Helper()
	ctx := t.Context()
	blobs, table := k.Blobs(name), k.Table(name)
	_, blobErr := blobs.Put(ctx, key, []byte("1"), storage.Condition{})
	_, rowErr := table.Put(ctx, key, key, []byte("1"), storage.Condition{})
	_, commitErr := k.Commit(ctx, storage.Work{Write: &storage.Write{Container: name, Key: key, Body: []byte("1")}})
	if bad := errors.Join(storage.CheckName(name), storage.CheckKey(key)); bad != nil {
		for what, err := range map[string]error{"blob": blobErr, "row": rowErr, "work": commitErr} {
			named := storage.CheckName(name) != nil // the program's own mistake; the error quotes it as it is
			if !errors.Is(err, storage.ErrInvalid) || !named && strings.ContainsAny(err.Error(), "\x00\r\n\x1b\x7f") {
				t.Errorf("%s %q in %q: got %v, want %v", what, key, name, err, storage.ErrInvalid)
			}
		}
		return
	}
	if err := errors.Join(blobErr, rowErr, commitErr); err != nil {
		t.Fatalf("%q in %q: %v", key, name, err)
	}
	b, err := blobs.Get(ctx, key, "")
	r, rErr := table.Get(ctx, key, key)
	if err != nil || rErr != nil || string(b.Body) != "1" || r.Key != key {
		t.Errorf("%q in %q: got %q (%v) and %+v (%v)", key, name, b.Body, err, r, rErr)
	}
	for _, prefix := range []string{"", from, key, key[:len(key)/2]} {
		var listed []string
		for info, err := range blobs.List(ctx, prefix) {
			if err != nil {
				t.Errorf("list %q: %v", prefix, err)
			}
			listed = append(listed, info.Key)
		}
		if slices.Contains(listed, key) != strings.HasPrefix(key, prefix) || len(listed) > 1 {
			t.Errorf("blobs that begin with %q: got %q with %q there", prefix, listed, key)
		}
	}
	for _, x := range []storage.RowRange{{}, {From: from}, {To: to}, {From: from, To: to}, {From: key, To: key + "\x00"}} {
		var found []string
		for row, err := range table.Query(ctx, key, x) {
			if err != nil {
				t.Errorf("query %+v: %v", x, err)
			}
			found = append(found, row.Key)
		}
		if want := x.From <= key && (x.To == "" || key < x.To); slices.Contains(found, key) != want || len(found) > 1 {
			t.Errorf("rows from %q to %q: got %q, want %q there: %v", x.From, x.To, found, key, want)
		}
	}
	if err := errors.Join(blobs.Delete(ctx, key, storage.Condition{}), table.Delete(ctx, key, key, storage.Condition{})); err != nil {
		t.Errorf("%q in %q: %v", key, name, err)
	}
}

var hostileKeys = [][4]string{
	{"docs", "a", "", ""}, {"docs", "../../etc/passwd", "..", "/"}, {"../docs", "a", "", ""}, {"docs", "%_*[a-z]?", "%", "_"}, {"docs", "a'; DROP TABLE blobs; --", "'", ""},
	{"docs", "a\x00b", "\x00", "\xff"}, {"docs", "\xff", "\xff", ""}, {"docs", "ü/😀", "ü", "ü\xff"}, {"docs", strings.Repeat("k", 257), "", ""}, {"do", "", "b", "a"}, {"docs\x00", "a\u0085", "", ""},
	{"docs", "\U0010ffff", "\U0010ffff", "\xf4\x90"}, {"docs", " ", " ", "!"}, {"sqlite-master", "x", "", ""},
}

// A key means nothing but itself: not to SQL, not to a pattern, not to the file system.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	for _, x := range hostileKeys {
		k.checkKey(t, x[0], x[1], x[2], x[3])
	}
}

func FuzzKey(f *testing.F) {
	for _, x := range hostileKeys {
		f.Add(x[0], x[1], x[2], x[3])
	}
	f.Fuzz(newKeeper(f).checkKey)
}

// FuzzPath checks that a store URL leads to the very file that it names, and that the error for a refused one is one
// line.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"data/app.db", "/a/../../etc/x?wake=off", "../x", "a?b\n=c", "\x1b[31m?x", "//host/share", "file:a?mode=rw", "a#b", "~root/x", "a\x00", "%2e%2e/x", "C:\\x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		p, err := parse(rest)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\x00\r\n\x1b\x7f") {
				t.Errorf("%q: the error is %q", rest, err)
			}
			return
		}
		typed, _, _ := strings.Cut(rest, "?")
		if want, err := filepath.Abs(typed); err != nil || p.path != want {
			t.Errorf("%q: got the file %q, want %q (%v)", rest, p.path, want, err)
		}
	})
}
