package throttle_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/throttle"
)

// degrading is a rate limiter with a quota of 10 requests a second, 5 at once, that degrades, and one of 20 that
// refuses.
func degrading(t *testing.T) *throttle.RateLimiter {
	t.Helper()
	d, err := throttle.NewRateLimiter("test", throttle.Config{Quotas: []throttle.Quota{
		{Name: "full", Amount: 10, Burst: 5, Over: throttle.Degrade},
		{Name: "all", Amount: 20},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A tenant over a quota that degrades is served with less, takes nothing of that quota, and never gets more than the
// quota in full. Another quota still refuses it.
func TestLawOverAQuotaATenantIsServedWithLess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := degrading(t)
		count := func(n int) (full, less, refused int) {
			for range n {
				p, x := ask(t, d, throttle.Call{Tenant: "ada"})
				switch {
				case x != nil:
					refused++
					continue
				case p.Degraded():
					less++
				default:
					full++
				}
				p.End(throttle.Accepted)
			}
			return full, less, refused
		}
		full, less, refused := count(30)
		want(t, "in full", full, 5)
		want(t, "with less", less, 15)
		want(t, "refused", refused, 10)
		time.Sleep(300 * time.Millisecond) // as if the degraded ones had taken nothing
		full, less, refused = count(9)
		want(t, "in full later", full, 3)
		want(t, "with less later", less, 3)
		want(t, "refused later", refused, 3)
		time.Sleep(time.Minute)
		full, _, _ = count(20)
		want(t, "in full after a minute", full, 5)
		p, _ := ask(t, d, throttle.Call{Tenant: "bob"})
		want(t, "another tenant is degraded", p.Degraded(), false)
	})
}

// A repeat of an accepted request is free, and no way around the quota: it is served as another request would be.
func TestLawARepeatIsDegradedAsItsTenantIs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := degrading(t)
		repeat := func(want bool) {
			t.Helper()
			p, x := ask(t, d, throttle.Call{Tenant: "ada", ID: "a"})
			if x != nil {
				t.Fatal(x)
			}
			if p.Degraded() != want {
				t.Errorf("degraded: %v, want %v", p.Degraded(), want)
			}
			p.End(throttle.Accepted)
		}
		repeat(false)
		repeat(false)
		want(t, "let through", admitted(t, d, "ada", 6, throttle.Accepted), 6)
		repeat(true)
		time.Sleep(time.Second)
		repeat(false)
	})
}

// A handler behind the rate limiter learns that it is to do less, and the answer says that nothing is left of that
// quota. A body without a length that belongs to a degraded request isn't charged.
func TestDegradedInAHandler(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := prometheus.NewRegistry()
		d, err := throttle.NewRateLimiter("test", throttle.Config{Metrics: r, Quotas: []throttle.Quota{{Name: "upload", Amount: 100, Unit: throttle.Bytes, Over: throttle.Degrade}}})
		if err != nil {
			t.Fatal(err)
		}
		var less []bool
		h := d.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			less = append(less, throttle.Degraded(r.Context()))
			_, _ = io.Copy(io.Discard, r.Body)
			said(w, r)
		}))
		send := func(body string, length int64) http.Header {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
			r.ContentLength = length
			h.ServeHTTP(w, r)
			want(t, "status", w.Code, http.StatusAccepted)
			return w.Header()
		}
		limit := func(h http.Header) string { text, _, _ := strings.Cut(h.Get("RateLimit"), ";pk"); return text }
		want(t, "the first", limit(send(strings.Repeat("x", 90), 90)), `"upload";r=10`)
		want(t, "one that doesn't fit", limit(send(strings.Repeat("x", 50), 50)), `"upload";r=0;t=1`)
		want(t, "one that fits", limit(send("x", 1)), `"upload";r=9`)
		want(t, "one that fills it", limit(send("xxxxxxxxx", 9)), `"upload";r=0;t=1`)
		send(strings.Repeat("x", 1000), -1) // nobody knows before that it doesn't fit
		send(strings.Repeat("x", 1000), -1)
		time.Sleep(11 * time.Second)
		want(t, "11 seconds later", limit(send("x", 1)), `"upload";r=99`)
		for n, want := range []bool{false, true, false, false, false, true, false} {
			if less[n] != want {
				t.Errorf("request %d: degraded: %v", n, less[n])
			}
		}
		if got := counted(t, r); !strings.Contains(got, "degraded") {
			t.Errorf("the metrics have no degraded requests: %s", got)
		}
	})
}

func TestBadDegrade(t *testing.T) {
	t.Parallel()
	for _, q := range []throttle.Quota{
		{Name: "a", Amount: 1, Over: throttle.Degrade, Defer: time.Second}, {Name: "a", Amount: 1, Over: throttle.Degrade, Unit: throttle.Concurrent},
		{Name: "a", Amount: 1, Over: 2}, {Name: "a", Amount: 1, Over: -1},
	} {
		if _, err := throttle.NewRateLimiter("test", throttle.Config{Quotas: []throttle.Quota{q}}); err == nil || !strings.Contains(err.Error(), "Over") {
			t.Errorf("%+v: got %v", q, err)
		}
	}
}
