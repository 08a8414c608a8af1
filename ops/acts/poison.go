package acts

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/poisoned"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// A Poisoned is a message in a poison queue without its body and the text of its failure, because both may be personal.
type Poisoned struct {
	Queue      string       `json:"queue"`
	Key        string       `json:"key"`
	ID         string       `json:"id"`   // "" if the entry can't be decoded
	Kind       channel.Kind `json:"kind"` // "" if the entry can't be decoded
	Reason     string       `json:"reason"`
	Attempts   int          `json:"attempts"`
	Deliveries int          `json:"deliveries"`
	First      time.Time    `json:"first"`
	Last       time.Time    `json:"last"`
	Worker     string       `json:"worker"`
	Old        bool         `json:"old"` // it counts from a time that is more than 30 days ago

	Fingerprint string `json:"fingerprint,omitempty"` // errors of one cause have the same one
}

// A PoisonGroup is a number of poison messages that most likely have one cause.
type PoisonGroup struct {
	Queue       string       `json:"queue"`
	Kind        channel.Kind `json:"kind"`
	Reason      string       `json:"reason"`
	Fingerprint string       `json:"fingerprint"`
	Error       string       `json:"error"` // of the latest message
	Messages    int          `json:"messages"`
	Latest      time.Time    `json:"latest"`
}

// A PoisonedMessage is all that is known of a message in a poison queue.
type PoisonedMessage struct {
	Poisoned
	Error   string          `json:"error"`
	Message json.RawMessage `json:"message"`       // the envelope with its data; null if the message isn't JSON
	Raw     []byte          `json:"raw,omitempty"` // a message that isn't JSON, as base64
	Lost    string          `json:"lost,omitempty"`

	Emitted       []string `json:"emitted,omitempty"`       // IDs of its compensation
	Uncompensated string   `json:"uncompensated,omitempty"` // why there is no compensation
}

// A selection selects messages of the poison queues.
type selection struct{ poisoned.Selection }

func (in *selection) queueField() act.Field {
	return act.Text(&in.Queue, "queue", "only messages of this `QUEUE`").From(queueNames)
}

func (in *selection) beforeField() act.Field {
	return act.Moment(&in.Before, "before", "only messages that failed last at this `TIME` or before, by the clocks of their workers")
}

func (in *selection) fields() []act.Field {
	reason := act.Text(&in.Reason, "reason", "only messages with this `REASON`, as poison list --json prints it")
	reason.Plain = []string{handlers.ReasonUndecodable, handlers.ReasonRefused, handlers.ReasonUnknownKind, handlers.ReasonAttempts, handlers.ReasonHangs, handlers.ReasonDeliveries,
		handlers.ReasonContentDiffers, handlers.ReasonTooOld, handlers.ReasonDataLost, handlers.ReasonBadKey, handlers.ReasonOutcomeUnknown, poison.ReasonUnreadable}
	return []act.Field{
		in.queueField(),
		act.Texts(&in.IDs, "id", "only the message of this `ID`, or the entry of this key; may be given several times"),
		act.Text(&in.Kind, "kind", "only messages of this `KIND`").From(kindNames),
		reason,
		act.Text(&in.Print, "fingerprint", "only messages whose error has this `FINGERPRINT`, as poison groups prints it"),
	}
}

// found are the fields of a list.
func (in *selection) found() []act.Field {
	return append(in.fields(), in.beforeField(),
		act.Text(&in.Text, "text", "only messages with this `TEXT` in their error or data; it needs --reveal").Hidden(),
		act.Text(&in.Data, "data", "only messages whose data have this `PATH=VALUE`, such as guest.name=Ada; it needs --reveal").Hidden(),
		act.Limit(&in.Limit, "messages"),
		act.Text(&in.After, "after", "with --limit: only messages after this `CURSOR`, which a note of the list before has told").With(poisoned.CheckCursor))
}

