package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// A Ledger is the stored side of settings, for operators: it doesn't know the program's type. Its methods may be called
// concurrently.
type Ledger struct{ book }

// At returns the ledger of a name. It makes no request. An error is about the store or the name.
func At(store *storage.Store, name string) (*Ledger, error) {
	b, err := newBook(store, name)
	if err != nil {
		return nil, err
	}
	return &Ledger{b}, nil
}

// Names yields the names of settings that somebody has set, in byte order. An error is yielded last.
func Names(ctx context.Context, store *storage.Store) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if store == nil {
			yield("", fmt.Errorf("settings: list: %w: there is no store", storage.ErrInvalid))
			return
		}
		for info, err := range store.Blobs(container).List(ctx, "") {
			if err != nil {
				yield("", fmt.Errorf("settings: list: %w", err))
				return
			}
			if name, ok := strings.CutSuffix(info.Key, "/current"); ok && !yield(name, nil) {
				return
			}
		}
	}
}

// Current is what is in force, and what is being checked.
type Current struct {
	Epoch     int64           `json:"epoch"`     // 0: nobody has ever set anything
	Version   int64           `json:"version"`   // in force; 0: the programs' defaults
	Values    json.RawMessage `json:"values"`    // what is set: a JSON merge patch on the programs' defaults
	Candidate int64           `json:"candidate"` // the version that is being checked or rolled out; 0: none
	Rollout   *Rollout        `json:"rollout"`   // of the candidate; nil: it is being checked, or there is none
	Ended     []Ending        `json:"ended"`     // of the last versions, newest first
}

// Current returns what is in force.
func (l *Ledger) Current(ctx context.Context) (Current, error) {
	var seen sighting
	if err := l.readKnown(ctx, &seen); err != nil {
		return Current{}, l.fail("read", err)
	}
	d := seen.doc
	c := Current{Epoch: d.Epoch, Version: d.Stable, Values: d.Values, Rollout: d.rollout(), Ended: d.Ended}
	if c.Values == nil {
		c.Values = json.RawMessage("{}")
	}
	if d.Candidate != nil {
		c.Candidate = d.Candidate.Version
	}
	return c, nil
}

// Version returns a version. One that isn't there is storage.ErrNotFound.
func (l *Ledger) Version(ctx context.Context, number int64) (Version, error) {
	v, err := l.readVersion(ctx, number)
	if err != nil {
		return Version{}, l.fail(fmt.Sprintf("read version %d of", number), err)
	}
	return v, nil
}

// History yields the versions, newest first. One that can't be read is yielded with its number and an error. Each
// version is one request.
func (l *Ledger) History(ctx context.Context) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		last, err := l.lastVersion(ctx)
		if err != nil {
			yield(Version{}, l.fail("list", err))
			return
		}
		for n := last; n > 0; n-- {
			v, err := l.Version(ctx, n)
			switch {
			case errors.Is(err, storage.ErrNotFound):
				continue
			case err != nil:
				v.Number = n
			}
			if !yield(v, err) || ctx.Err() != nil {
				return
			}
		}
	}
}

// Difference lists what is set otherwise in one version than in another.
func (l *Ledger) Difference(ctx context.Context, from, to int64) ([]Change, error) {
	a, err := l.Version(ctx, from)
	if err != nil {
		return nil, err
	}
	b, err := l.Version(ctx, to)
	if err != nil {
		return nil, err
	}
	before, errA := parseTree(a.Values)
	after, errB := parseTree(b.Values)
	return changes(before, after), errors.Join(errA, errB)
}

// Nodes returns the nodes that have a row, by name. A node that has died keeps its row for three of its polls, and
// longer while no other node runs.
func (l *Ledger) Nodes(ctx context.Context) ([]Node, error) {
	w := newWatch(l.book)
	live, err := w.live(ctx)
	if err != nil {
		return nil, l.fail("list the nodes of", err)
	}
	return live, nil
}

