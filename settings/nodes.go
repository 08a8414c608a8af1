package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	table   = "settings"
	silence = 3 // a row that stays the same for so many polls is a dead node's
	shortID = 5 // characters of an ID that tell nodes of one name apart
)

// A Node is what a node says of itself in its row.
type Node struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`              // [Ledger.Nodes] adds the beginning of the ID where several have it
	Poll    int64           `json:"poll"`              // milliseconds between its looks, at most
	Beats   int64           `json:"beats"`             // looks so far
	At      time.Time       `json:"at"`                // of the last look, by its own clock
	Epoch   int64           `json:"epoch"`             // of the current document that it saw last
	Version int64           `json:"version"`           // what it runs; 0: its defaults
	Since   time.Time       `json:"since"`             // when it applied that, by its own clock
	Source  Source          `json:"source"`            // where it had that from
	Verdict *Verdict        `json:"verdict,omitempty"` // on the last candidate that it saw
	Fault   string          `json:"fault,omitempty"`   // why it doesn't run the version in force
	Waiting []string        `json:"waiting,omitempty"` // settings that wait for its restart
	Values  json.RawMessage `json:"values,omitempty"`  // what it runs, defaults included; none if that is too large
	Secrets []string        `json:"secrets,omitempty"` // which are references to secrets; * is each member of a map or list
	Stages  []Stage         `json:"stages,omitempty"`  // its Config.Stages
	Health  *Health         `json:"health,omitempty"`  // while a change is rolled out
}

// A Verdict is a node's answer to a candidate.
type Verdict struct {
	Version int64  `json:"version"`
	Yes     bool   `json:"yes"`
	Why     string `json:"why,omitempty"` // not
}

// says returns the node's answer to a version, and whether it has given one.
func (n Node) says(version int64) (Verdict, bool) {
	if n.Verdict == nil || n.Verdict.Version != version {
		return Verdict{}, false
	}
	return *n.Verdict, true
}

// silence is how long its row is the same when the node counts as dead.
func (n Node) silence() time.Duration { return silence * time.Duration(n.Poll) * time.Millisecond }

// parseNode reads a node's row. Members that a newer release has added are passed over.
func parseNode(key string, data []byte) (Node, error) {
	n, err := jsonform.DecodeNewer[Node](data)
	if err == nil && (n.ID != key || n.Poll < minPoll.Milliseconds() || n.Poll > maxPoll.Milliseconds()) {
		err = fmt.Errorf("%w: this is no node's row", storage.ErrInvalid)
	}
	if h := n.Health; err == nil && h != nil && (h.Before != nil && !h.Before.valid() || h.Since != nil && !h.Since.valid()) {
		err = fmt.Errorf("%w: its numbers can't be right", storage.ErrInvalid)
	}
	if err == nil {
		err = checkStages(n.Stages)
	}
	return n, err
}

// put writes a node's row. It goes on when ctx ends: a write that is cut off may come after the row's removal.
func (b book) put(ctx context.Context, n Node) error {
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := storecall.Limit(context.WithoutCancel(ctx), callTime)
	defer cancel()
	_, err = b.rows.Put(ctx, b.name, n.ID, data, storage.Condition{})
	return err
}

// remove deletes a node's row.
func (b book) remove(ctx context.Context, id string) error {
	ctx, cancel := storecall.Limit(ctx, callTime)
	defer cancel()
	if err := b.rows.Delete(ctx, b.name, id, storage.Condition{}); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return nil
}

// A watch tells live nodes from dead ones, by the time for which it has seen their rows unchanged.
type watch struct {
	book
	seen  map[string]rowSeen
	asked time.Time // the last look began
}

type rowSeen struct {
	etag  storage.ETag
	since time.Time // it has been the same since then, or for longer
	after time.Time // it was written after that; zero: nobody knows
	node  Node
	name  string // in the row
}

// dies returns when the node counts as dead, unless its row changes.
func (s rowSeen) dies() time.Time { return s.since.Add(s.node.silence()) }

// live looks at the rows, and returns the nodes that may be alive, by name.
func (w *watch) live(ctx context.Context) ([]Node, error) {
	ctx, cancel := storecall.Limit(ctx, callTime)
	defer cancel()
	began := time.Now()
	seen := map[string]rowSeen{}
	for r, err := range w.rows.Query(ctx, w.name, storage.RowRange{}) {
		if err != nil {
			return nil, err
		}
		s := w.seen[r.Key]
		if s.etag != r.ETag {
			n, err := parseNode(r.Key, r.Data)
			if err != nil {
				// It may be alive, and its answer can't be read: it counts as a node that doesn't answer, until it is silent.
				n = Node{ID: r.Key, Name: "a node with an unreadable row", Poll: (30 * time.Second).Milliseconds()}
			}
			s = rowSeen{etag: r.ETag, since: time.Now(), after: w.asked, node: n, name: n.Name} // after the read, so not before the row was written
		}
		seen[r.Key] = s
	}
	tellApart(seen)
	var live []Node
	for _, s := range seen {
		if s.dies().After(began) {
			live = append(live, s.node)
		}
	}
	w.seen, w.asked = seen, began
	slices.SortFunc(live, func(a, b Node) int { return strings.Compare(a.Name+"\x00"+a.ID, b.Name+"\x00"+b.ID) })
	return live, nil
}

// tellApart adds the beginning of its ID to each name that several nodes have.
func tellApart(seen map[string]rowSeen) {
	count := map[string]int{}
	for _, s := range seen {
		count[s.name]++
	}
	for key, s := range seen {
		if s.node.Name = s.name; count[s.name] > 1 {
			s.node.Name = clean(s.name, maxBy-shortID-1) + "/" + clean(key, shortID)
		}
		seen[key] = s
	}
}

// bury deletes the rows of the nodes that are dead by the last look. The row of one that may have died with a candidate
// stays while that is rolled out: each node that looks shall find it. So the document must have been read after the
// last look at the rows: a node that was dead by then, and not in the stage, never ran the candidate.
func (w *watch) bury(ctx context.Context, d document) {
	ctx, cancel := storecall.Limit(ctx, callTime)
	defer cancel()
	for key, s := range w.seen {
		if v, c := s.node.Verdict, d.Candidate; s.dies().After(w.asked) || c != nil && v != nil && v.Version == c.Version && c.includes(key) {
			continue
		}
		// Others try the same, and one succeeds. A node that was only slow comes back with its next look.
		_ = w.rows.Delete(ctx, w.name, key, storage.Condition{IfMatch: s.etag})
	}
}

const (
	// unanswered is why a node that is passed over has not said yes.
	unanswered = "it has not answered"

	// unchecked is why a change is refused that no node could check.
	unchecked = "no program that has these settings runs, so none has checked the change: start one, and then repeat the change, or force it unchecked (-force)"
)

// judgement is what the answers of the live nodes make of a candidate. It is not settled while some have yet to answer.
func judgement(c candidate, live []Node) (result Result, reasons []Refusal, settled bool) {
	missing := 0
	for _, n := range live {
		switch v, answered := n.says(c.Version); {
		case !answered:
			missing++
			reasons = append(reasons, Refusal{clean(n.Name, maxBy), unanswered})
		case !v.Yes:
			reasons = append(reasons, Refusal{clean(n.Name, maxBy), clean(v.Why, maxReason)})
		}
	}
	switch {
	case c.Force:
		return Forced, reasons, missing == 0
	case len(live) == 0:
		return Refused, []Refusal{{Why: unchecked}}, true
	case len(reasons) > missing: // one no is enough
		return Refused, slices.DeleteFunc(reasons, func(r Refusal) bool { return r.Why == unanswered }), true
	case missing > 0:
		return "", reasons, false
	}
	return InForce, nil, true
}
