package ids_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestLaw6Raise(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		raise := func(past, want int64) {
			t.Helper()
			if err := ids.Raise(t.Context(), s, name, past); err != nil {
				t.Error(err)
			}
			wantNext(t, s, want)
		}
		raise(0, 1) // a missing one is made
		raise(100, 101)
		raise(99, 101)
		raise(100, 101)
		q := open(t, s, ids.Config{First: 7})
		takeAll(t, q, 101, 1)
		raise(500, 501)
		takeAll(t, q, 102, 9) // what is in hand
		takeAll(t, q, 501, 1)
		finish(t, q)
		wantNext(t, s, 502)
		put(t, s, name, "x")
		raise(600, 601) // repaired
		raise(math.MaxInt64-1, math.MaxInt64)

		for _, past := range []int64{-1, math.MinInt64, math.MaxInt64} {
			if err := ids.Raise(t.Context(), s, name, past); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint(past)) {
				t.Errorf("raised past %d: %v", past, err)
			}
		}
		if err := ids.Raise(t.Context(), nil, "", -1); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "no store") || !strings.Contains(err.Error(), "key") {
			t.Errorf("raised nothing: %v", err)
		}
		link := storagetest.NewLink(s)
		link.Cut()
		if err := ids.Raise(t.Context(), link.Store, name, 5); !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), name) {
			t.Errorf("raised with %v", err)
		}
	})
}

// Several operators raise a counter while processes reserve: in the end it is past all of them.
func TestLaw6RaiseAmongReservations(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var (
			seen seen
			all  sync.WaitGroup
		)
		for i := range int64(4) {
			all.Go(func() {
				for j := range int64(20) {
					if err := ids.Raise(t.Context(), s, name, 100*j+i); err != nil {
						t.Error(err)
					}
					if got := next(t, s); got <= 100*j+i {
						t.Errorf("the counter is at %d, and was raised past %d", got, 100*j+i)
					}
				}
			})
			all.Go(func() {
				q := open(t, s, ids.Config{})
				for range 200 {
					n, err := q.Next(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					seen.add(t, n)
				}
				finish(t, q)
			})
		}
		all.Wait()
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		for _, err := range ids.List(t.Context(), s) {
			t.Errorf("something is listed in an empty store: %v", err)
		}
		begin := time.Now()
		for name, past := range map[string]int64{"a": 1, "c": 3, "d": 4} {
			if err := ids.Raise(t.Context(), s, name, past); err != nil {
				t.Fatal(err)
			}
		}
		put(t, s, "b", "x")
		list := func(s *storage.Store) (all []string) {
			for c, err := range ids.List(t.Context(), s) {
				kind := "ok"
				switch {
				case errors.Is(err, ids.ErrCorrupt):
					kind = "corrupt"
				case err != nil:
					kind = "fails"
				case !strings.HasPrefix(c.By, "raise by ") || c.At.Before(begin) || c.At.After(time.Now()):
					t.Errorf("%+v has no writer or time", c)
				}
				all = append(all, fmt.Sprint(c.Name, " ", c.Next, " ", kind))
			}
			return all
		}
		for what, c := range map[string]struct {
			s    *storage.Store
			want string
		}{
			"all": {s, "[a 2 ok b 0 corrupt c 4 ok d 5 ok]"},
			"a failure": {storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
				if op.Seq == 4 {
					return op.Fail(storage.ErrUnavailable)
				}
				return do()
			}), "[a 2 ok b 0 corrupt  0 fails]"},
			"a deletion": {storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
				if strings.HasSuffix(op.Resource, "/c") {
					return op.Fail(storage.ErrNotFound)
				}
				return do()
			}), "[a 2 ok b 0 corrupt d 5 ok]"},
		} {
			if got := fmt.Sprint(list(c.s)); got != c.want {
				t.Errorf("%s: got %s, want %s", what, got, c.want)
			}
		}
		for range ids.List(t.Context(), s) {
			break // a loop may end early
		}
	})
}

func TestState(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		put(t, s, "bad", "x")
		if err := ids.Raise(t.Context(), s, name, 41); err != nil {
			t.Fatal(err)
		}
		if c, err := ids.State(t.Context(), s, name); err != nil || c.Name != name || c.Next != 42 || c.By == "" || c.At.IsZero() {
			t.Errorf("got %+v, %v", c, err)
		}
		for of, want := range map[string]error{"none": storage.ErrNotFound, "bad": ids.ErrCorrupt, "": storage.ErrInvalid} {
			if c, err := ids.State(t.Context(), s, of); !errors.Is(err, want) || c != (ids.Counter{}) {
				t.Errorf("of %q: got %+v, %v; want %v", of, c, err, want)
			}
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		for _, c := range []struct {
			store *storage.Store
			name  string
			cfg   ids.Config
			want  []string
		}{
			{store: s, want: []string{"key"}},
			{store: s, name: strings.Repeat("x", 257), want: []string{"key"}},
			{name: "a\nb", cfg: ids.Config{First: -1, Most: -1}, want: []string{"store", "key", "First", "Most"}},
			{store: s, name: name, cfg: ids.Config{First: math.MaxInt64}, want: []string{"First"}},
			{store: s, name: name, cfg: ids.Config{Most: 1_000_000_001}, want: []string{"Most"}},
		} {
			q, err := ids.Open(c.store, c.name, c.cfg)
			if q != nil || !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%.20q, %+v: %v", c.name, c.cfg, err)
				continue
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%.20q, %+v: %v; want a word about %s", c.name, c.cfg, err, w)
				}
			}
		}
		for _, cfg := range []ids.Config{{Most: 1}, {Most: 5}} {
			finish(t, open(t, s, cfg))
		}
		taken := prometheus.NewRegistry()
		taken.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "millrace_ids_waits_total", Help: "Something else."}))
		if _, err := ids.Open(s, name, ids.Config{Metrics: taken}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a registry refuses: %v", err)
		}
		if n := next(t, s); n != 0 {
			t.Errorf("the counter is at %d, and nobody used it", n)
		}
	})
}
