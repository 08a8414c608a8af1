package settings

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/storage"
)

// none is no version.
const none = -1

// code is the program's own code, as its node uses it.
type code interface {
	runs() running

	// begin runs a version in a node that runs nothing yet.
	begin(version int64, values json.RawMessage) error

	// ask asks whether the program agrees to a candidate.
	ask(ctx context.Context, version int64, values json.RawMessage) error

	// take runs a version.
	take(ctx context.Context, version int64, values json.RawMessage) error

	// try runs a candidate, and keeps what ran before.
	try(ctx context.Context, version int64, values json.RawMessage) error

	// goBack runs what try has kept.
	goBack(ctx context.Context)

	// stay gives up what try has kept.
	stay()
}

// A running is what the program's own code runs.
type running struct {
	version int64
	before  int64           // what it ran before, while version is a candidate that is rolled out; else none
	waiting []string        // the settings that wait for a restart
	form    json.RawMessage // of the values, defaults included
	secrets []string        // which of them are references to secrets
}

// A choice is what a node does about the version in force.
type choice int

const (
	keepsCandidate choice = iota // it runs the candidate in its stage
	keepsStable                  // it runs the version in force
	goesBack                     // to the version in force, which it ran before the candidate
	takesStable                  // it makes the version in force ready, and runs that
)

// choose decides what a node does about the version in force, by the document and by what it runs.
func choose(d document, id string, r running) choice {
	switch c := d.Candidate; {
	case c != nil && r.version == c.Version && c.includes(id):
		return keepsCandidate
	case r.version == d.Stable:
		return keepsStable
	case r.before == d.Stable:
		return goesBack
	}
	return takesStable
}

// leaves decides whether a node that can't run the version in force goes back to what it ran before: it must not go on
// with what was rolled back.
func leaves(d document, r running) bool {
	e, ended := d.of(r.version)
	return r.before != none && !(ended && e.came())
}

// errGoneSince is the fault of a store without the settings that the node has applied.
var errGoneSince = fmt.Errorf("%w: the store has no such settings, but this node has applied some: was the store replaced? Then delete the node's cache and restart it", storage.ErrInvalid)

// older tells why a node that has seen an epoch doesn't heed a document, nil if it does.
func older(seen sighting, epoch int64) error {
	switch {
	case seen.etag == "" && epoch > 0:
		return errGoneSince
	case seen.doc.Epoch < epoch:
		return fmt.Errorf("%w: the store is at epoch %d of these settings, and this node has seen epoch %d: was a backup restored? Then restart the node", storage.ErrInvalid, seen.doc.Epoch, epoch)
	}
	return nil
}

// A node is what this process runs, and what it says of itself in its row. All but state and listed belongs to the
// goroutine that looks at the store.
type node struct {
	book    book
	id      string
	cfg     *Config
	code    code
	trouble *agree.Trouble
	restart chan struct{} // closed when a setting waits for a restart
	state   atomic.Pointer[published]
	listed  atomic.Bool // its row has been written

	voter   voter
	checkup checkup
	health  *Health // in a roll-out, else nil
	epoch   int64   // the highest that was seen; it only grows
	ended   int64   // the highest version that is known to have ended
	stable  int64   // the version in force that keep was called for; none: it wasn't
	source  Source
	since   time.Time // when what runs was applied
	fault   string    // why the version in force isn't running
	beats   int64
	beaten  time.Time // before the row was written last
	joined  bool      // no candidate ends without this node's answer
}

// starts notes where a node that starts has its values from, which the program's own code runs.
func (n *node) starts(epoch int64, source Source, fault string) {
	n.epoch, n.source, n.fault = epoch, source, fault
	if n.since.IsZero() {
		n.since = time.Now()
	}
}

// join lets no candidate come into force without this node's answer. changed reports that there is something else to
// heed now.
func (n *node) join(ctx context.Context, seen *sighting) (changed bool) {
	joined, changed := n.book.join(ctx, seen)
	n.joined = n.joined || joined
	return changed
}

// heed runs what this node shall run, and answers a candidate. wrong is why the document can't be heeded, which heeded
// reports.
func (n *node) heed(ctx context.Context, seen sighting, wrong error) (heeded bool) {
	d := seen.doc
	if wrong == nil {
		wrong = older(seen, n.epoch)
	}
	heeded = wrong == nil && seen.etag != "" // else nobody has ever set anything
	if heeded {
		n.epoch, n.source, n.ended = d.Epoch, FromStore, d.lastEnded(n.ended)
		wrong = n.runStable(ctx, d)
	}
	n.trouble.Note(ctx, "run the settings in force", wrong)
	n.fault = ""
	if wrong != nil {
		n.fault = clean(wrong.Error(), maxReason)
	}
	c := d.Candidate
	if c != nil {
		n.vote(ctx, d)
	}
	n.health = nil
	if heeded && c != nil && c.Roll != nil && ctx.Err() == nil {
		wrong := n.try(ctx, *c)
		n.health = n.checkup.report(ctx, c.Version, n.code.runs().version == c.Version, wrong)
	}
	return heeded
}

