package main

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/values"
)

// The shop of the part "processes": its plan, its stock, and what its agents do.

const (
	fulfilment = "fulfil" // the plan
	stockName  = "stock"  // the collection, and its queue
)

// A purchase is the state of an instance.
type purchase struct {
	ID      string   `json:"id"`
	Item    string   `json:"item"`
	Lines   []string `json:"lines"`
	Price   int      `json:"price"`
	Fate    fate     `json:"fate"`
	Held    bool     `json:"held,omitzero"`
	Receipt string   `json:"receipt,omitempty"`
	Packed  int      `json:"packed,omitzero"`
	Booking string   `json:"booking,omitempty"`
	Picker  string   `json:"picker,omitempty"`
	Parcel  string   `json:"parcel,omitempty"`
}

// A fate is what the world does to a purchase.
type fate struct {
	Hurry     bool          `json:"hurry,omitzero"`     // its charge has little time
	Poor      bool          `json:"poor,omitzero"`      // the bank declines it
	Unwelcome bool          `json:"unwelcome,omitzero"` // the carrier declines it
	Away      int           `json:"away,omitzero"`      // requests for each effect that are turned away at first
	Slow      time.Duration `json:"slow,omitzero"`      // the answers of bank and carrier come so late
	Lost      bool          `json:"lost,omitzero"`      // their first answers for each effect are lost
}

type (
	reserve struct {
		Order string `json:"order"`
		Item  string `json:"item"`
	}
	release  reserve
	reserved reserve
	noStock  reserve
	picked   struct {
		By string `json:"by"`
	}
)

// Kind is the name on the wire.
func (reserve) Kind() channel.Kind { return "chaos.reserve.v1" }

// Kind is the name on the wire.
func (release) Kind() channel.Kind { return "chaos.release.v1" }

// Kind is the name on the wire.
func (reserved) Kind() channel.Kind { return "chaos.reserved.v1" }

// Kind is the name on the wire.
func (noStock) Kind() channel.Kind { return "chaos.nostock.v1" }

// Kind is the name on the wire.
func (picked) Kind() channel.Kind { return "chaos.picked.v1" }

func (p purchase) reserve() reserve           { return reserve{p.ID, p.Item} }
func (p purchase) release() release           { return release{p.ID, p.Item} }
func (p purchase) reserved(reserved) purchase { p.Held = true; return p }
func (p purchase) noStock(noStock) purchase   { return p }
func (p purchase) hurry() bool                { return p.Fate.Hurry }
func (p purchase) charged(e effect) purchase  { p.Receipt = e.Receipt; return p }
func (p purchase) lines() []string            { return p.Lines }
func (p purchase) packed(string) purchase     { p.Packed++; return p }
func (p purchase) booked(e effect) purchase   { p.Booking = e.Receipt; return p }
func (p purchase) picked(m picked) purchase   { p.Picker = m.By; return p }
func (p purchase) shipped(e effect) purchase  { p.Parcel = e.Receipt; return p }

// A stock is the value object of an item.
type stock struct {
	Left int             `json:"left"`
	Held map[string]bool `json:"held,omitempty"` // by purchase
}

func (s stock) reserve(c reserve) (stock, []channel.Message, error) {
	if s.Left == 0 {
		return s, []channel.Message{noStock(c)}, nil
	}
	held := maps.Clone(s.Held)
	if held == nil {
		held = map[string]bool{}
	}
	held[c.Order] = true
	return stock{s.Left - 1, held}, []channel.Message{reserved(c)}, nil
}

func (s stock) release(c release) (stock, []channel.Message, error) {
	if !s.Held[c.Order] {
		return s, nil, nil
	}
	held := maps.Clone(s.Held)
	delete(held, c.Order)
	return stock{s.Left + 1, held}, nil, nil
}

func shopRoutes() (*channel.Routes, error) {
	return channel.NewRoutes(process.Route(fulfilment, carrierName),
		channel.Command[reserve](stockName), channel.Command[release](stockName),
		channel.Event[reserved](fulfilment), channel.Event[noStock](fulfilment))
}

func stocks(c *channel.Channels, each int) *values.Collection[stock] {
	return values.New(c, stockName, values.Config[stock]{Initial: func(item string) stock { return stock{Left: stockOf(item, each)} }})
}

