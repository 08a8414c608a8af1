package process

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/storage"
)

// A Stream is an instance with all its steps, those of its parts included. Its lines are a tree, in order: a line comes
// after the one that it belongs to.
type Stream struct {
	ID      string            `json:"id"`
	Plan    string            `json:"plan"`
	Version int               `json:"version"`
	Status  Status            `json:"status"`
	Msg     string            `json:"msg,omitempty"` // why it failed
	Created time.Time         `json:"created,omitzero"`
	Ended   time.Time         `json:"ended,omitzero"`
	By      time.Time         `json:"by,omitzero"`    // deadline of the whole
	Alarm   time.Time         `json:"alarm,omitzero"` // when it looks at its deadlines next
	Run     int               `json:"run,omitzero"`   // how often it was run again
	Tags    map[string]string `json:"tags,omitempty"`
	State   json.RawMessage   `json:"state,omitempty"`
	Lines   []Line            `json:"events"` // the first one, 00, is the instance itself
	Cancel  *Note             `json:"cancel,omitempty"`
	Notes   []Note            `json:"notes,omitempty"`
	Early   []string          `json:"early,omitempty"`   // kinds of signals that wait for a step
	Missing []string          `json:"missing,omitempty"` // what the stream doesn't show, in sentences
}

// A Note says what an operator or a customer did, or what nobody heard.
//
//	At   time.Time `json:"at"`
//	Do   string    `json:"do"`
//	Path string    `json:"path,omitempty"`
//	By   string    `json:"by,omitempty"`
//	Why  string    `json:"why,omitempty"`
//	From string    `json:"from,omitempty"` // ID of the message that asked for it
type Note = flow.Note

// A Failure is an attempt that failed.
//
//	N     int       `json:"n"`
//	At    time.Time `json:"at"`
//	Began time.Time `json:"began,omitzero"` // by the agent's clock
//	Msg   string    `json:"msg"`
type Failure = flow.Failure

// A Line is the instance, a step, a part or a page. A part is a child of a [Split]. A page holds items of an [Each].
//
//	02.01.03     the third step of the first branch of step 02
//	02.00.01     the first step of its Else
//	02~1         step 02, run again by an operator
//	02.00003     part 3, or page 3, of step 02
//	02.00003/01  the first step of that part
type Line struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Status    Status    `json:"status"`
	Verb      string    `json:"verb,omitempty"`       // as in the plan, or "plan", or "part"
	Topic     string    `json:"topic,omitempty"`      // queue of the agent, or kind of the command or signal
	Key       string    `json:"key"`                  // the instance
	Msg       string    `json:"msg,omitempty"`        // the last error
	Tracking  string    `json:"trackingId,omitempty"` // idempotency key of an agent, or reply address of a command
	Created   time.Time `json:"created,omitzero"`     // when it was ordered
	Began     time.Time `json:"began,omitzero"`       // when the last agent that answered began, by its own clock
	Timestamp time.Time `json:"timestamp,omitzero"`   // when it ended
	Timeout   time.Time `json:"timeout,omitzero"`     // by when it must
	Due       time.Time `json:"due,omitzero"`         // when its next attempt begins
	Ref       string    `json:"ref"`                  // its document: container and key
	Tag       string    `json:"tag,omitempty"`        // the instance's tags, as K=V,K=V
	Prev      string    `json:"prev,omitempty"`       // the line that it belongs to
	Next      string    `json:"next,omitempty"`       // the lines that belong to it, divided by |
	Run       int       `json:"run,omitzero"`
	Attempt   int       `json:"attempt,omitzero"`
	Failures  []Failure `json:"failures,omitempty"` // the first one, and the last ones
	Worker    string    `json:"worker,omitempty"`
	Items     int       `json:"items,omitzero"`
	Left      int       `json:"left,omitzero"`      // items that have not ended
	Failed    int       `json:"failed,omitzero"`    // children that didn't end well
	Twice     int       `json:"twice,omitzero"`     // further successes with another result
	Late      int       `json:"late,omitzero"`      // answers that came after the end
	Canceling bool      `json:"canceling,omitzero"` // it was told to stop, and has not answered
	Else      bool      `json:"else,omitzero"`      // other steps run if it fails
	Unknown   bool      `json:"unknown,omitzero"`   // it is stuck because nobody knows what an attempt has done
	Hidden    int       `json:"hidden,omitzero"`    // parts that the stream doesn't show
	Undos     []UndoRow `json:"undos,omitempty"`
	Depth     int       `json:"-"` // in the tree; that of the first line is 0
	branch    string    // of the line that it belongs to
}

