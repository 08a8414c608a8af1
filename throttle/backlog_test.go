package throttle_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/throttle"
)

// A yard is a queue behind a rate limiter, in virtual time.
type yard struct {
	t       *testing.T
	queue   *storage.Queue
	exact   *storage.Queue // the same one, of a store that tells all counts
	link    *storagetest.Link
	calls   storagetest.Calls
	log     *worldtest.Log
	limiter *throttle.RateLimiter
	n       int
}

func newYard(t *testing.T, cfg throttle.Config) *yard {
	t.Helper()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	return newYardOn(t, s, s, cfg)
}

// newYardOn returns a yard on a store, whose counts exact tells.
func newYardOn(t *testing.T, exact, s *storage.Store, cfg throttle.Config) *yard {
	t.Helper()
	y := &yard{t: t, log: worldtest.NewLog()}
	y.queue, y.exact = s.Queue("orders"), exact.Queue("orders")
	y.link = storagetest.NewLink(s)
	cfg.Backlog.Queue = storagetest.Intercept(y.link.Store, y.calls.Hook).Queue("orders")
	cfg.Logger = slog.New(y.log)
	y.limiter = newLimiter(t, cfg)
	return y
}

// order asks at the rate limiter, and sends a message if it is let through.
func (y *yard) order(tenant string) *throttle.Refusal {
	y.t.Helper()
	y.n++
	p, x := ask(y.t, y.limiter, throttle.Call{Tenant: tenant})
	if p != nil {
		if err := y.queue.Send(y.t.Context(), []storage.Message{{Body: fmt.Append(nil, y.n)}}); err != nil {
			y.t.Fatal(err)
		}
		p.End(throttle.Accepted)
	}
	synctest.Wait() // for a look that has begun
	return x
}

// orders asks n times, and sends the messages of those that were let through, together. It returns their number.
func (y *yard) orders(n int) int {
	y.t.Helper()
	var passes []*throttle.Pass
	var messages []storage.Message
	for range n {
		if p, _ := ask(y.t, y.limiter, throttle.Call{Tenant: "a"}); p != nil {
			passes, messages = append(passes, p), append(messages, storage.Message{Body: []byte("order")})
		}
	}
	if len(messages) > 0 {
		if err := y.queue.Send(y.t.Context(), messages); err != nil {
			y.t.Fatal(err)
		}
	}
	for _, p := range passes {
		p.End(throttle.Accepted)
	}
	synctest.Wait() // for a look that has begun
	return len(passes)
}

// look makes the rate limiter look at the queue, if it is time to, and waits for the end of that.
func (y *yard) look() {
	y.t.Helper()
	if p, _ := ask(y.t, y.limiter, throttle.Call{Tenant: "looker"}); p != nil {
		p.End(throttle.Void)
	}
	synctest.Wait()
}

// serve handles n messages, if there are so many.
func (y *yard) serve(n int) {
	y.t.Helper()
	for n > 0 {
		got, err := y.queue.Receive(y.t.Context(), min(n, 32), time.Minute)
		if err != nil {
			y.t.Fatal(err)
		}
		if len(got) == 0 {
			return
		}
		var receipts []storage.Receipt
		for _, d := range got {
			receipts = append(receipts, d.Receipt)
		}
		if err := y.queue.Delete(y.t.Context(), receipts); err != nil {
			y.t.Fatal(err)
		}
		n -= len(got)
	}
}

func (y *yard) depth() int {
	y.t.Helper()
	st, err := y.queue.Stats(y.t.Context())
	if err != nil {
		y.t.Fatal(err)
	}
	return int(st.Ready + st.InFlight)
}

