package viewstest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/views/viewstest"
)

// Opened and Closed take each other back; Paid only adds.
type (
	Opened struct{ Door string }
	Closed struct{ Door string }
	Paid   struct{ Amount int }
)

func (Opened) Kind() channel.Kind { return "test.opened.v1" }
func (Closed) Kind() channel.Kind { return "test.closed.v1" }
func (Paid) Kind() channel.Kind   { return "test.paid.v1" }

// recorder is a testing.TB whose failures don't fail the test.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

type stopped struct{}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
	panic(stopped{})
}

// failures runs a check and returns its failures.
func failures(t *testing.T, check func(testing.TB)) []string {
	t.Helper()
	r := &recorder{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != (stopped{}) {
				panic(v)
			}
		}()
		check(r)
	}()
	return r.failures
}

func payments() []viewstest.Event {
	var events []viewstest.Event
	for i := range 6 {
		events = append(events, viewstest.Event{Message: Paid{Amount: i + 1}, Source: "/till", Sequence: uint64(i + 1)})
	}
	return events
}

func doors() []viewstest.Event {
	return []viewstest.Event{
		{Message: Opened{"front"}, Source: "/front", Sequence: 1},
		{Message: Opened{"back"}, Source: "/back", Sequence: 1},
		{Message: Closed{"front"}, Source: "/front", Sequence: 2},
		{Message: Opened{"front"}, Source: "/front", Sequence: 3},
		{Message: Closed{"back"}, Source: "/back", Sequence: 2},
	}
}

type house struct {
	Open  []string
	Count int
}

func newHouse() house { return house{} }

// doorFold is right: the last event of a door decides.
func doorFold(h house, m channel.Message) house {
	switch m := m.(type) {
	case Opened:
		if i, found := slices.BinarySearch(h.Open, m.Door); !found {
			h.Open = slices.Insert(slices.Clone(h.Open), i, m.Door)
		}
	case Closed:
		if i, found := slices.BinarySearch(h.Open, m.Door); found {
			h.Open = slices.Delete(slices.Clone(h.Open), i, i+1)
		}
	}
	return h
}

func TestGoodFoldsPass(t *testing.T) {
	t.Parallel()
	viewstest.OrderFree(t, func() int { return 0 }, func(sum int, m channel.Message) int { return sum + m.(Paid).Amount }, payments())
	viewstest.OrderFree(t, func() map[int]bool { return map[int]bool{} }, func(seen map[int]bool, m channel.Message) map[int]bool {
		seen[m.(Paid).Amount] = true // its own map: initial makes a new one each time
		return seen
	}, payments())
	viewstest.Latest(t, newHouse, doorFold, doors())
	viewstest.Latest(t, newHouse, doorFold, nil)
	viewstest.OrderFree(t, newHouse, doorFold, nil)
}

func TestBadFoldsAreCaught(t *testing.T) {
	t.Parallel()
	list := func(amounts []int, m channel.Message) []int { return append(slices.Clone(amounts), m.(Paid).Amount) }
	last := func(_ int, m channel.Message) int { return m.(Paid).Amount }
	first := func(v int, m channel.Message) int {
		if v == 0 {
			return m.(Paid).Amount
		}
		return v
	}
	counting := func(h house, m channel.Message) house {
		h = doorFold(h, m)
		h.Count++ // the fold doesn't count the events that are left out
		return h
	}
	appending := func(h house, m channel.Message) house {
		if m, ok := m.(Opened); ok {
			h.Open = append(slices.Clone(h.Open), m.Door)
		}
		return h
	}
	zero := func() int { return 0 }
	for name, check := range map[string]func(testing.TB){
		"a list in order of arrival": func(t testing.TB) { viewstest.OrderFree(t, func() []int { return nil }, list, payments()) },
		"the last one":               func(t testing.TB) { viewstest.OrderFree(t, zero, last, payments()) },
		"the first one":              func(t testing.TB) { viewstest.OrderFree(t, zero, first, payments()) },
		"the last of two":            func(t testing.TB) { viewstest.OrderFree(t, zero, last, payments()[:2]) },
		"events that take each other back, without Latest": func(t testing.TB) { viewstest.OrderFree(t, newHouse, doorFold, doors()) },
		"Latest that counts":  func(t testing.TB) { viewstest.Latest(t, newHouse, counting, doors()) },
		"Latest that appends": func(t testing.TB) { viewstest.Latest(t, newHouse, appending, doors()) },
		"Latest on one source for two things": func(t testing.TB) {
			events := doors()
			for i := range events {
				events[i].Source, events[i].Sequence = "/house", uint64(i+1)
			}
			viewstest.Latest(t, newHouse, doorFold, events)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := failures(t, check)
			if len(got) != 1 {
				t.Fatalf("got failures %q, want one", got)
			}
			for _, want := range []string{"depends on the order", "got ", "want ", "#1", "test."} {
				if !strings.Contains(got[0], want) {
					t.Errorf("want %q in the failure: %s", want, got[0])
				}
			}
		})
	}
}

func TestViewThatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	got := failures(t, func(t testing.TB) {
		viewstest.OrderFree(t, func() chan int { return nil }, func(c chan int, _ channel.Message) chan int { return c }, payments())
	})
	if len(got) != 1 || !strings.Contains(got[0], "encode the view") {
		t.Errorf("got failures %q, want one that says why", got)
	}
}

// The check leaves the caller's events in their order.
func TestEventsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	events, want := doors(), doors()
	viewstest.Latest(t, newHouse, doorFold, events)
	if !slices.Equal(events, want) {
		t.Errorf("got %v, want %v", events, want)
	}
}
