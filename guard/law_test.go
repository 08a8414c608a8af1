package guard_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/textproto"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// quiet is a guard that logs nothing and repeats nothing in place.
func quiet() *guard.Guard {
	return once(guard.New("smtp", guard.Config{Logger: slog.New(slog.DiscardHandler)}))
}

func id(n int) string { return worldtest.IDAt(time.Now(), n) }

func wantAction(t testing.TB, what string, err error, want verdict.Action) {
	t.Helper()
	if got := verdict.Judge(err).Action; got != want {
		t.Errorf("%s: got action %v for %v, want %v", what, got, err, want)
	}
}

// While the breaker is open nobody calls. When a probe is due, one call of many is made.
func TestLaw1OneProbe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := quiet()
		trip(t, g)
		calls := 0
		refused := func(n int) {
			t.Helper()
			err := g.Do(handling(t, id(n), 1), func(context.Context) error { calls++; return nil })
			wantAction(t, "a call of an open breaker", err, verdict.HandBack)
			worldtest.WantErr(t, err, guard.ErrOpen)
		}
		refused(1)
		untilDue(t, g)
		worldtest.Want(t, "limits of a probe", limits(t, g), worker.Limits{Concurrency: 1, MaxInHand: 1})
		answer, probed := make(chan error), make(chan error)
		go func() { probed <- g.Do(handling(t, id(2), 1), func(context.Context) error { return <-answer }) }()
		synctest.Wait()
		worldtest.Want(t, "paused during the probe", limits(t, g).Pause, true)
		refused(3)
		answer <- errDown
		wantAction(t, "a probe that fails", <-probed, verdict.HandBack)
		wantOpen(t, g, true)
		refused(4)
		worldtest.Want(t, "calls besides the probe", calls, 0)
	})
}

// After a breaker has opened, no failure is an attempt: neither of calls that were under way, nor of probes.
func TestLaw1NoAttemptWhileOpen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := quiet()
		answer, late := make(chan error), make(chan error)
		go func() { late <- g.Do(handling(t, id(100), 1), func(context.Context) error { return <-answer }) }()
		synctest.Wait()
		if err := g.Do(handling(t, id(101), 1), ends(nil)); err != nil {
			t.Fatal(err)
		}
		trip(t, g)
		answer <- errDown
		wantAction(t, "a call that was under way", <-late, verdict.HandBack)
		for n := range 20 {
			untilDue(t, g)
			wantAction(t, "a probe", g.Do(handling(t, id(n), 1), ends(errDown)), verdict.HandBack)
		}
	})
}

// A failure is an attempt only if another message's call was done since the message's last try.
func TestLaw1AnAttemptNeedsAServiceThatWorks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := quiet()
		bad, other := id(1), id(2)
		try := func(what string, want verdict.Action) {
			t.Helper()
			wantAction(t, what, g.Do(handling(t, bad, 1), ends(errDown)), want)
			time.Sleep(time.Minute)
		}
		try("nobody's call was ever done", verdict.HandBack)
		_ = g.Do(handling(t, other, 1), ends(nil))
		time.Sleep(time.Minute)
		try("another's was", verdict.TryAgain)
		try("no other's was since", verdict.HandBack)
		_ = g.Do(handling(t, bad, 1), ends(nil))
		try("its own was", verdict.HandBack)
		_ = g.Do(t.Context(), ends(nil))
		try("one without a message was", verdict.TryAgain)
		old := handling(t, worldtest.IDAt(time.Now().Add(-169*time.Hour), 3), 1)
		wantAction(t, "a message that is a week old", g.Do(old, ends(errDown)), verdict.TryAgain)
	})
}

// Do never waits longer than 250 milliseconds, besides for the call itself.
func TestLaw2NothingIsHeldWhileWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := guard.New("smtp", guard.Config{Logger: slog.New(slog.DiscardHandler)})
		for n, err := range []error{errDown, errReset, guard.CheckStatus(answer(429, "Retry-After: 600")), nil} {
			begin := time.Now()
			_ = g.Do(handling(t, id(n), 1), ends(err))
			if held := time.Since(begin); held > 250*time.Millisecond {
				t.Errorf("%v: the handler was held for %v", err, held)
			}
		}
		wantOpen(t, g, true)
	})
}

