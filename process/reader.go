package process

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/storage"
)

// A reader reads the documents of an instance and its parts, and makes lines of them.
type reader struct {
	looker  *Looker
	top     string
	trail   map[string][]*flow.Event // steps that have left documents, by document
	cut     bool                     // the trail was longer
	lines   []Line
	ids     map[string]bool
	parts   int // documents that may still be read
	hidden  int
	missing []string
}

// readTrail reads the steps that have left documents.
func (r *reader) readTrail(ctx context.Context, top string) error {
	r.trail = map[string][]*flow.Event{}
	n := 0
	for row, err := range r.looker.store.Table(r.looker.plan+trailSuffix).Query(ctx, top, storage.RowRange{Limit: mostLines + 1}) {
		if err != nil {
			return err
		}
		if n++; n > mostLines {
			r.cut = true
			r.hidden++
			break
		}
		id, _, _ := strings.Cut(row.Key, "#")
		ev := new(flow.Event)
		if err := json.Unmarshal(row.Data, ev); err != nil {
			r.miss("a step that left its document: its row %s can't be read", storage.Quote(row.Key))
			continue
		}
		r.trail[id] = append(r.trail[id], ev)
	}
	return nil
}

// events returns the steps of a document, and those that have left it, in order.
func (r *reader) events(id string, d flow.Instance) []*flow.Event {
	left := r.trail[id]
	if missing := d.Trailed - len(left); missing > 0 && !r.cut {
		r.miss("steps on their way to the trail (%d): look again in some seconds", missing)
	}
	type step struct {
		path string
		run  int
	}
	seen := map[step]bool{}
	var all []*flow.Event
	for _, ev := range slices.Concat(d.Events, left) { // a step that came back into the document counts there
		if ev != nil && !seen[step{ev.ID, ev.Run}] {
			seen[step{ev.ID, ev.Run}] = true
			all = append(all, ev)
		}
	}
	slices.SortStableFunc(all, func(a, b *flow.Event) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), comparePaths(a.ID, b.ID))
	})
	return all
}

// add appends a line. It reports false for one too many, and for one that is there.
func (r *reader) add(x Line) bool {
	if len(r.lines) >= mostLines {
		r.hidden++
		return false
	}
	if r.ids[x.ID] {
		return false
	}
	r.ids[x.ID] = true
	r.lines = append(r.lines, x)
	return true
}

// name returns what the lines of a document begin with: "", or "02.00003".
func (r *reader) name(id string) string {
	if id == r.top {
		return ""
	}
	return strings.TrimPrefix(id, r.top+"/")
}

// read adds the steps of a document, and those of its parts. owner is the line that they belong to.
func (r *reader) read(ctx context.Context, id string, d flow.Instance, owner string) error {
	steps, err := r.looker.structure(ctx, d.Version)
	if err != nil {
		return err
	}
	events := r.events(id, d)
	if steps == nil && len(events) > 0 {
		r.miss("verbs, topics and parts: the structure of version %d is not stored", d.Version)
	}
	prefix := r.name(id)
	if prefix != "" && d.Page == nil {
		prefix += "/"
	}
	lines := map[string]string{} // by path
	for _, ev := range events {
		path := ev.ID
		if d.Part != "" {
			path = d.Part + "/" + path
		}
		step := steps[path]
		x := r.looker.line(id, ev, step)
		_, x.Else = steps[path+".00.01"]
		if x.ID = prefix; d.Page == nil {
			x.ID += flow.PathRun(ev.ID, ev.Run)
		} else if d.Parent != nil {
			x.Name = partName(ev.Name, d.Parent.Index)
		}
		of, branch := owners(ev.ID)
		x.Prev, x.branch = owner, branch
		for of != "" && lines[of] == "" {
			of, x.branch = owners(of)
		}
		if of != "" {
			x.Prev = lines[of]
		}
		if !r.add(x) {
			continue
		}
		at := len(r.lines) - 1
		lines[ev.ID] = x.ID
		hidden, err := r.readParts(ctx, id, ev, step, x.ID)
		if err != nil {
			return err
		}
		r.lines[at].Hidden = hidden
		r.hidden += hidden
	}
	return nil
}

// partName names a part or a page by its number.
func partName(step string, index int) string { return fmt.Sprintf("%s %d", step, index) }

// readTogether is how many documents are read at a time.
const readTogether = 16

// readParts adds the parts of a step, and returns how many it has left out.
func (r *reader) readParts(ctx context.Context, id string, ev *flow.Event, step flow.Step, owner string) (hidden int, err error) {
	all, hidden := choose(ev, step.Verb, r.parts)
	for some := range slices.Chunk(all, readTogether) {
		ids := make([]string, len(some))
		for i, index := range some {
			ids[i] = flow.ChildID(id, ev.ID, ev.Run, index)
		}
		documents, faults := r.looker.documents(ctx, ids)
		for i, part := range ids {
			if r.parts--; r.parts < 0 { // parts of parts have used it up
				hidden++
				continue
			}
			gone, err := r.readPart(ctx, part, documents[i], faults[i], ev, step, some[i], owner)
			if err != nil {
				return hidden, err
			}
			hidden += gone
		}
	}
	return hidden, nil
}

