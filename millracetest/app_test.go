package millracetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
	"github.com/millrace-go/millrace/worker"
)

// The domain: an order is placed, paid, and reminded of after three days.

type place struct {
	Order string `json:"order"`
	Seats int    `json:"seats"`
}

type remind struct {
	Order string `json:"order"`
}

type placed struct {
	Order string `json:"order"`
	Seats int    `json:"seats"`
}

type reminded struct {
	Order string `json:"order"`
}

func (place) Kind() channel.Kind    { return "kit.place.v1" }
func (remind) Kind() channel.Kind   { return "kit.remind.v1" }
func (placed) Kind() channel.Kind   { return "kit.placed.v1" }
func (reminded) Kind() channel.Kind { return "kit.reminded.v1" }

type order struct {
	Placed   []string  `json:"placed"` // seats, in the order of the decisions
	Reminded time.Time `json:"reminded,omitzero"`
	Seats    int       `json:"seats"`
}

func (o order) place(c place) (order, []channel.Message, error) {
	if c.Seats < 0 {
		return o, nil, handlers.Poison("no such seats", nil)
	}
	o.Placed = append(o.Placed, fmt.Sprint(c.Seats))
	o.Seats += c.Seats
	return o, []channel.Message{placed(c), channel.After(72*time.Hour, remind{c.Order})}, nil
}

func (o order) remind(c remind) (order, []channel.Message, error) {
	return o, []channel.Message{reminded(c)}, nil
}

func routes() (*channel.Routes, error) {
	return channel.NewRoutes(
		channel.Command[place]("orders"),
		channel.Command[remind]("orders"),
		channel.Event[placed]("seats", "mails", "tallies"),
		channel.Event[reminded]("mails"),
	)
}

func orders(c *channel.Channels) *values.Collection[order] {
	return values.New(c, "orders", values.Config[order]{Initial: func(string) order { return order{Placed: []string{}} }})
}

func seats(c *channel.Channels) *views.View[int] { return views.New(c, "seats", views.Config[int]{}) }

// tallies is a value object that takes events: how many orders had how many seats.
func tallies(c *channel.Channels) *values.Collection[int] {
	return values.New(c, "tallies", values.Config[int]{})
}

// mails are what the reactions send.
type mails struct {
	mu     sync.Mutex
	sent   []string     // under mu
	at     []time.Time  // under mu
	before func() error // of each mail; under mu
}

func (m *mails) send(text string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.before != nil {
		if err := m.before(); err != nil {
			return err
		}
	}
	m.sent, m.at = append(m.sent, text), append(m.at, time.Now())
	return nil
}

func program(m *mails) millracetest.Program {
	return millracetest.Program{Routes: routes, Register: func(h *handlers.Registry) error {
		c := h.Channels()
		o := orders(c)
		handlers.Decide(h, o, func(c place) string { return c.Order }, order.place, placed{}, remind{})
		handlers.Decide(h, o, func(c remind) string { return c.Order }, order.remind, reminded{})
		views.Project(h, seats(c), func(placed) string { return "all" }, func(n int, e placed) int { return n + e.Seats })
		handlers.On(h, "tallies", tallies(c), func(e placed) string { return fmt.Sprint(e.Seats) }, func(n int, _ placed) (int, []channel.Message, error) {
			return n + 1, nil, nil
		})
		handlers.ReactOnce(h, "mails", func(_ context.Context, e placed) error { return m.send("placed " + e.Order) })
		handlers.ReactOnce(h, "mails", func(_ context.Context, e reminded) error { return m.send("remind " + e.Order) })
		return nil
	}}
}

