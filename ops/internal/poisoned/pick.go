package poisoned

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/applied"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// A Selection says which entries are meant: those that fit all of it. The zero Selection means all entries.
type Selection struct {
	Queue, Kind, Reason string
	Print               string    // the fingerprint of the error
	Text                string    // in the error, or in the data
	Data                string    // PATH=VALUE: a member of the data
	Limit               int       // so many at most, the latest; 0: all
	After               string    // with Limit: only entries behind this cursor
	Before              time.Time // only entries whose last failure was no later, by the clocks of workers; zero: all
	IDs                 []string  // of messages, or the keys of entries
	Aliased             bool      // an ID may be what the program knows messages by
}

// An Entry is a message in a poison queue that was read, without its body and the text of its failure.
type Entry struct {
	poison.Entry
	Print string // of its error
	Old   bool   // it counts from a time so long ago that perhaps nothing remembers the message any more
	Halt  *Halt  // the key that it has halted; nil: none that is known
}

// Of makes an Entry of what a poison queue has.
func Of(m poison.Entry) Entry {
	e, err := wire.Decode(m.Body)
	if err != nil { // the message may not be decodable
		e = channel.Envelope{ID: m.ID}
	}
	print := Fingerprint(m.Error)
	m.Body, m.Error = nil, ""
	return Entry{Entry: m, Print: print, Old: applied.MayBeForgotten(&e)}
}

// Name is what a person types for the entry.
func (e Entry) Name() string {
	if e.ID == "" {
		return e.Key
	}
	return e.ID
}

// isKey matches the key of an entry that a worker has written. An entry that can't be decoded may have any key.
var isKey = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Picked are the entries that are selected, the last failed first.
type Picked struct {
	Entries []Entry
	Missing error // names the first ID that isn't there, or says that nothing matched
}

// Queues are the queues of which entries may be selected, with the numbers of their entries.
func (in *Selection) Queues(ctx context.Context, d *act.Desk) (names []string, counts map[string]int64, err error) {
	names, counts, err = look.Queues(ctx, d)
	if err != nil || in.Queue == "" {
		return names, counts, err
	}
	if !slices.Contains(names, in.Queue) {
		return nil, nil, act.UsageOf("queue", "unknown queue %s; want one of %s", storage.Quote(in.Queue), strings.Join(names, ", "))
	}
	return []string{in.Queue}, counts, nil
}

// Fits reports that an entry has what a selection without IDs wants, beside its queue.
func (in *Selection) Fits(m poison.Entry) bool {
	return (in.Kind == "" || in.Kind == string(m.Kind)) && (in.Reason == "" || in.Reason == m.Reason) &&
		(in.Print == "" || in.Print == Fingerprint(m.Error)) && (in.Before.IsZero() || !m.Last.After(in.Before))
}

// Pick reads the entries that are selected; without a selection, all entries.
func (in *Selection) Pick(ctx context.Context, c *act.Call) (p Picked, err error) {
	if err := in.checkContent(c); err != nil {
		return p, err
	}
	kinds, reasons := map[string]bool{}, map[string]bool{}
	found, taken := map[string]bool{}, map[string]bool{}
	take := func(m poison.Entry, name string) {
		found[name] = true
		kinds[string(m.Kind)], reasons[m.Reason] = true, true
		if in.Fits(m) && in.has(c.Known, m) && !taken[m.Queue+"/"+m.Key] { // it may be selected twice, by ID and by key
			taken[m.Queue+"/"+m.Key] = true
			p.Entries = append(p.Entries, Of(m))
		}
	}
	if in.Limit > 0 && len(in.IDs) == 0 {
		if in.Queue != "" && !c.Known.Queues[in.Queue] {
			_, _, err = in.Queues(ctx, c.Desk) // it may have a poison queue all the same
		}
		if err == nil {
			err = in.latest(ctx, c, func() int { return len(p.Entries) }, func(m poison.Entry) { take(m, "") })
		}
	} else {
		err = in.all(ctx, c, take)
	}
	if err != nil {
		return p, err
	}
	slices.SortFunc(p.Entries, func(a, b Entry) int {
		if n := b.Last.Compare(a.Last); n != 0 {
			return n
		}
		return strings.Compare(a.Queue+"/"+a.Key, b.Queue+"/"+b.Key)
	})
	p.Missing = in.missing(p, found, kinds, reasons)
	return p, nil
}

// First reads the first entries, most at most, and picks those that are selected. more says that there are more to
// read.
func (in *Selection) First(ctx context.Context, c *act.Call, most int) (p Picked, more bool, err error) {
	names, counts, err := in.Queues(ctx, c.Desk)
	if err != nil {
		return p, false, err
	}
	kinds, reasons, read := map[string]bool{}, map[string]bool{}, 0
	for _, q := range names {
		if counts[q] == 0 {
			continue
		}
		for m, err := range poison.At(c.Channels, q).List(ctx) {
			switch {
			case err != nil:
				return p, false, err
			case read == most:
				return p, true, nil
			}
			read++
			kinds[string(m.Kind)], reasons[m.Reason] = true, true
			if in.Fits(m) {
				p.Entries = append(p.Entries, Of(m))
			}
		}
	}
	p.Missing = in.missing(p, nil, kinds, reasons)
	return p, false, nil
}

// all takes all entries that may be selected, or those that are meant by an ID.
func (in *Selection) all(ctx context.Context, c *act.Call, take func(m poison.Entry, name string)) error {
	names, counts, err := in.Queues(ctx, c.Desk)
	if err != nil {
		return err
	}
	total := 0
	for _, q := range names {
		total += int(counts[q])
	}
	reading := c.Begin("Reading", total)
	defer reading.End()
	for _, q := range names {
		if counts[q] == 0 {
			continue
		}
		from := poison.At(c.Channels, q)
		for _, id := range in.IDs {
			if err := findEntries(ctx, from, q, id, in.namesOf(c, id), take); err != nil {
				return err
			}
		}
		if len(in.IDs) > 0 {
			continue
		}
		for m, err := range from.List(ctx) {
			if err != nil {
				return err
			}
			take(m, "")
			reading.Add(1)
		}
	}
	return nil
}

// namesOf are the IDs that an ID stands for.
func (in *Selection) namesOf(c *act.Call, id string) []string {
	if in.Aliased && c.Alias != nil {
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
func (in *Selection) missing(p Picked, found, kinds, reasons map[string]bool) error {
	where := "the poison queues"
	if in.Queue != "" {
		where = "the poison queue of " + in.Queue
	}
	for _, id := range in.IDs {
		if !found[id] {
			return act.Nothing("no message %s in %s", storage.Quote(id), where)
		}
	}
	switch {
	case len(p.Entries) > 0 || len(in.IDs) == 0 && in.Kind == "" && in.Reason == "" && in.Print == "" && in.Text == "" && in.Data == "" && in.Before.IsZero():
		return nil
	case len(reasons) == 0:
		return act.Nothing("%s is empty", strings.Replace(where, "queues", "queue", 1))
	case in.Kind != "" && !kinds[in.Kind]:
		return act.Nothing("no message of kind %s in %s; kinds there: %s", storage.Quote(in.Kind), where, listed(kinds))
	case in.Reason != "" && !reasons[in.Reason]:
		return act.Nothing("no message with reason %s in %s; reasons there: %s", storage.Quote(in.Reason), where, listed(reasons))
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
