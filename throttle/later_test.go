package throttle_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/throttle"
)

// A vague store counts messages as Azure does.
type vague struct{ driver.Store }

func (s vague) Queue(name string) driver.Queue { return vagueQueue{s.Store.Queue(name)} }

type vagueQueue struct{ driver.Queue }

// Stats tells how many are ready up to 32. If there are more, it tells how many there are.
func (q vagueQueue) Stats(ctx context.Context) (driver.Stats, error) {
	st, err := q.Queue.Stats(ctx)
	all := st.Ready + st.InFlight + st.Delayed
	if st.Ready >= 32 {
		st.Ready = all
	}
	if st.InFlight, st.Delayed = -1, -1; all <= st.Ready && st.Ready < 32 {
		st.InFlight, st.Delayed = 0, 0
	}
	return st, err
}

// stamp is the body of a message that is due at a time.
func stamp(due time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(due.UnixNano()))
}

// accept sends the message of a request that was let through, when it is due.
func (y *yard) accept(p *throttle.Pass) {
	y.t.Helper()
	late := p.Deferred()
	if err := y.queue.Send(y.t.Context(), []storage.Message{{Body: stamp(time.Now().Add(late)), Delay: late}}); err != nil {
		y.t.Fatal(err)
	}
	p.End(throttle.Accepted)
	synctest.Wait() // for a look that has begun
}

// handle handles a message, and returns for how long it was due. It reports false if none is ready.
func (y *yard) handle() (waited time.Duration, ok bool) {
	y.t.Helper()
	got, err := y.queue.Receive(y.t.Context(), 1, time.Minute)
	if err != nil {
		y.t.Fatal(err)
	}
	if len(got) == 0 {
		return 0, false
	}
	if err := y.queue.Delete(y.t.Context(), []storage.Receipt{got[0].Receipt}); err != nil {
		y.t.Fatal(err)
	}
	return time.Since(time.Unix(0, int64(binary.BigEndian.Uint64(got[0].Body)))), true
}

// Requests come three times as fast as a worker handles their messages. The rate limiter accepts them and defers their
// work, up to Defer. Each accepted one is done Within after it is due, and nothing is lost. The worker always has work.
// So it is on stores that can't tell which messages are delayed.
func TestLawWhatABacklogDefersIsServedInTime(t *testing.T) {
	for name, on := range map[string]func(*storage.Store) *storage.Store{
		"exact": func(s *storage.Store) *storage.Store { return s },
		"vague": func(s *storage.Store) *storage.Store { return storage.New(vague{s.Driver()}) },
	} {
		t.Run(name, func(t *testing.T) { deferredInTime(t, on) })
	}
}

func deferredInTime(t *testing.T, on func(*storage.Store) *storage.Store) {
	inBubble(t, func(t *testing.T) {
		const within, most, tick = 10 * time.Second, 30 * time.Second, 100 * time.Millisecond
		exact := worldtest.OpenStore(t, worldtest.Virtual)
		y := newYardOn(t, exact, on(exact), throttle.Config{Backlog: throttle.Backlog{Within: within, Defer: most}})
		accepted, deferred, refused, idle := 0, 0, 0, 0
		longest := time.Duration(0)
		work := func(measured bool) {
			time.Sleep(tick)
			waited, ok := y.handle()
			switch {
			case !ok:
				idle++
			case waited < -time.Millisecond:
				t.Errorf("handled %v before it was due", -waited)
			case measured:
				longest = max(longest, waited)
			}
		}
		y.look()
		for range 300 { // then the rate limiter knows how fast the queue is served
			y.accept(&throttle.Pass{})
		}
		for range 250 {
			work(false)
			y.look()
		}
		for n := range 500 {
			for range 3 {
				p, _ := ask(t, y.limiter, throttle.Call{Tenant: fmt.Sprint(n)})
				if p == nil {
					refused++
					continue
				}
				accepted++
				if late := p.Deferred(); late > 0 {
					deferred++
					if late > most {
						t.Errorf("deferred for %v", late)
					}
				}
				y.accept(p)
			}
			work(n >= 50)
		}
		want(t, "ticks without work", idle, 0)
		if deferred < 500 || refused == 0 || accepted < 500+300 {
			t.Errorf("%d are accepted, %d of them deferred, and %d refused", accepted, deferred, refused)
		}
		for y.waiting() > 0 {
			work(true)
		}
		if longest > within*5/4 {
			t.Errorf("a message waited for %v after it was due; want %v or a little more", longest, within)
		}
	})
}

// waiting counts the messages that are not handled.
func (y *yard) waiting() int64 {
	y.t.Helper()
	st, err := y.exact.Stats(y.t.Context())
	if err != nil {
		y.t.Fatal(err)
	}
	return st.Ready + st.InFlight + st.Delayed
}