// One message alone doesn't open the breaker, however often it fails, not even in the ramp.
func TestLaw3OneMessageAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := quiet()
		bad := id(1000)
		for n := range 100 {
			_ = g.Do(handling(t, bad, 1), ends(errDown))
			if n%10 == 0 {
				_ = g.Do(handling(t, id(n%3), 1), ends(errDown)) // so few others don't, either
			}
			wantOpen(t, g, false)
		}
		time.Sleep(time.Minute)
		trip(t, g)
		untilDue(t, g)
		if err := g.Do(handling(t, id(1), 1), ends(nil)); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			_ = g.Do(handling(t, bad, 1), ends(errDown))
			wantOpen(t, g, false)
		}
	})
}

// A job that always fails ends in the poison queue, and the others are done, although an outage comes between.
func TestLaw3ABadMessageAmongOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, func(log *slog.Logger) *guard.Guard { return guard.New("smtp", guard.Config{Logger: log}) }, func(j job) error {
			if j.N == 7 {
				return errDown
			}
			return nil
		})
		for n := range 120 {
			switch n {
			case 5:
				l.service.set(errDown)
			case 65:
				l.service.set(nil)
			}
			for i := range 5 {
				worldtest.Send(l.World, job{N: 5*n + i})
			}
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Minute)
		worldtest.Want(t, "jobs that are done", int(l.done.Load()), 599)
		poisoned := l.Poisoned("jobs")
		if len(poisoned) == 0 { // it waits until others are done once more
			for range 10 {
				worldtest.Send(l.World, job{})
				time.Sleep(10 * time.Minute)
			}
			poisoned = l.Poisoned("jobs")
		}
		if len(poisoned) != 1 || poisoned[0].Reason != handlers.ReasonAttempts {
			t.Errorf("poisoned: %+v, want the bad job, by its attempts", poisoned)
		}
		worldtest.Want(t, "lines about an outage", l.log.Count("WARN a service fails", "guard=smtp"), 1)
	})
}

// Of two workers one has a broken network. Its breaker opens, and the other worker does all the jobs.
func TestLaw4TroubleOfOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		var done, failed atomic.Int64
		start := func(call func() error) (*worldtest.World, *guard.Guard) {
			w, g := worldtest.NewBare(t, s, handlers.Config{}, channel.Command[job]("jobs")), quiet()
			handlers.React(w.Registry, "jobs", guard.Around(g, func(context.Context, job) error { return call() }))
			w.Start(worker.Config{Queues: map[string]worker.QueueConfig{"jobs": {Concurrency: 1, Limiter: g.Limiter}}})
			return w, g
		}
		_, ill := start(func() error { failed.Add(1); return errDown })
		w, well := start(func() error { done.Add(1); return nil })
		for range 60 {
			worldtest.Send(w, make([]job, 10)...)
			time.Sleep(time.Second)
		}
		for n := 0; n < 120 && (n < 10 || done.Load() < 600); n++ { // by chance, the ill worker takes one again and again
			time.Sleep(time.Minute)
		}
		worldtest.Want(t, "done", int(done.Load()), 600)
		worldtest.Want(t, "poisoned", len(w.Poisoned("jobs")), 0)
		wantOpen(t, well, false)
		if l := limits(t, ill); !l.Pause && l.Concurrency != 1 || failed.Load() > 300 {
			t.Errorf("limits of the worker without a network: %+v after %d calls", l, failed.Load())
		}
	})
}

// A limiter on a closed breaker asks the store for nothing, starts no goroutine, and a call allocates nothing.
func TestLaw5ClosedAndIdleCostsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		requests := func(limiter worker.OpenLimiter) int {
			var calls storagetest.Calls
			s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), calls.Hook)
			w := worldtest.NewBare(t, s, handlers.Config{}, channel.Command[job]("jobs"))
			handlers.React(w.Registry, "jobs", func(context.Context, job) error { return nil })
			stop := w.Start(worker.Config{Queues: map[string]worker.QueueConfig{"jobs": {Limiter: limiter}}})
			time.Sleep(5 * time.Minute)
			if err := stop(); err != nil {
				t.Error(err)
			}
			return calls.Count()
		}
		guarded, plain := requests(quiet().Limiter), requests(worker.Limiters())
		if d := guarded - plain; d < -plain/20 || d > plain/20 { // looks are spread by chance
			t.Errorf("%d requests in five minutes with a limiter, %d without", guarded, plain)
		}
	})
}

