package folder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

func put(t testing.TB, d *Folder, key string, number int, body string) {
	t.Helper()
	if err := d.PutPart(t.Context(), "inbox", key, number, int64(len(body)), strings.NewReader(body)); err != nil {
		t.Fatal(err)
	}
}

// commit makes a file of parts.
func commit(t *testing.T, d *Folder, key string, parts ...string) driver.FileInfo {
	t.Helper()
	sizes := make([]int64, len(parts))
	for i, body := range parts {
		put(t, d, key, i+1, body)
		sizes[i] = int64(len(body))
	}
	info, err := d.Commit(t.Context(), "inbox", key, sizes)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func readAll(t *testing.T, d *Folder, container, key string, info driver.FileInfo) (string, error) {
	t.Helper()
	r, err := d.Open(t.Context(), container, key, info.ETag, 0, info.Size)
	if err != nil {
		return "", err
	}
	got, err := io.ReadAll(r)
	return string(got), errors.Join(err, r.Close())
}

func wantContent(t *testing.T, d *Folder, container, key string, info driver.FileInfo, want string) {
	t.Helper()
	if got, err := readAll(t, d, container, key, info); got != want || err != nil {
		t.Errorf("%s of %s: got %.40q, error %v; want %.40q", key, container, got, err, want)
	}
}

func wantKind(t *testing.T, err, kind error, fragments ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("got error %v; want %v", err, kind)
		return
	}
	for _, x := range fragments {
		if !strings.Contains(err.Error(), x) {
			t.Errorf("got error %v; want one that says %q", err, x)
		}
	}
}

// partFile is the path of a part that is alone under its key.
func partFile(t *testing.T, d *Folder, container, key string, number int) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(d.disk.path, placeOf(container, key).dir, fmt.Sprintf("[pc]%05d-*", number)))
	if err != nil || len(found) != 1 {
		t.Fatalf("part %d of %s: %q, error %v; want one file", number, key, found, err)
	}
	return found[0]
}

func TestNothingIsMadeBeforeTheFirstPart(t *testing.T) {
	t.Parallel()
	d := New(filepath.Join(t.TempDir(), "files"), "")
	_, err := d.Stat(t.Context(), "inbox", "key")
	wantKind(t, err, driver.ErrNotFound)
	_, err = d.Open(t.Context(), "inbox", "key", "etag", 0, 0)
	wantKind(t, err, driver.ErrNotFound)
	_, err = d.Commit(t.Context(), "inbox", "key", []int64{1})
	wantKind(t, err, driver.ErrPrecondition)
	_, err = d.Copy(t.Context(), "inbox", "key", "etag", "files", "key")
	wantKind(t, err, driver.ErrPrecondition)
	if parts, err := d.Parts(t.Context(), "inbox", "key"); len(parts) != 0 || err != nil {
		t.Errorf("parts: %v, error %v; want none", parts, err)
	}
	if err := d.Delete(t.Context(), "inbox", "key"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(d.disk.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is there: error %v", err)
	}
}

func TestAllIsForThisUserOnly(t *testing.T) {
	t.Parallel()
	d := New(filepath.Join(t.TempDir(), "above", "files"), "")
	info := commit(t, d, "../key/..", "one", "two")
	if _, err := d.Copy(t.Context(), "inbox", "../key/..", info.ETag, "files", "key"); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := filepath.WalkDir(d.disk.path, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = 0o700 | fs.ModeDir
		}
		if n++; err == nil && info.Mode() != want {
			t.Errorf("%s has the mode %v; want %v", path, info.Mode(), want)
		}
		return err
	})
	if err != nil || n < 10 {
		t.Errorf("%d files and folders, error %v", n, err)
	}
}