// One program in virtual time: what is sent is handled, timers fire when they are due, and a restart changes nothing.
func TestRun(t *testing.T) {
	t.Parallel()
	m := &mails{}
	millracetest.Run(t, program(m), func(t *testing.T, app *millracetest.App) {
		if now := time.Now().UTC(); now != time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) {
			t.Errorf("the test begins at %v", now)
		}
		app.Send(place{"a", 2}, place{"b", 3})
		app.Drain()
		if n := millracetest.View(t, seats(app.Channels()), "all"); n != 5 {
			t.Errorf("seats: got %d, want 5", n)
		}
		if o := millracetest.Value(t, orders(app.Channels()), "a"); o.Seats != 2 {
			t.Errorf("order a: got %+v, want 2 seats", o)
		}
		if len(m.sent) != 2 {
			t.Errorf("mails after Drain: got %q, want one for each order and no reminder yet", m.sent)
		}
		began := time.Now()
		app.Advance(71 * time.Hour)
		app.Restart()
		if len(m.sent) != 2 {
			t.Errorf("mails after 71 hours: got %q, want no reminder yet", m.sent)
		}
		app.Advance(2 * time.Hour)
		if len(m.sent) != 4 || !strings.HasPrefix(m.sent[3], "remind") {
			t.Fatalf("mails: got %q, want a reminder for each order", m.sent)
		}
		if due := m.at[3].Sub(began); due < 71*time.Hour+59*time.Minute || due > 72*time.Hour+time.Minute {
			t.Errorf("the reminder came after %v, want 72 hours", due)
		}
		if s := app.Store().Props().Driver; s != "sqlite" {
			t.Errorf("the store is %q, want one that is durable", s)
		}
	})
}

// Messages wait while the worker is stopped.
func TestStop(t *testing.T) {
	t.Parallel()
	millracetest.Run(t, program(&mails{}), func(t *testing.T, app *millracetest.App) {
		app.Stop()
		app.Stop()
		app.Send(place{"a", 2})
		if n := millracetest.View(t, seats(app.Channels()), "all"); n != 0 {
			t.Errorf("seats while the worker is stopped: got %d, want 0", n)
		}
		app.Start()
		app.Start()
		app.Drain()
		if n := millracetest.View(t, seats(app.Channels()), "all"); n != 2 {
			t.Errorf("seats: got %d, want 2", n)
		}
	})
}

// A worker that dies within a reaction, after its effect, is followed by another one. It repeats the effect, because
// nobody has noted it.
func TestKill(t *testing.T) {
	t.Parallel()
	m := &mails{}
	millracetest.Run(t, program(m), func(t *testing.T, app *millracetest.App) {
		kill := func() error { m.before = nil; app.Kill(); return nil }
		m.before = kill
		app.Send(place{"a", 2})
		app.Drain()
		if len(m.sent) != 2 || m.sent[0] != m.sent[1] || m.at[1].Sub(m.at[0]) < 30*time.Second {
			t.Errorf("mails: got %q at %v, want the repeat after the lease of the first", m.sent, m.at)
		}
		if n := millracetest.View(t, seats(app.Channels()), "all"); n != 2 {
			t.Errorf("seats: got %d, want 2", n)
		}
	})
}

// A reaction that fails is tried again, as time passes. A message that can't be handled is listed.
func TestFailures(t *testing.T) {
	t.Parallel()
	began, m := time.Time{}, &mails{}
	m.before = func() error {
		if time.Since(began) < 5*time.Second {
			return errors.New("no server")
		}
		return nil
	}
	millracetest.Run(t, program(m), func(t *testing.T, app *millracetest.App) {
		began = time.Now()
		app.Send(place{"a", 2}, place{"b", -1})
		app.Drain()
		if len(m.sent) != 1 || time.Since(began) > time.Hour {
			t.Errorf("mails: got %q after %v, want one, and no reminder", m.sent, time.Since(began))
		}
		all := app.Poison()
		if len(all) != 1 || all[0].Reason != "no such seats" || all[0].Kind != "kit.place.v1" {
			t.Errorf("poison: got %+v, want order b", all)
		}
	})
}

// A program's settings of single queues hold.
func TestQueues(t *testing.T) {
	t.Parallel()
	m := &mails{before: func() error { return errors.New("no server") }}
	p := program(m)
	p.Queues = map[string]worker.QueueConfig{"mails": {MaxAttempts: 2}}
	millracetest.Run(t, p, func(t *testing.T, app *millracetest.App) {
		app.Send(place{"a", 2})
		app.Drain()
		if all := app.Poison(); len(all) != 1 || all[0].Attempts != 2 {
			t.Errorf("poison: got %+v, want the mail after two attempts", all)
		}
	})
}
