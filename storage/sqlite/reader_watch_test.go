package sqlite

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestReaderIsNoticed keeps a read transaction open while much is written. The store logs that once, and once when it
// is over.
func TestReaderIsNoticed(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		var log bytes.Buffer
		err := s.write(&op{ctx: t.Context(), run: func(w *writer) error {
			w.readerWatch.limit, w.readerWatch.log = 300, slog.New(slog.NewTextHandler(&log, nil))
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		// said returns the log once the store is at rest and has tried to copy SQLite's log.
		said := func(n int) string {
			t.Helper()
			grow(t, n, 5000, s)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			defer log.Reset()
			return log.String()
		}
		if got := said(300); got != "" {
			t.Fatalf("without a reader it said %q", got)
		}
		for range 2 {
			c, err := openConn(s.path, openReadOnly)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.exec("BEGIN", "SELECT count(*) FROM due"); err != nil {
				t.Fatal(err)
			}
			if got := said(10); got != "" {
				t.Errorf("with few pages it said %q", got)
			}
			got := said(300)
			for _, want := range []string{"WARN", "read transaction open", s.path + "-wal", "bytes=", "end that transaction"} {
				if strings.Count(got, want) != 1 {
					t.Errorf("it said %q; want %q, once", got, want)
				}
			}
			if got := said(300); got != "" {
				t.Errorf("it said more: %q", got)
			}
			if err := c.close(); err != nil {
				t.Fatal(err)
			}
			if got := said(1); strings.Count(got, "\n") != 1 || !strings.Contains(got, "INFO") || !strings.Contains(got, "is over") {
				t.Errorf("when it was over it said %q; want that, once", got)
			}
		}
	})
}
