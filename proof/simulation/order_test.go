package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/values"
)

// The second part of the domain is a process of two value objects. An order asks a shelf for an item, and sets itself a
// limit. The shelf's answer comes back as an event. After the limit the order has expired; an item that comes later is
// given back. All that the two say to each other is emitted by their decisions.

const items = 4 // of a shelf

// open is a command for an order. The limit counts from its decision, or is a time that the client has chosen.
type open struct {
	ID    string        `json:"id"`
	Order string        `json:"order"`
	Shelf string        `json:"shelf"`
	Limit time.Duration `json:"limit,omitzero"`
	Until time.Time     `json:"until,omitzero"`
	Pad   string        `json:"pad,omitempty"`
}

// hold and free are commands for a shelf.
type (
	hold struct {
		Order string `json:"order"`
		Shelf string `json:"shelf"`
		Pad   string `json:"pad,omitempty"`
	}
	free struct {
		Order string `json:"order"`
		Shelf string `json:"shelf"`
	}
)

// expire is a command for an order, sent at its limit.
type expire struct {
	Order string `json:"order"`
	Pad   string `json:"pad,omitempty"`
}

// answered is the shelf's event. Two groups take it to the order.
type answered struct {
	Order string `json:"order"`
	Shelf string `json:"shelf"`
	Held  bool   `json:"held"`
}

func (open) Kind() channel.Kind     { return "sim.open.v1" }
func (hold) Kind() channel.Kind     { return "sim.hold.v1" }
func (free) Kind() channel.Kind     { return "sim.free.v1" }
func (expire) Kind() channel.Kind   { return "sim.expire.v1" }
func (answered) Kind() channel.Kind { return "sim.answered.v1" }
func (c open) MessageID() string    { return c.ID }

// The states of an order.
const (
	opened  = "opened"
	held    = "held"
	denied  = "denied"
	expired = "expired"
)

// order is a value object with its own history: how often it has seen each message, and when.
type order struct {
	State   string    `json:"state"`
	Shelf   string    `json:"shelf"`
	Due     time.Time `json:"due"`   // not later than the limit
	Fired   time.Time `json:"fired"` // when the limit came
	Opened  int       `json:"opened"`
	Answers int       `json:"answers"`
	Counted int       `json:"counted"` // answers, by the other group
	Limits  int       `json:"limits"`
}

// shelf is a value object with its own history.
type shelf struct {
	Left  int      `json:"left"`
	Asked []string `json:"asked"` // orders, once for each time that they asked
	Held  []string `json:"held"`
	Freed []string `json:"freed"`
}

// slack is how long before its decision is called a unit of work may have begun, from which a delay counts: until it
// has read rows.
const slack = 3 * time.Minute

// registerOrders sets up the process.
func (p *process) registerOrders(h *handlers.Registry) {
	orders := values.New(p.channels, "orders", values.Config[order]{Window: 2, Cache: 2, PendingAfter: time.Minute})
	shelves := values.New(p.channels, "shelves", values.Config[shelf]{
		Window: 2, Cache: 2, PendingAfter: time.Minute, Initial: func(string) shelf { return shelf{Left: items} },
	})
	handlers.Decide(h, orders, func(c open) string { return c.Order }, func(o order, c open) (order, []channel.Message, error) {
		p.world.Tell("%s opens %s", p.Name, c.Order)
		o.Opened++
		o.State, o.Shelf = opened, c.Shelf
		limit := channel.Message(expire{Order: c.Order, Pad: c.Pad})
		if c.Until.IsZero() {
			limit, o.Due = channel.After(c.Limit, limit), time.Now().Add(c.Limit-slack)
		} else {
			limit, o.Due = channel.At(c.Until, limit), c.Until
		}
		return o, []channel.Message{hold{Order: c.Order, Shelf: c.Shelf, Pad: c.Pad}, limit}, nil
	}, hold{}, expire{})
	handlers.Decide(h, orders, func(c expire) string { return c.Order }, func(o order, c expire) (order, []channel.Message, error) {
		p.world.Tell("%s sees the limit of %s (%s)", p.Name, c.Order, o.State)
		o.Limits++
		o.Fired = time.Now()
		if o.State == opened {
			o.State = expired
		}
		return o, nil, nil
	})
	handlers.On(h, "answers", orders, func(e answered) string { return e.Order }, func(o order, e answered) (order, []channel.Message, error) {
		o.Answers++
		switch {
		case o.State == opened && e.Held:
			o.State = held
		case o.State == opened:
			o.State = denied
		case e.Held:
			return o, []channel.Message{free{Order: e.Order, Shelf: e.Shelf}}, nil
		}
		return o, nil, nil
	}, free{})
	handlers.On(h, "counts", orders, func(e answered) string { return e.Order }, func(o order, e answered) (order, []channel.Message, error) {
		o.Counted++
		return o, nil, nil
	})
	handlers.Decide(h, shelves, func(c hold) string { return c.Shelf }, func(s shelf, c hold) (shelf, []channel.Message, error) {
		s.Asked = append(slices.Clip(s.Asked), c.Order)
		if s.Left > 0 {
			s.Left--
			s.Held = append(slices.Clip(s.Held), c.Order)
			return s, []channel.Message{answered{Order: c.Order, Shelf: c.Shelf, Held: true}}, nil
		}
		return s, []channel.Message{answered{Order: c.Order, Shelf: c.Shelf}}, nil
	}, answered{})
	handlers.Decide(h, shelves, func(c free) string { return c.Shelf }, func(s shelf, c free) (shelf, []channel.Message, error) {
		s.Left++
		s.Freed = append(slices.Clip(s.Freed), c.Order)
		return s, nil, nil
	})
}

