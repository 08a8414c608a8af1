package views_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/views"
)

func TestGetBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, views.Config[Month]{Initial: func(key string) Month { return Month{Days: []string{key}} }}, views.Config[Total]{})
	m, err := w.months.Get(t.Context(), "2026-12")
	if err != nil || !slices.Equal(m.Days, []string{"2026-12"}) {
		t.Errorf("got %v, error %v; want the initial view", m, err)
	}
	_, version, err := w.months.GetFresh(t.Context(), "2026-12")
	if err != nil || version != 0 {
		t.Errorf("got version %d, error %v; want 0", version, err)
	}
	w.mustFold("months", event("1", "/days/2026-12-24", 1, Filled{Date: "2026-12-24"}))
	if m, version, err := w.months.GetFresh(t.Context(), "2026-12"); err != nil || version != 1 || !slices.Equal(m.Days, []string{"2026-12", "2026-12-24"}) {
		t.Errorf("got %v, version %d, error %v; want the event folded into the initial view", m, version, err)
	}
}

func TestGetBadKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, key := range []string{"", "a\x00", "\xff"} {
		if _, err := w.Totals.Get(t.Context(), key); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("key %q: got error %v, want %v", key, err, storage.ErrInvalid)
		}
	}
	w.calls.want(t, 0, 0)
}

// A page view makes no storage request in the common case, and a conditional one now and then.
func TestGetFromMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustFold("totals", added("1", "ada", 5))
		w.calls.want(t, 1, 0)
		get := func(want int) {
			t.Helper()
			s, err := w.Totals.Get(t.Context(), "ada")
			if err != nil || s.Sum != want {
				t.Errorf("got %+v, error %v; want the sum %d", s, err, want)
			}
		}
		get(5)
		w.calls.want(t, 1, 0)
		for range 100 {
			get(5)
		}
		time.Sleep(time.Second - time.Nanosecond)
		get(5)
		w.calls.want(t, 0, 0)

		time.Sleep(time.Nanosecond)
		get(5)
		w.calls.want(t, 1, 1)
		get(5)
		w.calls.want(t, 0, 0)

		w.mustFold("totals", added("2", "ada", 7))
		w.calls.want(t, 0, 0) // the process that folded last needs no read
		get(5)                // as old as Fresh allows
		w.calls.want(t, 0, 0)
		time.Sleep(time.Second)
		get(12)
		w.calls.want(t, 1, 0)
	})
}

func TestGetOfWhatIsAbsentIsCachedToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for range 10 {
			if s, err := w.Totals.Get(t.Context(), "ada"); err != nil || s != (Total{}) {
				t.Fatalf("got %+v, error %v", s, err)
			}
		}
		w.calls.want(t, 1, 0)
		w.mustFold("totals", added("1", "ada", 5))
		w.calls.want(t, 1, 0)
		time.Sleep(time.Second)
		if s, err := w.Totals.Get(t.Context(), "ada"); err != nil || s.Sum != 5 {
			t.Errorf("got %+v, error %v; want the view that has come meanwhile", s, err)
		}
	})
}

func TestFresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		always := newWorldWith(t, views.Config[Month]{}, views.Config[Total]{Fresh: -1})
		rarely := newWorldWith(t, views.Config[Month]{}, views.Config[Total]{Fresh: time.Hour})
		for range 3 {
			for _, w := range []*world{always, rarely} {
				if _, err := w.Totals.Get(t.Context(), "ada"); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute)
		}
		always.calls.want(t, 3, 0)
		rarely.calls.want(t, 1, 0)
	})
}

func TestGetFreshSeesWhatIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 5 {
		w.mustFold("totals", added(fmt.Sprint(i), "ada", 1))
		w.calls.reads = 0
		s, version, err := w.Totals.GetFresh(t.Context(), "ada")
		if err != nil || s.Sum != i+1 || version != uint64(i+1) {
			t.Errorf("got %+v, version %d, error %v; want %d events", s, version, err, i+1)
		}
		w.calls.want(t, 1, 0)
		if _, _, err := w.Totals.GetFresh(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
		w.calls.want(t, 1, 1)
		if s, err := w.Totals.Get(t.Context(), "ada"); err != nil || s.Sum != i+1 { // needs no request
			t.Errorf("got %+v, error %v", s, err)
		}
		w.calls.want(t, 0, 0)
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, views.Config[Month]{}, views.Config[Total]{Cache: 2, Fresh: time.Hour})
	for _, key := range []string{"a", "b", "b", "c", "c", "a"} {
		if _, err := w.Totals.Get(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	w.calls.want(t, 4, 0)
}

// Documents also count by their size. A document larger than the cache evicts no other.
func TestCacheIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, views.Config[Month]{CacheBytes: 1000, Fresh: time.Hour}, views.Config[Total]{})
	for day := range 28 {
		w.mustFold("months", event(fmt.Sprint(day), "/days", uint64(day+1), Filled{Date: fmt.Sprintf("2026-02-%02d", day+1)}))
	}
	w.mustFold("months", event("x", "/days", 100, Filled{Date: "2026-01-01"}), event("y", "/days", 101, Filled{Date: "2026-03-01"}))
	w.calls.reads = 0 // the reads of folding, whose memory is bounded likewise
	for range 3 {
		for _, key := range []string{"2026-01", "2026-02", "2026-03"} {
			if _, err := w.months.Get(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.calls.want(t, 1+3+1, 0)
}

// A rendered document counts by the size of its content.
func TestRenderedIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, views.Config[Month]{}, views.Config[Total]{CacheBytes: 1000, Fresh: time.Hour})
	rendered := map[string]int{}
	h := w.Totals.Handler(func(r *http.Request) string { return r.URL.Path[1:] }, func(key string, _ Total) any {
		rendered[key]++
		if key == "large" {
			return strings.Repeat("x", 2000)
		}
		return key
	})
	for range 3 {
		for _, key := range []string{"small", "large", "other"} {
			if r := ask(h, "GET", "/"+key); r.StatusCode != 200 {
				t.Fatalf("%s: got %s", key, r.Status)
			}
		}
	}
	if want := map[string]int{"small": 1, "large": 3, "other": 1}; !maps.Equal(rendered, want) {
		t.Errorf("got rendered %v, want %v", rendered, want)
	}
}

// The registration of a projection and readers report the faults of a Config.
func TestConfigFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := views.New(w.Channels, "totals", views.Config[Total]{Cache: -1, CacheBytes: -2, Fresh: -1})
	h := handlers.NewRegistry(w.Channels, handlers.Config{})
	views.Project(h, v, Added.Subject, Total.Add)
	_, read := v.Get(t.Context(), "ada")
	for what, err := range map[string]error{"check": v.Check(), "register": h.Err(), "get": read} {
		for _, fault := range []string{`"totals"`, "Cache is -1", "CacheBytes is -2"} {
			if err == nil || !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: got error %v; want one that says %q", what, err, fault)
			}
		}
	}
	w.calls.want(t, 0, 0)
	if err := w.Totals.Check(); err != nil {
		t.Errorf("the zero Config: got error %v", err)
	}
}

// A fold that is nil is reported at start-up.
func TestNilFoldIsReported(t *testing.T) {
	t.Parallel()
	for name, register := range map[string]func(*handlers.Registry, *views.View[Total]){
		"Project": func(r *handlers.Registry, v *views.View[Total]) { views.Project[Total](r, v, Added.Subject, nil) },
		"Latest":  func(r *handlers.Registry, v *views.View[Total]) { views.Latest[Total](r, v, Added.Subject, nil) },
	} {
		w := newWorld(t)
		h := handlers.NewRegistry(w.Channels, handlers.Config{})
		register(h, w.Totals)
		if err := h.Err(); err == nil || !strings.Contains(err.Error(), "project totals: the function for the key of test.added.v1 is nil, or the one that folds it") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Many readers of one key share one request.
func TestReadersShareARequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustFold("totals", added("1", "ada", 5))
		w.calls.want(t, 1, 0)
		release := make(chan struct{})
		w.calls.hold = func(storagetest.Op) { <-release }
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if s, err := w.Totals.Get(t.Context(), "ada"); err != nil || s.Sum != 5 {
					t.Errorf("got %+v, error %v", s, err)
				}
			})
		}
		synctest.Wait()
		close(release)
		wg.Wait()
		w.calls.want(t, 1, 0)
	})
}