// The messages that a rate limiter lets through are never more than Hard, not even between two looks, and not while
// many requests are under way.
func TestHardLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		y := newYard(t, throttle.Config{Backlog: throttle.Backlog{Hard: 50}})
		y.look()
		want(t, "at once", y.orders(200), 50)
		want(t, "messages", y.depth(), 50)
		x := y.order("a")
		if x == nil || x.Status() != http.StatusServiceUnavailable || x.RetryAfter() < 5*time.Second || fmt.Sprint(x.Quotas()) != "[backlog]" {
			t.Errorf("above the limit: %v", x)
		}
		y.serve(20)
		want(t, "before the next look", y.orders(10), 0)
		time.Sleep(5 * time.Second)
		y.look()
		var passes []*throttle.Pass
		for range 100 { // they don't end
			if p, _ := ask(t, y.limiter, throttle.Call{Tenant: "b"}); p != nil {
				passes = append(passes, p)
			}
		}
		want(t, "under way", len(passes), 20)
		for _, p := range passes {
			p.End(throttle.Void)
		}
		want(t, "after void requests", y.orders(100), 20)
		want(t, "messages at the end", y.depth(), 50)
	})
}

// Requests that are refused at the same moment let no other one through.
func TestHardLimitOfMany(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for range 20 {
			y := newYard(t, throttle.Config{Backlog: throttle.Backlog{Hard: 50}})
			y.look()
			var through atomic.Int64
			var all sync.WaitGroup
			for range 64 {
				all.Go(func() {
					for range 20 {
						if p, err := y.limiter.Admit(t.Context(), throttle.Call{Tenant: "a"}); err == nil {
							through.Add(1)
							p.End(throttle.Spent)
						}
					}
				})
			}
			all.Wait()
			want(t, "let through", through.Load(), 50)
		}
	})
}

// No message is let through that can't be served Within, as far as the rate is known. A worker has work all the time:
// nothing is refused without need.
func TestWithin(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const rate, within = 10, 10 // messages a second, seconds
		y := newYard(t, throttle.Config{Backlog: throttle.Backlog{Within: within * time.Second}})
		y.orders(200) // nobody knows how fast the queue is served
		idle, through := 0, 0
		for second := range 120 {
			if y.depth() < rate {
				idle++
			}
			y.serve(rate)
			n := y.orders(3 * rate)
			if wait := y.depth() / rate; n > 0 && second > 30 && wait > within*3/2 {
				t.Errorf("after %d s messages were let through that wait for %d s", second, wait)
			}
			if second > 30 {
				through += n
			}
			time.Sleep(time.Second)
		}
		if idle > 0 || through < 70*rate {
			t.Errorf("the worker had too little to do in %d s, and %d were let through in 90 s", idle, through)
		}
	})
}

// A queue that nobody serves closes the rate limiter, and one that is served again opens it, step by step.
func TestWithinRecovers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const rate = 10
		y := newYard(t, throttle.Config{Backlog: throttle.Backlog{Within: 5 * time.Second}})
		y.orders(50)
		open := 0
		for second := range 60 {
			if y.orders(2*rate) > 0 && second > 10 {
				open++
			}
			time.Sleep(time.Second)
		}
		want(t, "seconds in which the rate limiter was open, without a worker", open, 0)
		for y.depth() > rate {
			y.serve(rate)
			y.orders(1)
			time.Sleep(time.Second)
		}
		served := 0
		for second := range 90 {
			before := y.depth()
			if y.serve(rate); second >= 60 {
				served += before - y.depth()
			}
			y.orders(2 * rate)
			time.Sleep(time.Second)
		}
		if least := 30 * rate * 9 / 10; served < least {
			t.Errorf("served %d in half a minute, long after the worker had come back; want %d", served, least)
		}
	})
}

// A rate limiter that begins before a queue of old messages lets nothing through until it knows how fast they are
// served.
func TestABeginningBeforeOldMessages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		y := newYard(t, throttle.Config{Backlog: throttle.Backlog{Within: 10 * time.Second}})
		if err := y.queue.Send(t.Context(), make([]storage.Message, 100)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		y.look()
		want(t, "after a look", y.orders(10), 0)
		y.serve(50)
		time.Sleep(5 * time.Second)
		y.look()
		want(t, "after another one", y.orders(10), 10) // 50 messages, and 10 are served in a second
	})
}