// vote answers a candidate, and asks the program's own code where that has the answer.
func (n *node) vote(ctx context.Context, d document) {
	verdict, ask := n.voter.answer(d, n.epoch, n.ended, n.fault)
	if ask {
		err := n.code.ask(ctx, d.Candidate.Version, d.Candidate.Values)
		if ctx.Err() != nil {
			return // the node is closing
		}
		verdict = verdictOf(d.Candidate.Version, err)
	}
	n.voter.last = verdict
}

// runStable runs the version in force, unless this node runs the candidate in its stage.
func (n *node) runStable(ctx context.Context, d document) error {
	switch r := n.code.runs(); choose(d, n.id, r) {
	case keepsCandidate:
		return nil
	case keepsStable:
	case goesBack:
		n.goBack(ctx)
	case takesStable:
		if err := n.code.take(ctx, d.Stable, d.Values); err != nil {
			if leaves(d, r) {
				n.goBack(ctx)
			}
			return fmt.Errorf("version %d is in force, and this node can't run it: %w", d.Stable, err)
		}
		n.ran()
	}
	n.keep(ctx, d)
	return nil
}

func (n *node) goBack(ctx context.Context) {
	n.code.goBack(ctx)
	n.ran()
}

// ran notes that the node runs something else than before.
func (n *node) ran() { n.source, n.since = FromStore, time.Now() }

// try runs the candidate if this node is in its stage, and its row says that it has agreed. So if the node
// dies, the others know which version it ran. The error is why the node can't run the candidate, which is rare then.
func (n *node) try(ctx context.Context, c candidate) error {
	if !n.voter.agreed(c.Version) || !c.includes(n.id) || n.code.runs().version == c.Version {
		return nil
	}
	_, ill := n.checkup.fares(ctx, true) // an illness of before tells nothing of the candidate
	if time.Since(n.beaten) > 2*n.cfg.Poll {
		return nil // others may have deleted the row, or be about to
	}
	if err := n.code.try(ctx, c.Version, c.Values); err != nil {
		return err
	}
	n.ran()
	if n.checkup.began(c.Version, ill); ill != nil {
		n.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "this node isn't well before it runs a change; until it is, its Health doesn't count against the change",
			slog.Int64("version", c.Version), slog.Any("error", ill))
	}
	return nil
}

// keep is called while this node runs the version in force. The first time it writes the cache, and tells of settings
// that wait for a restart: a node that starts has the version in force, so before that a restart would be for nothing.
func (n *node) keep(ctx context.Context, d document) {
	n.code.stay()
	if n.stable == d.Stable {
		return
	}
	n.stable = d.Stable
	if len(n.code.runs().waiting) > 0 {
		select {
		case <-n.restart:
		default:
			close(n.restart)
		}
	}
	if n.cfg.Cache != "" && !n.cache(ctx, cached{Name: n.book.name, Epoch: d.Epoch, Version: d.Stable, Values: d.Values}) {
		n.stable = none // the next look tries again
	}
}

// cache writes the cache.
func (n *node) cache(ctx context.Context, c cached) (written bool) {
	err := c.save(n.cfg.Cache)
	n.trouble.Note(ctx, "write the cache of the settings", err)
	return err == nil
}

// beat writes the node's row.
func (n *node) beat(ctx context.Context) {
	n.beats++
	r, began := n.code.runs(), time.Now()
	err := n.book.put(ctx, Node{
		ID: n.id, Name: n.cfg.Name, Poll: n.cfg.Poll.Milliseconds(), Beats: n.beats, At: time.Now().Round(0).UTC(), Epoch: n.epoch, Version: r.version,
		Since: n.since.Round(0).UTC(), Source: n.source, Verdict: n.voter.last, Fault: n.fault, Waiting: r.waiting, Values: r.form, Secrets: r.secrets, Stages: n.cfg.Stages, Health: n.health,
	})
	n.trouble.Note(ctx, "write the node's row", err)
	if err == nil {
		n.joined = n.joined && began.Sub(n.beaten) <= 2*n.cfg.Poll
		n.beaten = began
		n.listed.Store(true)
		n.voter.written()
	}
}

// publish makes the state known to State.
func (n *node) publish(answered bool) {
	r := n.code.runs()
	p := &published{State: State{Version: r.version, Epoch: n.epoch, Source: n.source, Since: n.since, Waiting: r.waiting, Staged: r.before != none, Fault: n.fault}}
	p.answered = time.Now()
	if before := n.state.Load(); !answered && before != nil {
		p.answered = before.answered
	}
	n.state.Store(p)
}
