package guard_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/wire"
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

// A process that meets a message for the first time takes no success of before the outage for one since the message's
// last attempt, which another process has seen.
func TestLaw1AnAttemptOfAnotherProcess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		after := func(id string, attempts int) context.Context {
			e := channel.Envelope{ID: id, Kind: "test.job.v1", Time: time.Now(), Attempts: attempts}
			return wire.WithDelivery(t.Context(), &e, "jobs", nil, 2, nil)
		}
		tried := func(n int) context.Context { return after(id(n), 1) }
		g := quiet()
		_ = g.Do(handling(t, id(100), 1), ends(nil))
		time.Sleep(5 * time.Second)
		wantAction(t, "a new message", g.Do(handling(t, id(1), 1), ends(errDown)), verdict.TryAgain)
		wantAction(t, "a message that was tried a second ago", g.Do(tried(2), ends(errDown)), verdict.HandBack)
		_ = g.Do(handling(t, id(100), 1), ends(nil))
		time.Sleep(500 * time.Millisecond)
		wantAction(t, "another's call was done since", g.Do(tried(3), ends(errDown)), verdict.TryAgain)

		later := func() { // a message is done, and 10 seconds pass
			time.Sleep(time.Millisecond)
			_ = g.Do(handling(t, id(100), 1), ends(nil))
			time.Sleep(10 * time.Second)
		}
		bad := id(4)
		wantAction(t, "one that is tried here", g.Do(after(bad, 1), ends(errDown)), verdict.TryAgain)
		later()
		wantAction(t, "one that was tried elsewhere since", g.Do(after(bad, 3), ends(errDown)), verdict.HandBack)
		later()
		wantAction(t, "one that was tried here alone since", g.Do(after(bad, 3), ends(errDown)), verdict.TryAgain)
		later()
		wantAction(t, "one that spent its attempt here", g.Do(after(bad, 4), ends(errDown)), verdict.TryAgain)
	})
}

// A service goes away while eight processes make few calls each. Nobody is poisoned, although a job has three attempts.
func TestLaw1AnOutageOfManyProcesses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var down error
		f := &fleet{t: t, store: worldtest.OpenStore(t, worldtest.Virtual), log: worldtest.NewLog(), took: 10 * time.Millisecond, tries: 3, fails: &down}
		for range 8 {
			f.start(guard.Config{Logger: slog.New(f.log)})
		}
		trickle := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
				f.send(1)
			}
		}
		trickle(15 * time.Second)
		f.mu.Lock()
		before := len(f.calls)
		down = errDown
		f.mu.Unlock()
		trickle(time.Minute)
		f.mu.Lock()
		calls := len(f.calls) - before
		down = nil
		f.mu.Unlock()
		if calls > 200 { // each process makes at most 20 before it knows
			t.Errorf("%d calls in a minute of the outage, want at most 200", calls)
		}
		time.Sleep(2 * time.Minute)
		done, _ := f.counted()
		worldtest.Want(t, "jobs that are done", done, 300)
		worldtest.Want(t, "poisoned jobs", len(f.worlds[0].Poisoned("jobs")), 0)
		for _, stop := range f.stop {
			worldtest.WantErr(t, stop(), nil)
		}
	})
}
