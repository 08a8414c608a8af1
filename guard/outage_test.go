package guard_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/internal/worldtest"
)

// A service is away for ten minutes while ten jobs come each second. Without a guard 5,842 of the 6,000 jobs would be
// poisoned, with 29,700 calls of a service that is down.
func TestAnOutageOfTenMinutes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, func(log *slog.Logger) *guard.Guard { return guard.New("smtp", guard.Config{Logger: log}) }, good)
		sent := 0
		send := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				worldtest.Send(l.World, make([]job, 5)...)
				sent += 5
			}
		}
		send(10 * time.Second)
		l.service.set(errDown)
		send(590 * time.Second)
		_, calls, _ := l.service.counted()
		t.Logf("calls while it was down: %d", calls)
		if calls > 60+32 { // those in flight
			t.Errorf("%d calls of a service that is down; want 60 at most, besides 32 in flight", calls)
		}
		l.service.set(nil)
		back := time.Now()
		for int(l.done.Load()) < sent && time.Since(back) < 2*time.Minute {
			time.Sleep(time.Second)
		}
		t.Logf("%d jobs, the backlog is gone after %v; attempts %d", sent, time.Since(back), l.attempts.Load())
		worldtest.Want(t, "jobs that are done", int(l.done.Load()), sent)
		worldtest.Want(t, "poisoned jobs", len(l.Poisoned("jobs")), 0)
	})
}
