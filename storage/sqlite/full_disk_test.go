package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

func TestOpenOnFullDisk(t *testing.T) {
	t.Parallel()
	dir, _ := smallDisk(t, "64k")
	hog(t, dir)
	_, err := Open(t.Context(), filepath.Join(dir, "test.db"))
	wantError(t, err, storage.ErrUnavailable, "disk is full")
}

// hog fills a disk, and returns a function that frees it.
func hog(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "hog")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			return func() {
				t.Helper()
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// fillUp sends until a send is refused, and returns the acknowledged messages.
func fillUp(t *testing.T, s driver.Store) (acknowledged []string, err error) {
	t.Helper()
	pad := strings.Repeat("x", 4000)
	for i := range 100000 {
		body := string(rune('a'+i%26)) + pad[i%1000:]
		if err := s.Queue("queue").Send(t.Context(), text(body)); err != nil {
			return acknowledged, err
		}
		acknowledged = append(acknowledged, body)
	}
	t.Fatal("the disk is never full")
	return nil, nil
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir, _ := smallDisk(t, "3m")
	path := filepath.Join(dir, "test.db")
	s := openAt(t, path, "?wake=off")
	send(t, s, "queue", "first")
	free := hog(t, dir)
	want, err := fillUp(t, s)
	wantError(t, err, storage.ErrUnavailable, "disk is full")
	if _, err := s.Blobs("blobs").Put(t.Context(), "key", make([]byte, 1<<20), storage.Condition{}); err == nil {
		t.Error("a blob found room on a full disk")
	}
	if st, err := s.Queue("queue").Stats(t.Context()); err != nil || st.Ready != int64(len(want))+1 {
		t.Errorf("while full: %+v, %v; want %d ready", st, err, len(want)+1)
	}
	free()
	send(t, s, "queue", "last")
	want = append(want, "first", "last")
	slices.Sort(want)
	if got := all(t, s, "queue"); !slices.Equal(got, want) {
		t.Errorf("%d messages; want the %d that were acknowledged", len(got), len(want))
	}
}

// TestFullDiskReader checks that a store that has only read doesn't fail for the log of others.
func TestFullDiskReader(t *testing.T) {
	t.Parallel()
	dir, _ := smallDisk(t, "3m")
	s := openAt(t, filepath.Join(dir, "test.db"), "")
	free := hog(t, dir)
	defer free()
	want, err := fillUp(t, s)
	wantError(t, err, storage.ErrUnavailable, "disk is full")
	reader, err := Open(t.Context(), s.path)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := reader.Queue("queue").Stats(t.Context()); err != nil || st.Ready != int64(len(want)) {
		t.Errorf("stats: %+v, %v; want %d ready", st, err, len(want))
	}
	if err := reader.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	c, err := engine.Connect(s.path, engine.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Exec("PRAGMA wal_checkpoint(PASSIVE)"); err == nil {
		t.Error("the log could be written back: nothing was tested")
	}
}

func TestFullFile(t *testing.T) {
	t.Parallel()
	s := openTest(t, "?wake=off")
	pragma(t, s, "PRAGMA max_page_count = 200")
	want, err := fillUp(t, s)
	wantError(t, err, storage.ErrUnavailable, "disk is full")
	var cause *Error
	if !errors.As(err, &cause) || cause.Code != sqliteFull {
		t.Errorf("the cause of %v is not SQLite's", err)
	}
	pragma(t, s, "PRAGMA max_page_count = 1000000")
	send(t, s, "queue", "last")
	want = append(want, "last")
	slices.Sort(want)
	if got := all(t, s, "queue"); !slices.Equal(got, want) {
		t.Errorf("%d messages; want the %d that were acknowledged", len(got), len(want))
	}
}
