package throttle_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/throttle"
)

func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// ask asks for a request of a tenant, and returns nil for the Pass of one that was refused.
func ask(t *testing.T, d *throttle.RateLimiter, c throttle.Call) (*throttle.Pass, *throttle.Refusal) {
	t.Helper()
	p, err := d.Admit(t.Context(), c)
	if err == nil {
		return &p, nil
	}
	x, ok := errors.AsType[*throttle.Refusal](err)
	if !ok {
		t.Fatalf("the error is no Refusal: %v", err)
	}
	return nil, x
}

// admitted counts how many of n requests at once are let through, and ends them.
func admitted(t *testing.T, d *throttle.RateLimiter, tenant string, n int, how throttle.Ending) (got int) {
	t.Helper()
	for range n {
		if p, _ := ask(t, d, throttle.Call{Tenant: tenant}); p != nil {
			got++
			p.End(how)
		}
	}
	return got
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// wantRate fails the test if in some time more was let through than burst + d/each.
func wantRate(t *testing.T, seed uint64, at []time.Time, burst int, each time.Duration) {
	t.Helper()
	for i := range at {
		for j := i; j < len(at); j++ {
			if most := burst + int(at[j].Sub(at[i])/each); j-i+1 > most {
				t.Fatalf("seed %d: %d requests in %v; want %d at most", seed, j-i+1, at[j].Sub(at[i]), most)
			}
		}
	}
}

// In any time d a tenant gets Burst + Amount × d/Per requests at most, whatever the others do. A tenant that asks all
// the time gets as many.
func TestInAnyTimeATenantGetsNoMore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 1))
			amount := 1 + r.Int64N(20)
			burst, per := 1+r.Int64N(amount), time.Duration(1+r.IntN(60))*time.Second
			d := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{{Name: "a", Amount: amount, Per: per, Burst: burst}}})
			each := per / time.Duration(amount)
			for _, tenant := range []string{"eager", "moody"} {
				var at []time.Time
				began := time.Now()
				for range 300 {
					time.Sleep(time.Duration(r.Int64N(int64(each))))
					if tenant == "moody" && r.IntN(30) == 0 {
						time.Sleep(per)
					}
					if admitted(t, d, tenant, 1, throttle.Spent) == 1 {
						at = append(at, time.Now())
					}
				}
				wantRate(t, seed, at, int(burst), each)
				if least := int(time.Since(began) * 9 / 10 / (each + 1)); tenant == "eager" && burst > 1 && len(at) < least {
					t.Errorf("seed %d: an eager tenant got %d in %v; want %d", seed, len(at), time.Since(began), least)
				}
			}
		}
	})
}

// A request takes of all its quotas or of none.
func TestAllQuotasOrNone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{
			{Name: "under-way", Amount: 5, Unit: throttle.Concurrent}, {Name: "day", Amount: 6, Per: 24 * time.Hour},
			{Name: "minute", Amount: 3, Per: time.Minute}, {Name: "body", Amount: 1000, Per: time.Minute, Unit: throttle.Bytes},
		}})
		for range 3 {
			want(t, "at once", admitted(t, d, "a", 4, throttle.Spent), 3)
			time.Sleep(time.Minute)
			if p, x := ask(t, d, throttle.Call{Tenant: "b", Bytes: 900}); p == nil {
				t.Fatal(x)
			}
			for range 100 { // refused for its body
				if _, x := ask(t, d, throttle.Call{Tenant: "b", Bytes: 900}); x == nil || fmt.Sprint(x.Quotas()) != "[body]" {
					t.Fatalf("a second body: %v", x)
				}
			}
			want(t, "after a minute", admitted(t, d, "a", 10, throttle.Spent), 3)
			time.Sleep(24 * time.Hour)
		}
		p, _ := ask(t, d, throttle.Call{Tenant: "b"})
		if p == nil {
			t.Fatal("refused requests are under way") // 3 passes of b have not ended
		}
	})
}

