package throttle_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/throttle"
)

const benchTenants = 100_000

func tenants() []string {
	names := make([]string, benchTenants)
	for i := range names {
		names[i] = fmt.Sprintf("tenant-%06d", i*7919%benchTenants)
	}
	return names
}

func newLimiter(tb testing.TB, cfg throttle.Config) *throttle.RateLimiter {
	tb.Helper()
	d, err := throttle.NewRateLimiter("test", cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// BenchmarkDoor asks for one of 100,000 tenants after the other, beside what a program would have in its place.
func BenchmarkDoor(b *testing.B) {
	names := tenants()
	run := func(name string, ask func(tenant string) bool) {
		for _, n := range names {
			ask(n)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if !ask(names[i%benchTenants]) {
					b.Fatal("refused")
				}
			}
		})
		b.Run(name+", parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					ask(names[i%benchTenants])
				}
			})
		})
	}
	quota := func(n int) (all []throttle.Quota) {
		for i := range n {
			all = append(all, throttle.Quota{Name: fmt.Sprintf("q%d", i), Amount: 1 << 29, Per: time.Second})
		}
		return all
	}
	for n := 1; n <= 2; n++ {
		d := newLimiter(b, throttle.Config{Quotas: quota(n)})
		run(fmt.Sprintf("%d quotas", n), func(tenant string) bool {
			p, err := d.Admit(b.Context(), throttle.Call{Tenant: tenant})
			p.End(throttle.Spent)
			return err == nil
		})
	}
	var mu sync.Mutex
	buckets := map[string]*bucket{}
	run("a bucket in a map", func(tenant string) bool {
		mu.Lock()
		defer mu.Unlock()
		k := buckets[tenant]
		if k == nil {
			k = &bucket{left: 1 << 29, at: time.Now()}
			buckets[tenant] = k
		}
		return k.take()
	})
}

// A bucket is what many a program has, without a bound on their number.
type bucket struct {
	left float64
	at   time.Time
}

func (k *bucket) take() bool {
	now := time.Now()
	k.left, k.at = min(k.left+(1<<29)*now.Sub(k.at).Seconds(), 1<<29), now
	k.left--
	return k.left >= 0
}

type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) WriteHeader(int)             {}
func (s sink) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkServe has the cost of a whole request at the rate limiter, with the fields of its answer.
func BenchmarkServe(b *testing.B) {
	for name, amount := range map[string]int64{"let through": 1 << 29, "refused": 1} {
		d := newLimiter(b, throttle.Config{Quotas: []throttle.Quota{{Name: "burst", Amount: amount, Per: time.Hour}}})
		h := d.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequestWithContext(b.Context(), "POST", "/", nil)
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(sink{header: http.Header{}}, r)
			}
		})
	}
}

// BenchmarkHostileNames asks for a name each time that has never come before.
func BenchmarkHostileNames(b *testing.B) {
	d := newLimiter(b, throttle.Config{Quotas: []throttle.Quota{{Name: "a", Amount: 10, Per: 24 * time.Hour}}})
	b.ReportAllocs()
	hostile(b, d, b.N)
	_, bytes := d.Words()
	b.ReportMetric(float64(bytes), "bytes-kept")
}