// full returns a yard whose queue has messages for 20 seconds, as its rate limiter knows.
func full(t *testing.T, cfg throttle.Config) *yard {
	t.Helper()
	cfg.Backlog.Within, cfg.Backlog.Defer = 10*time.Second, 30*time.Second
	y := newYard(t, cfg)
	if err := y.queue.Send(t.Context(), make([]storage.Message, 400)); err != nil {
		t.Fatal(err)
	}
	y.look()
	for range 4 {
		y.serve(50)
		time.Sleep(5 * time.Second)
		y.look()
	}
	return y
}

// A repeat is free. Its work is never due before that of the request that it repeats, so nobody gets ahead by it.
func TestLawARepeatIsNotDueBeforeWhatABacklogDefers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		y := full(t, throttle.Config{})
		due := map[string]time.Time{}
		for n := range 60 {
			id := fmt.Sprint(n % 20)
			p, x := ask(t, y.limiter, throttle.Call{Tenant: "ada", ID: id})
			if x != nil {
				t.Fatal(x)
			}
			at := time.Now().Add(p.Deferred())
			if n < 20 {
				due[id] = at
				if p.Deferred() < 9*time.Second {
					t.Errorf("request %s is deferred for %v, before 20 seconds of work", id, p.Deferred())
				}
			} else if at.Before(due[id]) {
				t.Errorf("a repeat of %s is due %v before it", id, due[id].Sub(at))
			}
			y.accept(p)
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// Requests that are refused by a quota, or that count for nothing in the end, put nobody off. Each accepted one puts
// off the next one by its own time.
func TestLawOnlyWhatIsAcceptedPutsOthersOff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		y := full(t, throttle.Config{
			Plans: map[string][]throttle.Quota{"poor": {{Name: "a", Amount: 1, Per: time.Hour}}}, Plan: func(tenant string) string { return tenant },
		})
		first := late(t, y.limiter)
		want(t, "let through of the poor", admitted(t, y.limiter, "poor", 200, throttle.Void), 200)
		want(t, "after void requests", late(t, y.limiter), first)
		want(t, "let through of the poor", admitted(t, y.limiter, "poor", 200, throttle.Accepted), 1)
		want(t, "after one of the poor", late(t, y.limiter).Round(10*time.Millisecond), (first + 100*time.Millisecond).Round(10*time.Millisecond))
		want(t, "accepted", admitted(t, y.limiter, "ada", 50, throttle.Accepted), 50)
		want(t, "after 50 more", late(t, y.limiter).Round(10*time.Millisecond), (first + 5100*time.Millisecond).Round(10*time.Millisecond))
		want(t, "accepted in 30 seconds of deferral", admitted(t, y.limiter, "ada", 900, throttle.Accepted)+51, 201)
	})
}

// Deferred messages count for Hard until they are due, and after that.
func TestLawHardCountsWhatIsDeferred(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		y := full(t, throttle.Config{Backlog: throttle.Backlog{Hard: 260}})
		n := 0
		for range 100 {
			if p, _ := ask(t, y.limiter, throttle.Call{Tenant: "ada"}); p != nil {
				n++
				y.accept(p)
			}
		}
		want(t, "accepted beside 200", n, 60)
		for range 20 { // nobody serves the queue; the deferred messages become due
			time.Sleep(time.Second)
			if p, _ := ask(t, y.limiter, throttle.Call{Tenant: "ada"}); p != nil {
				t.Fatalf("accepted beside %d messages", y.waiting())
			}
		}
	})
}

func TestBadDeferOfABacklog(t *testing.T) {
	t.Parallel()
	q := worldtest.OpenStore(t, worldtest.Virtual).Queue("orders")
	for _, b := range []throttle.Backlog{
		{Queue: q, Within: time.Second, Defer: -1}, {Queue: q, Within: time.Second, Defer: 25 * time.Hour}, {Queue: q, Hard: 9, Defer: time.Second},
	} {
		if _, err := throttle.NewRateLimiter("test", throttle.Config{Backlog: b}); err == nil || !strings.Contains(err.Error(), "Defer") {
			t.Errorf("%+v: got %v", b, err)
		}
	}
}

// A request that used its quota and wasn't accepted puts off nothing.
func TestLawWhatWasNotAcceptedPutsNothingOff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		y := full(t, throttle.Config{})
		first := late(t, y.limiter)
		admitted(t, y.limiter, "bob", 100, throttle.Spent)
		if second := late(t, y.limiter); second > first+time.Second {
			t.Errorf("after 100 of them: deferred by %v, before by %v", second, first)
		}
	})
}

// late is by how much a rate limiter defers a request now.
func late(t *testing.T, d *throttle.RateLimiter) time.Duration {
	t.Helper()
	p, x := ask(t, d, throttle.Call{Tenant: "ada"})
	if x != nil {
		t.Fatal(x)
	}
	defer p.End(throttle.Void)
	return p.Deferred()
}