// A Patch is what an operator sets.
type Patch struct {
	Set   map[string]json.RawMessage // by path: names of members, joined by dots
	Unset []string                   // paths for which the programs' defaults shall hold

	// Force puts the change into force whatever the nodes say, and drops one that is being checked or rolled out. Nodes
	// that have not answered within 10 seconds are passed over, and so is a lack of nodes. If the values are in force
	// already, the other change is dropped, and the ending is that of the dropped version.
	Force bool

	// Waits is called at each look, about once a second, while answers are waited for. Defaults to none.
	Waits func([]Wait)
}

// Await returns the end of a proposed version, which may be that of its roll-out. One that didn't come into force is an
// error.
func (l *Ledger) Await(ctx context.Context, version int64) (Ending, error) {
	p := proposal{book: l.book, nodes: newWatch(l.book)}
	e, err := p.await(ctx, version, false, InForce)
	if err != nil {
		return e, l.fail("await a change of", err)
	}
	return e, nil
}

// Set changes what is in force, as [Settings.Propose] does, in those stages of the live nodes that take longest. A
// value for a path that a live node knows as a secret must be a reference. Where no node runs, nobody can check the
// change, so it is refused unless it is forced, and nothing is written. Then what is in force tells which are secrets.
//
// After an end of ctx, the Ending has the Version that may have been written and is then settled by the nodes, or 0.
func (l *Ledger) Set(ctx context.Context, note Note, patch Patch) (Ending, error) {
	nodes, err := l.Nodes(ctx)
	if err != nil {
		return Ending{}, err
	}
	if len(nodes) == 0 && !patch.Force {
		e := Ending{Result: Refused, Reasons: []Refusal{{Why: unchecked}}}
		return e, l.fail("set", e.err())
	}
	p := proposal{book: l.book, note: note, force: patch.Force, told: patch.Waits, stages: stagesOf(nodes), make: func(values json.RawMessage) (tree, error) {
		t, err := parseTree(values)
		if err != nil {
			return nil, err
		}
		if err := patch.apply(t, nodes); err != nil || len(nodes) > 0 {
			return t, err
		}
		before, err := parseTree(values)
		if err != nil {
			return nil, err
		}
		return t, keepsReferences("", before, t)
	}}
	e, err := p.run(ctx)
	if err != nil {
		return e, l.fail("set", err)
	}
	return e, nil
}

func (p Patch) apply(t tree, nodes []Node) error {
	for _, path := range p.Unset {
		if err := unset(t, path); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(p.Set)) {
		v, err := parseValue(p.Set[path])
		if err == nil && hasNull(v) {
			err = fmt.Errorf("%w: null is no value; to let the programs' default hold, unset it by \"settings set -default %s\"", storage.ErrInvalid, path)
		}
		if err == nil {
			err = assign(t, path, v)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, n := range nodes {
		for _, path := range n.Secrets {
			for at, v := range each(t, "", path) {
				if text, ok := v.(string); !ok || checkReference(text) != nil {
					return fmt.Errorf("%s: %w", at, errNoReference)
				}
			}
		}
	}
	return nil
}

// keepsReferences refuses a value in place of a reference to a secret. It is for changes that no node checks.
func keepsReferences(path string, before, after any) error {
	if ref, ok := before.(string); ok && ref != "" && checkReference(ref) == nil && after != nil {
		if text, ok := after.(string); !ok || checkReference(text) != nil {
			return fmt.Errorf("%s: %w. What is in force there is one; if it is no secret any more, unset it first by \"settings set -default %s\"", path, errNoReference, path)
		}
		return nil
	}
	now := maps.Collect(membersOf(after))
	for name, v := range membersOf(before) {
		if err := keepsReferences(below(path, name), v, now[name]); err != nil {
			return err
		}
	}
	return nil
}

// hasNull reports that a value is null, or an object with a member that is null. A merge patch would remove that.
func hasNull(v any) bool {
	t, ok := v.(tree)
	if !ok {
		return v == nil
	}
	for _, m := range t {
		if hasNull(m) {
			return true
		}
	}
	return false
}

// each yields the values at a path below another one, with their own paths; null is none. A member of a list goes by
// its index, and * is each member.
func each(v any, above, path string) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		name, rest, more := strings.Cut(path, ".")
		for member, v := range membersOf(v) {
			if name != "*" && name != member || v == nil {
				continue
			}
			at := below(above, member)
			if !more && !yield(at, v) {
				return
			}
			if !more {
				continue
			}
			for at, v := range each(v, at, rest) {
				if !yield(at, v) {
					return
				}
			}
		}
	}
}