// Quota that is given back never lets a tenant have more than if the request had not been made. A request that ends
// at once gives back all.
func TestVoidGivesNoMore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for seed := range uint64(40) {
			r := rand.New(rand.NewPCG(seed, 2))
			const amount, each = 5, 12 * time.Second
			d := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{{Name: "a", Amount: amount, Per: time.Minute}}})
			var at []time.Time
			var void []*throttle.Pass
			for range 300 {
				time.Sleep(time.Duration(r.Int64N(int64(2 * each))))
				switch p, _ := ask(t, d, throttle.Call{Tenant: "a"}); {
				case p == nil:
				case r.IntN(2) == 0:
					void = append(void, p)
				default:
					p.End(throttle.Spent)
					p.End(throttle.Void) // too late
					at = append(at, time.Now())
				}
				if n := len(void); n > 0 && r.IntN(2) == 0 {
					i := r.IntN(n)
					void[i].End(throttle.Void)
					void[i].End(throttle.Void) // once is enough
					void[i], void = void[n-1], void[:n-1]
				}
			}
			wantRate(t, seed, at, amount, each)
		}
		early := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{{Name: "a", Amount: 100, Per: time.Minute}}})
		var all []*throttle.Pass
		for range 100 {
			p, _ := ask(t, early, throttle.Call{Tenant: "a"})
			all = append(all, p)
		}
		for _, p := range all[:50] {
			p.End(throttle.Void)
		}
		time.Sleep(30 * time.Second) // the rest comes back by itself
		want(t, "half a minute later", admitted(t, early, "a", 200, throttle.Spent), 100)
		for _, p := range all[50:] {
			p.End(throttle.Void)
		}
		want(t, "when all are void", admitted(t, early, "a", 200, throttle.Spent), 0)
		d := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{{Name: "a", Amount: 5, Per: time.Minute}, {Name: "b", Amount: 500, Per: time.Minute, Unit: throttle.Bytes}}})
		late, _ := ask(t, d, throttle.Call{Tenant: "late", Bytes: 400})
		time.Sleep(time.Hour)
		want(t, "an hour later", admitted(t, d, "late", 100, throttle.Spent), 5)
		late.End(throttle.Void)
		want(t, "when the first one is void", admitted(t, d, "late", 100, throttle.Spent), 0)
		want(t, "void requests", admitted(t, d, "a", 100, throttle.Void), 100)
		want(t, "afterwards", admitted(t, d, "a", 100, throttle.Spent), 5)
	})
}

// Retry-After is never before the moment at which the quotas let the request through, and for each tenant it is
// another one.
func TestRetryAfterIsNeverTooEarly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 3))
		late := map[time.Duration]bool{}
		for n := range 200 {
			d := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{
				{Name: "a", Amount: 1 + r.Int64N(10), Per: time.Duration(1+r.IntN(300)) * time.Second},
				{Name: "b", Amount: 1 + r.Int64N(10), Per: time.Duration(1+r.IntN(300)) * time.Second},
				{Name: "c", Amount: 1000, Per: 20 * time.Second, Unit: throttle.Bytes},
			}})
			tenant := fmt.Sprint(n)
			call := throttle.Call{Tenant: tenant, Bytes: r.Int64N(3000)}
			var x *throttle.Refusal
			for x == nil {
				_, x = ask(t, d, call)
			}
			after, from := x.RetryAfter(), time.Now()
			for p := (*throttle.Pass)(nil); p == nil; p, _ = ask(t, d, call) {
				time.Sleep(100 * time.Millisecond)
			}
			waited := time.Since(from) - 100*time.Millisecond
			if after <= waited || after > waited*5/4+3*time.Second {
				t.Errorf("Retry-After is %v, and the request had to wait %v", after, waited)
			}
			late[(after-waited)*20/after] = true
		}
		if len(late) < 3 {
			t.Errorf("all tenants come back together: %v", late)
		}
	})
}

