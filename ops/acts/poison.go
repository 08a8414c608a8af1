package acts

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// remembered is how long replay records and notes of ReactOnce know messages that have left their windows. It is the
// default of values.Config.Retention.
const remembered = 30 * 24 * time.Hour

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

// A selection is what acts on poison queues take: a message must fit all of it.
type selection struct {
	queue, kind, reason string
	ids                 []string
	aliased             bool // an ID may be what the program knows messages by
}

func (in *selection) queueField() act.Field {
	return act.Text(&in.queue, "queue", "only messages of this `QUEUE`").From(queueNames)
}

func (in *selection) fields() []act.Field {
	reason := act.Text(&in.reason, "reason", "only messages with this `REASON`, as poison list --json prints it")
	reason.Plain = []string{handlers.ReasonUndecodable, handlers.ReasonRefused, handlers.ReasonUnknownKind, handlers.ReasonAttempts, handlers.ReasonHangs, handlers.ReasonDeliveries,
		handlers.ReasonContentDiffers, handlers.ReasonTooOld, handlers.ReasonDataLost, handlers.ReasonBadKey, handlers.ReasonOutcomeUnknown, poison.ReasonUnreadable}
	return []act.Field{
		in.queueField(),
		act.Texts(&in.ids, "id", "only the message of this `ID`, or the entry of this key; may be given several times"),
		act.Text(&in.kind, "kind", "only messages of this `KIND`").From(func(_ context.Context, d *act.Desk) []string { return d.Known.Kinds() }),
		reason,
	}
}

func poisonActs() []*act.Act {
	return []*act.Act{
		act.New(act.Act{Noun: "poison", Verb: "list", Role: act.Viewer, About: "list the messages in the poison queues, latest failure first",
			More: "It never shows the content of a message. An entry that can't be decoded has no ID; use its key. Long reasons are cut, but " +
				"--reason needs the complete reason: --json prints it.",
		}, (*selection).fields, listPoison),
		act.New(act.Act{Noun: "poison", Verb: "show", Role: act.Viewer, About: "show everything about messages in the poison queue",
			More: "ID is that of a message, the key of an entry, or what the program's own binary knows messages by. It shows the error and the " +
				"whole body, which may be personal.",
		}, func(in *selection) []act.Field {
			in.aliased = true
			return []act.Field{act.Texts(&in.ids, "id", "the messages").At("ID"), in.queueField()}
		}, showPoison),
	}
}

// isOld reports that a message counts from a time so long ago that perhaps nothing remembers it any more.
func isOld(e *channel.Envelope) bool {
	born := e.Born()
	return !born.IsZero() && time.Since(born) > remembered
}

func newPoisoned(m poison.Entry) Poisoned {
	e, err := wire.Decode(m.Body)
	if err != nil { // the message may not be decodable
		e = channel.Envelope{ID: m.ID}
	}
	return Poisoned{m.Queue, m.Key, m.ID, m.Kind, m.Reason, m.Attempts, m.Deliveries, m.First, m.Last, m.Worker, isOld(&e)}
}

// An entry is a message in a poison queue that was read.
type entry struct {
	Poisoned
	compensated bool // the program has sent messages in its place
	etag        storage.ETag
	halts       *halt // nil: none that is known
}

// name is what a person types for the entry.
func (e entry) name() string {
	if e.ID == "" {
		return e.Key
	}
	return e.ID
}

// isKey matches the key of an entry that a worker has written. An entry that can't be decoded may have any key.
var isKey = regexp.MustCompile(`^[0-9a-f]{32}$`)

// picked are the entries that are selected, the last failed first.
type picked struct {
	entries []entry
	missing error // names the first ID that isn't there, or says that nothing matched
}

// pick reads the entries that are selected; without a selection, all entries.
func pick(ctx context.Context, c *act.Call, in *selection) (p picked, err error) {
	names, counts, err := look.Queues(ctx, c.Desk)
	if err != nil {
		return p, err
	}
	if in.queue != "" {
		if !slices.Contains(names, in.queue) {
			return p, act.UsageOf("queue", "unknown queue %s; want one of %s", storage.Quote(in.queue), strings.Join(names, ", "))
		}
		names = []string{in.queue}
	}
	total := 0
	for _, q := range names {
		total += int(counts[q])
	}
	reading := c.Begin("Reading", total)
	defer reading.End()
	kinds, reasons := map[string]bool{}, map[string]bool{}
	found, taken := map[string]bool{}, map[string]bool{}
	take := func(m poison.Entry, name string) {
		found[name] = true
		kinds[string(m.Kind)], reasons[m.Reason] = true, true
		fits := (in.kind == "" || in.kind == string(m.Kind)) && (in.reason == "" || in.reason == m.Reason)
		if fits && !taken[m.Queue+"/"+m.Key] { // it may be selected twice, by ID and by key
			taken[m.Queue+"/"+m.Key] = true
			p.entries = append(p.entries, entry{Poisoned: newPoisoned(m), compensated: len(m.Emitted) > 0, etag: m.ETag})
		}
	}
	for _, q := range names {
		if counts[q] == 0 {
			continue
		}
		from := poison.At(c.Channels, q)
		for _, id := range in.ids {
			if err := findEntries(ctx, from, q, id, in.namesOf(c, id), take); err != nil {
				return p, err
			}
		}
		if len(in.ids) > 0 {
			continue
		}
		for m, err := range from.List(ctx) {
			if err != nil {
				return p, err
			}
			take(m, "")
			reading.Add(1)
		}
	}
	slices.SortFunc(p.entries, func(a, b entry) int {
		if n := b.Last.Compare(a.Last); n != 0 {
			return n
		}
		return strings.Compare(a.Queue+"/"+a.Key, b.Queue+"/"+b.Key)
	})
	p.missing = in.missing(p, found, kinds, reasons)
	return p, nil
}

