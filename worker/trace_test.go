package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/worker"
)

// At the debug level the log tells which messages a worker has in hand, so that one can know what it had when it died.
// Above that level nothing is said of a message that is handled.
func TestMessagesInHandAreTold(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]int{slog.LevelDebug: 1, slog.LevelInfo: 0} {
		t.Run(level.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				tries := 0
				l := newLab(t, openStore(t), func(context.Context, job) error {
					tries++
					if tries == 1 {
						return errors.New("not yet")
					}
					return nil
				})
				var log bytes.Buffer
				stop := l.start(t, worker.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))})
				l.sendJobs(t, job{ID: "told", Body: "secret"})
				l.empty(t, time.Second)
				if err := stop(); err != nil {
					t.Error(err)
				}
				for _, line := range []string{
					`msg="message taken" queue=jobs id=told deliveries=1`, `msg="message released" queue=jobs id=told deliveries=1`,
					`msg="message taken" queue=jobs id=told deliveries=2`, `msg="message released" queue=jobs id=told deliveries=2`,
				} {
					wantInt(t, line, strings.Count(log.String(), line), want)
				}
				wantInt(t, "mentions of the body", strings.Count(log.String(), "secret"), 0)
			})
		})
	}
}