// However many names come, the rate limiter keeps MaxKeys words. A tenant that has one is not affected: neither does it
// lose what is left, nor does it get more.
func TestHostileNames(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const keys, ids, names, amount = 4096, 1024, 100_000, 10
		d := newLimiter(t, throttle.Config{MaxKeys: keys, Quotas: []throttle.Quota{{Name: "a", Amount: amount, Per: time.Hour}, {Name: "b", Amount: 1000, Unit: throttle.Concurrent}}})
		d.Remember(ids)
		want(t, "at first", admitted(t, d, "quiet", 4, throttle.Spent), 4)
		want(t, "at first", admitted(t, d, "used-up", amount+1, throttle.Spent), amount)
		through := 0
		for n := range names {
			if p, err := d.Admit(t.Context(), throttle.Call{Tenant: fmt.Sprint("hostile-", n), ID: fmt.Sprint(n)}); err == nil {
				through++
				p.End(throttle.Accepted)
			}
		}
		words, bytes := d.Words()
		if words > 2*keys || bytes > 2*keys*43 { // of each kind
			t.Errorf("%d words in %d bytes; want %d and %d at most", words, bytes, 2*keys, 2*keys*43)
		}
		if through < keys*9/10 || through > keys+64*amount {
			t.Errorf("%d names got through; want one request each for %d words, and %d for all others of a shard", through, keys, amount)
		}
		if n := d.Remembered(); n > 2*ids || n < ids/2 {
			t.Errorf("%d IDs are remembered; want about %d", n, ids)
		}
		want(t, "a tenant that has something left", admitted(t, d, "quiet", 10, throttle.Spent), 6)
		want(t, "a tenant that has nothing left", admitted(t, d, "used-up", 10, throttle.Spent), 0)
		want(t, "a newcomer", admitted(t, d, "late", 1, throttle.Spent), 0)
		time.Sleep(time.Hour)
		want(t, "a newcomer after the flood", admitted(t, d, "later", 20, throttle.Spent), amount)
		want(t, "a tenant after the flood", admitted(t, d, "used-up", 20, throttle.Spent), amount)
	})
}

// hostile lets so many names come to a rate limiter, and returns how many got through.
func hostile(tb testing.TB, d *throttle.RateLimiter, names int) (through int) {
	tb.Helper()
	name := []byte("hostile-00000000")
	for n := range names {
		for i, rest := len(name)-1, n; rest > 0; i, rest = i-1, rest/10 {
			name[i] = byte('0' + rest%10)
		}
		if p, err := d.Admit(tb.Context(), throttle.Call{Tenant: string(name)}); err == nil {
			through++
			p.End(throttle.Spent)
		}
	}
	return through
}

// Two million names come to a rate limiter with the default settings. Under the race detector they are fewer, because
// each takes longer there; BenchmarkHostileNames has as many as it is told.
func TestMillionsOfHostileNames(t *testing.T) {
	t.Parallel()
	names := 2_000_000
	if worldtest.RaceDetector {
		names = 200_000
	}
	const keys = 1 << 20
	d := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{{Name: "a", Amount: 10, Per: 24 * time.Hour}}})
	want(t, "at first", admitted(t, d, "quiet", 4, throttle.Spent), 4)
	if through := hostile(t, d, names); through > keys+640 {
		t.Errorf("%d names got through; want one request each for %d words, and 640 for all others", through, keys)
	}
	if words, bytes := d.Words(); words > keys || bytes > keys*43 {
		t.Errorf("%d words in %d bytes; want %d and %d at most", words, bytes, keys, keys*43)
	}
	want(t, "a tenant that came before", admitted(t, d, "quiet", 10, throttle.Spent), 6)
}

// A concurrent quota bounds the requests that are under way. Newcomers that share a word give it back as well.
func TestConcurrent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const keys, amount = 1024, 3
		d := newLimiter(t, throttle.Config{MaxKeys: keys, Quotas: []throttle.Quota{{Name: "a", Amount: amount, Unit: throttle.Concurrent}}})
		var passes []*throttle.Pass
		for n := range 2 * keys { // each tenant has one under way
			if p, _ := ask(t, d, throttle.Call{Tenant: fmt.Sprint(n)}); p != nil {
				passes = append(passes, p)
			}
		}
		if len(passes) < keys*3/4 || len(passes) > keys+64*amount {
			t.Errorf("%d got through; want about %d", len(passes), keys+64*amount)
		}
		for range 3 {
			for _, p := range passes {
				p.End(throttle.Void) // more than once
			}
			passes = nil
			for n := range amount + 1 {
				p, x := ask(t, d, throttle.Call{Tenant: "a"})
				if (p != nil) != (n < amount) {
					t.Fatalf("request %d: %v", n, x)
				}
				if p != nil {
					passes = append(passes, p)
				}
			}
			time.Sleep(24 * time.Hour) // no time gives a place back
		}
	})
}

