package ids_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// The write of a range is answered before a number of it is given out.
func TestLaw1ReservedBeforeGivenOut(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var reserved atomic.Int64 // answered so far
		q := open(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			time.Sleep(time.Second)
			err := do()
			if op.Name == "put blob" && err == nil {
				end := next(t, s)
				time.Sleep(time.Second)
				reserved.Store(end)
			}
			return err
		}), ids.Config{})
		for range 200 {
			if n := take(t, q); n >= reserved.Load() {
				t.Fatalf("got %d while %d was free", n, reserved.Load())
			}
		}
		finish(t, q)
		wantNext(t, s, 201)
	})
}

// Several Sequences take numbers with many callers. No number comes twice, and none is missing after all have closed,
// but those behind which others have reserved.
func TestLaw1Unique(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var (
			seen    seen
			callers sync.WaitGroup
		)
		for range 6 {
			q := open(t, s, ids.Config{})
			var mine sync.WaitGroup
			for range 8 {
				mine.Go(func() {
					for range 500 {
						n, err := q.Next(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						seen.add(t, n)
					}
				})
			}
			callers.Go(func() { mine.Wait(); finish(t, q) })
		}
		callers.Wait()
		if n := len(seen.numbers); n != 6*8*500 {
			t.Errorf("%d numbers were given out", n)
		}
		if end := next(t, s); end <= seen.largest {
			t.Errorf("the counter is at %d, and %d was given out", end, seen.largest)
		}
	})
}

// A call that begins after another has returned gets a larger number, whoever makes it, also over the change of
// ranges.
func TestLaw2NumbersGrow(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		other := open(t, s, ids.Config{}) // so that ranges don't follow one another
		q := open(t, s, ids.Config{Most: 50}.AtLeast(3))
		var (
			largest atomic.Int64 // that a call has returned
			callers sync.WaitGroup
		)
		for range 8 {
			callers.Go(func() {
				for i := range 2000 {
					before := largest.Load()
					n, err := q.Next(t.Context())
					if err != nil || n <= before {
						t.Errorf("got %d, %v after %d was returned", n, err, before)
						return
					}
					for before < n && !largest.CompareAndSwap(before, n) {
						before = largest.Load()
					}
					if i%100 == 0 {
						if _, err := other.Next(t.Context()); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		callers.Wait()
		finish(t, q)
		finish(t, other)
	})
}

// A crash loses the rest of one range and the range fetched ahead, and Close loses nothing.
func TestLaw3Gaps(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		cfg := ids.Config{Most: 10}
		a := open(t, s, cfg)
		takeAll(t, a, 1, 3)
		finish(t, a)
		wantNext(t, s, 4)
		b := open(t, s, cfg)
		takeAll(t, b, 4, 9) // 1 is left, and 10 more are fetched
		time.Sleep(time.Second)
		wantNext(t, s, 24)
		finish(t, b)
		wantNext(t, s, 13)

		dead := open(t, s, cfg)
		takeAll(t, dead, 13, 9)
		time.Sleep(time.Second)
		c := open(t, s, cfg)
		takeAll(t, c, 33, 1) // 22, and the range from 23 to 32, are lost
		finish(t, dead)      // too late: c has reserved since
		wantNext(t, s, 43)
		finish(t, c)
		wantNext(t, s, 34)

		// Another process reserves between b's two ranges: the second is given back alone.
		b = open(t, s, cfg)
		takeAll(t, b, 34, 1)
		d := open(t, s, cfg)
		takeAll(t, d, 44, 1)
		takeAll(t, b, 35, 8)
		time.Sleep(time.Second)
		wantNext(t, s, 64)
		finish(t, d)
		finish(t, b)
		wantNext(t, s, 54)
		fresh := open(t, s, cfg)
		finish(t, fresh) // without a number: nothing to give back
		wantNext(t, s, 54)
	})
}

// The size of a range follows its use, and no caller but the first waits.
func TestLaw4Adapts(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var (
			calls storagetest.Calls
			reg   = prometheus.NewRegistry()
			last  = int64(1)
			trace []int64
		)
		q := open(t, storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
			time.Sleep(5 * time.Millisecond)
			err := calls.Hook(ctx, op, do)
			if op.Name == "put blob" && err == nil {
				end := next(t, s)
				trace = append(trace, end-last)
				last = end
			}
			return err
		}), ids.Config{Most: 1000, Metrics: reg})
		use := func(n int, every time.Duration) {
			for range n {
				take(t, q)
				time.Sleep(every)
			}
		}
		use(5000, 10*time.Millisecond) // 100/s: doubled up to Most, which lasts ten seconds
		use(2000, 100*time.Millisecond)
		use(1000, 10*time.Second)
		want := []int64{10, 20, 40, 80, 160, 320, 640, 1000, 1000}
		for i, size := range want {
			if trace[i] != size {
				t.Fatalf("the sizes were %v, want %v first", trace, want)
			}
		}
		if size := trace[len(trace)-1]; size != 10 {
			t.Errorf("the sizes were %v, want 10 in the end", trace)
		}
		if got := metric(t, reg, "millrace_ids_waits_total"); got != 1 {
			t.Errorf("%v calls waited, want the first alone", got)
		}
		if got := metric(t, reg, "millrace_ids_reservations_total"); got != float64(len(trace)) {
			t.Errorf("%v reservations were counted, want %d", got, len(trace))
		}
		if got, most := calls.Count(), 2*len(trace); got > most {
			t.Errorf("%d requests for %d ranges", got, len(trace))
		}
		if got, want := metric(t, reg, "millrace_ids_numbers_left"), float64(last-1-8000); got != want {
			t.Errorf("%v numbers are left, want %v", got, want)
		}
		finish(t, q)
		wantNext(t, s, 8001)
		if got := metric(t, reg, "millrace_ids_numbers_left"); got != 0 {
			t.Errorf("%v numbers are left after Close", got)
		}
	})
}