// Whatever calls do, and although an outage comes between, each job ends: it is done, or in the poison queue.
func TestLaw6NothingIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, func(log *slog.Logger) *guard.Guard { return guard.New("smtp", guard.Config{Logger: log}) }, func(j job) error {
			switch j.N % 10 {
			case 0:
				panic("in the call")
			case 1:
				return handlers.Poison("bad", errInvalid)
			case 2:
				return errReset
			}
			return nil
		})
		var jobs []job
		for n := range 100 {
			jobs = append(jobs, job{n})
		}
		worldtest.Send(l.World, jobs[:50]...)
		time.Sleep(time.Second)
		l.service.set(errDown)
		worldtest.Send(l.World, jobs[50:]...)
		time.Sleep(30 * time.Second)
		l.service.set(nil)
		for n := range 300 { // a failure is an attempt once others are done
			worldtest.Send(l.World, job{10*n + 1003})
			time.Sleep(5 * time.Second)
		}
		worldtest.Want(t, "jobs that are done", int(l.done.Load()), 370)
		reasons := map[string]int{}
		for _, e := range l.Poisoned("jobs") {
			reasons[e.Reason]++
		}
		if want := map[string]int{handlers.ReasonAttempts: 10, "bad": 10, guard.ReasonUnknown: 10}; !maps.Equal(reasons, want) {
			t.Errorf("poisoned by reason: got %v, want %v", reasons, want)
		}
	})
}

// A call frees its place whatever it does to its goroutine and its context: as a probe, and in the ramp.
func TestLaw7EveryPlaceEnds(t *testing.T) {
	for name, misdeed := range map[string]func(ctx context.Context, cancel context.CancelFunc) error{
		"panics":              func(context.Context, context.CancelFunc) error { panic("in the call") },
		"ends its goroutine":  func(context.Context, context.CancelFunc) error { runtime.Goexit(); return nil },
		"is cancelled":        func(ctx context.Context, cancel context.CancelFunc) error { cancel(); return ctx.Err() },
		"cancels its own":     func(context.Context, context.CancelFunc) error { return context.Canceled },
		"has its own verdict": func(context.Context, context.CancelFunc) error { return handlers.Poison("bad", errInvalid) },
		"hangs":               func(context.Context, context.CancelFunc) error { <-time.After(time.Hour); return nil },
		"returns a nil error": func(context.Context, context.CancelFunc) error { var e *guard.StatusError; return nilError(e) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				g := quiet()
				trip(t, g)
				do := func(n int) {
					go func() {
						defer func() { _ = recover() }()
						ctx, cancel := context.WithCancel(handling(t, id(n), 1))
						defer cancel()
						_ = g.Do(ctx, func(ctx context.Context) error { return misdeed(ctx, cancel) })
					}()
					synctest.Wait()
				}
				untilDue(t, g)
				do(1)
				began := time.Now()
				untilDue(t, g) // soon, or when the place is free after all
				if d := time.Since(began); d > 80*time.Second {
					t.Errorf("the next probe was due after %v", d)
				}
				if err := g.Do(handling(t, id(2), 1), ends(nil)); err != nil {
					t.Fatal(err)
				}
				worldtest.Want(t, "calls at a time in the ramp", limits(t, g).Concurrency, 2)
				do(3)
				if name == "hangs" {
					time.Sleep(80 * time.Second)
				}
				for n := range 4 {
					if err := g.Do(handling(t, id(n), 1), ends(nil)); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// nilError is an error that is not nil, of a pointer that is.
func nilError(e *guard.StatusError) error { return e }

// A call that began while the breaker was closed tells nothing about a probe.
func TestACallOfAnEarlierState(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := quiet()
		hold := make(chan error)
		call := func(n int) {
			go func() { _ = g.Do(handling(t, id(n), 1), func(context.Context) error { return <-hold }) }()
			synctest.Wait()
		}
		call(100)
		call(101)
		trip(t, g)
		untilDue(t, g)
		probe := make(chan error)
		go func() { _ = g.Do(handling(t, id(1), 1), func(context.Context) error { return <-probe }) }()
		synctest.Wait()
		hold <- nil
		hold <- errDown
		synctest.Wait()
		wantOpen(t, g, true)
		probe <- nil
		synctest.Wait()
		worldtest.Want(t, "limits after the probe", limits(t, g).Concurrency, 2)
	})
}

// A service's time to wait holds for all calls, and never ends sooner.
func TestThrottled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := quiet()
		asked := guard.CheckStatus(answer(429, "Retry-After: 120"))
		begin := time.Now()
		err := g.Do(handling(t, id(1), 1), ends(asked))
		wantAction(t, "a call that is asked to wait", err, verdict.HandBack)
		if after := verdict.Judge(err).After; after < 2*time.Minute {
			t.Errorf("the message comes back after %v", after)
		}
		untilDue(t, g)
		if d := time.Since(begin); d < 2*time.Minute || d > 132*time.Second {
			t.Errorf("the pause took %v, want 120 to 132 s", d)
		}
		begin = time.Now()
		_ = g.Do(handling(t, id(2), 1), ends(asked)) // the probe is asked to wait, too
		wantOpen(t, g, true)
		untilDue(t, g)
		if d := time.Since(begin); d < 2*time.Minute {
			t.Errorf("the second pause took %v", d)
		}
		// A service that asks one message to wait has answered.
		mail := guard.New("smtp", guard.Config{Fault: guard.SMTP, Logger: quietLogger()})
		trip(t, mail)
		untilDue(t, mail)
		err = mail.Do(handling(t, id(3), 1), ends(&textproto.Error{Code: 450}))
		wantAction(t, "a mailbox that is busy", err, verdict.HandBack)
		worldtest.Want(t, "limits after the probe", limits(t, mail).Concurrency, 2)
	})
}

