package sqlite

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// TestMain runs the test binary as another process of the program when a test has started it as one.
func TestMain(m *testing.M) {
	if role := os.Getenv("MILLRACE_SQLITE_CHILD"); role != "" {
		os.Exit(child(role, os.Getenv("MILLRACE_SQLITE_STORE")))
	}
	os.Exit(m.Run())
}

// openTest opens a new file, with parameters such as "?wake=off", until the end of the test.
func openTest(t testing.TB, query string) *store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "test.db"), query)
}

func openAt(t testing.TB, path, query string) *store {
	t.Helper()
	s, err := Open(context.Background(), path+query)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s.Driver().(*store)
}

// wake subscribes to a topic.
func wake(s driver.Store, topic string) (ring <-chan struct{}, stop func()) {
	sub := s.Listener().Listen(topic)
	return sub.Rings(), sub.Close
}

// unable skips a test that this machine can't run. Where CI is set that is a failure: green must mean tested.
func unable(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// smallDisk returns a folder on a file system of its own, and a function that mounts it again, read-only.
func smallDisk(t *testing.T, size string) (dir string, remount func(readOnly bool)) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		unable(t, "only root on Linux can mount a small disk")
	}
	dir = t.TempDir()
	if err := mountTmpfs(dir, "size="+size, false, false); err != nil {
		unable(t, "can't mount a small disk: "+err.Error())
	}
	t.Cleanup(func() {
		if err := unmount(dir); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir, func(readOnly bool) {
		t.Helper()
		if err := mountTmpfs(dir, "size="+size, true, readOnly); err != nil {
			t.Fatal(err)
		}
	}
}

func text(s string) []storage.Message { return []storage.Message{{Body: []byte(s)}} }

func send(t *testing.T, s driver.Store, queue string, bodies ...string) {
	t.Helper()
	for _, b := range bodies {
		if err := s.Queue(queue).Send(t.Context(), text(b)); err != nil {
			t.Fatal(err)
		}
	}
}

func receive(t *testing.T, s driver.Store, queue string, n int) []storage.Delivery {
	t.Helper()
	got, err := s.Queue(queue).Receive(t.Context(), n, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// all takes every ready message of a queue and returns the bodies in order.
func all(t *testing.T, s driver.Store, queue string) []string {
	t.Helper()
	var bodies []string
	for {
		got := receive(t, s, queue, maxReceive)
		if len(got) == 0 {
			slices.Sort(bodies)
			return bodies
		}
		for _, d := range got {
			bodies = append(bodies, string(d.Body))
		}
	}
}

// pragma runs a statement on the writer's connection.
func pragma(t *testing.T, s *store, sql string) {
	t.Helper()
	err := s.write(&engine.Op{Ctx: t.Context()}, func(w *tx) error { return w.c.Exec(sql) })
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err error, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got error %v; want kind %v", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q doesn't say %q", err, w)
		}
	}
}

