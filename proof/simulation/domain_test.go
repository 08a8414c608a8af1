package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
)

// The domain: seats of a day are booked, a month shows the bookings, and each booking is billed.

const seats = 30 // of a day

// The ways in which a command behaves.
const (
	ordinary = "ordinary"
	slow     = "slow"     // its decision takes longer than a visibility
	flaky    = "flaky"    // it fails for a minute and a half
	stubborn = "stubborn" // it fails until the operator repairs the cause
	bad      = "bad"      // it is refused as poison
	deadly   = "deadly"   // it kills the process that decides it
	twin     = "twin"     // other content under the ID of a decided command
)

type book struct {
	ID    string `json:"id"`
	Day   string `json:"day"`
	Seats int    `json:"seats"`
	Sort  string `json:"sort"`
	Pad   string `json:"pad,omitempty"`
}

func (book) Kind() channel.Kind  { return "sim.book.v1" }
func (b book) MessageID() string { return b.ID }

// bookLater is a kind of command that older processes don't know.
type bookLater struct{ book }

func (bookLater) Kind() channel.Kind { return "sim.book.v2" }

type booked struct {
	Command string `json:"command"`
	Day     string `json:"day"`
	Seats   int    `json:"seats"`
	Left    int    `json:"left"`
	Pad     string `json:"pad,omitempty"`
}

func (booked) Kind() channel.Kind { return "sim.booked.v1" }

type refused struct {
	Command string `json:"command"`
	Day     string `json:"day"`
}

func (refused) Kind() channel.Kind { return "sim.refused.v1" }

type bill struct {
	Command string `json:"command"`
	Day     string `json:"day"`
}

func (bill) Kind() channel.Kind { return "sim.bill.v1" }

// day is a value object with its own history.
type day struct {
	Left    int        `json:"left"`
	Decided []decision `json:"decided"`
}

type decision struct {
	Command  string `json:"command"`
	Seats    int    `json:"seats"`
	Accepted bool   `json:"accepted"`
}

// month is a view of all days in which order doesn't matter: every event counts.
type month struct {
	Booked  map[string]int `json:"booked"` // seats by day
	Seen    []string       `json:"seen"`   // commands, once for each event that counted
	Refused int            `json:"refused"`
}

// left is a view for which the newest event of a day counts.
type left struct {
	Left int `json:"left"`
}

// account is the commands billed for a day.
type account struct {
	Commands []string `json:"commands"`
}

func monthOf(string) string { return "all" } // one view for all, which makes it hot

// register sets up the domain in a process.
func (p *process) register() (*handlers.Registry, error) {
	events := []channel.Route{channel.Event[booked]("months", "left", "billing", "notes"), channel.Event[refused]("months"), channel.Command[bill]("bills")}
	commands := []channel.Route{channel.Command[book]("commands")}
	if !p.old {
		commands = append(commands, channel.Command[bookLater]("commands"))
	}
	routes, err := channel.NewRoutes(slices.Concat(commands, events, orderRoutes())...)
	if err != nil {
		return nil, err
	}
	if p.channels, err = channel.New(p.Store, routes, "/simulation"); err != nil {
		return nil, err
	}
	cfg := handlers.Config{Logger: p.world.Log(p.Name), Timeout: time.Hour}
	if p.world.plan.wrapped {
		cfg.Middleware = []handlers.Middleware{p.world.early}
	}
	h := handlers.NewRegistry(p.channels, cfg)
	if len(p.world.plan.commands) > 0 {
		if err := p.registerBookings(h); err != nil {
			return nil, err
		}
	}
	if len(p.world.plan.orders) > 0 {
		p.registerOrders(h)
	}
	return h, h.Err()
}

func (p *process) registerBookings(h *handlers.Registry) error {
	days := values.New(p.channels, "days", p.world.plan.days)
	handlers.Decide(h, days, func(c book) string { return c.Day }, p.decide, booked{}, refused{})
	if !p.old {
		handlers.Decide(h, days, func(c bookLater) string { return c.Day }, func(d day, c bookLater) (day, []channel.Message, error) {
			return p.decide(d, c.book)
		}, booked{}, refused{})
	}
	months := views.New(p.channels, "months", views.Config[month]{})
	views.Project(h, months, func(e booked) string { return monthOf(e.Day) }, func(m month, e booked) month {
		if m.Booked == nil {
			m.Booked = map[string]int{}
		}
		m.Booked[e.Day] += e.Seats
		m.Seen = append(m.Seen, e.Command)
		return m
	})
	views.Project(h, months, func(e refused) string { return monthOf(e.Day) }, func(m month, e refused) month {
		m.Refused++
		m.Seen = append(m.Seen, e.Command)
		return m
	})
	views.Latest(h, views.New(p.channels, "left", views.Config[left]{}), func(e booked) string { return e.Day }, func(_ left, e booked) left {
		return left{e.Left}
	})
	bills, err := channel.NewSender[bill](p.channels)
	if err != nil {
		return err
	}
	handlers.React(h, "billing", func(ctx context.Context, e booked) error {
		return bills.Send(ctx, bill{Command: e.Command, Day: e.Day})
	})
	handlers.Decide(h, values.New(p.channels, "bills", values.Config[account]{}), func(c bill) string { return c.Day },
		func(a account, c bill) (account, []channel.Message, error) {
			a.Commands = append(slices.Clip(a.Commands), c.Command)
			return a, nil, nil
		})
	handlers.ReactOnce(h, "notes", p.note)
	return nil
}

var errFails = errors.New("it fails, as planned")

func (p *process) decide(d day, c book) (day, []channel.Message, error) {
	p.world.Tell("%s decides %s", p.Name, c.ID)
	switch c.Sort {
	case slow:
		time.Sleep(p.world.plan.Visibility * 3 / 2)
	case flaky:
		if time.Since(p.world.firstSeen(c.ID)) < 90*time.Second {
			return d, nil, errFails
		}
	case stubborn:
		if !p.world.succeeds.Load() {
			return d, nil, errFails
		}
	case bad:
		return d, nil, handlers.Poison("bad", nil)
	case deadly:
		p.Fuse.Fire()
		return d, nil, errFails
	}
	ok := c.Seats <= d.Left
	d.Decided = append(slices.Clip(d.Decided), decision{c.ID, c.Seats, ok})
	if !ok {
		return d, []channel.Message{refused{Command: c.ID, Day: c.Day}}, nil
	}
	d.Left -= c.Seats
	return d, []channel.Message{booked{Command: c.ID, Day: c.Day, Seats: c.Seats, Left: d.Left, Pad: c.Pad}}, nil
}

// note is an effect outside of all stores. A dead process has no effect.
func (p *process) note(ctx context.Context, e booked) error {
	t := time.NewTimer(p.world.plan.noting)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.Fuse.Fired() {
		return errFails
	}
	p.world.noted(e.Command)
	return nil
}