// While the queue can't be read, the last look counts for six times Every. Then everything is let through, until the
// queue can be read.
func TestAStoreThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		y := newYard(t, throttle.Config{Backlog: throttle.Backlog{Hard: 5}})
		y.look()
		want(t, "at first", y.orders(20), 5)
		y.link.Cut()
		began, through := time.Now(), time.Duration(0)
		for range 60 {
			time.Sleep(time.Second)
			if p, _ := ask(t, y.limiter, throttle.Call{Tenant: "a"}); p != nil {
				p.End(throttle.Void)
				if through == 0 {
					through = time.Since(began)
				}
			} else if through > 0 {
				t.Error("refused again without a look")
			}
			synctest.Wait()
		}
		if through < 25*time.Second || through > 31*time.Second {
			t.Errorf("the first was let through after %v", through)
		}
		want(t, "lines", y.log.Count("WARN the backlog of a queue can't be read", "limiter=test"), 1)
		y.link.Restore()
		time.Sleep(5 * time.Second)
		y.look()
		want(t, "when it can be read again", y.orders(5), 0)
	})
}

// A call that hangs is the only one, and holds up nobody.
func TestAStoreThatHangs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		over, calls := make(chan struct{}), atomic.Int64{}
		s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, _ func() error) error {
			calls.Add(1)
			<-over
			return op.Fail(storage.ErrUnavailable)
		})
		d := newLimiter(t, throttle.Config{Backlog: throttle.Backlog{Queue: s.Queue("orders"), Hard: 5}})
		for range 100 {
			want(t, "let through", admitted(t, d, "a", 10, throttle.Accepted), 10)
			time.Sleep(10 * time.Second)
		}
		want(t, "calls", calls.Load(), 1)
		close(over)
		synctest.Wait()
	})
}

// A rate limiter looks 12 times a minute at most, whatever comes, and not at all while nothing comes.
func TestCost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		y := newYard(t, throttle.Config{Backlog: throttle.Backlog{Hard: 1000}})
		time.Sleep(time.Hour)
		want(t, "calls without requests", y.calls.Count(), 0)
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() {
					p, _ := y.limiter.Admit(t.Context(), throttle.Call{Tenant: "a"})
					p.End(throttle.Spent)
				})
			}
			all.Wait()
		}
		synctest.Wait()
		want(t, "calls in a minute", y.calls.Count(), 12)
		want(t, "looks", y.calls.Count("stats"), y.calls.Count())
	})
}

// The answer says that it is our fault, and takes nothing of the tenant's quota.
func TestOverload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		y := newYard(t, throttle.Config{Tenant: byHeader, ID: byKey, Quotas: []throttle.Quota{{Name: "a", Amount: 3, Per: time.Hour}}, Backlog: throttle.Backlog{Hard: 2}})
		h := y.limiter.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := y.queue.Send(r.Context(), []storage.Message{{Body: []byte("order")}}); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusAccepted)
		}))
		send := func(id string) *httptest.ResponseRecorder {
			w := post(t, h, "Tenant", "a", "Idempotency-Key", id)
			synctest.Wait()
			return w
		}
		y.look()
		send("1")
		send("2")
		for n := range 20 {
			w := send(fmt.Sprint("new", n))
			got := inWords(w)
			if !strings.HasPrefix(got, "503\nRetry-After: ") || !strings.Contains(got, `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,`) ||
				!strings.HasSuffix(got, `"violated-policies":["backlog"]}`+"\n") || w.Header().Get("RateLimit") != "" {
				t.Fatalf("got %s", got)
			}
		}
		want(t, "a repeat of what was accepted", send("1").Code, http.StatusAccepted)
		y.serve(10)
		time.Sleep(6 * time.Second)
		y.look() // the queue is empty
		want(t, "what is left of the quota", send("3").Header().Get("RateLimit")[:9], `"a";r=0;t`)
	})
}