// When a reader leaves, even the one that asked first, the others that wait with it still get the answer.
func TestReaderLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustFold("totals", added("1", "ada", 5))
		release := make(chan struct{})
		w.calls.hold = func(storagetest.Op) { <-release }
		left := errors.New("the browser was closed")
		ctx, cancel := context.WithCancelCause(t.Context())
		first := make(chan error, 1)
		go func() {
			_, err := w.Totals.Get(ctx, "ada")
			first <- err
		}()
		synctest.Wait()
		second := make(chan error, 1)
		go func() {
			s, err := w.Totals.Get(t.Context(), "ada")
			if s.Sum != 5 {
				err = fmt.Errorf("got %+v, error %w", s, err)
			}
			second <- err
		}()
		synctest.Wait()
		cancel(left)
		synctest.Wait()
		select {
		case err := <-first:
			if !errors.Is(err, left) {
				t.Errorf("the one that left: got error %v, want %v", err, left)
			}
		default:
			t.Error("the one that left waits still")
		}
		close(release)
		if err := <-second; err != nil {
			t.Errorf("the one that stayed: %v", err)
		}
		w.calls.want(t, 2, 0)
	})
}

// A late answer doesn't replace a newer one.
func TestViewNeverGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldWith(t, views.Config[Month]{}, views.Config[Total]{Fresh: time.Hour})
		w.mustFold("totals", added("1", "ada", 5))
		release := make(chan struct{})
		w.calls.hold = func(storagetest.Op) { <-release }
		type result struct {
			s   Total
			err error
		}
		slow := make(chan result, 1)
		go func() {
			s, err := w.Totals.Get(t.Context(), "ada")
			slow <- result{s, err}
		}()
		synctest.Wait() // the request has read, and has no answer yet
		w.calls.mu.Lock()
		w.calls.hold = nil
		w.calls.mu.Unlock()
		time.Sleep(time.Millisecond)
		w.mustFold("totals", added("2", "ada", 7))
		if s, _, err := w.Totals.GetFresh(t.Context(), "ada"); err != nil || s.Sum != 12 {
			t.Fatalf("got %+v, error %v", s, err)
		}
		close(release)
		if got := <-slow; got.err != nil || got.s.Sum != 12 {
			t.Errorf("the late one: got %+v, error %v; want what others have seen", got.s, got.err)
		}
		if s, err := w.Totals.Get(t.Context(), "ada"); err != nil || s.Sum != 12 {
			t.Errorf("got %+v, error %v; want what was seen before", s, err)
		}
	})
}

func TestReadFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustFold("totals", added("1", "ada", 5))
		if _, err := w.Totals.Get(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
		w.calls.failWith(storage.ErrUnavailable)
		if s, err := w.Totals.Get(t.Context(), "ada"); err != nil || s.Sum != 5 {
			t.Errorf("while it is fresh: got %+v, error %v", s, err)
		}
		time.Sleep(time.Second)
		if _, err := w.Totals.Get(t.Context(), "ada"); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("got error %v, want %v", err, storage.ErrUnavailable)
		}
		if _, _, err := w.Totals.GetFresh(t.Context(), "ada"); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("fresh: got error %v, want %v", err, storage.ErrUnavailable)
		}
		w.calls.failWith(nil)
		if s, err := w.Totals.Get(t.Context(), "ada"); err != nil || s.Sum != 5 {
			t.Errorf("afterwards: got %+v, error %v", s, err)
		}
	})
}

// With readers and a writer at the same time no reader sees a view go back, and all see the last version.
func TestConcurrentReaders(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, views.Config[Month]{}, views.Config[Total]{Fresh: time.Microsecond})
	const events = 50
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			last := 0
			for last < events {
				s, err := w.Totals.Get(t.Context(), "ada")
				if i%2 == 0 {
					s, _, err = w.Totals.GetFresh(t.Context(), "ada")
				}
				if err != nil {
					t.Error(err)
					return
				}
				if s.Count < last {
					t.Errorf("got %d events after %d", s.Count, last)
					return
				}
				last = s.Count
			}
		})
	}
	for range events {
		w.mustFold("totals", added(channel.NewID(), "ada", 1))
	}
	wg.Wait()
}