// readPart adds a part of a step.
func (r *reader) readPart(ctx context.Context, id string, d flow.Instance, fault error, ev *flow.Event, step flow.Step, index int, owner string) (gone int, err error) {
	x := Line{ID: r.name(id), Name: partName(ev.Name, index), Verb: "part", Prev: owner, Ref: r.looker.plan + "/" + id}
	switch {
	case errors.Is(fault, storage.ErrNotFound) && step.Verb != flow.Child && ev.Status == InProcess && !flow.Bit(ev.Fan.Ended, index): // its start is on the way
		x.Status, x.Created = Init, ev.Created
		r.add(x)
		return 0, nil
	case errors.Is(fault, storage.ErrNotFound):
		return 1, nil
	case errors.Is(fault, ErrNotInstance):
		r.miss("part %s: %v", x.ID, fault)
		return 1, nil
	case fault != nil:
		return 0, fault
	case step.Verb == flow.Child || d.Page != nil: // one line is enough
		return 0, r.read(ctx, id, d, owner)
	}
	x.Status, x.Msg, x.Created, x.Timestamp, x.Timeout = d.Status, d.Msg, d.Created, d.Ended, d.By
	if !r.add(x) {
		return 0, nil
	}
	return 0, r.read(ctx, id, d, x.ID)
}

// choose returns the parts of a step that are shown: all or, of too many, first those that are open, then those that
// have failed.
func choose(ev *flow.Event, verb flow.Verb, most int) (chosen []int, hidden int) {
	const atMost = 1 << 20 // the document may be somebody else's
	n := min(flow.Parts(ev, verb), atMost)
	most = max(0, most)
	var classes [3][]int // open, failed, done
	for i := range n {
		class := 2
		if f := ev.Fan; f != nil && !flow.Bit(f.Ended, i) {
			class = 0
		} else if f != nil && flow.Bit(f.Bad, i) {
			class = 1
		}
		if len(classes[class]) < most {
			classes[class] = append(classes[class], i)
		}
	}
	chosen = slices.Concat(classes[:]...)
	chosen = chosen[:min(len(chosen), most)]
	slices.Sort(chosen)
	return chosen, max(0, n-len(chosen))
}

// documents reads some documents, several at a time.
func (l *Looker) documents(ctx context.Context, ids []string) ([]flow.Instance, []error) {
	all, faults := make([]flow.Instance, len(ids)), make([]error, len(ids))
	var wait sync.WaitGroup
	for i, id := range ids {
		wait.Go(func() { all[i], faults[i] = l.document(ctx, id) })
	}
	wait.Wait()
	return all, faults
}

// line makes the line of a step.
func (l *Looker) line(id string, ev *flow.Event, step flow.Step) Line {
	x := Line{
		Name: ev.Name, Status: ev.Status, Verb: string(step.Verb), Topic: topic(l.plan, step), Msg: ev.Msg, Created: ev.Created, Began: ev.Began, Timestamp: ev.Ended,
		Timeout: ev.Timeout, Due: ev.Due, Ref: l.plan + "/" + id, Run: ev.Run, Attempt: ev.Attempt, Failures: ev.Failures, Worker: ev.Worker, Failed: ev.Failed,
		Twice: len(ev.Twice), Late: ev.Late, Canceling: ev.Ending != "", Unknown: ev.Doubted(),
	}
	switch path, run := ev.Origin(); step.Verb {
	case flow.Do:
		x.Tracking = flow.Key(l.plan, id, path, run)
	case flow.Ask:
		x.Tracking = l.plan + "/" + id + "#" + flow.PathRun(ev.ID, ev.Run)
	}
	if n := len(ev.Failures); x.Msg == "" && n > 0 {
		x.Msg = ev.Failures[n-1].Msg
	}
	if f := ev.Fan; f != nil {
		x.Items, x.Left = f.Items, f.Left
	}
	for _, u := range ev.Undos {
		if u == nil {
			continue
		}
		row := UndoRow{Status: u.Status, Item: u.Item, Attempt: u.Attempt, Created: u.Created, Ended: u.Ended, Failures: u.Failures, Late: u.Late}
		if n := len(u.Failures); n > 0 {
			row.Msg = u.Failures[n-1].Msg
		}
		x.Undos = append(x.Undos, row)
	}
	return x
}

// topic names where a step's messages go, or which it waits for.
func topic(plan string, step flow.Step) string {
	switch step.Verb {
	case flow.Do, flow.Each:
		return cmp.Or(step.By, plan+flow.AgentsSuffix)
	case flow.Ask:
		command, _, _ := strings.Cut(step.Types, " ")
		return command
	case flow.Wait:
		return step.Types
	}
	return ""
}

// comparePaths compares paths by their numbers: 99 comes before 100.
func comparePaths(a, b string) int {
	for a != "" && b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		m, errM := strconv.Atoi(x)
		n, errN := strconv.Atoi(y)
		switch {
		case errM == nil && errN == nil && m != n:
			return m - n
		case (errM != nil || errN != nil) && x != y:
			return strings.Compare(x, y)
		}
	}
	return len(a) - len(b)
}

// owners returns the path of the step that a step belongs to, and the path of its branch; "" for a step of the whole.
func owners(path string) (owner, branch string) {
	owner, number, _ := flow.OwnerOf(path)
	if owner == "" {
		return "", number
	}
	return owner, owner + "." + number
}

// miss notes what the stream doesn't show.
func (r *reader) miss(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.missing, text) && len(r.missing) < 20 {
		r.missing = append(r.missing, text)
	}
}
