package main

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-go/millrace/process"
)

// offer is the plan: a search for each thing that is wanted, then the offer.
func offer(p *process.Plan[Offer]) {
	process.Split(p, "search", Offer.Searches, newSearch, search, Offer.Gather).Tolerate(1)
	process.Do(p, "publish", publish, Offer.Published)
}

// search is the plan of a search. It finds parts, and splits again.
func search(p *process.Plan[Search]) {
	process.Do(p, "find", find, Search.Found).Attempts(2).Backoff(pace)
	process.Split(p, "part", Search.Names, newPart, part, Search.Gather)
}

// part is the plan of a part.
func part(p *process.Plan[Part]) {
	process.Do(p, "ask", ask, Part.Asked)
	process.Do(p, "bargain", bargain, Part.Bargained)
}

// Offer is the state of the whole.
type Offer struct {
	Wanted []string `json:"wanted"`
	Things []string `json:"things,omitempty"` // that were found
	Euros  int      `json:"euros"`
	Number int      `json:"number,omitempty"`
}

// Search is the state of a search.
type Search struct {
	Thing string   `json:"thing"`
	Parts []string `json:"parts,omitempty"`
	Euros int      `json:"euros"`
}

// Part is the state of a part.
type Part struct {
	Name  string `json:"name"`
	Euros int    `json:"euros"`
}

func newSearch(thing string) Search { return Search{Thing: thing} }
func newPart(name string) Part      { return Part{Name: name} }

// The methods are pure. The order in which parts and searches are gathered makes no difference but to Things.

func (o Offer) Searches() []string         { return o.Wanted }
func (o Offer) Published(number int) Offer { o.Number = number; return o }
func (o Offer) Gather(s Search) Offer {
	o.Things = append(o.Things, s.Thing)
	o.Euros += s.Euros
	return o
}

func (s Search) Found(parts []string) Search { s.Parts = parts; return s }
func (s Search) Names() []string             { return s.Parts }
func (s Search) Gather(p Part) Search        { s.Euros += p.Euros; return s }

func (p Part) Asked(euros int) Part    { p.Euros = euros; return p }
func (p Part) Bargained(less int) Part { p.Euros -= less; return p }

// pace is how long the least of the agents' work takes.
const pace = 500 * time.Millisecond

// market is what the agents find. Nobody makes brakes.
var market = map[string][]string{"frame": {"tubes", "paint"}, "wheels": {"rims", "spokes", "hubs"}}

func find(ctx context.Context, s Search) ([]string, error) {
	parts := market[s.Thing]
	if err := work(ctx, 1+len(parts)); err != nil {
		return nil, err
	}
	if parts == nil {
		return nil, errors.New("nobody makes " + s.Thing)
	}
	return parts, nil
}

func ask(ctx context.Context, p Part) (euros int, err error) {
	return 10 * len(p.Name), work(ctx, len(p.Name)-3)
}

func bargain(ctx context.Context, p Part) (less int, err error) { return p.Euros / 10, work(ctx, 2) }

func publish(ctx context.Context, _ Offer) (number int, err error) { return 1042, work(ctx, 1) }

// work takes n times the pace, as long as ctx allows.
func work(ctx context.Context, n int) error {
	t := time.NewTimer(time.Duration(n) * pace)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