// scratch runs SQL on a file that need not be this package's.
func scratch(t *testing.T, path string, sqls ...string) {
	t.Helper()
	c, err := engine.Connect(path, engine.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Exec(sqls...); err != nil {
		t.Fatal(err)
	}
}

// A store's warnings go to the logger that it was given.
func TestLoggerOfADriver(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path+"-wake", nil, 0o600); err != nil { // no folder can be made
		t.Fatal(err)
	}
	var log bytes.Buffer
	s, err := Driver.Open(t.Context(), path, storage.OpenConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	send(t, s.Driver(), "queue", "body")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "WARN") || !strings.Contains(got, path+"-wake") {
		t.Errorf("logged %q; want one warning about the folder", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	write := func(content string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	sql := func(sqls ...string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { scratch(t, path, sqls...) }
	}
	// ours makes a file by this program, as it is after Close, with a message in it.
	ours := func(t *testing.T, path string) {
		s := openAt(t, path, "?wake=off")
		send(t, s, "queue", "body")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	truncated := func(size int64) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			ours(t, path)
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := []struct {
		name  string
		make  func(t *testing.T, path string)
		kind  error
		words []string
	}{
		{"text", write("Dear diary,\n"), storage.ErrInvalid, []string{"not an SQLite database", "another path"}},
		{"long text", write(strings.Repeat("Dear diary,\n", 1000)), storage.ErrInvalid, []string{"not an SQLite database"}},
		{"tables of somebody else", sql("CREATE TABLE messages (id)"), storage.ErrInvalid, []string{"another program"}},
		{"somebody else's mark", sql("PRAGMA application_id = 42"), storage.ErrInvalid, []string{"another program"}},
		{"somebody else's log", sql("PRAGMA journal_mode = WAL", "CREATE TABLE t (id)"), storage.ErrInvalid, []string{"another program"}},
		{"newer schema", sql("PRAGMA application_id = 0x4d696c6c", "PRAGMA user_version = 1000", "CREATE TABLE t (id)"), storage.ErrUnsupported, []string{"1000", "newer program"}},
		{"newer schema, closed by its program", func(t *testing.T, path string) {
			ours(t, path)
			scratch(t, path, "PRAGMA user_version = 1000")
		}, storage.ErrUnsupported, []string{"1000", "newer program"}},
		{"truncated", truncated(3 * 4096), storage.ErrUnavailable, []string{"damaged", "backup"}},
		{"truncated to a page", truncated(4096), storage.ErrUnavailable, []string{"damaged", "backup"}},
		{"truncated to the header", truncated(100), storage.ErrUnavailable, []string{"damaged", "backup"}},
		{"mark without schema", sql("PRAGMA application_id = 0x4d696c6c"), storage.ErrInvalid, []string{"no schema"}},
		{"folder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, storage.ErrInvalid, []string{"folder"}},
		{"file in place of the folder", func(t *testing.T, path string) {
			dir := filepath.Dir(path)
			if err := errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}, storage.ErrUnavailable, []string{"not a directory"}},
		{"link to nowhere", func(t *testing.T, path string) {
			if err := os.Symlink(filepath.Join(path+".d", "x"), path); err != nil {
				t.Fatal(err)
			}
		}, storage.ErrUnavailable, []string{"writable"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "sub", "test.db")
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			test.make(t, path)
			before, _ := os.ReadFile(path)
			files := list(t, filepath.Dir(path))
			s, err := Open(t.Context(), path)
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			wantError(t, err, test.kind, append(test.words, path)...)
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
			if now := list(t, filepath.Dir(path)); !slices.Equal(now, files) {
				t.Errorf("the folder had %q and has %q", files, now)
			}
		})
	}
}

// list returns the names in a folder, or none when it isn't a folder.
func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, syscall.ENOTDIR) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestOpenReadsTheLog has a newer schema's version in the log only, as after the death of a newer program.
func TestOpenReadsTheLog(t *testing.T) {
	t.Parallel()
	s := openTest(t, "?wake=off")
	send(t, s, "queue", "body")
	if err := s.Close(); err != nil { // so the file has this program's version
		t.Fatal(err)
	}
	s = openAt(t, s.path, "?wake=off")
	pragma(t, s, "PRAGMA user_version = 1000")
	path := filepath.Join(t.TempDir(), "test.db")
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(s.path + end)
		if err == nil {
			err = os.WriteFile(path+end, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the first leaves the file so that the second says the same
		_, err := Open(t.Context(), path)
		wantError(t, err, storage.ErrUnsupported, "1000", "newer program")
	}
	if now := list(t, filepath.Dir(path)); !slices.Equal(now, []string{"test.db"}) {
		t.Errorf("the folder has %q", now)
	}
}

func TestOpenMakesFileAndFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "b c", "test.db")
	s := openAt(t, path, "")
	send(t, s, "queue", "body")
	for name, want := range map[string]os.FileMode{path: 0o600, path + "-wal": 0o600, filepath.Dir(path): 0o700 | os.ModeDir} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("mode of %s is %v; want %v", name, info.Mode(), want)
		}
	}
}

func TestOpenAdoptsEmptyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	send(t, openAt(t, path, ""), "queue", "body")
}

func TestOpenUnwritable(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		dir, remount := smallDisk(t, "4m")
		path := filepath.Join(dir, "test.db")
		s := openAt(t, path, "?wake=off")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		remount(true)
		for _, p := range []string{path, filepath.Join(dir, "new.db"), filepath.Join(dir, "sub", "new.db")} {
			_, err := Open(t.Context(), p)
			wantError(t, err, storage.ErrUnavailable, p, "folder", "read-only file system")
		}
		return
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "test.db")
	if err := openAt(t, path, "?wake=off").Close(); err != nil {
		t.Fatal(err)
	}
	chmod := func(name string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod(path, 0o400)
	_, err := Open(t.Context(), path)
	wantError(t, err, storage.ErrUnavailable, "the file is read-only", path)
	chmod(path, 0o600)
	chmod(dir, 0o500)
	defer chmod(dir, 0o700)
	for _, p := range []string{path, filepath.Join(dir, "new.db"), filepath.Join(dir, "sub", "new.db")} {
		_, err := Open(t.Context(), p)
		wantError(t, err, storage.ErrUnavailable, p, "folder", "permission denied")
	}
	if now := list(t, dir); !slices.Equal(now, []string{"test.db"}) {
		t.Errorf("the folder has %q", now)
	}
}

func TestConcurrentFirstOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sub", "test.db")
	errs := make(chan error)
	const n = 8
	for range n {
		go func() {
			s, err := Open(t.Context(), path)
			if err == nil {
				err = s.Queue("queue").Send(t.Context(), text("body"))
				err = errors.Join(err, s.Close())
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := all(t, openAt(t, path, ""), "queue"); len(got) != n {
		t.Errorf("%d messages; want %d", len(got), n)
	}
}