// An open body is poured into a file that nobody can name yet. No file holds what it writes after a check.
func TestSlowWriterChangesNoFile(t *testing.T) {
	t.Parallel()
	d := New(filepath.Join(t.TempDir(), "files"), "")
	put(t, d, "key", 2, "two")
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- d.PutPart(t.Context(), "inbox", "key", 1, 8, r) }()
	if _, err := io.WriteString(w, "evil"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Commit(t.Context(), "inbox", "key", []int64{8, 3}); !errors.Is(err, driver.ErrPrecondition) {
		t.Errorf("commit with half a part: got error %v", err)
	}
	info := commit(t, d, "key", "good one", "two")
	copied, err := d.Copy(t.Context(), "inbox", "key", info.ETag, "files", "key")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "evil"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantContent(t, d, "inbox", "key", info, "good onetwo")
	wantContent(t, d, "files", "key", copied, "good onetwo")
	next, err := d.Commit(t.Context(), "inbox", "key", []int64{8, 3})
	if err != nil || next.ETag == info.ETag {
		t.Errorf("commit of another part: %+v, error %v; want another ETag than %s", next, err, info.ETag)
	}
	wantContent(t, d, "inbox", "key", next, "evileviltwo")
	wantContent(t, d, "files", "key", copied, "good onetwo")
}

func TestCopyWithoutHardLinks(t *testing.T) {
	t.Parallel()
	d := New(filepath.Join(t.TempDir(), "files"), "")
	d.byBytes = true
	parts := []string{strings.Repeat("one", 100_000), "two", strings.Repeat("three", 10_000)}
	info := commit(t, d, "key", parts...)
	for range 2 {
		copied, err := d.Copy(t.Context(), "inbox", "key", info.ETag, "files", "key")
		if err != nil {
			t.Fatal(err)
		}
		wantContent(t, d, "files", "key", copied, strings.Join(parts, ""))
	}
	checkNoGarbage(t, d, "files", "key", 3)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err := d.Copy(ctx, "inbox", "key", info.ETag, "files", "other")
	wantKind(t, err, context.Cause(ctx))
	wantTemps(t, d, 0)
}

// A Copy that comes again keeps the file, unless something has come since.
func TestCopyAgain(t *testing.T) {
	t.Parallel()
	d := New(filepath.Join(t.TempDir(), "files"), "")
	info := commit(t, d, "key", "one", "two")
	again := func() driver.FileInfo {
		t.Helper()
		copied, err := d.Copy(t.Context(), "inbox", "key", info.ETag, "files", "key")
		if err != nil {
			t.Fatal(err)
		}
		wantContent(t, d, "files", "key", copied, "onetwo")
		checkNoGarbage(t, d, "files", "key", 2)
		return copied
	}
	first := again()
	if second := again(); second != first {
		t.Errorf("the second copy is %+v; want that of the first, %+v", second, first)
	}
	if err := d.PutPart(t.Context(), "files", "key", 3, 4, strings.NewReader("late")); err != nil {
		t.Fatal(err)
	}
	again()
	if parts, err := d.Parts(t.Context(), "files", "key"); len(parts) != 2 || err != nil {
		t.Errorf("parts: %v, error %v; want the two of the copy", parts, err)
	}
}

func TestReplacedPartsGoAtOnce(t *testing.T) {
	t.Parallel()
	d := New(filepath.Join(t.TempDir(), "files"), "")
	for i := range 5 {
		put(t, d, "key", 1, fmt.Sprint("body ", i))
		put(t, d, "key", 2, "two")
	}
	partFile(t, d, "inbox", "key", 1)
	partFile(t, d, "inbox", "key", 2)
}

func TestReaderOfAFileThatIsReplaced(t *testing.T) {
	t.Parallel()
	d := New(filepath.Join(t.TempDir(), "files"), "")
	info := commit(t, d, "key", "one", "two")
	r, err := d.Open(t.Context(), "inbox", "key", info.ETag, 0, 6)
	if err != nil {
		t.Fatal(err)
	}
	commit(t, d, "key", "uno", "due")
	got, err := io.ReadAll(r)
	wantKind(t, err, driver.ErrPrecondition)
	if string(got) != "one" {
		t.Errorf("got %q; want the part that was open", got)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func wantTemps(t *testing.T, d *Folder, want int) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(d.disk.path, tempDir))
	if err != nil || len(entries) != want {
		t.Errorf("%d temporary files, error %v; want %d", len(entries), err, want)
	}
}

func TestLeftFilesAreRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "files")
	put(t, New(path, ""), "key", 1, "one")
	long := time.Now().Add(-25 * time.Hour)
	leave := func(name string, at time.Time) {
		t.Helper()
		full := filepath.Join(path, tempDir, name)
		if err := errors.Join(os.WriteFile(full, []byte("left"), 0o600), os.Chtimes(full, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		leave(fmt.Sprintf("%d-LEFT%d", long.Unix(), i), long)
	}
	leave(fmt.Sprintf("%d-SLOW", long.Unix()), time.Now()) // somebody writes to it
	leave(fmt.Sprintf("%d-LINK", time.Now().Unix()), long) // a new link of an old file
	d := New(path, "")
	if err := d.Delete(t.Context(), "inbox", "other"); err != nil {
		t.Fatal(err)
	}
	wantTemps(t, d, 2)
}

// Names that lead out of the folder are in nobody's keys, but somebody may put links there.
func TestLinksOutOfTheFolderAreRefused(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	d := New(filepath.Join(t.TempDir(), "files"), "")
	info := commit(t, d, "key", "secret")
	secret := filepath.Join(out, "secret")
	if err := os.WriteFile(secret, []byte("SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := partFile(t, d, "inbox", "key", 1)
	if err := errors.Join(os.Remove(file), os.Symlink(secret, file)); err != nil {
		t.Fatal(err)
	}
	_, err := readAll(t, d, "inbox", "key", info)
	wantKind(t, err, driver.ErrUnavailable)
	if err := errors.Join(os.Symlink(out, filepath.Join(d.disk.path, "c-linked"))); err != nil {
		t.Fatal(err)
	}
	err = d.PutPart(t.Context(), "linked", "key", 1, 3, strings.NewReader("one"))
	wantKind(t, err, driver.ErrUnavailable)
	if entries, err := os.ReadDir(out); err != nil || len(entries) != 1 {
		t.Errorf("the folder outside has %v, error %v; want the one file that was there", entries, err)
	}
	if err := d.Delete(t.Context(), "inbox", "key"); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(secret); string(got) != "SECRET" || err != nil {
		t.Errorf("the file outside holds %q, error %v", got, err)
	}
}

func TestDamageIsAnError(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"a part is missing":       os.Remove,
		"a part has another size": func(path string) error { return os.Truncate(path, 3) },
		"the manifest can't be read": func(path string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(path), manifestName), []byte("{}"), 0o600)
		},
	} {
		d := New(filepath.Join(t.TempDir(), "files"), "")
		info := commit(t, d, "key", "part one", "part two")
		if err := damage(partFile(t, d, "inbox", "key", 2)); err != nil {
			t.Fatal(err)
		}
		_, err := readAll(t, d, "inbox", "key", info)
		wantKind(t, err, driver.ErrUnavailable, name, "backup")
		if err != nil && strings.Count(err.Error(), "key") > 0 {
			t.Errorf("the error tells the key, which package storage does: %v", err)
		}
	}
}