func poisonActs() []*act.Act {
	return []*act.Act{
		act.New(act.Act{Noun: "poison", Verb: "list", Role: act.Viewer, Reveals: true, About: "list the messages in the poison queues, latest failure first",
			More: "It never shows the content of a message. An entry that can't be decoded has no ID; use its key. Long reasons are cut, but " +
				"--reason needs the complete reason: --json prints it. Who looks for content learns of it, so --text and --data need --reveal and --why. " +
				"Secrets and bodies that lie beside their messages aren't looked at. --limit bounds the work: it looks at the latest messages.",
		}, (*selection).found, listPoison),
		act.New(act.Act{Noun: "poison", Verb: "groups", Role: act.Viewer, Reveals: true, About: "count the messages in the poison queues by what most likely is their cause",
			More: "A group has one queue, kind, reason and fingerprint. The fingerprint of an error leaves out numbers, IDs and quoted texts. The other acts on " +
				"poison messages take it, too.",
		}, func(in *selection) []act.Field {
			in.Limit = 10_000
			return in.found()
		}, groupPoison),
		act.New(act.Act{Noun: "poison", Verb: "show", Role: act.Viewer, Reveals: true, About: "show everything about messages in the poison queue",
			More: "ID is that of a message, the key of an entry, or what the program's own binary knows messages by. It shows the error and the " +
				"whole body, which may be personal.",
		}, func(in *selection) []act.Field {
			in.Aliased = true
			return []act.Field{act.Texts(&in.IDs, "id", "the messages").At("ID"), in.queueField()}
		}, showPoison),
	}
}

func newPoisoned(e poisoned.Entry) Poisoned {
	return Poisoned{e.Queue, e.Key, e.ID, e.Kind, e.Reason, e.Attempts, e.Deliveries, e.First, e.Last, e.Worker, e.Old, e.Print}
}

func groupPoison(ctx context.Context, c *act.Call, in *selection) error {
	groups, err := in.Groups(ctx, c)
	if err != nil {
		return err
	}
	if err := c.Table("No messages.", "QUEUE", "KIND", "REASON", "FINGERPRINT", "ERROR", "MESSAGES", "LATEST"); err != nil {
		return err
	}
	for _, g := range groups {
		with := map[string]string{"queue": g.Queue, "kind": string(g.Kind), "reason": g.Reason, "fingerprint": g.Print}
		line := PoisonGroup{g.Queue, g.Kind, g.Reason, g.Print, g.Error, g.Messages, g.Latest}
		if err := c.Row(line, g.Queue, string(g.Kind), act.Short(g.Reason), act.Link{Text: g.Print, Act: "poison list", With: with}, act.Short(g.Error), g.Messages, g.Latest); err != nil {
			return err
		}
	}
	return nil
}

func listPoison(ctx context.Context, c *act.Call, in *selection) error {
	p, err := in.Pick(ctx, c)
	if err != nil {
		return err
	}
	return cmp.Or(tellEntries(c, p.Entries, func(e poisoned.Entry) any { return newPoisoned(e) }), p.Missing)
}

// tellEntries tells a table of entries. object is what programs read of one.
func tellEntries(c *act.Call, entries []poisoned.Entry, object func(poisoned.Entry) any) error {
	if err := c.Table("No messages.", "QUEUE", "ID", "KIND", "REASON", "ATTEMPTS", "FAILED"); err != nil {
		return err
	}
	for _, e := range entries {
		id := act.Link{Text: e.Name(), Act: "poison show", With: map[string]string{"id": e.Name()}}
		if err := c.Row(object(e), e.Queue, id, string(e.Kind), act.Short(e.Reason), e.Attempts, e.Last); err != nil {
			return err
		}
	}
	return nil
}

