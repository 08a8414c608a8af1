package guard_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// A service that fails again a minute after it was back has failed anew, although the few calls in between have not
// closed the breaker.
func TestASecondOutageIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := once(guard.New("smtp", guard.Config{Logger: quietLogger()}))
		trip(t, g)
		untilDue(t, g)
		for n := range 5 {
			worldtest.WantErr(t, g.Do(handling(t, id(n), 1), ends(nil)), nil)
		}
		time.Sleep(time.Minute)
		for n := range 8 {
			_ = g.Do(handling(t, id(100+n), 1), ends(errDown))
		}
		wantOpen(t, g, true)
		worldtest.Want(t, "since", time.Since(g.Status().Since) < time.Second, true)
		worldtest.Want(t, "outages", g.Counts().Opened, 2)
		untilDue(t, g)
		if d := time.Since(g.Status().Since); d > 1200*time.Millisecond {
			t.Errorf("the first probe is due after %v, want a second", d)
		}
	})
}

// Each line of a service that answers again is followed by one when it fails after all: the last line tells how it is.
func TestARelapseIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log := worldtest.NewLog()
		g := once(guard.New("smtp", guard.Config{Logger: slog.New(log)}))
		trip(t, g)
		for n := range 3 {
			untilDue(t, g)
			worldtest.WantErr(t, g.Do(handling(t, id(n), 1), ends(nil)), nil)
			_ = g.Do(handling(t, id(10+n), 1), ends(errDown))
			_ = g.Do(handling(t, id(20+n), 1), ends(errDown))
			wantOpen(t, g, true)
			worldtest.Want(t, "lines that it answers", log.Count("INFO a service answers again"), n+1)
			worldtest.Want(t, "lines that it fails after all", log.Count("WARN a service that answered again fails", "probe_in=", "error="), n+1)
		}
		worldtest.Want(t, "outages", g.Counts().Opened, 1)
		untilDue(t, g)
		_ = g.Do(handling(t, id(1), 1), ends(errDown))
		worldtest.Want(t, "lines after a probe that fails", log.Count("WARN a service that answered again fails"), 3)
	})
}

// Law 4: after an outage, one process that can't reach the service stops no other whose calls are done, although none
// has closed its breaker.
func TestLaw4OneProcessAfterAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		a, b, c := join(t, s), join(t, s), join(t, s)
		defer a.leave(t)
		defer b.leave(t)
		defer c.leave(t)
		for _, m := range []member{a, b, c} {
			trip(t, m.Guard)
		}
		time.Sleep(100 * time.Millisecond)
		untilDue(t, a.Guard)
		worldtest.WantErr(t, a.Do(handling(t, id(1), 1), ends(nil)), nil)
		time.Sleep(100 * time.Millisecond)
		for n, m := range []member{b, c} {
			worldtest.WantErr(t, m.Do(handling(t, id(2+n), 1), ends(nil)), nil)
		}
		for n := range 3 {
			_ = a.Do(handling(t, id(10+n), 1), ends(errDown))
		}
		wantOpen(t, a.Guard, true)
		for n := range 10 {
			for _, m := range []member{b, c} {
				if m.refused(t, 20+n) {
					t.Fatal("a process that reaches the service is stopped")
				}
			}
			time.Sleep(time.Second)
		}
	})
}

// The gate opens step by step, and only after calls that went well.
func TestTheRamp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := quiet()
		trip(t, g)
		untilDue(t, g)
		var steps []int
		for n := range 100 {
			steps = append(steps, limits(t, g).Concurrency)
			if err := g.Do(handling(t, id(n), 1), ends(nil)); err != nil {
				t.Fatal(err)
			}
		}
		if want := []int{1, 2, 4, 8, 16, 32, 0}; !slices.Equal(slices.Compact(steps), want) {
			t.Errorf("steps: got %v, want %v", steps, want)
		}
		// Two messages that fail in the ramp open it again, and longer.
		trip(t, g)
		untilDue(t, g)
		_ = g.Do(handling(t, id(1), 1), ends(nil))
		_ = g.Do(handling(t, id(2), 1), ends(errDown))
		wantOpen(t, g, false)
		begin := time.Now() // the call begins somewhat before the breaker opens
		_ = g.Do(handling(t, id(3), 1), ends(errDown))
		wantOpen(t, g, true)
		untilDue(t, g)
		if d := time.Since(begin); d < 1600*time.Millisecond || d > 2500*time.Millisecond {
			t.Errorf("the second probe was due after %v, want about 2 s", d)
		}
		limiter, _ := g.Limiter(t.Context(), worker.Consumer{Concurrency: 1})
		_ = g.Do(handling(t, id(1), 1), ends(nil))
		if l, _ := limiter.Now(); l.Concurrency != 1 {
			t.Errorf("the ramp raises a queue's concurrency from 1 to %d", l.Concurrency)
		}
		// No more calls are under way than the step allows.
		hold := make(chan error)
		for n := range 2 {
			go func() { _ = g.Do(handling(t, id(n), 1), func(context.Context) error { return <-hold }) }()
		}
		synctest.Wait()
		worldtest.WantErr(t, g.Do(handling(t, id(9), 1), ends(nil)), guard.ErrOpen)
		close(hold)
	})
}

// Law 4 without rings: one process can't reach the service, and has opened the breaker for all, because nobody has
// heard of it and said otherwise. Processes that start meanwhile soon call, and go on.
func TestLaw4ProcessesThatStartBesideOneInTrouble(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual))
		ill := join(t, s)
		defer ill.leave(t)
		trip(t, ill.Guard)
		time.Sleep(10 * time.Second)
		worldtest.Want(t, "for all", ill.Status().All, true)
		others := []member{join(t, s), join(t, s)}
		time.Sleep(100 * time.Millisecond)
		worldtest.Want(t, "one that starts calls at once", others[0].refused(t, 1), true)
		const tries = 20 * 60 * 10 // 10 a second
		done, late := 0, 0
		for n := range tries {
			_ = ill.Do(handling(t, id(n), 1), ends(errDown))
			for i, m := range others {
				if !m.refused(t, 100_000*(i+1)+n) {
					if done++; n > tries/10 {
						late++
					}
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if done < 2*tries*9/10 || late < 2*tries*89/100 {
			t.Errorf("%d calls of %d are done, and %d of them after the first two minutes", done, 2*tries, late)
		}
		if ill.Status().All || !ill.Open() {
			t.Errorf("in the end, the breaker of the one in trouble is %+v", ill.Status())
		}
		for _, m := range others {
			m.leave(t)
		}
	})
}
