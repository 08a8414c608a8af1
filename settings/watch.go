package settings

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const shortID = 5 // characters of an ID that tell nodes of one name apart

// A watch tells live nodes from dead ones, by the time for which it has seen their rows unchanged.
type watch struct{ present agree.Presence[nodeRow] }

// A nodeRow is a node, and its name in its row.
type nodeRow struct {
	Node
	name string
}

// rows are those of the nodes at the last look, by name, also those of dead nodes.
type rows []agree.Present[nodeRow]

func newWatch(b book) watch {
	return watch{agree.Presence[nodeRow]{Rows: b.rows, Partition: b.name, Decode: decodeNode}}
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

// look looks at the rows.
func (w *watch) look(ctx context.Context) (rows, error) {
	ctx, cancel := storecall.Limit(ctx, callTime)
	defer cancel()
	if err := w.present.Look(ctx, storage.RowRange{}); err != nil {
		return nil, err
	}
	tellApart(w.present.Seen)
	return slices.SortedFunc(maps.Values(w.present.Seen), func(a, b agree.Present[nodeRow]) int {
		return strings.Compare(a.Row.Name+"\x00"+a.Row.ID, b.Row.Name+"\x00"+b.Row.ID)
	}), nil
}

// live returns the nodes that may be alive.
func (all rows) live() (live []Node) {
	for _, s := range all {
		if s.Alive {
			live = append(live, s.Row.Node)
		}
	}
	return live
}

// have reports that there is a row of a node, be it alive or dead.
func (all rows) have(id string) bool {
	return slices.ContainsFunc(all, func(s agree.Present[nodeRow]) bool { return s.Row.ID == id })
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