// register registers all that a worker of the shop does.
func (s *shop) register(r *handlers.Registry) error {
	c := stocks(r.Channels(), s.Stock)
	handlers.Decide(r, c, func(m reserve) string { return m.Item }, stock.reserve, reserved{}, noStock{})
	handlers.Decide(r, c, func(m release) string { return m.Item }, stock.release)
	return process.Register(r, fulfilment, process.Version(1, s.fulfil))
}

// fulfil is the plan. All that can fail comes before the pivot, so nobody has to bring a parcel back.
func (s *shop) fulfil(p *process.Plan[purchase]) {
	hold := process.Ask(p, "reserve", purchase.reserve, purchase.reserved).Within(15 * time.Second)
	process.Refused(hold, purchase.noStock)
	process.UndoAsk(hold, purchase.release)
	process.If(p, "in a hurry", purchase.hurry, s.charging("charge at once", s.Hurry), s.charging("charge", time.Minute))
	process.Each(p, "pack", purchase.lines, s.pack, purchase.packed).Attempts(8).Within(2 * time.Minute).Backoff(s.Backoff)
	process.Do(p, "book", s.book, purchase.booked).Undo(s.unbook).Within(time.Minute).Backoff(s.Backoff).By(carrierName)
	process.Wait(p, "picked", purchase.picked).Within(s.Picked)
	process.Pivot(p, "go")
	process.Do(p, "ship", s.ship, purchase.shipped).Forever().Backoff(s.Backoff).By(carrierName)
}

func (s *shop) charging(name string, within time.Duration) func(p *process.Plan[purchase]) {
	return func(p *process.Plan[purchase]) {
		process.Do(p, name, s.charge, purchase.charged).Undo(s.refund).Within(within).Backoff(s.Backoff)
	}
}

func (s *shop) charge(ctx context.Context, p purchase) (effect, error) {
	return s.do(ctx, p, request{Verb: charges, Decline: p.Fate.Poor})
}

func (s *shop) refund(ctx context.Context, p purchase, e effect) error {
	return s.undo(ctx, p, charges, e)
}

func (s *shop) book(ctx context.Context, p purchase) (effect, error) {
	return s.do(ctx, p, request{Verb: bookings, Decline: p.Fate.Unwelcome})
}

func (s *shop) unbook(ctx context.Context, p purchase, e effect) error {
	return s.undo(ctx, p, bookings, e)
}

func (s *shop) ship(ctx context.Context, p purchase) (effect, error) {
	return s.do(ctx, p, request{Verb: parcels})
}

var errBroken = errors.New("it has broken")

// pack packs a line. Glass breaks at first.
func (s *shop) pack(ctx context.Context, item string) (string, error) {
	defer s.working(ctx, "pack "+item)()
	if item == glass && process.Attempt(ctx) == 1 {
		return "", errBroken
	}
	return item, nil
}

// do has the bank or the carrier do something.
func (s *shop) do(ctx context.Context, p purchase, r request) (effect, error) {
	r.Key, r.Order, r.Price, r.By = process.Key(ctx), p.ID, p.Price, s.life
	r.Away, r.Slow, r.Lose = p.Fate.Away, p.Fate.Slow, p.Fate.Lost
	service, step := s.Carrier, r.Verb
	if r.Verb == charges {
		service = s.Bank
	} else {
		r.Away = min(r.Away, 2) // the step after the pivot has no end but success, and its pauses grow
	}
	if r.Undo != "" {
		step = "undo of " + step
	}
	defer s.working(ctx, step)()
	receipt, err := s.ask(ctx, service, r, r.Verb != parcels) // a parcel is asked for until it is known, by any attempt
	return effect{receipt}, err
}

// undo has it undo an effect. While it is away, no attempt is spent.
func (s *shop) undo(ctx context.Context, p purchase, verb string, e effect) error {
	_, err := s.do(ctx, p, request{Verb: verb, Undo: e.Receipt})
	if errors.Is(err, errAway) {
		return handlers.Later(s.Backoff, "the service is away")
	}
	return err
}

// An effect is the result of an agent that has done something outside.
type effect struct {
	Receipt string `json:"receipt"`
}

// Effect tells two effects apart.
func (e effect) Effect() string { return e.Receipt }
