package limit_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/limit"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
)

// lines is a log that is read while it is written.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// A process whose Changed panics shares as before, and the log tells of it.
func TestAChangedThatPanics(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		log := make(lines, 1000)
		r := newRate(t, s, 50, limit.Config{Logger: slog.New(slog.NewTextHandler(log, nil)), Changed: func() { panic("made up by a test") }})
		for range 3 {
			if err := r.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour) // it leaves
		if err := r.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if text := <-log; !strings.Contains(text, "Config.Changed panics") || !strings.Contains(text, "made up by a test") {
			t.Errorf("got the log %s", text)
		}
	})
}
