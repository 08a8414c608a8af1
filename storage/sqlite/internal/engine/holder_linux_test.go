package engine

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lines is a log that is read while others write to it.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.all.Write(p) }
func (l *lines) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.all.String() }
func (l *lines) Len() int                    { l.mu.Lock(); defer l.mu.Unlock(); return l.all.Len() }
func (l *lines) Reset()                      { l.mu.Lock(); defer l.mu.Unlock(); l.all.Reset() }

// A process that stands still within a transaction stops all that write. The error of a write that has waited for it
// names the process, and so does the log, once, and also where no caller waits for long.
func TestAWriterThatStandsStillIsNamed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		var log lines
		db := openWith(t, path, &recorder{}, true, slog.New(slog.NewTextHandler(&log, nil)))
		if err := insert(db, "a"); err != nil {
			t.Fatal(err)
		}
		other, err := Connect(path, ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if err := other.Exec("BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		if err := insert(db, "b"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", os.Getpid())) || !strings.Contains(err.Error(), "let it go on or end it") {
			t.Errorf("got %v, want which process holds the file, and what to do", err)
		}
		me, said := fmt.Sprintf("process %d ", os.Getpid()), log.String()
		if strings.Count(said, "\n") != 1 || !strings.Contains(said, "WARN") || !strings.Contains(said, me) {
			t.Errorf("it logged %q, want a line that names the process", said)
		}
		_ = insert(db, "b")
		if log.String() != said {
			t.Errorf("it logged more: %q", log.String())
		}
		still := NewStandstill(path)
		for _, want := range []time.Duration{0, 7 * time.Second} {
			time.Sleep(want)
			if who, lasted := still.Look(); !strings.HasPrefix(who, me) || lasted != want {
				t.Errorf("after %v: it saw %q for %v", want, who, lasted)
			}
		}
		log.Reset()
		if err := other.Exec("ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		if err := insert(db, "c"); err != nil {
			t.Errorf("after that: %v", err)
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "INFO") || !strings.Contains(got, "writes go on") {
			t.Errorf("when it was over it logged %q", got)
		}
		if who, _ := still.Look(); who != "" {
			t.Errorf("when it was over: it saw %q", who)
		}

		log.Reset()
		if err := other.Exec("BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if log.Len() > 0 {
				t.Errorf("too early it logged %q", log.String())
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
			_ = db.Write(&Op{Ctx: ctx, Run: func() error { return nil }})
			cancel()
			synctest.Wait()
		}
		if !strings.Contains(log.String(), me) {
			t.Errorf("when many callers had waited for a while it logged %q", log.String())
		}
	})
}
