package throttle_test

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/throttle"
)

// announced sends a request to a handler that reads all of its body, or with 413 nothing. It announces other bytes than
// it sends.
func announced(t *testing.T, h http.Handler, do string, bytes int64, sent int) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", io.MultiReader(strings.NewReader(strings.Repeat("x", sent))))
	r.ContentLength = bytes
	r.Header.Set("Do", do)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// Law: a body costs what was read of it, and not what it announced. Else one line of a stranger would shut the rate
// limiter for all that share its address.
func TestLawABodyThatIsNotSentCostsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{{Name: "body", Amount: 1000, Per: 10 * time.Second, Unit: throttle.Bytes}}})
		h := d.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if code, err := strconv.Atoi(r.Header.Get("Do")); err == nil {
				w.WriteHeader(code)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
		}))
		for range 20 {
			want(t, "a body that nobody reads", announced(t, h, "413", 1<<50, 0), 413)
		}
		want(t, "a body that breaks off", announced(t, h, "read", 1<<50, 1500), 200)
		want(t, "at once", announced(t, h, "read", 1, 1), 429)
		time.Sleep(5*time.Second + 9*time.Millisecond) // 1501 bytes less 1000
		want(t, "before it is paid", announced(t, h, "read", 1, 1), 429)
		time.Sleep(time.Millisecond)
		want(t, "when it is paid", announced(t, h, "read", 1, 1), 200)
		want(t, "a body in full", announced(t, h, "read", 1, 1), 429)
	})
}

// Law: a refund never lets a tenant have more than it would have without the request.
func TestLawWhatIsNotSentGivesNoMore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{{Name: "body", Amount: 1000, Per: 10 * time.Second, Unit: throttle.Bytes}}})
		release := make(chan struct{})
		h := d.Serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Do") == "hold" {
				<-release
			}
			_, _ = io.Copy(io.Discard, r.Body)
		}))
		var slow sync.WaitGroup
		slow.Go(func() { want(t, "a slow body", announced(t, h, "hold", 3000, 10), 200) })
		time.Sleep(time.Minute)
		want(t, "all of the quota", announced(t, h, "read", 1000, 1000), 200)
		close(release)
		slow.Wait()
		want(t, "after the slow body", announced(t, h, "read", 1, 1), 429)
	})
}

// Law: a refund never lets a tenant have more, whatever others have got back while its request was under way.
func TestLawNoRefundIsTooLarge(t *testing.T) {
	for name, largest := range map[string]func(t *testing.T, d *throttle.RateLimiter){
		"void": func(t *testing.T, d *throttle.RateLimiter) {
			p, x := ask(t, d, throttle.Call{Tenant: "a", Bytes: math.MaxInt64})
			if p == nil {
				t.Fatal(x)
			}
			p.End(throttle.Void)
		},
		"not sent": func(t *testing.T, d *throttle.RateLimiter) {
			want(t, "a body of many years", announced(t, d.Serve(http.HandlerFunc(said)), "413", math.MaxInt64, 0), 413)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				d := newLimiter(t, throttle.Config{
					Tenant: func(*http.Request) string { return "a" },
					Quotas: []throttle.Quota{{Name: "body", Amount: 1000, Per: 10 * time.Second, Unit: throttle.Bytes}},
				})
				all := throttle.Call{Tenant: "a", Bytes: 1000}
				early, _ := ask(t, d, all)
				time.Sleep(time.Minute) // it comes back by itself
				for range 5 {
					largest(t, d)
				}
				if p, x := ask(t, d, all); p == nil {
					t.Fatal(x)
				}
				early.End(throttle.Void)
				if p, _ := ask(t, d, all); p != nil {
					t.Error("all of the quota twice")
				}
			})
		})
	}
}
