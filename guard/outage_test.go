package guard_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/internal/worldtest"
)

// A service is away for ten minutes while five jobs come each second. That is few, to be cheap: whatever the rate,
// twenty failures open the breaker, and then only probes call.
func TestAnOutageOfTenMinutes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, func(log *slog.Logger) *guard.Guard { return guard.New("smtp", guard.Config{Logger: log}) }, good)
		sent := 0
		send := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				worldtest.Send(l.World, job{sent}, job{sent + 1}, job{sent + 2}, job{sent + 3}, job{sent + 4})
				sent += 5
			}
		}
		send(10 * time.Second)
		l.service.set(errDown)
		send(20 * time.Second)
		opened := sent // the breaker is open for those that come now
		send(580 * time.Second)
		_, calls, _ := l.service.counted()
		if calls < 30 || calls > 60 {
			t.Errorf("%d calls of a service that is away, want 30 to 60", calls)
		}
		l.service.set(nil)
		for back := time.Now(); int(l.done.Load()) < sent && time.Since(back) < 2*time.Minute; {
			time.Sleep(time.Second)
		}
		worldtest.Want(t, "jobs that are done", int(l.done.Load()), sent)
		worldtest.Want(t, "poisoned jobs", len(l.Poisoned("jobs")), 0)
		l.mu.Lock()
		defer l.mu.Unlock()
		for n, attempts := range l.attempts {
			if n >= opened && attempts != 1 {
				t.Errorf("job %d came while the breaker was open, and has spent %d attempts", n, attempts-1)
			}
		}
		// A worker may take a message or two before it sees that the breaker is shut.
		if again := l.deliveries - sent; again > 3*calls {
			t.Errorf("%d jobs were delivered again for %d calls", again, calls)
		}
	})
}
