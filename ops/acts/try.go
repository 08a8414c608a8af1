package acts

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/draft"
)

// A Tried is what a command would do to a document, as far as the request may see it.
type Tried struct {
	Kind       channel.Kind    `json:"kind"`
	Collection string          `json:"collection"`
	Key        string          `json:"key"`
	Changes    bool            `json:"changes"` // the document would be another one
	Before     json.RawMessage `json:"before"`
	After      json.RawMessage `json:"after"`
	Emits      []TriedMessage  `json:"emits"`
}

// A TriedMessage is a message that a document would emit.
type TriedMessage struct {
	Kind channel.Kind    `json:"kind"`
	Due  time.Time       `json:"due,omitzero"` // later than at once
	Data json.RawMessage `json:"data"`
}

// A tryInput is what values try takes.
type tryInput struct {
	kind, id string
	body     []byte
}

func tryAct() *act.Act {
	return act.New(act.Act{Noun: "values", Verb: "try", Role: act.Viewer, Reveals: true, About: "show what a command would do to its document, and do nothing",
		Here: func(d *act.Desk) bool {
			return slices.ContainsFunc(d.Handled, func(h wire.Handled) bool { return h.Try != nil })
		},
		More: "FILE has the JSON of the command, and may be - for the standard input. The program's own code decides, on the document as it stands " +
			"now, so this needs the program's own binary, or the pages of a process with its worker. Nothing is written or sent.",
	}, func(in *tryInput) []act.Field {
		return []act.Field{
			act.Text(&in.kind, "kind", "the kind of command").At("KIND").From(func(_ context.Context, d *act.Desk) []string { return d.Known.Commands() }),
			act.Content(&in.body, "body", "the command's JSON", channel.MaxData).At("FILE"),
			act.Text(&in.id, "id", "the `ID` of the message; the default is the command's own ID, or else a new one"),
		}
	}, try)
}

func try(ctx context.Context, c *act.Call, in *tryInput) error {
	about, err := commandOf(c, in.kind)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(c.Handled, func(h wire.Handled) bool { return h.Kind == about.Kind && h.Try != nil })
	if at < 0 {
		return act.Usage("nothing here decides on %s: the program's own binary has the code, and so have the pages of a process with its worker", about.Kind)
	}
	h := c.Handled[at]
	e := channel.Envelope{ID: in.id, Source: act.Source, Kind: about.Kind, Time: time.Now(), Data: in.body}
	if _, err := draft.Complete(c, &e, about.Queues, about); err != nil {
		return act.UsageOf("body", "%w", err)
	}
	e.ID = cmp.Or(e.ID, channel.NewID())
	if err := wire.CheckID(e.ID); err != nil {
		return act.Usage("%w", err)
	}
	tried, err := h.Try(ctx, &e)
	if err != nil {
		return act.Usage("the command would be refused: %s", c.Fault(err.Error()))
	}
	schema := c.Known.Values(h.Collection)
	t := Tried{
		Kind: e.Kind, Collection: h.Collection, Key: tried.Key, Changes: string(tried.Before) != string(tried.After),
		Before: c.Content(tried.Before, schema), After: c.Content(tried.After, schema), Emits: []TriedMessage{},
	}
	var kinds []string
	for _, x := range tried.Emits {
		t.Emits = append(t.Emits, TriedMessage{x.Kind, x.Due, c.Content(x.Data, c.Known.Bodies(x.Kind))})
		kinds = append(kinds, string(x.Kind))
	}
	changes := "no"
	if t.Changes {
		changes = "yes"
	}
	text, err := json.Marshal(map[string]any{"before": t.Before, "after": t.After, "emits": t.Emits})
	if err != nil {
		return err
	}
	return c.Thing(t, []act.Part{
		{Name: "Command", Value: string(t.Kind)}, {Name: "Document", Value: act.Link{Text: t.Collection + " " + t.Key, Act: "values show", With: map[string]string{"kind": t.Collection, "key": t.Key}}},
		{Name: "It would change", Value: changes}, {Name: "It would emit", Value: cmp.Or(strings.Join(kinds, ", "), "nothing")},
	}, string(text))
}