// A handler whose context ends tells nothing about the service, whatever its error says.
func TestTheHandlersOwnEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := quiet()
		stopping := errors.New("stopping")
		for n := range 100 {
			ctx, cancel := context.WithCancelCause(handling(t, id(n), 1))
			err := g.Do(ctx, func(context.Context) error { cancel(stopping); return errDown })
			if err != errDown {
				t.Fatalf("got %v, want the call's error as it is", err)
			}
			worldtest.WantErr(t, g.Do(ctx, func(context.Context) error { t.Error("a call after the end"); return nil }), stopping)
		}
		wantOpen(t, g, false)
		// The guard's own time-out is the service's fault.
		for n := range 20 {
			go func() {
				err := g.Do(handling(t, id(n), 1), func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
				wantAction(t, "a call without an answer", err, verdict.ToPoison)
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		wantOpen(t, g, true)
	})
}

// A service that hangs opens the breaker, and costs its messages no attempt, although their handlers have less time
// than a call of the guard.
func TestAHandlerWithLessTimeThanItsCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{Timeout: 30 * time.Second}, channel.Command[job]("jobs"))
		g, back := guard.New("bank", guard.Config{Logger: quietLogger(), Repeatable: true}), time.Now().Add(3*time.Minute)
		var done atomic.Int64
		handlers.React(w.Registry, "jobs", guard.Around(g, func(ctx context.Context, _ job) error {
			if time.Now().Before(back) {
				<-ctx.Done()
				return ctx.Err()
			}
			done.Add(1)
			return nil
		}))
		w.Start(worker.Config{Logger: quietLogger(), Queues: map[string]worker.QueueConfig{"jobs": {Limiter: g.Limiter}}})
		opened := false
		for range 120 {
			worldtest.Send(w, job{})
			time.Sleep(time.Second)
			opened = opened || g.Open()
		}
		worldtest.Want(t, "opened", opened, true)
		time.Sleep(30 * time.Minute)
		worldtest.Want(t, "done", int(done.Load()), 120)
		worldtest.Want(t, "poisoned", len(w.Poisoned("jobs")), 0)
	})
}

// A message that is refused while a probe runs waits no longer than until the next probe, whatever time a probe has.
func TestRefusedDuringAProbe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := guard.New("smtp", guard.Config{Logger: quietLogger()})
		trip(t, g)
		untilDue(t, g)
		over := make(chan struct{})
		go func() {
			_ = g.Do(handling(t, worldtest.IDAt(time.Now(), 100), 1), func(context.Context) error { <-over; return nil })
		}()
		synctest.Wait()
		err := g.Do(handling(t, worldtest.IDAt(time.Now(), 101), 1), ends(nil))
		var later *handlers.LaterError
		if !errors.As(err, &later) || !errors.Is(err, guard.ErrOpen) {
			t.Fatalf("got %v, want a refusal", err)
		}
		if later.After > 4*time.Second { // 2 seconds until the next probe, and the spread of what comes back
			t.Errorf("it waits for %v while a probe runs", later.After)
		}
		close(over)
		synctest.Wait()
	})
}