// membersOf yields the members of an object or a list.
func membersOf(v any) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		switch x := v.(type) {
		case tree:
			for _, name := range slices.Sorted(maps.Keys(x)) {
				if !yield(name, x[name]) {
					return
				}
			}
		case []any:
			for i, v := range x {
				if !yield(strconv.Itoa(i), v) {
					return
				}
			}
		}
	}
}

// Back puts an earlier version into force again, under a new number, and drops a change that is being checked or rolled
// out. It asks no node, because that version was in force before. A node that can't run it now keeps what it has, and
// says so in its row. A version that isn't there is storage.ErrNotFound. One that is not known to have been in force is
// [ErrNever]; set its values again instead. Of the versions before the last 50 changes only those on the line of what
// is in force are known.
//
// A negative version undoes the last change: one that is being checked or rolled out is dropped, and what was in force
// stays. Otherwise the version before that in force is. If the values of the version are in force already, Back only
// drops what is checked or rolled out, and the ending is that of the dropped version. Back also replaces a current
// document that is lost or damaged; the version must be named then.
func (l *Ledger) Back(ctx context.Context, version int64, note Note) (Ending, error) {
	p := proposal{book: l.book, note: note}
	var err error
	if p.note, err = note.withDefaults(); err == nil {
		err = repeat(ctx, func(ctx context.Context) error { return p.back(ctx, version) })
	}
	if err != nil {
		return Ending{}, l.fail("go back in", err)
	}
	e, _ := p.seen.doc.of(p.number)
	return e, nil
}

func (p *proposal) back(ctx context.Context, version int64) error {
	err := p.readKnown(ctx, &p.seen)
	if errors.Is(err, storage.ErrInvalid) && version >= 0 {
		return p.replace(ctx, version)
	}
	d := p.seen.doc
	if err != nil {
		return err
	}
	if p.hasDropped(d) || p.written(d) {
		p.tell(ctx) // it was written, and the answer was lost
		return nil
	}
	if p.seen.etag == "" {
		return fmt.Errorf("%w: nobody has ever set anything", storage.ErrNotFound)
	}
	if d.Candidate != nil && version < 0 {
		return p.drop(ctx, d)
	}
	p.dropped = 0
	if version < 0 {
		if version, err = p.before(ctx, d.Stable); err != nil {
			return err
		}
	}
	known, err := p.wasInForce(ctx, d, version)
	if err == nil && !known {
		if _, err = p.readVersion(ctx, version); err == nil || errors.Is(err, storage.ErrInvalid) {
			err = fmt.Errorf("version %d: %w", version, ErrNever)
		}
	}
	if err != nil {
		return err
	}
	return p.putBack(ctx, d, version)
}

// putBack makes an earlier version the one in force.
func (p *proposal) putBack(ctx context.Context, d document, version int64) error {
	old, err := p.readVersion(ctx, version)
	if err != nil {
		return err
	}
	t, err := parseTree(old.Values)
	if err != nil {
		return err
	}
	v, err := p.record(ctx, d, t, &version)
	if errors.Is(err, ErrUnchanged) && d.Candidate != nil {
		return p.drop(ctx, d)
	}
	if err != nil {
		return err
	}
	p.try(v.Number)
	return p.change(ctx, d.goBack(v, time.Now()))
}