// Many at once get no more than one after the other.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	const amount, slots = 50, 4
	d := newLimiter(t, throttle.Config{MaxKeys: 1024, Quotas: []throttle.Quota{
		{Name: "a", Amount: amount, Per: 24 * time.Hour}, {Name: "b", Amount: slots, Unit: throttle.Concurrent},
	}})
	tenants := []string{"a", "b", "c"}
	var got, under [3]atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := range 1500 {
				i := n % len(tenants)
				p, err := d.Admit(t.Context(), throttle.Call{Tenant: tenants[i], ID: fmt.Sprint(n)})
				if err != nil {
					_ = err.Error()
					continue
				}
				if under[i].Add(1) > slots {
					t.Error("too many under way")
				}
				got[i].Add(1)
				under[i].Add(-1)
				p.End(throttle.Spent)
			}
		})
	}
	all.Wait()
	for i := range tenants {
		want(t, "tenant "+tenants[i], got[i].Load(), amount)
	}
}

// A body with more bytes than the burst is let through when all is there, and then the tenant waits longer.
func TestALargeBody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{{Name: "body", Amount: 1000, Per: 10 * time.Second, Unit: throttle.Bytes}}})
		large := throttle.Call{Tenant: "a", Bytes: 5000}
		for range 3 {
			p, x := ask(t, d, large)
			if p == nil {
				t.Fatal(x)
			}
			p.End(throttle.Spent)
			time.Sleep(49 * time.Second)
			if p, _ := ask(t, d, large); p != nil {
				t.Fatal("a second large body came through before the first was paid")
			}
			time.Sleep(time.Second)
		}
		if p, x := ask(t, d, throttle.Call{Tenant: "b", Bytes: 1 << 62}); p == nil {
			t.Fatal(x)
		}
		if _, x := ask(t, d, throttle.Call{Tenant: "b", Bytes: 1}); x == nil || x.RetryAfter() <= 0 {
			t.Errorf("after the largest body: %v", x)
		}
	})
}

// New quotas count from the next request on. The use of a quota with the same name, unit and time counts on.
func TestSet(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newLimiter(t, throttle.Config{
			Quotas: []throttle.Quota{{Name: "a", Amount: 4, Per: time.Minute}},
			Plans:  map[string][]throttle.Quota{"gold": {{Name: "a", Amount: 8, Per: time.Minute}}, "free": {}},
			Plan:   func(tenant string) string { return tenant },
		})
		want(t, "the quotas of all", admitted(t, d, "x", 10, throttle.Spent), 4)
		want(t, "a plan", admitted(t, d, "gold", 10, throttle.Spent), 8)
		want(t, "a plan without quotas", admitted(t, d, "free", 10, throttle.Spent), 10)
		if err := d.Set([]throttle.Quota{{Name: "a"}}, nil); err == nil {
			t.Error("a quota without an amount was taken")
		}
		want(t, "after a fault", admitted(t, d, "x", 10, throttle.Spent), 0)
		if err := d.Set([]throttle.Quota{{Name: "a", Amount: 8, Per: time.Minute}}, nil); err != nil {
			t.Fatal(err)
		}
		want(t, "used before", admitted(t, d, "x", 10, throttle.Spent), 0)
		time.Sleep(30 * time.Second)
		want(t, "after half a minute", admitted(t, d, "x", 10, throttle.Spent), 4)
		if err := d.Set([]throttle.Quota{{Name: "a", Amount: 8, Per: time.Hour}}, nil); err != nil {
			t.Fatal(err)
		}
		want(t, "another time", admitted(t, d, "x", 10, throttle.Spent), 8)
		large := newLimiter(t, throttle.Config{Quotas: []throttle.Quota{{Name: "a", Amount: 1000, Per: time.Hour}}})
		want(t, "most of a large burst", admitted(t, large, "x", 900, throttle.Spent), 900)
		if err := large.Set([]throttle.Quota{{Name: "a", Amount: 1000, Per: time.Hour, Burst: 10}}, nil); err != nil {
			t.Fatal(err)
		}
		want(t, "with a smaller burst", admitted(t, large, "x", 10, throttle.Spent), 0)
		time.Sleep(4 * time.Second)
		want(t, "a moment later", admitted(t, large, "x", 10, throttle.Spent), 1)
	})
}