// namesOf are the IDs that an ID stands for.
func (in *selection) namesOf(c *act.Call, id string) []string {
	if in.aliased && c.Alias != nil {
		return append([]string{id}, c.Alias(id)...)
	}
	return []string{id}
}

// findEntries takes the entries of a queue that are meant by an ID: those of the messages with one of some names, or
// the one of this key.
func findEntries(ctx context.Context, from *poison.Queue, queue, id string, names []string, take func(m poison.Entry, name string)) error {
	isID := false
	for _, name := range names {
		for m, err := range from.Find(ctx, name) {
			if err != nil {
				return err
			}
			take(m, id)
			isID = true
		}
	}
	if isID && !isKey.MatchString(id) || storage.CheckKey(queue+"/"+id) != nil {
		return nil
	}
	m, err := from.Get(ctx, id)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err == nil {
		take(m, id)
	}
	return err
}

// missing returns an error for an ID that isn't there, or if no entry has the kind and reason.
func (in *selection) missing(p picked, found, kinds, reasons map[string]bool) error {
	where := "the poison queues"
	if in.queue != "" {
		where = "the poison queue of " + in.queue
	}
	for _, id := range in.ids {
		if !found[id] {
			return act.Nothing("no message %s in %s", storage.Quote(id), where)
		}
	}
	switch {
	case len(p.entries) > 0 || len(in.ids) == 0 && in.kind == "" && in.reason == "":
		return nil
	case len(reasons) == 0:
		return act.Nothing("%s is empty", strings.Replace(where, "queues", "queue", 1))
	case in.kind != "" && !kinds[in.kind]:
		return act.Nothing("no message of kind %s in %s; kinds there: %s", storage.Quote(in.kind), where, listed(kinds))
	case in.reason != "" && !reasons[in.reason]:
		return act.Nothing("no message with reason %s in %s; reasons there: %s", storage.Quote(in.reason), where, listed(reasons))
	}
	return act.Nothing("no message in %s matches all conditions", where)
}

// listed joins words for an error.
func listed(set map[string]bool) string {
	words := slices.DeleteFunc(slices.Sorted(maps.Keys(set)), func(w string) bool { return w == "" })
	for i, w := range words {
		words[i] = storage.Quote(w)
	}
	const most = 20
	if len(words) > most {
		words = append(words[:most], "…")
	}
	return strings.Join(words, ", ")
}

func listPoison(ctx context.Context, c *act.Call, in *selection) error {
	p, err := pick(ctx, c, in)
	if err != nil {
		return err
	}
	return cmp.Or(tellEntries(c, p.entries, func(e entry) any { return e.Poisoned }), p.missing)
}

// tellEntries tells a table of entries. object is what programs read of one.
func tellEntries(c *act.Call, entries []entry, object func(entry) any) error {
	if err := c.Table("No messages.", "QUEUE", "ID", "KIND", "REASON", "ATTEMPTS", "FAILED"); err != nil {
		return err
	}
	for _, e := range entries {
		if err := c.Row(object(e), e.Queue, e.name(), string(e.Kind), act.Short(e.Reason), e.Attempts, e.Last); err != nil {
			return err
		}
	}
	return nil
}

func showPoison(ctx context.Context, c *act.Call, in *selection) error {
	p, err := pick(ctx, c, in)
	if err != nil {
		return err
	}
	for _, e := range p.entries {
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
	return p.missing
}

// newPoisonedMessage also loads a body that lies beside its message, and says so if that is gone.
func newPoisonedMessage(ctx context.Context, c *act.Call, m poison.Entry) (PoisonedMessage, error) {
	s := PoisonedMessage{Poisoned: newPoisoned(m), Error: m.Error, Emitted: m.Emitted, Uncompensated: m.Uncompensated, Message: m.Body}
	if !json.Valid(m.Body) {
		s.Message, s.Raw = nil, m.Body
		return s, nil
	}
	e, err := wire.Decode(m.Body)
	if err != nil || e.DataRef == "" || e.CheckDataRef(m.Queue) != nil {
		return s, nil
	}
	switch err := c.Channels.Outbox().FetchBody(ctx, &e); {
	case errors.Is(err, wire.ErrDataLost):
		s.Lost = err.Error()
		return s, nil
	case err != nil:
		return s, err
	}
	e.DataRef = ""
	s.Message, err = e.Encode()
	return s, err
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
		{Name: "Queue", Value: s.Queue}, {Name: "Key", Value: s.Key}, {Name: "ID", Value: s.ID}, {Name: "Kind", Value: string(s.Kind)}, {Name: "Reason", Value: s.Reason},
		{Name: "Error", Value: s.Error}, {Name: "Attempts", Value: s.Attempts}, {Name: "Deliveries", Value: s.Deliveries}, {Name: "First failed", Value: when(s.First)},
		{Name: "Last failed", Value: when(s.Last)}, {Name: "Worker", Value: s.Worker}, {Name: "Lost", Value: s.Lost}, {Name: "Emitted", Value: strings.Join(s.Emitted, " ")},
		{Name: "Uncompensated", Value: s.Uncompensated}, {Name: "Old", Value: old},
	}
}

// text is the whole message for people.
func (s PoisonedMessage) text() string {
	if s.Message == nil {
		return fmt.Sprintf("Not JSON, %d bytes:\n%s", len(s.Raw), s.Raw)
	}
	var b bytes.Buffer
	_ = json.Indent(&b, s.Message, "", "  ") // it is JSON
	return b.String()
}
