package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// At the debug level the log shows which messages a worker had in hand when it died. Above that level a message that is
// handled leaves no line.
func TestMessagesInHandAreTold(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]int{slog.LevelDebug: 1, slog.LevelInfo: 0} {
		t.Run(level.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				tries := 0
				l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), func(context.Context, job) error {
					tries++
					if tries == 1 {
						return errors.New("not yet")
					}
					return nil
				})
				var log bytes.Buffer
				stop := l.Start(worker.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))})
				l.sendJobs(t, job{ID: "told", Body: "secret"})
				l.empty(t, time.Second)
				if err := stop(); err != nil {
					t.Error(err)
				}
				for _, line := range []string{
					`msg="message taken" queue=jobs id=told deliveries=1`, `msg="message released" queue=jobs id=told deliveries=1`,
					`msg="message taken" queue=jobs id=told deliveries=2`, `msg="message released" queue=jobs id=told deliveries=2`,
				} {
					worldtest.Want(t, line, strings.Count(log.String(), line), want)
				}
				worldtest.Want(t, "mentions of the body", strings.Count(log.String(), "secret"), 0)
			})
		})
	}
}

// Messages are renewed while those before them are decoded. Logging a renewal reads no field that is being written: the
// race detector checks that.
func TestRenewalBeforeDecoding(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		extended := make(chan struct{})
		var once sync.Once
		hooked := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name != "extend" {
				return do()
			}
			once.Do(func() { close(extended) })
			return op.Fail(storage.ErrUnavailable)
		})
		l := newLab(t, hooked, func(context.Context, job) error { return nil })
		l.sendJobs(t, job{ID: "a"}, job{ID: "b"}, job{ID: "c"})
		stop := l.Start(worker.Config{Visibility: 12 * time.Second, Logger: slog.New(waitsOnce{slog.DiscardHandler, "message taken", extended})})
		<-extended
		l.empty(t, time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		worldtest.Want(t, "calls", len(l.called()), 3)
	})
}

// waitsOnce is a slow log: it waits at one line.
type waitsOnce struct {
	slog.Handler
	line  string
	until <-chan struct{}
}

func (h waitsOnce) Enabled(context.Context, slog.Level) bool { return true }
func (h waitsOnce) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h waitsOnce) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.line {
		<-h.until
	}
	return nil
}
