package lease_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func list(t *testing.T, s *storage.Store) map[string]lease.Info {
	t.Helper()
	all := map[string]lease.Info{}
	for info, err := range lease.List(t.Context(), s, nil) {
		if err != nil {
			t.Error(err)
		}
		all[info.Name] = info
	}
	return all
}

func TestListOfSomeNames(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		for _, n := range []string{"a", "b", "c"} {
			release(t, acquireNamed(t, s, n))
		}
		var reads storagetest.Calls
		var names []string
		for info, err := range lease.List(t.Context(), storagetest.Intercept(s, reads.Hook), func(name string) bool { return name != "b" }) {
			if err != nil {
				t.Error(err)
			}
			names = append(names, info.Name)
		}
		if n := reads.Count("get blob"); !slices.Equal(names, []string{"a", "c"}) || n != 2 {
			t.Errorf("listed %q with %d reads; want a and c with 2", names, n)
		}
	})
}

func acquireNamed(t *testing.T, s *storage.Store, n string) *lease.Lease {
	t.Helper()
	l, err := lease.Acquire(t.Context(), s, n, lease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestList(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		if all := list(t, s); len(all) != 0 {
			t.Errorf("nothing is listed as %v", all)
		}
		free, err := lease.Try(t.Context(), s, "another", lease.Config{})
		if err != nil {
			t.Fatal(err)
		}
		release(t, free)
		begin := time.Now()
		l, err := lease.Acquire(t.Context(), s, name, lease.Config{TTL: ttl, Holder: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		link := storagetest.NewLink(s)
		dying := inBackground(t, link.Store, lease.Config{TTL: ttl, Holder: "bob"})
		synctest.Wait()
		if info := list(t, s)[name]; len(info.Waiters) != 0 {
			t.Errorf("after less than a poll: %+v", info.Waiters)
		}
		time.Sleep(10 * ttl)
		info := list(t, s)[name]
		if want := (lease.Info{Name: name, Held: true, Holder: "ada", Fence: 1, TTL: ttl, Since: begin.UTC(), Waiters: info.Waiters}); fmt.Sprint(info) != fmt.Sprint(want) {
			t.Errorf("listed as\n%+v, want\n%+v", info, want)
		}
		if w := info.Waiters; len(w) != 1 || w[0].Holder != "bob" || !w[0].Since.Equal(begin) || w[0].Stale || time.Since(w[0].Seen) > ttl {
			t.Errorf("the waiters are %+v", w)
		}
		link.Cut() // it stands still as if it had died
		time.Sleep(5 * ttl)
		if w := list(t, s)[name].Waiters; len(w) != 1 || !w[0].Stale {
			t.Errorf("the waiter that has died is %+v", w)
		}
		link.Restore()
		release(t, l)
		release(t, <-dying)
		synctest.Wait()
		all := list(t, s)
		if info := all[name]; info.Held || info.Fence != 2 || len(info.Waiters) != 0 || len(all) != 2 || all["another"].Held {
			t.Errorf("in the end %+v", all)
		}
	})
}

// A row that a dead waiter left is deleted some day.
func TestListDeletesRowsOfTheDead(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		table := s.Table("lease-waiters")
		for id, x := range map[string]struct{ seen, ttl time.Duration }{
			"old": {61 * time.Minute, ttl}, "new": {time.Minute, ttl}, "seldom": {10 * time.Hour, time.Hour},
		} {
			row := fmt.Sprintf(`{"lease":%q,"holder":%q,"since":"2000-01-01T00:00:00Z","seen":%q,"ttl":%d}`, name, id, time.Now().Add(-x.seen).Format(time.RFC3339), x.ttl.Milliseconds())
			if _, err := table.Put(t.Context(), "waiters", id, []byte(row), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := table.Put(t.Context(), "waiters", "foreign", []byte("x"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		release(t, acquire(t, s))
		if w := list(t, s)[name].Waiters; len(w) != 2 || w[0].Holder != "new" || w[1].Holder != "seldom" {
			t.Errorf("the waiters are %+v", w)
		}
		var left []string
		for row, err := range table.Query(t.Context(), "waiters", storage.RowRange{}) {
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, row.Key)
		}
		if got := strings.Join(left, " "); got != "foreign new seldom" {
			t.Errorf("left are %s", got)
		}
	})
}

// A blob that is no lease doesn't hide the others.
func TestListWithAForeignBlob(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		release(t, acquire(t, s))
		if _, err := s.Blobs("leases").Put(t.Context(), "foreign", []byte("x"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for info, err := range lease.List(t.Context(), s, nil) {
			if wrong := errors.Is(err, storage.ErrInvalid); wrong != (info.Name == "foreign") || err != nil && !wrong {
				t.Errorf("%s: %v", info.Name, err)
			}
			got = append(got, info.Name)
		}
		if fmt.Sprint(got) != "[foreign "+name+"]" {
			t.Errorf("listed are %s", got)
		}
		for _, cut := range []string{"query", "list blobs", "get blob"} {
			link := storagetest.NewLink(s)
			link.Cut(cut)
			n := 0
			for _, err := range lease.List(t.Context(), link.Store, nil) {
				if n++; !errors.Is(err, storage.ErrUnavailable) {
					t.Errorf("without %s: %v", cut, err)
				}
			}
			if n != 1 {
				t.Errorf("without %s: %d errors", cut, n)
			}
		}
		if _, err := lease.State(t.Context(), s, "never"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("a lease that never was: %v", err)
		}
	})
}

// A waiter's row can't be written: the waiter gets the lease all the same.
func TestAWaiterThatCantBeSeen(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		link.Cut("put row", "delete row")
		l := acquire(t, s)
		next := inBackground(t, link.Store, lease.Config{TTL: ttl})
		time.Sleep(3 * ttl)
		begin := time.Now()
		release(t, l)
		n := <-next
		if took := time.Since(begin); took != 0 {
			t.Errorf("it took %v", took)
		}
		release(t, n)
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		r := prometheus.NewRegistry()
		cfg := lease.Config{TTL: ttl, Metrics: r, Holder: "ada"}
		l, err := lease.Acquire(t.Context(), s, name, cfg)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl - time.Second)
		if err := put(t, lease.Fenced(s.Blobs("docs"), name, 5), "x"); err != nil {
			t.Fatal(err)
		}
		if err := put(t, l.Blobs(s.Blobs("docs")), "y"); !errors.Is(err, lease.ErrFenced) {
			t.Error(err)
		}
		breakIt(t, s)
		<-l.Context().Done()
		release(t, l)
		if l, err = lease.Acquire(t.Context(), s, name, cfg); err != nil {
			t.Fatal(err)
		}
		if err := l.HandOver(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
		link := storagetest.NewLink(s)
		if l, err = lease.Acquire(t.Context(), link.Store, name, cfg); err != nil {
			t.Fatal(err)
		}
		link.Cut()
		<-l.Context().Done()
		synctest.Wait()
		for what, want := range map[string]float64{"acquired": 3, "broken": 1, "fenced": 1, "handed_over": 1, "lost": 2, "renewed": 2} {
			if got := total(t, r, "millrace_lease_"+what+"_total"); got != want {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		if n, err := testutil.GatherAndCount(r, "millrace_lease_wait_seconds"); n != 1 || err != nil {
			t.Errorf("%d histograms, %v", n, err)
		}
		other := prometheus.NewRegistry()
		other.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "millrace_lease_lost_total", Help: "Another's."}))
		if _, err := lease.Try(t.Context(), s, name, lease.Config{Metrics: other}); err == nil || !strings.Contains(err.Error(), "millrace_lease_lost_total") {
			t.Errorf("with a name that is taken: %v", err)
		}
	})
}

// total is the sum of a counter.
func total(t *testing.T, r *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
