package share_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/internal/coordtest"
	"github.com/millrace-go/millrace/coord/share"
	"github.com/millrace-go/millrace/storage"
)

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A process whose Changed panics shares as before, and the log tells of it.
func TestAChangedThatPanics(t *testing.T) {
	t.Parallel()
	coordtest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var log lines
		r := newRate(t, s, 50, share.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Changed: func() { panic("made up by a test") }})
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
		if text := log.String(); !strings.Contains(text, "Config.Changed panics") || !strings.Contains(text, "made up by a test") {
			t.Errorf("got the log %s", text)
		}
	})
}