// Leavings of processes that were killed within a Commit and a Copy count as nothing, and go.
func TestLeavingsOfACommitAndACopy(t *testing.T) {
	t.Parallel()
	d := New(filepath.Join(t.TempDir(), "files"), "")
	info := commit(t, d, "key", "one", "two")
	dir := filepath.Dir(partFile(t, d, "inbox", "key", 1))
	for _, name := range []string{newPart(kindCopied, 1, 0, 4).name, newPart(kindCopied, 9, 0, 4).name, manifestTemp} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("left"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if parts, err := d.Parts(t.Context(), "inbox", "key"); len(parts) != 2 || err != nil {
		t.Errorf("parts: %v, error %v; want the two of the file", parts, err)
	}
	wantContent(t, d, "inbox", "key", info, "onetwo")
	info = commit(t, d, "key", "one", "zwei")
	wantContent(t, d, "inbox", "key", info, "onezwei")
	checkNoGarbage(t, d, "inbox", "key", 2)
}

// A process that was killed before it could remove what a Commit left out has committed all the same.
func TestPartsThatACommitLeftOutCountNoMore(t *testing.T) {
	t.Parallel()
	d := New(filepath.Join(t.TempDir(), "files"), "")
	commit(t, d, "key", "one", "two")
	put(t, d, "key", 3, "three")
	before := map[string]string{partFile(t, d, "inbox", "key", 2): "", partFile(t, d, "inbox", "key", 3): ""}
	for path := range before {
		before[path] = filepath.Join(t.TempDir(), "kept")
		if err := os.Link(path, before[path]); err != nil {
			t.Fatal(err)
		}
	}
	info := commit(t, d, "key", "one", "zwei")
	for path, kept := range before {
		if err := os.Link(kept, path); err != nil {
			t.Fatal(err)
		}
	}
	for _, again := range []bool{false, true} {
		if parts, err := d.Parts(t.Context(), "inbox", "key"); len(parts) != 2 || err != nil || parts[1].Size != 4 {
			t.Errorf("parts: %v, error %v; want the two of the file", parts, err)
		}
		if again {
			break
		}
		if _, err := d.Commit(t.Context(), "inbox", "key", []int64{3, 4, 5}); !errors.Is(err, driver.ErrPrecondition) {
			t.Errorf("commit with a part that was left out: got error %v", err)
		}
		next, err := d.Commit(t.Context(), "inbox", "key", []int64{3, 4})
		if err != nil || next != info {
			t.Errorf("commit again: %+v, error %v; want %+v", next, err, info)
		}
	}
	info = commit(t, d, "key", "uno")
	wantContent(t, d, "inbox", "key", info, "uno")
	checkNoGarbage(t, d, "inbox", "key", 1)
}

// A process that stands still with a lock stops calls for some keys, until their contexts end.
func TestLockOfAnotherProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "files")
	d, other := New(path, ""), New(path, "")
	info := commit(t, d, "key", "one")
	s, err := other.open(t.Context(), "inbox", "key")
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	unlock, err := other.locks.lock(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("enough"))
	defer cancel()
	err = d.PutPart(ctx, "inbox", "key", 1, 3, strings.NewReader("two"))
	wantKind(t, err, context.Cause(ctx))
	wantTemps(t, d, 0)
	wantContent(t, d, "inbox", "key", info, "one") // reading takes no lock
	unlock()
	commit(t, d, "key", "two")
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "3m")
	d := New(filepath.Join(disk, "files"), "")
	info := commit(t, d, "key", "one")
	hog := filepath.Join(disk, "hog")
	if err := os.WriteFile(hog, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	big := bytes.Repeat([]byte("x"), 2<<20)
	err := d.PutPart(t.Context(), "inbox", "key", 1, int64(len(big)), bytes.NewReader(big))
	wantKind(t, err, driver.ErrUnavailable, "disk is full")
	wantTemps(t, d, 0)
	wantContent(t, d, "inbox", "key", info, "one")
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	put(t, d, "key", 1, string(big))
}

func FuzzParsePart(f *testing.F) {
	f.Add(newPart(kindPut, 7, 3, 1<<30).name)
	f.Add(newPart(kindCopied, driver.MaxParts, 0, 0).name)
	f.Add("p00000-1-1-A")
	f.Add(manifestName)
	f.Fuzz(func(t *testing.T, name string) {
		x, ok := parsePart(name)
		if !ok {
			return
		}
		if x.name != name || x.number < 1 || x.number > driver.MaxParts || x.size < 0 || x.turn < 0 {
			t.Errorf("%q is %+v", name, x)
		}
	})
}
