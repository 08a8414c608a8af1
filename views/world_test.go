package views_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
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

// Sold is an event whose order doesn't matter.
type Sold struct {
	Month  string `json:"month"`
	Amount int    `json:"amount"`
}

func (Toggle) Kind() channel.Kind  { return "test.toggle.v1" }
func (Filled) Kind() channel.Kind  { return "test.filled.v1" }
func (Emptied) Kind() channel.Kind { return "test.emptied.v1" }
func (Sold) Kind() channel.Kind    { return "test.sold.v1" }

func (m Toggle) date() string   { return m.Date }
func (m Filled) month() string  { return m.Date[:7] }
func (m Emptied) month() string { return m.Date[:7] }
func (m Sold) month() string    { return m.Month }

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

// Sales is a view that counts.
type Sales struct {
	Sum   int `json:"sum"`
	Count int `json:"count"`
}

func (s Sales) add(e Sold) Sales { return Sales{Sum: s.Sum + e.Amount, Count: s.Count + 1} }

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

// world is a store whose calls are counted, with two views.
type world struct {
	t        testing.TB
	calls    *calls
	store    *storage.Store
	channels *channel.Channels
	h        *handlers.Registry
	days     *values.Collection[Day]
	months   *views.View[Month]
	sales    *views.View[Sales]
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldWith(t, views.Config[Month]{}, views.Config[Sales]{})
}

func newWorldWith(t testing.TB, months views.Config[Month], sales views.Config[Sales]) *world {
	t.Helper()
	s, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "test.db")+"?wake=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	w := &world{t: t, calls: &calls{}}
	w.store = storagetest.Intercept(s, w.calls.hook)
	routes, err := channel.NewRoutes(
		channel.Command[Toggle]("days"),
		channel.Event[Filled]("months"),
		channel.Event[Emptied]("months"),
		channel.Event[Sold]("sales"),
	)
	if err != nil {
		t.Fatal(err)
	}
	if w.channels, err = channel.New(w.store, routes, "/test"); err != nil {
		t.Fatal(err)
	}
	w.h = handlers.NewRegistry(w.channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	w.days = values.New(w.channels, "days", values.Config[Day]{})
	handlers.Decide(w.h, w.days, Toggle.date, Day.toggle, Filled{}, Emptied{})
	w.months, w.sales = views.New(w.channels, "months", months), views.New(w.channels, "sales", sales)
	views.Latest(w.h, w.months, Filled.month, Month.fill)
	views.Latest(w.h, w.months, Emptied.month, Month.empty)
	views.Project(w.h, w.sales, Sold.month, Sales.add)
	if err := w.h.Err(); err != nil {
		t.Fatal(err)
	}
	return w
}

// fold gives events to a view's handlers together, and returns the error of each.
func (w *world) fold(queue string, events ...channel.Envelope) []error {
	w.t.Helper()
	errs := make([]error, len(events))
	groups := map[handlers.Group][]int{}
	ds := make([]*handlers.Delivery, len(events))
	for i := range events {
		d, err := w.h.Resolve(queue, &events[i])
		if err != nil {
			w.t.Fatal(err)
		}
		g, ok := d.Group()
		if !ok {
			w.t.Fatal("got no group")
		}
		ds[i], groups[g] = d, append(groups[g], i)
	}
	for g, members := range groups {
		var batch []*handlers.Delivery
		for _, i := range members {
			batch = append(batch, ds[i])
		}
		got := handlers.Handle(w.t.Context(), g, batch, nil)
		for j, i := range members {
			errs[i] = got[j].Err
		}
	}
	return errs
}

func (w *world) mustFold(queue string, events ...channel.Envelope) {
	w.t.Helper()
	if err := errors.Join(w.fold(queue, events...)...); err != nil {
		w.t.Fatal(err)
	}
}

// sold makes an event.
func sold(id, month string, amount int) channel.Envelope {
	return event(id, "/shop", 0, Sold{Month: month, Amount: amount})
}

func event(id, source string, sequence uint64, m channel.Message) channel.Envelope {
	body, err := channel.EncodeBody(m)
	if err != nil {
		panic(err)
	}
	return channel.Envelope{ID: id, Source: source, Kind: m.Kind(), Sequence: sequence, Data: body}
}

// toggle decides commands for dates, one after the other. It returns the events that this put into the view's queue.
// They are not folded yet.
func (w *world) toggle(dates ...string) []channel.Envelope {
	w.t.Helper()
	for _, date := range dates {
		w.mustFold("days", event(channel.NewID(), "/test", 0, Toggle{Date: date}))
	}
	var events []channel.Envelope
	q := w.store.Queue("months")
	for {
		ds, err := q.Receive(w.t.Context(), 32, time.Minute)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(ds) == 0 {
			return events
		}
		for _, d := range ds {
			e, err := channel.Decode(d.Body)
			if err == nil {
				err = q.Delete(w.t.Context(), []storage.Receipt{d.Receipt})
			}
			if err != nil {
				w.t.Fatal(err)
			}
			events = append(events, e)
		}
	}
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

func (w *world) wantSales(key string, want Sales) {
	w.t.Helper()
	got, _, err := w.sales.GetFresh(w.t.Context(), key)
	if err != nil || got != want {
		w.t.Errorf("sales %s: got %+v, error %v; want %+v", key, got, err, want)
	}
}
