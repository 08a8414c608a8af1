package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// A hand-back by Later counts as old more than a day after the message was sent or due. Retries never count.
func TestOldHandBacksAreCounted(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		first := map[string]time.Time{}
		l := newLab(t, patient(s, 10*time.Minute), func(_ context.Context, j job) error {
			if first[j.Name].IsZero() {
				first[j.Name] = time.Now()
			}
			switch since := time.Since(first[j.Name]); {
			case since > 40*time.Hour:
				return nil
			case j.Name == "retried":
				return handlers.Retry(7*time.Hour, errors.New("no paper"))
			default:
				return handlers.Later(7*time.Hour, "no answer yet") // after 7, 14, 21, 28, 35 and 42 hours
			}
		})
		reg := prometheus.NewRegistry()
		l.Start(worker.Config{Metrics: reg, Concurrency: 1, MaxAttempts: 100})
		l.sendJobs(t, job{Name: "at once"}, job{Name: "retried"})
		if err := l.Channels.Send(t.Context(), channel.After(30*time.Hour, job{Name: "delayed"})); err != nil {
			t.Fatal(err)
		}
		l.empty(t, time.Hour)
		worldtest.Want(t, "old hand-backs of two messages", gathered(t, reg)["millrace_old_handbacks_total jobs"], 4)
	})
}
