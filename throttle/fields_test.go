package throttle_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/throttle"
)

// An item of a list of the fields, by RFC 9651: a string, with parameters that are integers of 15 digits at most,
// strings, or bytes in base64.
var (
	limitItem  = regexp.MustCompile(`^"([a-z][a-z0-9-]*)";r=(\d{1,15})(?:;t=(\d{1,15}))?;pk=:[A-Za-z0-9+/]+=*:$`)
	policyItem = regexp.MustCompile(`^"([a-z][a-z0-9-]*)";q=(\d{1,15})(?:;qu="[a-z-]+")?(?:;w=(\d{1,15}))?;pk=:[A-Za-z0-9+/]+=*:$`)
)

// Whatever the quotas are, and however much was asked for, the fields can be read, and what they say is in bounds.
func FuzzFields(f *testing.F) {
	f.Add(int64(100), int64(10), uint32(60), uint8(0), uint8(20), int64(0), false)
	f.Add(int64(999_999_999_999_999), int64(1), uint32(366*24*3600), uint8(1), uint8(3), int64(1<<62), false)
	f.Add(int64(1<<50), int64(1<<50), uint32(1), uint8(1), uint8(3), int64(1<<50), true)
	f.Add(int64(3), int64(0), uint32(0), uint8(2), uint8(5), int64(-1), false)
	f.Fuzz(func(t *testing.T, amount, burst int64, per uint32, unit, times uint8, bytes int64, degrade bool) {
		q := throttle.Quota{Name: "a", Amount: amount, Burst: burst, Per: time.Duration(per) * time.Second, Unit: throttle.Unit(unit % 3)}
		if degrade {
			q.Over = throttle.Degrade
		}
		d, err := throttle.NewRateLimiter("test", throttle.Config{Quotas: []throttle.Quota{q, {Name: "other", Amount: 7, Per: time.Minute}}})
		if err != nil {
			return
		}
		for range times%16 + 1 {
			h, status := http.Header{}, http.StatusOK
			p, err := d.Admit(context.Background(), throttle.Call{Tenant: "ada", Bytes: bytes})
			if x := (*throttle.Refusal)(nil); errors.As(err, &x) {
				w := httptest.NewRecorder()
				x.ServeHTTP(w, nil)
				h, status = w.Header(), w.Code
				if after, err := strconv.Atoi(h.Get("Retry-After")); err != nil || after < 1 {
					t.Errorf("Retry-After is %q", h.Get("Retry-After"))
				}
			} else {
				p.SetFields(h)
				p.End(throttle.Spent)
			}
			checkFields(t, h, max(amount, 7), status)
		}
	})
}

func checkFields(t *testing.T, h http.Header, most int64, status int) {
	t.Helper()
	limits, policies := strings.Split(h.Get("RateLimit"), ", "), strings.Split(h.Get("RateLimit-Policy"), ", ")
	if len(limits) != 2 || len(policies) != 2 {
		t.Fatalf("status %d with the fields %q", status, h)
	}
	number := func(text string) int64 { n, _ := strconv.ParseInt(text, 10, 64); return n }
	for i, text := range limits {
		limit, policy := limitItem.FindStringSubmatch(text), policyItem.FindStringSubmatch(policies[i])
		if limit == nil || policy == nil || limit[1] != policy[1] {
			t.Fatalf("items that can't be read: %q, %q", text, policies[i])
		}
		if left := number(limit[2]); left > number(policy[2]) || number(policy[2]) > most || limit[3] != "" && number(limit[3]) < 1 {
			t.Errorf("got %q of %q", text, policies[i])
		}
	}
}

// A free repeat is answered with the fields, as all that is let through: it tells what is left, and takes nothing.
func TestFreeRepeatsTellWhatIsLeft(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newLimiter(t, throttle.Config{Tenant: byHeader, ID: byKey, Quotas: []throttle.Quota{{Name: "a", Amount: 2, Per: time.Hour}, {Name: "b", Amount: 7, Unit: throttle.Concurrent}}})
		h := d.Serve(http.HandlerFunc(said))
		send := func(id string) string {
			w := post(t, h, "Tenant", "ada", "Idempotency-Key", id)
			checkFields(t, w.Header(), 7, w.Code)
			limit, _, _ := strings.Cut(w.Header().Get("RateLimit"), ";pk=")
			return strconv.Itoa(w.Code) + " " + limit
		}
		want(t, "the first", send("1"), `202 "a";r=1`)
		want(t, "its repeat", send("1"), `202 "a";r=1`)
		want(t, "the second", send("2"), `202 "a";r=0;t=1800`)
		time.Sleep(time.Minute)
		want(t, "a repeat while nothing is left", send("1"), `202 "a";r=0;t=1740`)
		want(t, "the third", send("3"), `429 "a";r=0;t=1740`)
		time.Sleep(time.Hour)
		want(t, "a repeat when all has come back", send("1"), `202 "a";r=2`)
	})
}
