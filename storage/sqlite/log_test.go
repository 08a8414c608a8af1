package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// grow sends n messages, each some five pages with a body of 5,000 bytes. It returns how often that made the log
// longer, and how long the log is.
func grow(t *testing.T, n, bytes int, stores ...*store) (longer int, size int64) {
	t.Helper()
	for i := range n {
		send(t, stores[i%len(stores)], "queue", fmt.Sprintf("%03d%s", i, strings.Repeat("x", bytes)))
		info, err := os.Stat(stores[0].path + "-wal")
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

// written returns where the store's last commit ends in the log.
func written(t *testing.T, s *store) (size int64) {
	t.Helper()
	err := s.write(&op{ctx: t.Context(), run: func(w *writer) error {
		size = logHeader + w.c.logPages()*w.logEnd.frame
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// TestLogIsAhead checks that few commits make the log longer, whichever process writes, and that a copy of file and
// log has all messages.
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
				var stores []*store
				for range c.writers {
					stores = append(stores, openAt(t, path, "?wake=off&sync=normal"))
				}
				if _, size := grow(t, 1, 5000, stores...); size != written(t, stores[0]) {
					t.Errorf("a message makes a log of %d bytes; want no more than it needs", size)
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
				s := openAt(t, to, "?wake=off")
				if got, want := all(t, s, "queue"), all(t, stores[0], "queue"); len(want) != c.n+1 || !slices.Equal(got, want) {
					t.Errorf("the copy has %d messages; want the %d", len(got), len(want))
				}
			})
		})
	}
}

// TestLogCantBeAhead checks that commits go on when the log can't be made longer, and that many commits pass before
// another try.
func TestLogCantBeAhead(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		grow(t, 1, 10, s)
		locked, err := os.Open(s.path + "-wal") // opened for reading only
		if err != nil {
			t.Fatal(err)
		}
		inWriter := func(f func(w *writer)) {
			t.Helper()
			if err := s.write(&op{ctx: t.Context(), run: func(w *writer) error { f(w); return nil }}); err != nil {
				t.Fatal(err)
			}
		}
		inWriter(func(w *writer) {
			w.syncer.log, locked = locked, w.syncer.log
			w.logExtended = true // so that only commits make it longer
		})
		defer locked.Close()
		sizes := map[int64]bool{}
		for range 50 {
			_, size := grow(t, 1, 10, s)
			if end := written(t, s); size > end {
				t.Fatalf("the log has %d bytes and its last commit ends at %d; want it no longer", size, end)
			}
			inWriter(func(w *writer) { sizes[w.logEnd.size] = true })
		}
		if len(sizes) > 2 {
			t.Errorf("it was tried %d times in 50 commits, %v; want once", len(sizes), sizes)
		}
		if got := all(t, s, "queue"); len(got) != 51 {
			t.Errorf("%d messages; want 51", len(got))
		}
	})
}

// TestLogIsAheadAnew checks that a log that SQLite has cut is made longer as before.
func TestLogIsAheadAnew(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		pragma(t, s, "PRAGMA journal_size_limit = 100000")
		_, long := grow(t, 300, 5000, s)
		scratch(t, s.path, passiveCheckpoint)
		if _, short := grow(t, 1, 5000, s); short > long/2 {
			t.Fatalf("the log had %d bytes and has %d; want it cut", long, short)
		}
		if longer, size := grow(t, 300, 5000, s); size < long/2 || longer > 20 {
			t.Errorf("the log has %d bytes and was made longer %d times; want some %d, and 20 times at most", size, longer, long)
		}
	})
}

// TestLogIsAheadAtRest checks that the log of a store with little to do is soon made long, and stays that long.
func TestLogIsAheadAtRest(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		var sizes []int64
		for range 30 {
			_, size := grow(t, 1, 10, s)
			sizes = append(sizes, size)
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		if first, mid, last := sizes[0], sizes[14], sizes[29]; first > logChunk || mid < logAhead || last != mid {
			t.Errorf("the log has %d bytes at first, %d after more than a second, %d at last; want few, %d, and that again", first, mid, last, logAhead)
		}
		if got := all(t, s, "queue"); len(got) != 30 {
			t.Errorf("%d messages; want 30", len(got))
		}
	})
}

// TestLogOfManyIsShort has several processes write without a pause, so that a part of the log is always not yet copied.
func TestLogOfManyIsShort(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	openAt(t, path, "?wake=off&sync=normal") // the last one to close removes the log
	var processes []*process
	for range 3 {
		processes = append(processes, start(t, "fill", path+"?sync=normal"))
	}
	var most int64
	for _, p := range processes {
		for len(p.read(1)) > 0 {
			most = max(most, size(t, path+"-wal"))
		}
	}
	if limit := int64(300 << 20); most > limit {
		t.Errorf("the log had %d MB while 480 MB were written; want %d at most", most>>20, limit>>20)
	}
}
