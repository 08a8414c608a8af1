package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// member is a process's guard, with a turn on the store of all.
type member struct {
	*guard.Guard
	limiter worker.Limiter
}

func join(t *testing.T, s *storage.Store) member {
	t.Helper()
	g := quiet()
	limiter, err := g.Limiter(t.Context(), worker.Consumer{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	return member{g, limiter}
}

func (m member) leave(t *testing.T) {
	t.Helper()
	if err := m.limiter.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}

// asks is a call that the service asks to wait for so many seconds.
func asks(seconds int) func(context.Context) error {
	return ends(guard.CheckStatus(answer(429, fmt.Sprintf("Retry-After: %d", seconds))))
}

// refused reports that a process makes no call now.
func (m member) refused(t *testing.T, n int) bool {
	t.Helper()
	err := m.Do(handling(t, id(n), 1), ends(nil))
	if err != nil && !errors.Is(err, guard.ErrOpen) {
		t.Errorf("a call ends with %v", err)
	}
	return err != nil
}

// A service asks one process of three to wait. The others are told at once, none calls before the time is over, one
// probes, and then all call. That is written twice, however many calls were asked to wait.
func TestLaw9AThrottlingHoldsForAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var calls storagetest.Calls
		s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), calls.Hook)
		a, b, c := join(t, s), join(t, s), join(t, s)
		time.Sleep(time.Minute)
		begin, before := time.Now(), calls.Count("put blob")
		hold := make(chan error)
		for n := range 50 { // all under way when the first answer comes
			go func() { _ = a.Do(handling(t, id(n), 1), func(context.Context) error { return <-hold }) }()
		}
		synctest.Wait()
		for range 50 {
			hold <- guard.CheckStatus(answer(429, "Retry-After: 120"))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond)
		for _, m := range []member{a, b, c} {
			if !m.refused(t, 1) {
				t.Error("a process calls a service that has asked another to wait")
			}
			worldtest.Want(t, "the service asks to wait", m.Status().Asks, true)
		}
		worldtest.Want(t, "writes of the record", calls.Count("put blob")-before, 1)
		untilDue(t, b.Guard)
		if d := time.Since(begin); d < 2*time.Minute || d > 133*time.Second {
			t.Errorf("another process's pause took %v, want 120 to 132 s", d)
		}
		untilDue(t, a.Guard)
		untilDue(t, c.Guard)
		if b.refused(t, 2) {
			t.Error("nobody probes")
		}
		time.Sleep(100 * time.Millisecond)
		for _, m := range []member{a, b, c} {
			worldtest.Want(t, "calls at a time after the probe", limits(t, m.Guard), worker.Limits{Concurrency: 2, MaxInHand: 2})
		}
		if n := calls.Count("put blob") - before; n > 4 { // the claim and its end besides, and a beat
			t.Errorf("the record was written %d times", n)
		}
		for _, m := range []member{a, b, c} {
			m.leave(t)
		}
	})
}

// A probe that is asked to wait again holds all for that long.
func TestLaw9AThrottledProbe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		a, b := join(t, s), join(t, s)
		time.Sleep(time.Second)
		_ = a.Do(handling(t, id(1), 1), asks(30))
		time.Sleep(100 * time.Millisecond)
		untilDue(t, b.Guard)
		_ = b.Do(handling(t, id(2), 1), asks(7200)) // capped: an hour
		begin := time.Now()
		time.Sleep(100 * time.Millisecond)
		if !a.refused(t, 3) {
			t.Error("the first process calls although the probe was asked to wait")
		}
		untilDue(t, a.Guard)
		if d := time.Since(begin); d < time.Hour || d > 67*time.Minute {
			t.Errorf("the pause of the first took %v, want an hour and at most a tenth", d)
		}
		a.leave(t)
		b.leave(t)
	})
}

// Without rings, another process goes on until the service asks it, too, and writes nothing then. After the time both
// call again.
func TestLaw9WithoutRings(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var calls storagetest.Calls
		s := storagetest.Intercept(storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual)), calls.Hook)
		a, b := join(t, s), join(t, s)
		time.Sleep(time.Second)
		before := calls.Count("put blob")
		_ = a.Do(handling(t, id(1), 1), asks(60))
		time.Sleep(10 * time.Second)
		if b.refused(t, 2) {
			t.Error("nobody has told this process, and it makes no call")
		}
		_ = b.Do(handling(t, id(3), 1), asks(50))
		time.Sleep(time.Second)
		if !a.refused(t, 4) || !b.refused(t, 5) {
			t.Error("a process calls a service that has asked it to wait")
		}
		worldtest.Want(t, "writes of the record", calls.Count("put blob")-before, 1)
		for _, m := range []member{a, b} {
			untilDue(t, m.Guard)
		}
		for n := 0; a.refused(t, n) || b.refused(t, n); n++ {
			if time.Sleep(time.Second); n > 60 {
				t.Fatal("a process doesn't call a minute after the pause")
			}
		}
		a.leave(t)
		b.leave(t)
	})
}

