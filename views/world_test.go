package views_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
)

// The domain is the one of worldtest, and days that fill up and empty again: their events' order matters.

type (
	Added = worldtest.Added
	Total = worldtest.Total
)

// Toggle asks a day to fill up or to empty.
type Toggle struct {
	Date string `json:"date"`
}

// Filled and Emptied take each other back.
type (
	Filled struct {
		Date string `json:"date"`
	}
	Emptied struct {
		Date string `json:"date"`
	}
)

func (Toggle) Kind() channel.Kind  { return "test.toggle.v1" }
func (Filled) Kind() channel.Kind  { return "test.filled.v1" }
func (Emptied) Kind() channel.Kind { return "test.emptied.v1" }

func (m Toggle) date() string   { return m.Date }
func (m Filled) month() string  { return m.Date[:7] }
func (m Emptied) month() string { return m.Date[:7] }

// Day is a value object.
type Day struct {
	Full bool `json:"full"`
}

func (d Day) toggle(m Toggle) (Day, []channel.Message, error) {
	d.Full = !d.Full
	if d.Full {
		return d, []channel.Message{Filled(m)}, nil
	}
	return d, []channel.Message{Emptied(m)}, nil
}

// Month is a view: the full days, sorted.
type Month struct {
	Days []string `json:"days"`
}

func (m Month) fill(e Filled) Month {
	if i, found := slices.BinarySearch(m.Days, e.Date); !found {
		m.Days = slices.Insert(slices.Clone(m.Days), i, e.Date)
	}
	return m
}

func (m Month) empty(e Emptied) Month {
	if i, found := slices.BinarySearch(m.Days, e.Date); found {
		m.Days = slices.Delete(slices.Clone(m.Days), i, i+1)
	}
	return m
}

func (m Month) restore(date string, d Day) Month {
	if d.Full {
		return m.fill(Filled{Date: date})
	}
	return m.empty(Emptied{Date: date})
}

// calls counts a store's calls, and may hold them.
type calls struct {
	mu          sync.Mutex
	reads       int // of blobs
	notModified int
	fail        error
	hold        func(op storagetest.Op) // called after a blob was read, before the answer
}

func (c *calls) hook(_ context.Context, op storagetest.Op, do func() error) error {
	c.mu.Lock()
	fail, hold := c.fail, c.hold
	c.mu.Unlock()
	if fail != nil {
		return op.Fail(fail)
	}
	err := do()
	if op.Name != "get blob" {
		return err
	}
	c.mu.Lock()
	c.reads++
	if errors.Is(err, storage.ErrNotModified) {
		c.notModified++
	}
	c.mu.Unlock()
	if hold != nil {
		hold(op)
	}
	return err
}

func (c *calls) failWith(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

// want checks the reads since the last time, and how many of them found nothing new.
func (c *calls) want(t testing.TB, reads, notModified int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reads != reads || c.notModified != notModified {
		t.Errorf("got %d reads, %d of them not modified; want %d, %d", c.reads, c.notModified, reads, notModified)
	}
	c.reads, c.notModified = 0, 0
}

// world is the tests' world on a store whose calls are counted, with the views of months and of totals.
type world struct {
	*worldtest.World
	t      testing.TB
	calls  *calls
	days   *values.Collection[Day]
	months *views.View[Month]
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldWith(t, views.Config[Month]{}, views.Config[Total]{})
}

func newWorldWith(t testing.TB, months views.Config[Month], totals views.Config[Total]) *world {
	t.Helper()
	w := &world{t: t, calls: &calls{}}
	w.World = worldtest.New(t, storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), w.calls.hook), worldtest.Config{
		Routes: []channel.Route{channel.Command[Toggle]("days"), channel.Event[Filled]("months"), channel.Event[Emptied]("months")},
		Totals: totals,
	})
	w.Project()
	w.days = values.New(w.Channels, "days", values.Config[Day]{})
	handlers.Decide(w.Registry, w.days, Toggle.date, Day.toggle, Filled{}, Emptied{})
	w.months = views.New(w.Channels, "months", months)
	views.Latest(w.Registry, w.months, Filled.month, Month.fill)
	views.Latest(w.Registry, w.months, Emptied.month, Month.empty)
	if err := w.Registry.Err(); err != nil {
		t.Fatal(err)
	}
	return w
}

// fold gives events to a view's handlers together, and returns the error of each.
func fold(t testing.TB, h *handlers.Registry, queue string, events ...channel.Envelope) []error {
	t.Helper()
	errs := make([]error, len(events))
	groups := map[handling.Group][]int{}
	ds := make([]*handlers.Delivery, len(events))
	for i := range events {
		d, err := h.Inside().Handlers.Resolve(queue, &events[i])
		if err != nil {
			t.Fatal(err)
		}
		g, ok := d.Group()
		if !ok {
			t.Fatal("got no group")
		}
		ds[i], groups[g] = d, append(groups[g], i)
	}
	for g, members := range groups {
		var batch []*handlers.Delivery
		for _, i := range members {
			batch = append(batch, ds[i])
		}
		got := handling.Handle(t.Context(), g, batch, nil)
		for j, i := range members {
			errs[i] = got[j].Err
		}
	}
	return errs
}

func (w *world) mustFold(queue string, events ...channel.Envelope) {
	w.t.Helper()
	if err := errors.Join(fold(w.t, w.Registry, queue, events...)...); err != nil {
		w.t.Fatal(err)
	}
}

// added makes an event.
func added(id, account string, amount int) channel.Envelope {
	return event(id, "/accounts/"+account, 0, Added{To: account, Amount: amount})
}

func event(id, source string, sequence uint64, m channel.Message) channel.Envelope {
	e := worldtest.Envelope(id, m)
	e.Source, e.Sequence = source, sequence
	return e
}

// toggle decides commands for dates, one after the other. It returns the events that this put into the view's queue.
// They are not folded yet.
func (w *world) toggle(dates ...string) []channel.Envelope {
	w.t.Helper()
	for _, date := range dates {
		w.mustFold("days", worldtest.Envelope(channel.NewID(), Toggle{Date: date}))
	}
	return worldtest.Take(w.t, w.Store, "months")
}

func (w *world) month(key string) []string {
	w.t.Helper()
	m, _, err := w.months.GetFresh(w.t.Context(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	return m.Days
}

func (w *world) wantMonth(key string, days ...string) {
	w.t.Helper()
	if got := w.month(key); !slices.Equal(got, days) {
		w.t.Errorf("month %s: got %q, want %q", key, got, days)
	}
}

func (w *world) wantTotal(account string, want Total) {
	w.t.Helper()
	if got := w.Total(account); got != want {
		w.t.Errorf("total of %s: got %+v, want %+v", account, got, want)
	}
}
