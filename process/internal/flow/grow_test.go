package flow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/jsonform"
)

// trait is how a step of a grown plan behaves outside of the plan.
type trait struct {
	names  bool // each call of its agent has an effect of its own, which the result names; else the agent knows its key
	broken bool // its function fails until somebody mends it
	yes    bool // of an If
	mute   bool // the function that makes its children's states, or its command, fails until somebody mends it
	items  int
	lists  int // of EachFrom: items are listed in as many lists
	share  bool
}

// grower makes a plan at random. Its state is the list of the results that were taken.
type grower struct {
	r      *rand.Rand
	traits map[*Node]*trait
	broken *bool // the functions that are broken still are
	steps  int
	text   strings.Builder
}

func grow(r *rand.Rand, broken *bool) (*Plan, *grower) {
	g := &grower{r: r, traits: map[*Node]*trait{}, broken: broken}
	p := NewPlan("plan", 1)
	if g.chance(50) {
		p.bounds = bounds{page: 2 + r.IntN(3), lines: 2 + r.IntN(4), shelf: MaxSize / 2}
	}
	fmt.Fprintf(&g.text, "bounds %+v\n", p.bounds)
	g.part(p, 1)
	if err := p.Finish(); err != nil {
		panic(err)
	}
	return p, g
}

func (g *grower) chance(percent int) bool { return g.r.IntN(100) < percent }

func (g *grower) part(p *Plan, depth int) {
	codec(p)
	if g.chance(15) {
		p.Within = time.Duration(1+g.r.IntN(20)) * time.Minute
	}
	p.Keep = depth == 1 && g.chance(8)
	fmt.Fprintf(&g.text, "%splan %q within %v keep %v\n", strings.Repeat("  ", depth-1), p.Part, p.Within, p.Keep)
	g.seq(p, p.Root, depth)
}

func (g *grower) seq(p *Plan, s *Seq, depth int) {
	for range 1 + g.r.IntN(3) {
		g.step(p, s, depth)
	}
}

// choice is a verb that a grown plan may have, with its weight.
type choice struct {
	verb   Verb
	weight int
}

func (g *grower) verb(p *Plan, s *Seq, depth int) Verb {
	all := []choice{{Do, 40}, {Ask, 10}, {Wait, 8}, {Sleep, 4}, {Then, 4}}
	if depth < 4 && g.steps < 14 {
		all = append(all, choice{If, 5}, choice{All, 10}, choice{Any, 9}, choice{Each, 12}, choice{Split, 7}, choice{Child, 8})
	}
	if s == p.Root {
		all = append(all, choice{Pivot, 4})
	}
	sum := 0
	for _, x := range all {
		sum += x.weight
	}
	at := g.r.IntN(sum)
	for _, x := range all {
		if at -= x.weight; at < 0 {
			return x.verb
		}
	}
	return Do
}

func (g *grower) step(p *Plan, s *Seq, depth int) {
	g.steps++
	n := p.Add(s, g.verb(p, s, depth), fmt.Sprintf("s%d", g.steps))
	x := &trait{names: g.chance(40), broken: g.chance(5), mute: g.chance(4), yes: g.chance(50), items: g.r.IntN(7)}
	if g.chance(15) {
		x.items = 7 + g.r.IntN(14)
	}
	g.traits[n] = x
	n.Within = time.Duration(20+g.r.IntN(400)) * time.Second
	n.Forever = g.chance(10)
	n.Attempts, n.Backoff = 1+g.r.IntN(3), time.Duration(1+g.r.IntN(5))*time.Second
	n.Apply = g.then(x)
	text := fmt.Sprintf("%s%s %s %s within %v forever %v attempts %d", strings.Repeat("  ", depth), n.Path, n.Verb, n.Name, n.Within, n.Forever, n.Attempts)
	undo := (n.Verb == Do || n.Verb == Each) && g.chance(70)
	if undo {
		n.Undo = func(context.Context, jsontext.Value, jsontext.Value) error { return nil }
		text += " undo"
	}
	text += fmt.Sprintf(" names %v broken %v mute %v", x.names, x.broken, x.mute)
	switch n.Verb {
	case If, All, Any:
		n.Within, n.Forever = 0, false
		if g.chance(20) {
			n.Within = time.Duration(60+g.r.IntN(600)) * time.Second
		}
		n.Apply = nil
		n.Cond = func(any) bool { g.panics(x); return x.yes }
	case Sleep, Then, Pivot:
		n.Forever, n.Apply = true, nil
		if n.Verb == Then {
			n.Apply = func(v any, _ jsontext.Value) (any, error) { return v, g.fails(x) }
		}
		n.Until = func(_ any, now time.Time) time.Time {
			g.panics(x)
			return now.Add(time.Duration(x.items) * time.Minute)
		}
	}
	fmt.Fprintf(&g.text, "%s yes %v items %d\n", text, x.yes, x.items)
	g.inside(p, n, x, depth)
	if n.Verb != Then && n.Verb != Pivot && n.Verb != Sleep && depth < 5 && g.chance(15) {
		fmt.Fprintf(&g.text, "%selse\n", strings.Repeat("  ", depth))
		g.seq(p, p.NewElse(n), depth+1)
	}
}