// drop drops the candidate, and does nothing else: what shall be in force is so already.
func (p *proposal) drop(ctx context.Context, d document) error {
	p.number, p.dropped = d.Candidate.Version, d.Candidate.Version
	return p.change(ctx, d.drop(Refusal{p.note.By, p.note.Why}, time.Now()))
}

// hasDropped reports that a document has the ending of the candidate that the proposal dropped.
func (p *proposal) hasDropped(d document) bool {
	e, ended := d.of(p.dropped)
	return p.dropped > 0 && ended && !e.came()
}

// change writes the document, and tells of it.
func (p *proposal) change(ctx context.Context, d document) error {
	err := p.write(ctx, &p.seen, d)
	if err == nil {
		p.tell(ctx)
	}
	return err
}

// before returns the version that was in force before another one, and before those that only went back to it.
func (p *proposal) before(ctx context.Context, version int64) (int64, error) {
	for range maxVersions {
		v, err := p.readVersion(ctx, version)
		switch {
		case errors.Is(err, storage.ErrInvalid), errors.Is(err, storage.ErrNotFound):
			return 0, fmt.Errorf("%w; so nobody knows what was in force before: name a version by -to VERSION", err)
		case err != nil:
			return 0, err
		case version == 0:
			return 0, fmt.Errorf("%w: the programs' defaults are in force, and nothing was before", storage.ErrNotFound)
		case v.BackTo == nil:
			return v.Base, nil
		}
		version = *v.BackTo
	}
	return 0, fmt.Errorf("%w: the versions go round in a circle; name one", storage.ErrInvalid)
}

// wasInForce reports that a version came into force: the document says so, or it is one of those on which the version
// in force was built.
func (p *proposal) wasInForce(ctx context.Context, d document, version int64) (bool, error) {
	if e, ok := d.of(version); ok || version == 0 {
		return version == 0 || e.came(), nil
	}
	for at, n := d.Stable, 0; at >= version && n < maxVersions; n++ {
		if at == version {
			return true, nil
		}
		v, err := p.readVersion(ctx, at)
		if err != nil {
			return false, err
		}
		at = v.Base
	}
	return false, nil
}

// replace writes the current document again, past all epochs that versions and nodes know of.
func (p *proposal) replace(ctx context.Context, version int64) error {
	limited, cancel := storecall.Limit(ctx, callTime)
	defer cancel()
	blob, err := p.blobs.Get(limited, p.current(), "")
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	last, epoch, err := p.newest(ctx)
	if err != nil {
		return err
	}
	d := document{Epoch: epoch, Last: last, Values: json.RawMessage(" {}")} // as if nothing were set, and unlike all that is written
	w := newWatch(p.book)
	nodes, err := w.live(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		d.Epoch, d.Last = max(d.Epoch, n.Epoch), max(d.Last, n.Version)
	}
	d.Epoch += mostEpochs
	p.seen = sighting{etag: blob.ETag}
	return p.putBack(ctx, d, version)
}

// mostEpochs is more than a version is followed by: a roll-out through the longest stages, with a write each second.
const mostEpochs = 1 << 23

// newest returns the highest number of a version, by the listing, and the epoch at which that was proposed, or a later
// one. Versions that can't be read are passed over.
func (b book) newest(ctx context.Context) (last, epoch int64, err error) {
	if last, err = b.lastVersion(ctx); err != nil {
		return 0, 0, err
	}
	for n := last; n > max(0, last-maxVersions); n-- {
		v, err := b.readVersion(ctx, n)
		switch {
		case err == nil:
			return last, v.Epoch + epoch, nil
		case !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, storage.ErrNotFound):
			return 0, 0, err
		}
		epoch += mostEpochs
	}
	return last, epoch, nil
}
