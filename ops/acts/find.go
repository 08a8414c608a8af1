package acts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/ops/internal/track"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
)

const (
	mostRequests = 400 // of a search, beside the pages of lists
	mostWord     = 1000
	mostGuards   = 1000
	searchAtOnce = 16
)

// A Found is a thing that a word names.
type Found struct {
	What string   `json:"what"` // queue, kind, program, collection, view, plan, message, poison message, document, process, …
	Name string   `json:"name"`
	In   string   `json:"in"` // the queue, collection or plan that has it; "" for none
	Show act.Link `json:"show"`

	rank int
}

// A findInput is what find takes.
type findInput struct{ word string }

func findActs() []*act.Act {
	return []*act.Act{act.New(act.Act{Noun: "find", Role: act.Viewer, About: "find what has an ID, a key or a name",
		More: "WORD is the ID of a message, of a process or of an operator's act, the key of a document, what the program's own binary knows them by, or the name of a " +
			"queue, kind, program, schedule, gate, lock and the like. It is looked for as it is: a part of a name finds nothing. A search asks " +
			"the store a bounded number of requests, and says what it didn't look through. A kind is also looked for among the first poison " +
			"messages of each queue. Messages that were handled are gone.",
	}, func(in *findInput) []act.Field {
		return []act.Field{act.Text(&in.word, "q", "the ID, key or name").At("WORD").With(func(text string) error {
			if len(text) > mostWord {
				return fmt.Errorf("want at most %d bytes", mostWord)
			}
			return nil
		})}
	}, findWord)}
}

// Check implements the check of an input.
func (in *findInput) Check() error {
	if in.word == "" {
		return act.Usage("want an ID, a key or a name")
	}
	return nil
}

// A finder looks for a word.
type finder struct {
	c      *act.Call
	words  []string // the word, and what the program knows it by
	search *track.Search

	mu     sync.Mutex
	found  []Found
	looked []string
	faults []string
	lost   []error // of places that the store didn't answer for
}

// add tells of a thing.
func (f *finder) add(rank int, what, name, in, verb string, with map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found = append(f.found, Found{What: what, Name: name, In: in, Show: act.Link{Text: name, Act: verb, With: with}, rank: rank})
}

// A hunt looks in one place.
type hunt struct {
	where string // for people
	look  func(ctx context.Context) error
}

