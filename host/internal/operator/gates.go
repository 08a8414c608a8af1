package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/storage"
)

// gateLine is what -json prints of a gate.
type gateLine struct {
	Name    string     `json:"name"`
	Open    *bool      `json:"open"` // null: it can't be read
	OpensAt *time.Time `json:"opens_at"`
	By      string     `json:"by"`
	Why     string     `json:"why"`
	Since   *time.Time `json:"since"`
	Error   string     `json:"error,omitempty"`
}

// turnedLine is what -json prints of a gate that was opened or closed.
type turnedLine struct {
	gateLine
	Result string `json:"result"`
}

// The results of opening and closing, beside unchanged.
const (
	gateOpened    = "opened"
	gateAnnounced = "announced"
	gateClosed    = "closed"
)

func nameOfGate(g gate.Info) string { return g.Name }

func gateNames(ctx context.Context, c *call) []string {
	return namesOf(gate.List(ctx, c.store), nameOfGate)
}

func newGateLine(name string, s gate.State) gateLine {
	return gateLine{Name: name, Open: &s.Open, OpensAt: maybe(s.OpensAt), By: s.By, Why: s.Why, Since: maybe(s.Since)}
}

// isDue reports that the announced time has passed, and that no program has looked since.
func isDue(s gate.State, now time.Time) bool {
	return !s.Open && !s.OpensAt.IsZero() && !s.OpensAt.After(now)
}

// gatesList prints the gates.
func gatesList(ctx context.Context, c *call) error {
	head := []string{"NAME", "STATE", "OPENS AT", "SINCE", "BY", "WHY"}
	return page(c, "No gates.", head, gate.List(ctx, c.store), nameOfGate, func(g gate.Info, fault string) (any, []string) {
		if fault != "" {
			return gateLine{Name: g.Name, Error: fault}, corruptRow(g.Name, len(head))
		}
		state, at := "closed", unknown
		if !g.OpensAt.IsZero() {
			at = clock(g.OpensAt)
		}
		switch {
		case g.Open:
			state = "open"
		case isDue(g.State, time.Now()):
			state = "due"
		}
		return newGateLine(g.Name, g.State), []string{g.Name, state, at, ago(g.Since), short(orUnknown(g.By)), short(orUnknown(g.Why))}
	})
}

// gatesOpen opens a gate, now or at a time.
func gatesOpen(ctx context.Context, c *call) error {
	return coordCall{c}.turn(ctx, func(g *gate.Gate, note gate.Note) error {
		switch {
		case c.at.IsZero():
			return g.Open(ctx, note)
		case !c.at.After(time.Now()):
			return usage("gates open: -at: %s has passed; to open the gate now, leave -at out", clock(c.at))
		}
		return g.OpenAt(ctx, c.at, note)
	})
}

// gatesRepair closes a gate that can't be read.
func gatesRepair(ctx context.Context, x *call) error {
	c := coordCall{x}
	name := c.args[0]
	if err := gate.Repair(ctx, c.store, name, gate.Note{By: c.author(), Why: c.why}); err != nil {
		return err
	}
	now, err := gate.At(c.store, name).State(ctx)
	if err != nil {
		return fmt.Errorf("the gate is repaired; %w", err)
	}
	if c.json {
		return c.out.line(turnedLine{newGateLine(name, now), repaired})
	}
	c.out.printf("%s\n", boot.Clean(fmt.Sprintf("Gate %s is repaired, and closed.", storage.Quote(name))))
	return nil
}

// gatesClose closes a gate.
func gatesClose(ctx context.Context, c *call) error {
	return coordCall{c}.turn(ctx, func(g *gate.Gate, note gate.Note) error { return g.Close(ctx, note) })
}

// turn changes a gate and prints how it is then.
func (c coordCall) turn(ctx context.Context, change func(*gate.Gate, gate.Note) error) error {
	name := c.args[0]
	g := gate.At(c.store, name)
	before, err := g.State(ctx)
	if err != nil {
		return err
	}
	if err := change(g, gate.Note{By: c.author(), Why: c.why}); err != nil {
		return err
	}
	now, err := g.State(ctx)
	if err != nil {
		return fmt.Errorf("the gate is changed; %w", err)
	}
	line := turnedLine{newGateLine(name, now), gateClosed}
	switch {
	case now.Epoch == before.Epoch:
		line.Result = unchanged
	case now.Open:
		line.Result = gateOpened
	case !now.OpensAt.IsZero():
		line.Result = gateAnnounced
	}
	if c.json {
		return c.out.line(line)
	}
	if before.Epoch == 0 {
		_, _ = fmt.Fprintf(c.progress, "Note: nobody has opened or closed a gate of this name before.\n")
	}
	c.out.printf("%s\n", boot.Clean(turned(line.Result, name, before, now)))
	return nil
}

// turned tells people what has become of a gate.
func turned(result, name string, before, now gate.State) string {
	name = storage.Quote(name)
	switch result {
	case gateOpened:
		return fmt.Sprintf("Gate %s is open: all that wait for it go on.", name)
	case gateAnnounced:
		return fmt.Sprintf("Gate %s opens at %s, in %s, by the clocks of the programs.", name, clock(now.OpensAt), age(time.Until(now.OpensAt)))
	case gateClosed:
		taken := ""
		if !before.OpensAt.IsZero() {
			taken = fmt.Sprintf(", and doesn't open at %s any more", clock(before.OpensAt))
		}
		return fmt.Sprintf("Gate %s is closed%s.", name, taken)
	}
	state := "closed"
	if now.Open {
		state = "open"
	} else if !now.OpensAt.IsZero() {
		state = "to open at " + clock(now.OpensAt)
	}
	why := ""
	if now.Why != "" {
		why = ": " + now.Why
	}
	return fmt.Sprintf("Gate %s was %s already, since %s, by %s%s.", name, state, ago(now.Since), now.By, why)
}