// Open reports that the line has not ended.
func (x *Line) Open() bool { return !x.Status.Final() }

// An UndoRow is the undo of a step, or of an item of it.
type UndoRow struct {
	Status   Status    `json:"status"`
	Item     *int      `json:"item,omitempty"`
	Attempt  int       `json:"attempt"`
	Created  time.Time `json:"created"`
	Ended    time.Time `json:"ended,omitzero"`
	Msg      string    `json:"msg,omitempty"`
	Failures []Failure `json:"failures,omitempty"`
	Late     bool      `json:"late,omitzero"` // the success came after the step's end
}

// Bounds of a stream.
const (
	mostParts = 1000   // documents of parts and pages
	mostLines = 10_000 // lines
	rootLine  = "00"   // the instance
)

// Stream reads an instance with all its steps. id may also be a part, such as "o17/02.00003". The error matches
// storage.ErrNotFound if there is none, and [ErrNotInstance]. An instance of more than 1,000 parts or 10,000 lines is
// shown in part: first the parts that are open, then those that have failed. Missing says what is left out.
func (l *Looker) Stream(ctx context.Context, id string) (*Stream, error) {
	d, err := l.document(ctx, id)
	var s *Stream
	if err == nil {
		s, err = l.stream(ctx, id, d)
	}
	if err != nil {
		return nil, l.wrap("show", id, err)
	}
	return s, nil
}

func (l *Looker) stream(ctx context.Context, id string, d flow.Instance) (*Stream, error) {
	s := &Stream{
		ID: id, Plan: l.plan, Version: d.Version, Status: d.Status, Msg: d.Msg, Created: d.Created, Ended: d.Ended, By: d.By, Alarm: d.Alarm, Run: d.Run,
		State: json.RawMessage(d.State), Cancel: d.Cancel, Notes: d.Notes,
	}
	for _, x := range d.Early {
		s.Early = append(s.Early, x.Sort)
	}
	var err error
	if s.Tags, err = l.tags(ctx, id, d); err != nil {
		return nil, err
	}
	r := &reader{looker: l, top: id, ids: map[string]bool{}, parts: mostParts}
	if err := r.readTrail(ctx, flow.TopID(id)); err != nil {
		return nil, err
	}
	r.add(Line{ID: rootLine, Name: l.plan, Verb: "plan", Status: d.Status, Msg: d.Msg, Created: d.Created, Timestamp: d.Ended, Timeout: d.By, Ref: l.plan + "/" + id})
	if err := r.read(ctx, id, d, rootLine); err != nil {
		return nil, err
	}
	if d.Purged {
		r.miss("its time is over, and its steps are deleted")
	}
	if r.hidden > 0 {
		r.miss("parts and steps (%d): a stream shows at most %d parts and %d lines", r.hidden, mostParts, mostLines)
	}
	s.Lines, s.Missing = inOrder(r.lines), r.missing
	tag := joinTags(s.Tags)
	for i := range s.Lines {
		s.Lines[i].Key, s.Lines[i].Tag = id, tag
	}
	return s, nil
}

// tags are in the index row.
func (l *Looker) tags(ctx context.Context, id string, d flow.Instance) (map[string]string, error) {
	partition := openRows
	if d.Status.Final() {
		partition = endedRows(d.Ended)
	}
	row, err := l.store.Table(l.plan+indexSuffix).Get(ctx, partition, flow.TopID(id))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var x Entry
	if json.Unmarshal(row.Data, &x) != nil {
		return nil, nil
	}
	return x.Tags, nil
}

func joinTags(tags map[string]string) string {
	all := make([]string, 0, len(tags))
	for k, v := range tags {
		all = append(all, k+"="+v)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// inOrder orders the lines as a tree, and sets Next and Depth. Each line comes after the one in its Prev.
func inOrder(lines []Line) []Line {
	next := map[string][]int{}
	for i, x := range lines {
		next[x.Prev] = append(next[x.Prev], i)
	}
	all := make([]Line, 0, len(lines))
	var walk func(i, depth int)
	walk = func(i, depth int) {
		x := lines[i]
		x.Depth = depth
		children := next[x.ID]
		ids := make([]string, len(children))
		for k, c := range children {
			ids[k] = lines[c].ID
		}
		x.Next = strings.Join(ids, "|")
		all = append(all, x)
		for _, c := range children {
			walk(c, depth+1)
		}
	}
	walk(0, 0)
	return all
}