// inside grows what a step has inside, and its agents.
func (g *grower) inside(p *Plan, n *Node, x *trait, depth int) {
	agent := func(context.Context, jsontext.Value, jsontext.Value) (jsontext.Value, string, error) {
		return nil, "", nil
	}
	switch n.Verb {
	case Do:
		n.Agent = agent
	case Ask:
		n.Command = func(any) channel.Message { g.panics(x); return asked{n.Name} }
		n.Answers = []Answer{{Kind: "yes." + channel.Kind(n.Name), Apply: n.Apply}, {Kind: "no." + channel.Kind(n.Name), Refusal: true, Apply: n.Apply}}
		n.Apply = nil
		if g.chance(70) {
			n.UndoAsk = func(_ any, answer jsontext.Value) (channel.Message, error) {
				return takenBack{string(answer)}, g.fails(x)
			}
		}
	case Wait:
		n.Sort = channel.Kind("signal." + n.Name)
		if g.chance(20) {
			n.Sort = "signal.any"
		}
	case If:
		g.seq(p, p.Branch(n), depth+1)
		if g.chance(60) {
			g.seq(p, p.Branch(n), depth+1)
		}
	case All, Any:
		for range 2 + g.r.IntN(2) {
			g.seq(p, p.Branch(n), depth+1)
		}
	case Each, Split:
		g.fan(n, x)
		if n.Verb == Split {
			n.Start = func(_ any, item jsontext.Value) (jsontext.Value, error) { return jsontext.Value("[]"), g.muted(x) }
			n.Apply = g.thenAll(x)
			g.part(p.NewPart(n), depth+1)
		} else if n.Agent = agent; g.chance(30) {
			n.Listed, x.lists = true, 1+g.r.IntN(6)
		}
	case Child:
		n.Start = func(any, jsontext.Value) (jsontext.Value, error) { return jsontext.Value("[]"), g.muted(x) }
		n.Apply = g.thenAll(x)
		g.part(p.NewPart(n), depth+1)
	}
}

func (g *grower) fan(n *Node, x *trait) {
	n.Gathered = g.chance(70)
	n.AtOnce = 1 + g.r.IntN(4)
	if x.share = g.chance(20); x.share {
		n.Share = 0.5
	} else {
		n.Tolerate = max(0, g.r.IntN(5)-2)
	}
	n.Items = func(any) ([]jsontext.Value, error) { return itemsOf(n, 0, x.items), g.fails(x) }
	fmt.Fprintf(&g.text, "    gathered %v at once %d tolerate %d share %v\n", n.Gathered, n.AtOnce, n.Tolerate, n.Share)
}

func itemsOf(n *Node, from, to int) []jsontext.Value {
	items := []jsontext.Value{}
	for i := from; i < to; i++ {
		items = append(items, jsontext.Value(fmt.Sprintf("%q", fmt.Sprint(n.Name, "-", i))))
	}
	return items
}

func (g *grower) fails(x *trait) error {
	if x.broken && *g.broken {
		return errBroken
	}
	return nil
}

func (g *grower) muted(x *trait) error {
	if x.mute && *g.broken {
		return errBroken
	}
	return nil
}

func (g *grower) panics(x *trait) {
	if x.mute && *g.broken {
		panic(errBroken)
	}
}

// then takes a result into the state.
func (g *grower) then(x *trait) func(any, jsontext.Value) (any, error) {
	return func(v any, r jsontext.Value) (any, error) { return append(v.([]string), string(r)), g.fails(x) }
}

// thenAll takes a child's state into the state.
func (g *grower) thenAll(x *trait) func(any, jsontext.Value) (any, error) {
	return func(v any, r jsontext.Value) (any, error) {
		all, err := jsonform.Decode[[]string](r)
		if err != nil {
			return nil, err
		}
		return append(v.([]string), all...), g.fails(x)
	}
}

// asked is the command of an Ask, and takenBack that of its undo.
type (
	asked     struct{ Step string }
	takenBack struct{ Answer string }
)

func (asked) Kind() channel.Kind     { return "asked" }
func (takenBack) Kind() channel.Kind { return "taken.back" }
