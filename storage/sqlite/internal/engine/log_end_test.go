package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// grow writes n texts, each some three pages with 5,000 bytes. It returns how often that made the log longer, and how
// long the log is.
func grow(t *testing.T, n, bytes int, dbs ...*DB) (longer int, size int64) {
	t.Helper()
	for i := range n {
		err := insert(dbs[i%len(dbs)], fmt.Sprintf("%03d%s", i, strings.Repeat("x", bytes)))
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dbs[0].file.path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > size && size > 0 {
			longer++
		}
		size = info.Size()
	}
	return longer, size
}

// written returns where the last commit ends in the log.
func written(t *testing.T, db *DB) (size int64) {
	t.Helper()
	inWriter(t, db, func(w *writer) error {
		size = logHeader + w.c.logPages()*w.logEnd.frame
		return nil
	})
	return size
}

// TestLogIsAhead checks that few commits make the log longer, whichever process writes, and that a copy of file and
// log has all texts.
func TestLogIsAhead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ writers, n, bytes int }{
		{1, 600, 5000},
		{3, 600, 5000},
		{3, 150, 40000}, // other processes write more than this one
	} {
		t.Run(fmt.Sprintf("%d by %d", c.n, c.writers), func(t *testing.T) {
			t.Parallel()
			path, to := filepath.Join(t.TempDir(), "test.db"), filepath.Join(t.TempDir(), "test.db")
			synctest.Test(t, func(t *testing.T) {
				var stores []*DB
				for range c.writers {
					stores = append(stores, openAt(t, path))
				}
				if _, size := grow(t, 1, 5000, stores...); size != written(t, stores[0]) {
					t.Errorf("a text makes a log of %d bytes; want no more than it needs", size)
				}
				longer, size := grow(t, c.n, c.bytes, stores...)
				if want := written(t, stores[(c.n-1)%c.writers]); size < want || size > 2*want || longer > 40 {
					t.Errorf("the log has %d bytes and was made longer %d times; want more than %d, and 40 times at most", size, longer, want)
				}
				for _, end := range []string{"", "-wal"} {
					data, err := os.ReadFile(path + end)
					if err == nil {
						err = os.WriteFile(to+end, data, 0o600)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				if got, want := bodies(t, openAt(t, to)), bodies(t, stores[0]); len(want) != c.n+1 || !slices.Equal(got, want) {
					t.Errorf("the copy has %d texts; want the %d", len(got), len(want))
				}
			})
		})
	}
}

// TestLogCantBeAhead checks that commits go on when the log can't be made longer, and that many commits pass before
// another try.
func TestLogCantBeAhead(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, db *DB) {
		grow(t, 1, 10, db)
		locked, err := os.Open(db.file.path + "-wal") // opened for reading only
		if err != nil {
			t.Fatal(err)
		}
		defer locked.Close()
		inWriter(t, db, func(w *writer) error {
			w.logEnd.log = locked
			w.logEnd.ended = true // so that only commits make it longer
			return nil
		})
		sizes := map[int64]bool{}
		for range 50 {
			_, size := grow(t, 1, 10, db)
			if end := written(t, db); size > end {
				t.Fatalf("the log has %d bytes and its last commit ends at %d; want it no longer", size, end)
			}
			inWriter(t, db, func(w *writer) error { sizes[w.logEnd.size] = true; return nil })
		}
		if len(sizes) > 2 {
			t.Errorf("it was tried %d times in 50 commits, %v; want once", len(sizes), sizes)
		}
		if got := bodies(t, db); len(got) != 51 {
			t.Errorf("%d texts; want 51", len(got))
		}
	})
}

// TestLogIsAheadOnceMore checks that a log that SQLite has cut is made longer as before.
func TestLogIsAheadOnceMore(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, db *DB) {
		inWriter(t, db, func(w *writer) error { return w.c.Exec("PRAGMA journal_size_limit = 100000") })
		_, long := grow(t, 300, 5000, db)
		tool, err := Connect(db.file.path, ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(tool.Exec(passiveCheckpoint), tool.Close()); err != nil {
			t.Fatal(err)
		}
		if _, short := grow(t, 1, 5000, db); short > long/2 {
			t.Fatalf("the log had %d bytes and has %d; want it cut", long, short)
		}
		if longer, size := grow(t, 300, 5000, db); size < long/2 || longer > 20 {
			t.Errorf("the log has %d bytes and was made longer %d times; want some %d, and 20 times at most", size, longer, long)
		}
	})
}

// TestLogIsAheadAtRest checks that the log of a file with little to do is soon made long, and stays that long.
func TestLogIsAheadAtRest(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, db *DB) {
		var sizes []int64
		for range 30 {
			_, size := grow(t, 1, 10, db)
			sizes = append(sizes, size)
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		if first, mid, last := sizes[0], sizes[14], sizes[29]; first > logChunk || mid < logAhead || last != mid {
			t.Errorf("the log has %d bytes at first, %d after more than a second, %d at last; want few, %d, and that again", first, mid, last, logAhead)
		}
		if got := bodies(t, db); len(got) != 30 {
			t.Errorf("%d texts; want 30", len(got))
		}
	})
}

// A disk that fails to sync the zeros at rest has failed.
func TestZerosCantBeSynced(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, db *DB) {
		grow(t, 1, 10, db)
		inWriter(t, db, func(w *writer) error {
			w.syncer.sync = func() error { return syscall.EIO }
			return nil
		})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if err := insert(db, "never"); !errors.Is(err, syscall.EIO) {
			t.Errorf("got %v; want the disk's error", err)
		}
	})
}
