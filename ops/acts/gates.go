package acts

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/storage"
)

// A Gate is a gate as it is.
type Gate struct {
	Name    string     `json:"name"`
	Open    *bool      `json:"open"` // null: it can't be read
	OpensAt *time.Time `json:"opens_at"`
	By      string     `json:"by"`
	Why     string     `json:"why"`
	Since   *time.Time `json:"since"`
	Error   string     `json:"error,omitempty"`
}

// A GateTurned is a gate that was opened, closed or repaired.
type GateTurned struct {
	Gate
	Result string `json:"result"` // opened, announced, closed, unchanged or repaired
}

// The results of opening and closing, beside unchanged.
const (
	gateOpened    = "opened"
	gateAnnounced = "announced"
	gateClosed    = "closed"
)

// A gateInput is what acts on one gate take.
type gateInput struct {
	name string
	at   time.Time
}

func (in *gateInput) fields() []act.Field {
	return []act.Field{nameField(&in.name, "the gate", gateNames)}
}

func gateActs() []*act.Act {
	return []*act.Act{
		act.New(act.Act{Noun: "gates", Verb: "list", Role: act.Viewer, About: "list the gates, open or closed",
			More: "It lists the gates that somebody has opened or closed. STATE is open, closed, or due: the announced time has passed, and the " +
				"gate opens when a program looks at it. SINCE is when it was changed last. – means that nobody has said it.",
		}, func(in *act.Page) []act.Field { return act.List(in, "gates", "names") }, listGates),
		act.New(act.Act{Noun: "gates", Verb: "open", Role: act.Operator, Why: act.May, About: "open a gate, now or at a time",
			More: "All programs that wait for it go on; it stays open until it is closed. With --at the programs' own clocks open it. A gate that " +
				"isn't there is made. A gate that is open already stays as it is, and --at is refused.",
		}, func(in *gateInput) []act.Field {
			return append(in.fields(), act.Moment(&in.at, "at", "open it at this `TIME`, in place of an earlier announcement"))
		}, openGate),
		act.New(act.Act{Noun: "gates", Verb: "close", Role: act.Operator, Why: act.May, About: "close a gate",
			More: "It also takes back an announced time. It doesn't recall the programs that have passed. A gate that is closed already stays as it is.",
		}, (*gateInput).fields, func(ctx context.Context, c *act.Call, in *gateInput) error {
			return turnGate(ctx, c, in.name, func(g *gate.Gate, note gate.Note) error { return g.Close(ctx, note) })
		}),
		act.New(act.Act{Noun: "gates", Verb: "repair", Role: act.Operator, Why: act.May, About: "close a gate that can't be read",
			More: "It replaces a damaged or foreign document. A gate that can be read stays as it is.",
		}, (*gateInput).fields, repairGate),
	}
}

func nameOfGate(g gate.Info) string { return g.Name }

func gateNames(ctx context.Context, d *act.Desk) []string {
	return act.NamesOf(gate.List(ctx, d.Store), nameOfGate)
}

func newGate(name string, s gate.State) Gate {
	return Gate{Name: name, Open: &s.Open, OpensAt: act.Maybe(s.OpensAt), By: s.By, Why: s.Why, Since: act.Maybe(s.Since)}
}

func listGates(ctx context.Context, c *act.Call, page *act.Page) error {
	return act.Listing[gate.Info]{
		None: "No gates.", Head: []string{"NAME", "STATE", "OPENS AT", "SINCE", "BY", "WHY"}, Name: nameOfGate,
		Row: func(g gate.Info) (any, []any) {
			state := "closed"
			switch {
			case g.Open:
				state = "open"
			case look.GateIsDue(g.State, time.Now()):
				state = "due"
			}
			return newGate(g.Name, g.State), []any{g.Name, state, act.Clock(g.OpensAt), g.Since, act.Short(g.By), act.Short(g.Why)}
		},
		Corrupt: func(g gate.Info, fault string) any { return Gate{Name: g.Name, Error: fault} },
	}.Tell(c, *page, gate.List(ctx, c.Store))
}

func openGate(ctx context.Context, c *act.Call, in *gateInput) error {
	return turnGate(ctx, c, in.name, func(g *gate.Gate, note gate.Note) error {
		switch {
		case in.at.IsZero():
			return g.Open(ctx, note)
		case !in.at.After(time.Now()):
			return act.UsageOf("at", "%s has passed; to open the gate now, leave --at out", act.Clock(in.at))
		}
		return g.OpenAt(ctx, in.at, note)
	})
}

func repairGate(ctx context.Context, c *act.Call, in *gateInput) error {
	if err := gate.Repair(ctx, c.Store, in.name, gate.Note{By: c.By, Why: c.Why}); err != nil {
		return err
	}
	now, err := gate.At(c.Store, in.name).State(ctx)
	if err != nil {
		return fmt.Errorf("the gate is repaired; %w", err)
	}
	return c.Say(GateTurned{newGate(in.name, now), repaired}, "Gate %s is repaired, and closed.", storage.Quote(in.name))
}

// turnGate changes a gate and tells how it is then.
func turnGate(ctx context.Context, c *act.Call, name string, change func(*gate.Gate, gate.Note) error) error {
	g := gate.At(c.Store, name)
	before, err := g.State(ctx)
	if err != nil {
		return err
	}
	if err := change(g, gate.Note{By: c.By, Why: c.Why}); err != nil {
		return err
	}
	now, err := g.State(ctx)
	if err != nil {
		return fmt.Errorf("the gate is changed; %w", err)
	}
	line := GateTurned{newGate(name, now), gateClosed}
	switch {
	case now.Epoch == before.Epoch:
		line.Result = unchanged
		c.Came(act.IsNothing)
	case now.Open:
		line.Result = gateOpened
	case !now.OpensAt.IsZero():
		line.Result = gateAnnounced
	}
	if before.Epoch == 0 {
		c.Note("nobody has opened or closed a gate of this name before.")
	}
	return c.Say(line, "%s", turned(line.Result, name, before, now))
}

// turned tells people what has become of a gate.
func turned(result, name string, before, now gate.State) string {
	name = storage.Quote(name)
	switch result {
	case gateOpened:
		return fmt.Sprintf("Gate %s is open: all that wait for it go on.", name)
	case gateAnnounced:
		return fmt.Sprintf("Gate %s opens at %s, in %s, by the clocks of the programs.", name, act.Clock(now.OpensAt), act.Age(time.Until(now.OpensAt)))
	case gateClosed:
		taken := ""
		if !before.OpensAt.IsZero() {
			taken = fmt.Sprintf(", and doesn't open at %s any more", act.Clock(before.OpensAt))
		}
		return fmt.Sprintf("Gate %s is closed%s.", name, taken)
	}
	state := "closed"
	if now.Open {
		state = "open"
	} else if !now.OpensAt.IsZero() {
		state = "to open at " + act.Clock(now.OpensAt)
	}
	why := ""
	if now.Why != "" {
		why = ": " + now.Why
	}
	return fmt.Sprintf("Gate %s was %s already, since %s, by %s%s.", name, state, act.Ago(now.Since), now.By, why)
}