func showPoison(ctx context.Context, c *act.Call, in *selection) error {
	p, err := in.Pick(ctx, c)
	if err != nil {
		return err
	}
	for _, e := range p.Entries {
		m, err := poison.At(c.Channels, e.Queue).Get(ctx, e.Key)
		if errors.Is(err, storage.ErrNotFound) {
			continue // the entry is gone meanwhile
		}
		if err != nil {
			return err
		}
		s, err := newPoisonedMessage(ctx, c, m)
		if err != nil {
			return err
		}
		if err := c.Thing(s, s.parts(), s.text()); err != nil {
			return err
		}
	}
	return p.Missing
}

// newPoisonedMessage also loads a body that lies beside its message, and says so if that is gone.
func newPoisonedMessage(ctx context.Context, c *act.Call, m poison.Entry) (PoisonedMessage, error) {
	s := PoisonedMessage{Poisoned: newPoisoned(poisoned.Of(m)), Error: c.Fault(m.Error, m.Queue, string(m.Kind)), Emitted: m.Emitted, Uncompensated: c.Fault(m.Uncompensated)}
	var err error
	s.Message, s.Raw, s.Lost, err = veiled(ctx, c, m.Queue, m.Body)
	return s, err
}

// veiled is a message as the request may see it: its envelope with its data, also of a body that lies beside it. A
// message that is no JSON is raw, once it is revealed, unless a kind of the queue has
// secrets. lost says that the body is gone.
func veiled(ctx context.Context, c *act.Call, queue string, body []byte) (message json.RawMessage, raw []byte, lost string, err error) {
	e, err := wire.Decode(body)
	switch {
	case !json.Valid(body) && c.Revealed() && !c.Known.BodiesIn(queue).Secrets():
		return nil, body, "", nil
	case err != nil: // nothing says what of it is personal
		return c.Content(body, c.Known.BodiesIn(queue)), nil, "", nil
	}
	if e.DataRef != "" && e.CheckDataRef(queue) == nil {
		switch err := c.Channels.Outbox().FetchBody(ctx, &e); {
		case errors.Is(err, wire.ErrDataLost):
			lost = err.Error()
		case err != nil:
			return nil, nil, "", err
		default:
			e.DataRef = ""
		}
	}
	e.LastError = c.Fault(e.LastError, queue, string(e.Kind))
	if e.DataRef == "" {
		e.Data = c.Content(e.Data, c.Known.Bodies(e.Kind))
	}
	message, err = e.Encode()
	return message, nil, lost, err
}

// parts are what people read of a message, beside its text.
func (s PoisonedMessage) parts() []act.Part {
	when := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return act.Clock(t) + " (" + act.Ago(t) + ")"
	}
	old := ""
	if s.Old {
		old = "its ID is more than 30 days old: after a retry it may come back as too old to judge"
	}
	return []act.Part{
		{Name: "Queue", Value: act.Link{Text: s.Queue, Act: "queues show", With: map[string]string{"queue": s.Queue}}}, {Name: "Key", Value: s.Key}, {Name: "ID", Value: s.ID}, {Name: "Kind", Value: string(s.Kind)}, {Name: "Reason", Value: s.Reason},
		{Name: "Error", Value: s.Error}, {Name: "Attempts", Value: s.Attempts}, {Name: "Deliveries", Value: s.Deliveries}, {Name: "First failed", Value: when(s.First)},
		{Name: "Last failed", Value: when(s.Last)}, {Name: "Worker", Value: s.Worker}, {Name: "Fingerprint", Value: s.Fingerprint}, {Name: "Lost", Value: s.Lost}, {Name: "Emitted", Value: strings.Join(s.Emitted, " ")},
		{Name: "Uncompensated", Value: s.Uncompensated}, {Name: "Old", Value: old},
	}
}

// text is the whole message for people.
func (s PoisonedMessage) text() string { return textOf(s.Message, s.Raw) }

// textOf is a whole message for people.
func textOf(message json.RawMessage, raw []byte) string {
	if message == nil {
		return fmt.Sprintf("Not JSON, %d bytes:\n%s", len(raw), raw)
	}
	var b bytes.Buffer
	_ = json.Indent(&b, message, "", "  ") // it is JSON
	return b.String()
}