func orderRoutes() []channel.Route {
	return []channel.Route{
		channel.Command[open]("orders"), channel.Command[expire]("orders"), channel.Command[hold]("shelves"), channel.Command[free]("shelves"),
		channel.Event[answered]("answers", "counts"),
	}
}

// drawOrders adds orders to the plan of a seed.
func (p *plan) drawOrders(epoch time.Time) {
	r := rand.New(rand.NewPCG(p.Seed, 3))
	maybe := func(chance float64) bool { return r.Float64() < chance }
	if maybe(0.4) {
		return
	}
	for i := range 1 + r.IntN(8) {
		c := open{ID: worldtest.IDAt(epoch, 1000+i), Order: fmt.Sprintf("order-%d", i), Shelf: fmt.Sprintf("shelf-%d", r.IntN(2))}
		switch {
		case maybe(0.15): // a wrong clock
			c.ID = worldtest.IDAt(epoch.Add(time.Duration(r.IntN(41)-20)*24*time.Hour), 1000+i)
		case maybe(0.15): // a key without a time
			c.ID = "open-" + c.Order
		}
		if c.Limit = time.Duration(1+r.IntN(900)) * time.Second; maybe(0.3) { // by the client's clock, which may be wrong
			c.Limit, c.Until = 0, epoch.Add(time.Duration(r.IntN(1800)-600)*time.Second)
		}
		if maybe(0.1) {
			c.Pad = strings.Repeat("y", 60<<10)
		}
		p.orders = append(p.orders, c)
	}
}

// order sends the nth order, perhaps twice, until it is acknowledged.
func (w *world) order(ctx context.Context, web *process, n int) {
	if n >= len(w.plan.orders) {
		return
	}
	c := w.plan.orders[n]
	for try, done := 1, 0; done < 1+n%2 && try <= 200; try++ {
		err := web.channels.Send(ctx, c)
		w.Tell("web sends %s for %s (limit %v, until %v): %v", c.ID, c.Order, c.Limit, c.Until, err)
		if err == nil {
			done++
		}
		w.mu.Lock()
		w.ordered[c.Order] = w.ordered[c.Order] || err == nil
		w.mu.Unlock()
		_ = worldtest.Pause(ctx, 5*time.Second)
	}
}

// early is the middleware that knows when messages are due.
func (w *world) early(next handlers.Next) handlers.Next {
	return func(ctx context.Context, d *handlers.Delivery) error {
		e := d.Envelope
		w.mu.Lock()
		first, known := w.dues[e.ID]
		w.dues[e.ID] = e.Due
		w.mu.Unlock()
		if time.Until(e.Due) > time.Microsecond || known && !first.Equal(e.Due) {
			w.Fail("%s %s came at %v; it is due at %v, and before that at %v", e.Kind, e.ID, time.Now(), e.Due, first)
		}
		return next(ctx, d)
	}
}

// orders checks the process.
func (a *auditor) orders(ctx context.Context) {
	shelves := stored(ctx, a, values.New(a.p.channels, "shelves", values.Config[shelf]{}))
	orders := stored(ctx, a, values.New(a.p.channels, "orders", values.Config[order]{}))
	for key, o := range orders {
		if _, sent := a.w.ordered[key]; !sent || o.Opened != 1 || o.Answers != 1 || o.Counted != 1 {
			a.fault(processesEnd, "%s (sent: %v) is %+v; want each message once", key, sent, o)
		}
		if o.Limits != 1 || o.Due.Sub(o.Fired) > time.Microsecond {
			a.fault(limitsOnce, "%s is %+v; want one limit, and not before it is due", key, o)
		}
		s := shelves[o.Shelf]
		if n := count(s.Asked, key); n != 1 {
			a.fault(decidedOnce, "%s asked its shelf %d times", key, n)
		}
		has, back := count(s.Held, key), count(s.Freed, key)
		if kept := has - back; o.State == opened || o.State == held && kept != 1 || o.State != held && kept != 0 || o.State == denied && has != 0 {
			a.fault(processesEnd, "%s is %s; its shelf has held %d for it, and freed %d", key, o.State, has, back)
		}
	}
	for key, acknowledged := range a.w.ordered {
		if _, found := orders[key]; acknowledged && !found {
			a.fault(decidedOnce, "%s was acknowledged and never opened", key)
		}
	}
	for key, s := range shelves {
		if sum := s.Left + len(s.Held) - len(s.Freed); sum != items || s.Left < 0 {
			a.fault(processesEnd, "%s: %d items, %d left, of %d", key, sum, s.Left, items)
		}
	}
}

// stored reads all documents of a collection.
func stored[V any](ctx context.Context, a *auditor, c *values.Collection[V]) map[string]V {
	all := map[string]V{}
	for key, err := range c.Keys(ctx, "", "") {
		if err != nil {
			a.fault(nothingFails, "%v", err)
			break
		}
		d, err := c.Get(ctx, key, "")
		if err != nil {
			a.fault(nothingFails, "%v", err)
		}
		all[key] = d.Value
	}
	return all
}