func findWord(ctx context.Context, c *act.Call, in *findInput) error {
	f := &finder{c: c, words: []string{in.word}, search: track.New(c.Desk, mostRequests)}
	if c.Alias != nil {
		f.words = append(f.words, c.Alias(in.word)...)
	}
	f.known()
	hunts := slices.Concat(f.inQueues(ctx), f.inCollections(), f.inPlans(), f.inNames())
	g, hunting := errgroup.WithContext(ctx)
	g.SetLimit(searchAtOnce)
	for _, h := range hunts {
		g.Go(func() error {
			err := h.look(hunting)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.looked = append(f.looked, h.where)
			switch {
			case errors.Is(err, storage.ErrUnavailable), errors.Is(err, storage.ErrThrottled), errors.Is(err, context.DeadlineExceeded):
				f.lost = append(f.lost, fmt.Errorf("%s: %w", h.where, err))
			case err != nil:
				f.faults = append(f.faults, h.where+": "+err.Error())
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return f.tell(in.word)
}

// known finds what the programs have told of.
func (f *finder) known() {
	word := f.words[0]
	f.looked = append(f.looked, "names of queues, kinds, programs, collections, views and plans")
	if f.c.Known.Queues[word] {
		f.add(0, "queue", word, "", "queues show", map[string]string{"queue": word})
	}
	for _, d := range f.c.Known.All() {
		for _, k := range d.Kinds {
			if string(k.Kind) != word {
				continue
			}
			for _, q := range k.Queues {
				f.add(1, "kind", word, q, "queues show", map[string]string{"queue": q})
			}
		}
	}
	if slices.Contains(programNames(context.Background(), f.c.Desk), word) {
		f.add(1, "program", word, "", "programs show", map[string]string{"program": word})
	}
	switch {
	case slices.Contains(f.c.Known.Collections(true), word):
		f.add(1, "view", word, "", "views list", map[string]string{"view": word})
	case slices.Contains(f.c.Known.Plans(), word):
		f.add(1, "plan", word, "", "processes list", map[string]string{"plan": word})
	case slices.Contains(f.c.Known.Collections(false), word):
		f.add(1, "collection", word, "", "values list", map[string]string{"kind": word})
	}
}

// ofKind reports that the word may be a kind, of which poison queues may have messages that no program knows any more.
func (f *finder) ofKind() bool {
	return strings.Contains(f.words[0], ".") && channel.Kind(f.words[0]).Check() == nil
}

// inQueues looks for messages that wait, and for those in poison queues.
func (f *finder) inQueues(ctx context.Context) (all []hunt) {
	names, poisoned, err := look.Queues(ctx, f.c.Desk)
	if err != nil {
		return []hunt{{"queues", func(context.Context) error { return err }}}
	}
	for _, q := range names {
		if poisoned[q] > 0 {
			if q == f.words[0] && !f.c.Known.Queues[q] {
				f.add(0, "queue", q, "", "queues show", map[string]string{"queue": q})
			}
			all = append(all, hunt{"the poison queue of " + q, func(ctx context.Context) error {
				places, err := f.search.Poisoned(ctx, q, f.words)
				for _, p := range places {
					name := cmp.Or(p.Envelope.ID, p.Entry.Key)
					f.add(2, "poison message", name, q, "poison show", map[string]string{"id": name, "queue": q})
				}
				return err
			}})
		}
		if poisoned[q] > 0 && f.ofKind() {
			all = append(all, hunt{"kinds in the poison queue of " + q, func(ctx context.Context) error {
				found, err := f.search.PoisonedOf(ctx, q, channel.Kind(f.words[0]))
				if found {
					f.add(1, "kind of poison messages", f.words[0], q, "poison list", map[string]string{"queue": q, "kind": f.words[0]})
				}
				return err
			}})
		}
		if storage.CheckName(q) != nil {
			continue
		}
		all = append(all, hunt{"queue " + q, func(ctx context.Context) error {
			places, err := f.search.In(ctx, q, f.words)
			for _, p := range places {
				f.add(2, "message", p.Envelope.ID, q, "messages show", map[string]string{"queue": q, "id": p.Envelope.ID})
			}
			return err
		}})
	}
	return all
}

// inCollections looks for documents by their keys.
func (f *finder) inCollections() (all []hunt) {
	form, isView := map[string]string{}, map[string]bool{}
	for _, d := range f.c.Known.All() {
		for _, x := range d.Collections {
			form[x.Name], isView[x.Name] = x.Form, isView[x.Name] || x.View
		}
	}
	for _, name := range f.c.Known.Collections(false) {
		if form[name] != "" || slices.Contains(f.c.Known.Plans(), name) {
			continue // it is looked through as what it is
		}
		what, verb, field := "document", "values show", "kind"
		if isView[name] {
			what, verb, field = "document of a view", "views show", "view"
		}
		all = append(all, hunt{name, func(ctx context.Context) error {
			return f.blob(ctx, name, func(key string) { f.add(3, what, key, name, verb, map[string]string{field: name, "key": key}) })
		}})
	}
	return all
}

// blob looks for a blob with one of the words as its key.
func (f *finder) blob(ctx context.Context, container string, found func(key string)) error {
	for _, word := range f.words {
		if storage.CheckKey(word) != nil {
			continue
		}
		if !f.search.May(1) {
			return track.ErrEnough
		}
		switch _, err := f.c.Store.Blobs(container).Get(ctx, word, ""); {
		case errors.Is(err, storage.ErrNotFound):
		case err != nil:
			return err
		default:
			found(word)
		}
	}
	return nil
}

// inPlans looks for instances of plans. A part of an instance, such as o17/02.00003, stands in a document of its own.
func (f *finder) inPlans() (all []hunt) {
	for _, plan := range f.c.Known.Plans() {
		if _, err := process.Look(f.c.Store, plan, act.Source); err != nil {
			continue
		}
		all = append(all, hunt{"plan " + plan, func(ctx context.Context) error {
			return f.blob(ctx, plan, func(id string) {
				f.add(2, "process", id, plan, "processes show", map[string]string{"id": id, "plan": plan})
			})
		}})
	}
	return all
}

// inNames looks for what the coordination packages keep under a name, for schedules, settings and operators' acts.
func (f *finder) inNames() (all []hunt) {
	word := f.words[0]
	one := func(where, what, verb string, with map[string]string, is func(ctx context.Context) error) {
		all = append(all, hunt{where, func(ctx context.Context) error {
			if !f.search.May(1) {
				return track.ErrEnough
			}
			err := is(ctx)
			switch {
			case errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrInvalid), errors.Is(err, schedule.ErrUnknown):
				return nil
			case err != nil:
				return err
			}
			f.add(4, what, word, "", verb, with)
			return nil
		}})
	}
	if audit.CheckID(word) == nil {
		one("the audit log", "act", "audit show", map[string]string{"id": word}, func(ctx context.Context) error { _, err := audit.Of(f.c.Store).Get(ctx, word); return err })
	}
	if storage.CheckKey(word) != nil {
		return all
	}
	prefix := map[string]string{"prefix": word}
	one("schedules", "schedule", "schedules show", map[string]string{"name": word}, func(ctx context.Context) error { _, err := schedule.At(f.c.Store, word).Info(ctx); return err })
	one("gates", "gate", "gates list", prefix, func(ctx context.Context) error { return gateIs(ctx, f.c.Store, word) })
	one("locks", "lock", "locks list", map[string]string{"prefix": word, "all": "true"}, func(ctx context.Context) error { _, err := lease.State(ctx, f.c.Store, word); return err })
	one("leaders", "leader", "leaders list", prefix, func(ctx context.Context) error { return leads(ctx, f.c.Store, word) })
	one("ids", "counter", "ids list", prefix, func(ctx context.Context) error { _, err := ids.State(ctx, f.c.Store, word); return err })
	one("guards", "guard", "guards show", map[string]string{"name": word}, func(ctx context.Context) error { return guards(ctx, f.c.Store, word) })
	one("settings", "settings", "settings show", map[string]string{"of": word}, func(ctx context.Context) error { return hasSettings(ctx, f.c.Store, word) })
	return all
}

// gateIs reports as storage.ErrNotFound that nobody has opened or closed a gate.
func gateIs(ctx context.Context, s *storage.Store, name string) error {
	x, err := gate.At(s, name).State(ctx)
	if err == nil && x.Epoch == 0 {
		err = storage.ErrNotFound
	}
	return err
}

// leads reports as storage.ErrNotFound that a name never had a leader.
func leads(ctx context.Context, s *storage.Store, name string) error {
	x, err := leader.Current(ctx, s, name)
	if err == nil && x.Term == 0 {
		err = storage.ErrNotFound
	}
	return err
}

// guards reports as storage.ErrNotFound that a guard was never open.
func guards(ctx context.Context, s *storage.Store, name string) error {
	n := 0
	for x, err := range guard.List(ctx, s) {
		if err != nil || x.Name == name {
			return err
		}
		if n++; n == mostGuards {
			return track.ErrEnough
		}
	}
	return storage.ErrNotFound
}

// hasSettings reports as storage.ErrNotFound that nobody has set anything under a name.
func hasSettings(ctx context.Context, s *storage.Store, name string) error {
	n := 0
	for x, err := range settings.Names(ctx, s) {
		if err != nil || x == name {
			return err
		}
		if n++; n == mostGuards {
			return track.ErrEnough
		}
	}
	return storage.ErrNotFound
}

// tell tells what was found, and what couldn't be looked through.
func (f *finder) tell(word string) error {
	slices.SortFunc(f.found, func(a, b Found) int {
		return cmp.Or(a.rank-b.rank, strings.Compare(a.What, b.What), strings.Compare(a.In, b.In), strings.Compare(a.Name, b.Name))
	})
	f.found = slices.CompactFunc(f.found, func(a, b Found) bool { return a.What == b.What && a.In == b.In && a.Name == b.Name })
	slices.Sort(f.faults)
	for _, fault := range f.faults[:min(len(f.faults), act.MostFaults)] {
		f.c.Note("Not looked through: %s", fault)
	}
	if n := len(f.faults) - act.MostFaults; n > 0 {
		f.c.Note("And %d more were not looked through.", n)
	}
	switch {
	case len(f.lost) == 0:
	case len(f.found) == 0: // it may be where nobody could look
		return fmt.Errorf("the store didn't answer in %d of %s, so nobody knows whether anything is called %s: %w", len(f.lost), act.Count(len(f.looked), "place"), storage.Quote(word), f.lost[0])
	default:
		f.c.Note("Not looked through, because the store didn't answer: %s. The first: %v", act.Count(len(f.lost), "place"), f.lost[0])
	}
	if len(f.found) == 0 {
		slices.Sort(f.looked)
		return act.Nothing("nothing is called %s. Looked through: %s. A message that was handled is gone, and a store in the cloud shows the first messages of a queue alone",
			storage.Quote(word), inGroups(f.looked))
	}
	if err := f.c.Table("", "WHAT", "NAME", "IN"); err != nil {
		return err
	}
	for _, x := range f.found {
		if err := f.c.Row(x, x.What, x.Show, x.In); err != nil {
			return err
		}
	}
	return nil
}

// inGroups names the places that were looked through, those of a sort together: "queues (mails, orders); ids, locks".
func inGroups(places []string) string {
	groups := []struct{ before, name string }{{"queue ", "queues"}, {"the poison queue of ", "poison queues"}, {"kinds in the poison queue of ", "kinds in poison queues"}, {"plan ", "plans"}}
	sorted := make([][]string, len(groups))
	var others, all []string
	for _, place := range places {
		i := slices.IndexFunc(groups, func(g struct{ before, name string }) bool { return strings.HasPrefix(place, g.before) })
		if i < 0 {
			others = append(others, place)
			continue
		}
		sorted[i] = append(sorted[i], strings.TrimPrefix(place, groups[i].before))
	}
	for i, names := range sorted {
		if len(names) > 0 {
			all = append(all, fmt.Sprintf("%s (%s)", groups[i].name, someOf(names)))
		}
	}
	return strings.Join(append(all, someOf(others)), "; ")
}

// someOf names the first of many for people.
func someOf(words []string) string {
	const most = 30
	if n := len(words) - most; n > 0 {
		return strings.Join(words[:most], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(words, ", ")
}