// A document that is no counter gives out nothing and stays as it is.
func TestLaw5Corrupt(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		for _, body := range []string{
			"", "7", "null", "{}", `{"next":7}`, `{"counter":"orders"}`, `{"counter":"orders","next":0}`, `{"counter":"orders","next":-7}`,
			`{"counter":"orders","next":"7"}`, `{"counter":"orders","next":7.5}`, `{"counter":"orders","next":9223372036854775808}`,
			`{"counter":"others","next":7}`, `{"counter":"orders","next":7} x`, `{"holder":"h","id":"i","fence":7,"ttl":3000}`, strings.Repeat("x", 100_000),
		} {
			put(t, s, name, body)
			q := open(t, s, ids.Config{})
			wantRefusal(t, q, ids.ErrCorrupt, "millrace ids raise")
			finish(t, q)
			if got := get(t, s); got != body {
				t.Errorf("%.60q became %.60q", body, got)
			}
		}
	})
}

// The counter's document becomes corrupt, old or gone under a running process. Numbers in hand are good; then nothing
// is given out, until the counter is raised past what the process has reserved.
func TestLaw5Backwards(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what  string
		spoil func(t *testing.T, s *storage.Store, backup string)
		want  error
	}{
		{"an old backup", func(t *testing.T, s *storage.Store, backup string) { put(t, s, name, backup) }, ids.ErrBackwards},
		{"deleted", func(t *testing.T, s *storage.Store, _ string) {
			if err := s.Blobs(container).Delete(t.Context(), name, storage.Condition{}); err != nil {
				t.Fatal(err)
			}
		}, ids.ErrBackwards},
		{"overwritten", func(t *testing.T, s *storage.Store, _ string) { put(t, s, name, "x") }, ids.ErrCorrupt},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				q := open(t, s, ids.Config{Most: 100}.AtLeast(100))
				takeAll(t, q, 1, 1)
				backup := get(t, s)
				takeAll(t, q, 2, 99)
				takeAll(t, q, 101, 1)
				c.spoil(t, s, backup)
				takeAll(t, q, 102, 99)
				wantRefusal(t, q, c.want, "millrace ids raise")
				if err := ids.Raise(t.Context(), s, name, 150); err != nil { // not far enough
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				wantRefusal(t, q, ids.ErrBackwards, "below 201")
				if err := ids.Raise(t.Context(), s, name, 1000); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				takeAll(t, q, 1001, 100)
				finish(t, q)
			})
		})
	}
}

func TestLaw5End(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		const first = math.MaxInt64 - 13
		q := open(t, s, ids.Config{First: first})
		takeAll(t, q, first, 13)
		wantRefusal(t, q, ids.ErrEnd, "9223372036854775806")
		finish(t, q)
		wantNext(t, s, math.MaxInt64)
		q = open(t, s, ids.Config{})
		wantRefusal(t, q, ids.ErrEnd, "9223372036854775806")
		finish(t, q)
		last := open(t, s, ids.Config{First: math.MaxInt64 - 1})
		put(t, s, name, `{"counter":"orders","next":9223372036854775806}`)
		takeAll(t, last, math.MaxInt64-1, 1)
		finish(t, last)
	})
}

func wantRefusal(t *testing.T, q *ids.Sequence, kind error, word string) {
	t.Helper()
	for range 3 {
		if n, err := q.Next(t.Context()); n != 0 || !errors.Is(err, kind) || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), name) {
			t.Errorf("got %d, %v; want an error of kind %q with %q", n, err, kind, word)
		}
	}
}

func metric(t *testing.T, reg *prometheus.Registry, what string) float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range all {
		if f.GetName() == what {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// seen collects the numbers that were given out. It fails the test when one comes twice.
type seen struct {
	mu      sync.Mutex
	numbers map[int64]bool
	largest int64
}

func (s *seen) add(t *testing.T, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.numbers == nil {
		s.numbers = map[int64]bool{}
	}
	if n < 1 || s.numbers[n] {
		t.Errorf("%d was given out twice, or is no number", n)
	}
	s.numbers[n] = true
	s.largest = max(s.largest, n)
}
