package throttle_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/throttle"
)

// deferring is a rate limiter whose quota is 10 requests a second, 5 at once, and 3 seconds of patience.
func deferring(t *testing.T) *throttle.RateLimiter {
	t.Helper()
	d, err := throttle.NewRateLimiter("test", throttle.Config{Quotas: []throttle.Quota{{Name: "a", Amount: 10, Burst: 5, Per: time.Second, Defer: 3 * time.Second}}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// However requests come, the times at which their work is due keep to the quota. None waits for longer than Defer, and
// one that is refused is let through after its Retry-After.
func TestLawDeferredWorkKeepsTheQuota(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				random, d := rand.New(rand.NewPCG(seed, 1)), deferring(t)
				var due []time.Time
				refused := 0
				for range 300 {
					time.Sleep(time.Duration(random.ExpFloat64() * float64(20*time.Millisecond)))
					p, x := ask(t, d, throttle.Call{Tenant: "ada"})
					if x != nil {
						refused++
						if random.IntN(20) > 0 {
							continue
						}
						time.Sleep(x.RetryAfter())
						if p, x = ask(t, d, throttle.Call{Tenant: "ada"}); x != nil {
							t.Fatal("refused after Retry-After")
						}
					}
					if late := p.Deferred(); late < 0 || late > 3*time.Second {
						t.Fatalf("deferred for %v", late)
					}
					p.End(throttle.Accepted)
					due = append(due, time.Now().Add(p.Deferred()))
				}
				slices.SortFunc(due, time.Time.Compare)
				wantRate(t, seed, due, 5, 100*time.Millisecond)
				if refused == 0 {
					t.Error("the test has refused nobody")
				}
			})
		})
	}
}

// A repeat is free. Its work is due after that of the request before it, so nobody gets ahead by repeating.
func TestLawARepeatIsNotDueBeforeItsRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := deferring(t)
		want(t, "at once", admitted(t, d, "ada", 5, throttle.Accepted), 5)
		var due []time.Time
		for n := range 10 {
			for range 3 {
				p, x := ask(t, d, throttle.Call{Tenant: "ada", ID: fmt.Sprint(n)})
				if x != nil {
					t.Fatal(x)
				}
				p.End(throttle.Accepted)
				due = append(due, time.Now().Add(p.Deferred()))
				time.Sleep(time.Millisecond)
			}
		}
		for i := range due {
			if first := due[i/3*3]; due[i].Before(first) {
				t.Errorf("request %d: a repeat is due %v before it", i/3, first.Sub(due[i]))
			}
		}
	})
}

// A handler behind the rate limiter learns for how long its work shall wait.
func TestDeferredInAHandler(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var late []time.Duration
		h := deferring(t).Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			late = append(late, throttle.Deferred(r.Context()))
			w.WriteHeader(http.StatusAccepted)
		}))
		codes := map[int]int{}
		for range 40 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("")))
			codes[w.Code]++
		}
		want(t, "accepted", codes[http.StatusAccepted], 5+30)
		want(t, "refused", codes[http.StatusTooManyRequests], 5)
		want(t, "without a delay", late[4], 0)
		want(t, "first delay", late[5].Round(time.Millisecond), 100*time.Millisecond)
		want(t, "last delay", late[34].Round(time.Millisecond), 3*time.Second)
	})
}

func TestBadDefer(t *testing.T) {
	t.Parallel()
	for _, q := range []throttle.Quota{
		{Name: "a", Amount: 1, Defer: -1}, {Name: "a", Amount: 1, Defer: 25 * time.Hour}, {Name: "a", Amount: 1, Unit: throttle.Concurrent, Defer: time.Second},
	} {
		if _, err := throttle.NewRateLimiter("test", throttle.Config{Quotas: []throttle.Quota{q}}); err == nil || !strings.Contains(err.Error(), "Defer") {
			t.Errorf("%+v: got %v", q, err)
		}
	}
}