// The process that was asked dies. Another probes after the time, and one that starts doesn't know how old the
// throttling is: it asks by one call, and doesn't wait an hour for nothing.
func TestLaw9TheAskedProcessDies(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		dead := storagetest.NewLink(s)
		a, b := join(t, dead.Store), join(t, s)
		time.Sleep(time.Second)
		_ = a.Do(handling(t, id(1), 1), asks(3600))
		time.Sleep(100 * time.Millisecond)
		dead.Cut()
		if !b.refused(t, 2) {
			t.Error("a process calls a service that has asked another to wait")
		}
		c := join(t, s)
		time.Sleep(100 * time.Millisecond)
		if !c.refused(t, 3) {
			t.Error("a process that starts calls at once")
		}
		begin := time.Now()
		untilDue(t, c.Guard)
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("a process that starts waits for %v", d)
		}
		_ = c.Do(handling(t, id(4), 1), asks(60))
		if !c.refused(t, 5) {
			t.Error("it calls again although it was asked to wait")
		}
		untilDue(t, c.Guard)
		if c.refused(t, 6) {
			t.Error("nobody probes")
		}
		time.Sleep(100 * time.Millisecond)
		if b.refused(t, 7) {
			t.Error("a process waits although the service has done a call")
		}
		b.leave(t)
		c.leave(t)
		a.leave(t)
		time.Sleep(time.Hour)
	})
}

// A closed breaker that nobody uses costs nothing after a throttling either.
func TestLaw5AfterAThrottling(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var calls storagetest.Calls
		s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), calls.Hook)
		a, b := join(t, s), join(t, s)
		_ = a.Do(handling(t, id(1), 1), asks(60))
		time.Sleep(100 * time.Millisecond)
		untilDue(t, a.Guard)
		for n := range 200 {
			_, _ = a.refused(t, n), b.refused(t, n+1)
			time.Sleep(100 * time.Millisecond)
		}
		wantOpen(t, a.Guard, false)
		time.Sleep(time.Minute)
		before := calls.Count()
		time.Sleep(time.Hour)
		worldtest.Want(t, "requests in an hour", calls.Count()-before, 0)
		a.leave(t)
		b.leave(t)
	})
}

// The probe of one process goes on for hours, and its process lives. After twice the longest time between two probes,
// and that of a call, another process probes. Its longest time may have changed since its start.
func TestLaw7AProbeThatNeverEnds(t *testing.T) {
	for most, want := range map[time.Duration]time.Duration{30 * time.Second: 130 * time.Second, 5 * time.Second: 80 * time.Second} {
		t.Run(most.String(), func(t *testing.T) { probeThatNeverEnds(t, most, want) })
	}
}

func probeThatNeverEnds(t *testing.T, most, want time.Duration) {
	inBubble(t, func(t *testing.T) {
		s, log := worldtest.OpenStore(t, worldtest.Virtual), worldtest.NewLog()
		slow := guard.New("smtp", guard.Config{Logger: quietLogger(), Timeout: 3 * time.Hour})
		limiter, err := slow.Limiter(t.Context(), worker.Consumer{Store: s})
		if err != nil {
			t.Fatal(err)
		}
		a := member{slow, limiter}
		g := guard.New("smtp", guard.Config{Logger: slog.New(log)})
		if limiter, err = g.Limiter(t.Context(), worker.Consumer{Store: s}); err != nil {
			t.Fatal(err)
		}
		b := member{g, limiter}
		if err := g.Set(guard.Limits{Probe: guard.Probe{Most: most}}); err != nil {
			t.Fatal(err)
		}
		trip(t, a.Guard)
		trip(t, b.Guard)
		time.Sleep(100 * time.Millisecond)
		untilDue(t, a.Guard)
		over := make(chan struct{})
		go func() {
			_ = a.Do(handling(t, id(1), 1), func(context.Context) error { <-over; return nil })
		}()
		synctest.Wait()
		begin := time.Now()
		for n := 2; b.refused(t, n); n++ {
			time.Sleep(time.Second)
		}
		if d := time.Since(begin); d < want-10*time.Second || d > want+40*time.Second {
			t.Errorf("another process probed after %v, want %v or a little more", d, want)
		}
		if log.Count("WARN a probe of another process goes on for too long") != 1 {
			t.Errorf("the log has no line of it:\n%s", log)
		}
		if s := b.Status(); s.Open || s.Name != "smtp" || !s.Since.IsZero() {
			t.Errorf("the status in the ramp: %+v", s)
		}
		close(over)
		synctest.Wait()
		a.leave(t)
		b.leave(t)
	})
}

// The status says since when a breaker is open, and why, in its process and by the record for all.
func TestStatus(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		a, b := join(t, s), join(t, s)
		worldtest.Want(t, "status", a.Status(), guard.Status{Name: "smtp"})
		begin := time.Now()
		trip(t, a.Guard)
		time.Sleep(100 * time.Millisecond)
		if s := a.Status(); !s.Open || s.All || !s.Since.Equal(begin) || s.Why != errDown.Error() {
			t.Errorf("the status of one: %+v", s)
		}
		trip(t, b.Guard)
		time.Sleep(100 * time.Millisecond)
		if s := a.Status(); !s.Open || !s.All {
			t.Errorf("the status of all: %+v", s)
		}
		found, err := guard.Outages(t.Context(), s)
		if err != nil || len(found) != 1 || !found[0].All || found[0].Name != "smtp" || found[0].Why != errDown.Error() || begin.Sub(found[0].Since) > time.Second {
			t.Errorf("outages: %+v, %v", found, err)
		}
		a.leave(t)
		b.leave(t)
	})
}
