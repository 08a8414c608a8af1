package acts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
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
	return []*act.Act{act.New(act.Act{Noun: "send", Role: act.Operator, About: "send a command from a file with its JSON",
		More: "FILE may be - for the standard input. The JSON must fit the schema of the kind: every required member must be there, and no " +
			"other. It prints the ID of the message. A document or ReactOnce takes a message that is sent again with the same ID once; any other " +
			"reaction runs again.",
	}, func(in *sendInput) []act.Field {
		return []act.Field{
			act.Text(&in.kind, "kind", "the kind of command").At("KIND").From(func(_ context.Context, d *act.Desk) []string { return d.Known.Commands() }),
			act.Content(&in.body, "body", "the command's JSON", channel.MaxData).At("FILE"),
			act.Text(&in.id, "id", "the `ID` of the message; the default is the command's own ID if this binary has the program's code, or else a new one"),
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

// send sends a command.
func send(ctx context.Context, c *act.Call, in *sendInput) error {
	about := c.Known.Kind(channel.Kind(in.kind))
	if about == nil || !about.Command {
		if all := c.Known.Commands(); len(all) > 0 {
			return unknownCommand(in.kind, all)
		}
		return act.Usage("unknown command %s%s", act.Word(in.kind), c.Unpublished())
	}
	now := time.Now()
	e := channel.Envelope{ID: in.id, Source: act.Source, Kind: about.Kind, Time: now, Data: in.body}
	if _, err := complete(c, &e, about.Queues, about); err != nil {
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
	if e.ID == "" {
		e.ID = channel.IDAt(born)
	} else if !e.Due.IsZero() { // its age counts from when it is due
		e.Since = born
	}
	if err := wire.CheckID(e.ID); err != nil {
		return act.Usage("%w", err)
	}
	if isOld(&e) {
		c.Note("its ID is more than 30 days old. If it is too old to tell whether it was applied, it goes to the poison queue. Another --id sends it as a new message.")
	}
	for _, q := range about.Queues { // a command has one
		if err := sendTo(ctx, c, q, e); err != nil {
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
	if slices.ContainsFunc(about.Queues, func(q string) bool { return handles(c.Desk, q, about.Kind) }) {
		return
	}
	if about.ChoosesID && in.id == "" {
		c.Note("this kind chooses its own ID; give it by --id, or send with the program's own binary.")
	}
	if about.Checks {
		c.Note("its Check runs in the worker, not here. A message that it refuses goes to the poison queue.")
	}
}

// sendTo sends a message to a queue, whatever the routes of this binary say.
func sendTo(ctx context.Context, c *act.Call, queue string, e channel.Envelope) error {
	packed, err := c.Channels.Outbox().PackFor(ctx, queue, e)
	if err != nil {
		return err
	}
	return c.Channels.Outbox().SendPacked(ctx, packed)
}

// complete checks the body of a message that a person has written, and gives it the form that every body has. If this
// binary has the code that handles it in one of the queues, the message is decoded and checked, too, and chooses the ID
// and the subject that it hasn't got yet. form is the body in that form, without what the program's type makes of it.
func complete(c *act.Call, e *channel.Envelope, queues []string, about *catalog.Kind) (form []byte, err error) {
	if len(about.Schema) == 0 {
		c.Note("no schema of %s is published, so the JSON is not held against one.", e.Kind)
	}
	if err := checkBody(e.Data, about.Schema); err != nil {
		return nil, err
	}
	if form, err = normalised(e.Data); err != nil {
		return nil, err
	}
	e.Data = form
	for _, q := range queues {
		if !handles(c.Desk, q, e.Kind) {
			continue
		}
		return form, usercode.Contain(func() error {
			trial := *e
			d, err := c.Registry.Inside().Handlers.Resolve(q, &trial) // which runs the message's Check
			if refused := (*handlers.PoisonError)(nil); errors.As(err, &refused) {
				return refused.Err
			}
			if err != nil {
				return err
			}
			return choose(e, d.Message)
		})
	}
	return form, nil
}

// handles reports that this binary has the code that handles a kind from a queue.
func handles(d *act.Desk, queue string, kind channel.Kind) bool {
	return slices.ContainsFunc(d.Handled, func(h wire.Handled) bool { return h.Queue == queue && h.Kind == kind })
}

// choose takes a message's own body, ID and subject. It calls the user's code.
func choose(e *channel.Envelope, message any) error {
	if m, ok := message.(channel.Message); ok && m.Kind() == e.Kind { // otherwise it is of an older kind
		data, err := wire.EncodeBody(m)
		if err != nil {
			return err
		}
		e.Data = data
	}
	if x, ok := message.(channel.Identified); ok && e.ID == "" {
		e.ID = x.MessageID()
	}
	if x, ok := message.(channel.Subjected); ok {
		e.Subject = x.Subject()
	}
	return nil
}

// normalised gives a body one form, whatever the order of its members: its bytes decide whether two messages with one
// ID are the same, and the ID of an edited message follows from them.
func normalised(body []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	var sorted bytes.Buffer
	enc := json.NewEncoder(&sorted)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	e := channel.Envelope{ID: "body", Source: act.Source, Kind: "millrace.body", Data: bytes.TrimSpace(sorted.Bytes())}
	raw, err := e.Encode() // and back: that is the form in which every body arrives
	if err == nil {
		e, err = wire.Decode(raw)
	}
	return e.Data, err
}
