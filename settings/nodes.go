package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
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

// silence is for how long its row has been the same when the node counts as dead.
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
	present agree.Presence[nodeRow]
}

// A nodeRow is a node, and its name in its row.
type nodeRow struct {
	Node
	name string
}

func newWatch(b book) watch {
	return watch{b, agree.Presence[nodeRow]{Rows: b.rows, Partition: b.name, Decode: decodeNode}}
}

// decodeNode reads each row. The node of a row that can't be read may be alive: it counts as a node that doesn't
// answer, until it is silent.
func decodeNode(key string, data []byte) (nodeRow, time.Duration, bool) {
	n, err := parseNode(key, data)
	if err != nil {
		n = Node{ID: key, Name: "a node with an unreadable row", Poll: (30 * time.Second).Milliseconds()}
	}
	return nodeRow{n, n.Name}, n.silence(), true
}

// live looks at the rows, and returns the nodes that may be alive, by name.
func (w *watch) live(ctx context.Context) ([]Node, error) {
	ctx, cancel := storecall.Limit(ctx, callTime)
	defer cancel()
	if err := w.present.Look(ctx, storage.RowRange{}); err != nil {
		return nil, err
	}
	tellApart(w.present.Seen)
	var live []Node
	for _, s := range w.sorted() {
		if s.Alive {
			live = append(live, s.Row.Node)
		}
	}
	return live, nil
}

// sorted returns the rows that were seen last, by name.
func (w *watch) sorted() []agree.Present[nodeRow] {
	return slices.SortedFunc(maps.Values(w.present.Seen), func(a, b agree.Present[nodeRow]) int {
		return strings.Compare(a.Row.Name+"\x00"+a.Row.ID, b.Row.Name+"\x00"+b.Row.ID)
	})
}

// tellApart adds the beginning of its ID to each name that several nodes have.
func tellApart(seen map[string]agree.Present[nodeRow]) {
	count := map[string]int{}
	for _, s := range seen {
		count[s.Row.name]++
	}
	for key, s := range seen {
		if s.Row.Name = s.Row.name; count[s.Row.name] > 1 {
			s.Row.Name = clean(s.Row.name, maxBy-shortID-1) + "/" + clean(key, shortID)
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
	for key, s := range w.present.Seen {
		if v, c := s.Row.Verdict, d.Candidate; s.Alive || c != nil && v != nil && v.Version == c.Version && c.includes(key) {
			continue
		}
		w.present.Bury(ctx, key)
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
