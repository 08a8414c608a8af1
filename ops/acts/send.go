package acts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/applied"
	"github.com/millrace-go/millrace/ops/internal/draft"
	"github.com/millrace-go/millrace/storage"
)

// A Sent is a command that was sent.
type Sent struct {
	ID    string       `json:"id"`
	Kind  channel.Kind `json:"kind"`
	Queue string       `json:"queue"`
}

// A sendInput is what send takes.
type sendInput struct {
	kind  string
	body  []byte
	id    string
	delay time.Duration
	at    time.Time
}

// CheckEarly implements the early check of an input: the routes of this binary's program tell a kind that is misspelt
// before somebody types a body.
func (in *sendInput) CheckEarly(p act.Program) error {
	if in.delay > 0 && !in.at.IsZero() {
		return act.Usage("want --delay or --at, not both")
	}
	if p.Routes == nil {
		return nil
	}
	routes, err := p.Routes()
	if err != nil {
		return err
	}
	if _, err := routes.CommandQueue(channel.Kind(in.kind)); err != nil {
		return unknownCommand(in.kind, commandsOf(routes))
	}
	return nil
}

func sendActs() []*act.Act {
	return []*act.Act{act.New(act.Act{Noun: "send", Role: act.Operator, Why: act.May, About: "send a command from a file with its JSON",
		More: "FILE may be - for the standard input. The JSON must fit the schema of the kind: every required member must be there, and no " +
			"other. It prints the ID of the message. A document or ReactOnce takes a message that is sent again with the same ID once; any other " +
			"reaction runs again.",
	}, func(in *sendInput) []act.Field {
		return []act.Field{
			act.Text(&in.kind, "kind", "the kind of command").At("KIND").From(func(_ context.Context, d *act.Desk) []string { return d.Known.Commands() }),
			act.Content(&in.body, "body", "the command's JSON", channel.MaxData).At("FILE"),
			act.Text(&in.id, "id", "the `ID` of the message; the default is the command's own ID if this binary has the program's code, or else one that follows from the ID of the act"),
			act.Duration(&in.delay, "delay", "deliver it after this `TIME`: 90s, 30m or 12h, for example, up to 3650 days", 0, wire.MaxDelay),
			act.Moment(&in.at, "at", "deliver it at this `TIME`"),
		}
	}, send)}
}

func unknownCommand(kind string, all []string) error {
	return act.Usage("unknown command %s; want one of %s", act.Word(kind), strings.Join(all, ", "))
}

// commandsOf returns the kinds of command of the routes.
func commandsOf(routes *channel.Routes) (all []string) {
	for _, q := range routes.Queues() {
		for _, k := range routes.Kinds(q) {
			if _, err := routes.CommandQueue(k); err == nil {
				all = append(all, string(k))
			}
		}
	}
	slices.Sort(all)
	return all
}

// commandOf is what is known of a kind of command.
func commandOf(c *act.Call, kind string) (*catalog.Kind, error) {
	about := c.Known.Kind(channel.Kind(kind))
	switch all := c.Known.Commands(); {
	case about != nil && about.Command:
		return about, nil
	case len(all) > 0:
		return nil, unknownCommand(kind, all)
	}
	return nil, act.Usage("unknown command %s%s", act.Word(kind), c.Unpublished())
}

// send sends a command.
func send(ctx context.Context, c *act.Call, in *sendInput) error {
	about, err := commandOf(c, in.kind)
	if err != nil {
		return err
	}
	now := time.Now()
	e := channel.Envelope{ID: in.id, Source: act.Source, Kind: about.Kind, Time: now, Data: in.body}
	if _, err := draft.Complete(c, &e, about.Queues, about); err != nil {
		return act.UsageOf("body", "%w", err)
	}
	tellUncoded(c, in, about)
	born := now
	if in.delay > 0 || in.at.After(now) {
		born = now.Add(in.delay)
		if in.at.After(now) {
			born = in.at
		}
		e.Due = born
	}
	if e.ID == "" { // the act is done again under its ID: then it sends the same message
		e.ID = channel.DerivedID(c.ID, "sent")
		e.Since = born
	} else if !e.Due.IsZero() { // its age counts from when it is due
		e.Since = born
	}
	if err := wire.CheckID(e.ID); err != nil {
		return act.Usage("%w", err)
	}
	if applied.MayBeForgotten(&e) {
		c.Note("its ID is more than 30 days old. If it is too old to tell whether it was applied, it goes to the poison queue. Another --id sends it as a new message.")
	}
	for _, q := range about.Queues { // a command has one
		if err := draft.Send(ctx, c.Channels, q, e); err != nil {
			if errors.Is(err, storage.ErrInvalid) || errors.Is(err, storage.ErrTooLarge) {
				return err
			}
			return fmt.Errorf("%w. The message may have been sent. Send it again with --id %s: then it is the same message", err, storage.Quote(e.ID))
		}
	}
	return c.Say(Sent{e.ID, e.Kind, about.Queues[0]}, "%s", e.ID)
}

// tellUncoded says what this binary can't do for a command, because it lacks the code of its handler.
func tellUncoded(c *act.Call, in *sendInput, about *catalog.Kind) {
	if slices.ContainsFunc(about.Queues, func(q string) bool { return draft.Handles(c.Desk, q, about.Kind) }) {
		return
	}
	if about.ChoosesID && in.id == "" {
		c.Note("this kind chooses its own ID; give it by --id, or send with the program's own binary.")
	}
	if about.Checks {
		c.Note("its Check runs in the worker, not here. A message that it refuses goes to the poison queue.")
	}
}
