package engine

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestReaderIsNoticed keeps a read transaction open while much is written. It is logged once, and once when it
// is over.
func TestReaderIsNoticed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		db := openWith(t, path, &recorder{}, true, slog.New(slog.NewTextHandler(&log, nil)))
		inWriter(t, db, func(w *writer) error { w.ckpt.watch.limit = 300; return nil })
		// said returns the log once the writer is at rest and has tried to copy SQLite's log.
		said := func(n int) string {
			t.Helper()
			grow(t, n, 10_000, db)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			defer log.Reset()
			return log.String()
		}
		if got := said(300); got != "" {
			t.Fatalf("without a reader it said %q", got)
		}
		for range 2 {
			c, err := Connect(path, ReadOnly)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Exec("BEGIN", "SELECT count(*) FROM things"); err != nil {
				t.Fatal(err)
			}
			if got := said(10); got != "" {
				t.Errorf("with few pages it said %q", got)
			}
			got := said(300)
			for _, want := range []string{"WARN", "read transaction open", path + "-wal", "bytes=", "end that transaction"} {
				if strings.Count(got, want) != 1 {
					t.Errorf("it said %q; want %q, once", got, want)
				}
			}
			if got := said(300); got != "" {
				t.Errorf("it said more: %q", got)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if got := said(1); strings.Count(got, "\n") != 1 || !strings.Contains(got, "INFO") || !strings.Contains(got, "is over") {
				t.Errorf("when it was over it said %q; want that, once", got)
			}
		}
	})
}
