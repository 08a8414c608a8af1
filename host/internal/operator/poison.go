package operator

import (
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
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// remembered is how long replay records and notes of ReactOnce know messages that have left their windows. It is the
// default of values.Config.Retention.
const remembered = 30 * 24 * time.Hour

// A poisonCall is a run of a verb that works on the poison queues.
type poisonCall struct{ *call }

// An entry is a message in a poison queue without its body and the text of its failure, because both may be personal.
// -json prints an entry in this form.
type entry struct {
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

	compensated bool // the program has sent messages in its place
	etag        storage.ETag
	halts       *halt // nil: none that is known
}

// isOld reports that a message counts from a time so long ago that perhaps nothing remembers it any more.
func isOld(e *channel.Envelope) bool {
	born := e.Born()
	return !born.IsZero() && time.Since(born) > remembered
}

// isOldEntry is isOld for a message in the poison queue, which may not be decodable.
func isOldEntry(m poison.Entry) bool {
	e, err := wire.Decode(m.Body)
	if err != nil {
		e = channel.Envelope{ID: m.ID}
	}
	return isOld(&e)
}

func newEntry(m poison.Entry) entry {
	return entry{Queue: m.Queue, Key: m.Key, ID: m.ID, Kind: m.Kind, Reason: m.Reason, Attempts: m.Attempts, Deliveries: m.Deliveries,
		First: m.First, Last: m.Last, Worker: m.Worker, Old: isOldEntry(m), compensated: len(m.Emitted) > 0, etag: m.ETag}
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

// picked are the entries that a call selects, the last failed first.
type picked struct {
	entries []entry
	missing error // names the first ID that isn't there, or says that nothing matched
}

// pick reads the entries that the flags select; without flags, all entries.
func (c poisonCall) pick(ctx context.Context) (p picked, err error) {
	names, counts, err := c.knownQueues(ctx)
	if err != nil {
		return p, err
	}
	if c.queue != "" {
		if !slices.Contains(names, c.queue) {
			return p, usage("-queue: unknown queue %s; want one of %s", storage.Quote(c.queue), strings.Join(names, ", "))
		}
		names = []string{c.queue}
	}
	total := 0
	for _, q := range names {
		total += int(counts[q])
	}
	reading := newProgress(c.progress, "Reading", total)
	defer reading.end()
	kinds, reasons := map[string]bool{}, map[string]bool{}
	found, taken := map[string]bool{}, map[string]bool{}
	take := func(m poison.Entry, name string) {
		found[name] = true
		kinds[string(m.Kind)], reasons[m.Reason] = true, true
		fits := (c.kind == "" || c.kind == string(m.Kind)) && (c.reason == "" || c.reason == m.Reason)
		if fits && !taken[m.Queue+"/"+m.Key] { // it may be selected twice, by ID and by key
			taken[m.Queue+"/"+m.Key] = true
			p.entries = append(p.entries, newEntry(m))
		}
	}
	for _, q := range names {
		if counts[q] == 0 {
			continue
		}
		from := poison.At(c.channels, q)
		for _, id := range c.ids {
			if err := c.findEntries(ctx, from, q, id, take); err != nil {
				return p, err
			}
		}
		if len(c.ids) > 0 {
			continue
		}
		for m, err := range from.List(ctx) {
			if err != nil {
				return p, err
			}
			take(m, "")
			reading.add(1)
		}
	}
	slices.SortFunc(p.entries, func(a, b entry) int {
		if n := b.Last.Compare(a.Last); n != 0 {
			return n
		}
		return strings.Compare(a.Queue+"/"+a.Key, b.Queue+"/"+b.Key)
	})
	p.missing = c.missing(p, found, kinds, reasons)
	return p, nil
}

// findEntries takes the entries of a queue that an -id names: a message's ID, an entry's key, or another name that
// the program knows for a message.
func (c poisonCall) findEntries(ctx context.Context, from *poison.Queue, queue, id string, take func(m poison.Entry, name string)) error {
	isID := false
	ids := []string{id}
	if c.aliased && c.Alias != nil {
		ids = append(ids, c.Alias(id)...)
	}
	for _, other := range ids {
		for m, err := range from.Find(ctx, other) {
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
func (c poisonCall) missing(p picked, found, kinds, reasons map[string]bool) error {
	where := "the poison queues"
	if c.queue != "" {
		where = "the poison queue of " + c.queue
	}
	for _, id := range c.ids {
		if !found[id] {
			return nothing("no message %s in %s", storage.Quote(id), where)
		}
	}
	switch {
	case len(p.entries) > 0 || len(c.ids) == 0 && c.kind == "" && c.reason == "":
		return nil
	case len(reasons) == 0:
		return nothing("%s is empty", strings.Replace(where, "queues", "queue", 1))
	case c.kind != "" && !kinds[c.kind]:
		return nothing("no message of kind %s in %s; kinds there: %s", storage.Quote(c.kind), where, listed(kinds))
	case c.reason != "" && !reasons[c.reason]:
		return nothing("no message with reason %s in %s; reasons there: %s", storage.Quote(c.reason), where, listed(reasons))
	}
	return nothing("no message in %s matches all conditions", where)
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

// poisonList prints entries.
func poisonList(ctx context.Context, x *call) error {
	c := poisonCall{x}
	p, err := c.pick(ctx)
	if err != nil {
		return err
	}
	if len(p.entries) == 0 && p.missing != nil {
		return p.missing
	}
	return errors.Join(c.list(p.entries), p.missing)
}

func (c poisonCall) list(entries []entry) error {
	if c.json {
		for _, e := range entries {
			if err := c.out.line(e); err != nil {
				return err
			}
		}
		return nil
	}
	if len(entries) == 0 {
		c.out.printf("No messages.\n")
		return nil
	}
	rows := make([][]string, len(entries))
	for i, e := range entries {
		kind := string(e.Kind)
		if kind == "" {
			kind = unknown
		}
		failed := unknown
		if !e.Last.IsZero() {
			failed = age(time.Since(e.Last)) + " ago"
		}
		rows[i] = []string{e.Queue, e.name(), kind, short(e.Reason), fmt.Sprint(e.Attempts), failed}
	}
	c.out.table([]string{"QUEUE", "ID", "KIND", "REASON", "ATTEMPTS", "FAILED"}, rows)
	return nil
}

// shown is what -json prints of a message that show prints.
type shown struct {
	entry
	Error   string          `json:"error"`
	Message json.RawMessage `json:"message"`       // the envelope with its data; null if the message isn't JSON
	Raw     []byte          `json:"raw,omitempty"` // a message that isn't JSON, as base64
	Lost    string          `json:"lost,omitempty"`

	Emitted       []string `json:"emitted,omitempty"`       // IDs of its compensation
	Uncompensated string   `json:"uncompensated,omitempty"` // why there is no compensation
}

// poisonShow prints all that is known of messages.
func poisonShow(ctx context.Context, x *call) error {
	c := poisonCall{x}
	c.ids, c.aliased = c.args, true
	p, err := c.pick(ctx)
	if err != nil {
		return err
	}
	for i, e := range p.entries {
		m, err := poison.At(c.channels, e.Queue).Get(ctx, e.Key)
		if errors.Is(err, storage.ErrNotFound) {
			continue // the entry is gone meanwhile
		}
		if err != nil {
			return err
		}
		s, err := c.newShown(ctx, m)
		if err != nil {
			return err
		}
		if c.json {
			if err := c.out.line(s); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			c.out.printf("\n")
		}
		c.show(s)
	}
	return p.missing
}

// newShown also loads a body that lies beside its message, and says so if that is gone.
func (c poisonCall) newShown(ctx context.Context, m poison.Entry) (shown, error) {
	s := shown{entry: newEntry(m), Error: m.Error, Emitted: m.Emitted, Uncompensated: m.Uncompensated, Message: m.Body}
	if !json.Valid(m.Body) {
		s.Message, s.Raw = nil, m.Body
		return s, nil
	}
	e, err := wire.Decode(m.Body)
	if err != nil || e.DataRef == "" || e.CheckDataRef(m.Queue) != nil {
		return s, nil
	}
	switch err := c.channels.Outbox().FetchBody(ctx, &e); {
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

func (c poisonCall) show(s shown) {
	when := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Local().Format("2006-01-02 15:04:05 -0700") + " (" + age(time.Since(t)) + " ago)"
	}
	rows := [][]string{
		{"Key", s.Key}, {"ID", s.ID}, {"Kind", string(s.Kind)}, {"Reason", s.Reason}, {"Error", s.Error}, {"Attempts", fmt.Sprint(s.Attempts)},
		{"Deliveries", fmt.Sprint(s.Deliveries)}, {"First failed", when(s.First)}, {"Last failed", when(s.Last)}, {"Worker", s.Worker}, {"Lost", s.Lost},
		{"Emitted", strings.Join(s.Emitted, " ")}, {"Uncompensated", s.Uncompensated},
	}
	if s.Old {
		rows = append(rows, []string{"Old", "its ID is more than 30 days old: after a retry it may come back as too old to judge"})
	}
	rows = slices.DeleteFunc(rows, func(row []string) bool { return row[1] == "" })
	c.out.table([]string{"Queue", s.Queue}, rows)
	if s.Message == nil {
		c.out.printf("Not JSON, %d bytes:\n%s\n", len(s.Raw), boot.CleanLines(string(s.Raw)))
		return
	}
	c.out.printf("%s\n", indented(s.Message))
}
