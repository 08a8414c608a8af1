package flow

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
)

// Status is where an instance, or a step of it, stands.
type Status string

// The statuses. Those of steps that have ended are the last five.
const (
	Init      Status = "init"      // signals or a cancel came before the start
	InProcess Status = "inprocess" //
	Undoing   Status = "undoing"   // it has failed or was cancelled, and what was done is being taken back
	Stuck     Status = "stuck"     // it goes on when somebody acts
	Completed Status = "completed"
	Aborted   Status = "aborted"
	Canceled  Status = "canceled"
	Undone    Status = "undone"
	Skipped   Status = "skipped"
)

// Final reports that an instance moves no more by itself.
func (s Status) Final() bool {
	return s == Completed || s == Aborted || s == Canceled || s == Undone || s == Skipped
}

// An Instance is the document of a process.
type Instance struct {
	Plan    string         `json:"plan"`
	Version int            `json:"version"`
	Print   string         `json:"print,omitempty"` // fingerprint of the plan's structure
	Part    string         `json:"part,omitempty"`
	Parent  *Parent        `json:"parent,omitempty"`
	Page    *Page          `json:"page,omitempty"`
	Status  Status         `json:"status"`        // it follows from the rest
	Msg     string         `json:"msg,omitempty"` // why it failed
	Created time.Time      `json:"created,omitzero"`
	Ended   time.Time      `json:"ended,omitzero"`
	Was     time.Time      `json:"was,omitzero"`   // when it had ended before it was run again
	By      time.Time      `json:"by,omitzero"`    // deadline of the whole
	Limit   time.Time      `json:"limit,omitzero"` // of a part: deadline of the step that it belongs to, for its agents
	Alarm   time.Time      `json:"alarm,omitzero"` // the earliest alarm that is under way
	Purge   time.Time      `json:"purge,omitzero"` // the alarm at which its retention is over
	Seq     uint64         `json:"seq,omitzero"`   // counts what others are told about it
	Ends    int            `json:"ends,omitzero"`  // steps that have ended
	Run     int            `json:"run,omitzero"`   // counts reruns
	Digest  string         `json:"digest,omitempty"`
	State   jsontext.Value `json:"state,omitempty" millrace:"secret"`
	Events  []*Event       `json:"events,omitempty"`
	Early   []Early        `json:"early,omitempty"`
	Cancel  *Note          `json:"cancel,omitempty"`
	Keep    bool           `json:"keep,omitzero"` // it was cancelled, and keeps what was done
	Unwinds []Unwind       `json:"unwinds,omitempty"`
	Final   Status         `json:"final,omitempty"`   // what it becomes when all is undone, or has become
	Pivot   string         `json:"pivot,omitempty"`   // name of the step since which it only goes on
	Firm    bool           `json:"firm,omitzero"`     // of a part: the whole only goes on, so a step that fails is stuck
	Reached string         `json:"reached,omitempty"` // name of the step of the plan's own sequence that was begun last
	Notes   []Note         `json:"notes,omitempty"`   // what operators did, and what came too late
	Going   bool           `json:"going,omitzero"`    // a page that was told to begin before its start came
	UndoFor int            `json:"undofor,omitzero"`
	Told    bool           `json:"told,omitzero"`     // a part has told its parent that it is stuck
	Undoes  bool           `json:"undoes,omitzero"`   // it has told its parent that it takes something back after its end
	Trailed int            `json:"trailed,omitzero"`  // ended steps that have left for the trail
	Shelf   []Shelved      `json:"shelf,omitempty"`   // steps in the trail that may be needed again
	Purged  bool           `json:"purged,omitzero"`   // only this tombstone is left
	Unheard []string       `json:"unheard,omitempty"` // of a tombstone: steps with an attempt that might still succeed
}

// began reports that the start has come.
func (d *Instance) began() bool { return d.Status != "" && d.Status != Init }

// over reports that the instance has ended. It may be stuck all the same, where a late success can't be undone.
func (d *Instance) over() bool { return !d.Ended.IsZero() }

// status returns what follows for the instance's status from the rest of the document. One that has ended is stuck
// where the undo of a late success is.
func (d *Instance) status() Status {
	reruns := func(u Unwind) bool { return u.Then == unwindRerun }
	switch {
	case !d.began() || d.Purged:
		return d.Status
	case slices.ContainsFunc(d.Events, (*Event).Stuck):
		return Stuck
	case d.over():
		return d.Final
	case d.Final != "" && d.Final != Completed, slices.ContainsFunc(d.Unwinds, reruns):
		return Undoing
	}
	return InProcess
}

// unwound reports that what a step has done is to be taken back.
func (d *Instance) unwound(path string) bool {
	return slices.ContainsFunc(d.Unwinds, func(u Unwind) bool { return u.Then != unwindDone && u.holds(path) })
}

// forgetShelf forgets what is not undone any more.
func (d *Instance) forgetShelf() {
	d.Shelf = slices.DeleteFunc(d.Shelf, func(x Shelved) bool { return x.Armed && !d.unwound(x.ID) })
	if len(d.Shelf) == 0 {
		d.Shelf = nil
	}
}

// An Event is a step that was begun.
type Event struct {
	ID         string         `json:"id"` // the path of its node
	Run        int            `json:"run,omitzero"`
	Was        []string       `json:"was,omitempty"` // path and run in older versions of the plan
	Verb       Verb           `json:"verb,omitempty"`
	Name       string         `json:"name"`
	Status     Status         `json:"status"`
	Ending     Status         `json:"ending,omitempty"` // what it becomes once all that it has begun has answered
	Halt       string         `json:"halt,omitempty"`   // why it is stuck: see haltBegin and so on
	Attempt    int            `json:"attempt,omitzero"`
	Base       int            `json:"base,omitzero"` // attempts before an operator ran it again
	Failures   []Failure      `json:"failures,omitempty"`
	Created    time.Time      `json:"created"`
	Began      time.Time      `json:"began,omitzero"`   // by the agent's clock
	Ended      time.Time      `json:"ended,omitzero"`   //
	Timeout    time.Time      `json:"timeout,omitzero"` // when it fails, or a sleep ends
	Due        time.Time      `json:"due,omitzero"`     // of the attempt that is not begun yet
	Msg        string         `json:"msg,omitempty"`
	Worker     string         `json:"worker,omitempty"`
	Order      int            `json:"order,omitzero"` // when it ended, among all
	Armed      bool           `json:"armed,omitzero"` // it has done what an undo takes back
	State      jsontext.Value `json:"state,omitempty" millrace:"secret"`
	Result     jsontext.Value `json:"result,omitempty" millrace:"secret"` // as long as it may be undone, or applied again
	Digest     string         `json:"digest,omitempty"`                   // of the first success
	Twice      []string       `json:"twice,omitempty"`                    // digests of further successes, which nothing takes back
	Answer     channel.Kind   `json:"answer,omitempty"`                   // of an Ask that is stuck: the event that came
	Undos      []*Undo        `json:"undos,omitempty"`
	Back       bool           `json:"back,omitzero"` // it was taken back with the whole
	Fan        *Fan           `json:"fan,omitempty"`
	Left       int            `json:"left,omitzero"` // branches that have not ended
	Branch     int            `json:"branch,omitzero"`
	Failed     int            `json:"failed,omitzero"`      // children that didn't end well; never cleared
	Late       int            `json:"late,omitzero"`        // successes that came after the end
	Unheard    bool           `json:"unheard,omitzero"`     // an attempt was given up, or one in a part, and may still succeed
	Lost       []string       `json:"lost,omitempty"`       // words for it that are in the poison queue
	StuckParts []StuckPart    `json:"stuckparts,omitempty"` // parts of the step that have said so
}

// Reasons for which a step is stuck.
const (
	haltBegin  = "begin"  // a function of the plan that was to begin it has failed
	haltTake   = "take"   // a function of the plan that was to take its result has failed
	haltFailed = "failed" // it has failed, after the pivot
	haltLate   = "late"   // its time was over, after the pivot
	haltLost   = "lost"   // a message that it waits for is in the poison queue
	haltDoubt  = "doubt"  // nobody knows what an attempt has done
)

// open reports that the step has not ended.
func (e *Event) open() bool { return e.Status == InProcess || e.Status == Stuck }

// goesOn reports that the step takes what its agents and parts say as if nothing stood in its way. A step whose time is
// over since the pivot is shown as stuck, but goes on when they answer.
func (e *Event) goesOn() bool { return e.Status == InProcess || e.Halt == haltLate }

// unknown reports that the step has ended without anybody knowing whether its last attempt has done something.
func (e *Event) unknown() bool {
	n := len(e.Failures)
	return e.Verb == Do && e.Digest == "" && (e.Status == Aborted || e.Status == Canceled) && (n == 0 || e.Failures[n-1].N < e.Attempt)
}

// Stuck reports that somebody must act on the step, on an undo of it, or on a part.
func (e *Event) Stuck() bool {
	return e.Status == Stuck ||
		slices.ContainsFunc(e.Undos, func(u *Undo) bool { return u.Status == Stuck }) ||
		slices.ContainsFunc(e.StuckParts, func(x StuckPart) bool { return x.Msg != "" })
}

// undoing reports that something that the step has done is being taken back.
func (e *Event) undoing() bool {
	return slices.ContainsFunc(e.Undos, func(u *Undo) bool { return !u.Status.Final() })
}

// takesBack is undoing, also of a part of the step that has ended.
func (e *Event) takesBack() bool {
	return e.undoing() || slices.ContainsFunc(e.StuckParts, func(x StuckPart) bool { return x.Undoes })
}

// awaits reports that the step has ended with an attempt that nobody has heard of, and that may still succeed.
func (e *Event) awaits() bool {
	x := e.Fan
	return !e.open() && (e.unknown() || e.Unheard || x != nil && !x.Paged && x.atWork() > 0)
}

// Origin returns the path and the run by which the step has been known from the beginning. Its key follows from them.
func (e *Event) Origin() (path string, run int) {
	if len(e.Was) == 0 {
		return e.ID, e.Run
	}
	path, at, _ := strings.Cut(e.Was[0], "~")
	run, _ = strconv.Atoi(at)
	return path, run
}

// A Failure is an attempt that failed.
type Failure struct {
	N     int       `json:"n"`
	At    time.Time `json:"at"`
	Began time.Time `json:"began,omitzero"` // by the agent's clock
	Msg   string    `json:"msg"`
}

// An Undo takes back one success.
type Undo struct {
	N        int            `json:"n"` // number among those of the step, or of the item, from 1
	Status   Status         `json:"status"`
	Item     *int           `json:"item,omitempty"`
	Attempt  int            `json:"attempt"`
	Base     int            `json:"base,omitzero"` // attempts before an operator's retry
	Failures []Failure      `json:"failures,omitempty"`
	Created  time.Time      `json:"created"`
	Ended    time.Time      `json:"ended,omitzero"`
	Timeout  time.Time      `json:"timeout,omitzero"`
	State    jsontext.Value `json:"state,omitempty" millrace:"secret"`
	Result   jsontext.Value `json:"result,omitempty" millrace:"secret"`
	Digest   string         `json:"digest,omitempty"`
	Late     bool           `json:"late,omitzero"` // the success came after the step's end
}

// sameItem reports that item b is item a. Without an a, each is.
func sameItem(a, b *int) bool { return a == nil || b != nil && *a == *b }

// A Fan is the items of a step, or its children.
type Fan struct {
	N       int                    `json:"n"` // how many there are, as far as is known
	Next    int                    `json:"next"`
	Left    int                    `json:"left"`                               // not ended
	Items   int                    `json:"items"`                              // in pages, too
	OK      int                    `json:"ok,omitzero"`                        // ended well
	Ended   []byte                 `json:"ended,omitempty"`                    // a bit for each
	Bad     []byte                 `json:"bad,omitempty"`                      // those that did not end well
	Late    []byte                 `json:"late,omitempty"`                     // those whose success came too late
	Bytes   int                    `json:"bytes,omitzero"`                     // of Rest and Armed
	Rest    []jsontext.Value       `json:"rest,omitempty" millrace:"secret"`   // items that are not begun yet, from Next on
	Tries   map[int]int            `json:"tries,omitempty"`                    // failed attempts of an item that is open
	Doubts  map[int]jsontext.Value `json:"doubts,omitempty" millrace:"secret"` // items of which nobody knows what an attempt has done
	Armed   map[int]jsontext.Value `json:"armed,omitempty" millrace:"secret"`  // results of items that may be undone
	Effects map[int][]string       `json:"effects,omitempty"`                  // digests of the effects of items that may be undone
	Worst   []BadItem              `json:"worst,omitempty"`                    // some that failed for good
	Paged   bool                   `json:"paged,omitzero"`                     // children are pages
	Listing bool                   `json:"listing,omitzero"`                   // the agent that lists items is under way, or is to go on
	Asked   bool                   `json:"asked,omitzero"`                     // it is under way
	Misses  int                    `json:"misses,omitzero"`                    // its failed attempts at this list
	Cursor  jsontext.Value         `json:"cursor,omitempty" millrace:"secret"`
	Held    []jsontext.Value       `json:"held,omitempty" millrace:"secret"` // results that wait, because the gathering function has failed
	Undo    int                    `json:"undo,omitzero"`                    // the last Undo items are being undone, or have been
}

// BadItem is an item that failed for good.
type BadItem struct {
	Index int            `json:"index"`
	Msg   string         `json:"msg"`
	Item  jsontext.Value `json:"item,omitempty" millrace:"secret"`
}

// StuckPart is what a part of a step has said last. It is stuck if Msg is not empty.
type StuckPart struct {
	Index  int    `json:"index"`
	Seq    uint64 `json:"seq"`
	Msg    string `json:"msg,omitempty"`
	Undoes bool   `json:"undoes,omitzero"` // it has ended, and takes something back
}

// Early is a signal that came before anybody waited for it.
type Early struct {
	Sort string         `json:"kind"`
	At   time.Time      `json:"at"`
	From string         `json:"from,omitempty"` // ID of its message
	Body jsontext.Value `json:"body" millrace:"secret"`
}

// A Note says what was done by whom.
type Note struct {
	At   time.Time `json:"at"`
	Do   string    `json:"do"`
	Path string    `json:"path,omitempty"`
	By   string    `json:"by,omitempty"`
	Why  string    `json:"why,omitempty"`
	From string    `json:"from,omitempty"` // ID of the message that asked for it
}

// An Unwind takes back what was done in a scope, and then goes on.
type Unwind struct {
	Scope string `json:"scope"`
	Then  string `json:"then,omitempty"` // unwindEnd and so on, or nothing
}

const (
	unwindEnd   = "end"   // the instance ends
	unwindElse  = "else"  // the Else of the scope's step begins
	unwindRerun = "rerun" // the scope is a step of the plan's own sequence and all after it, which begin again
	unwindDone  = "done"  // nothing is undone: the instance has done all, and waits for the other unwinds
)

// holds reports that a step is in the scope.
func (u Unwind) holds(path string) bool {
	if u.Then == unwindRerun {
		return rootIndex(path) >= rootIndex(u.Scope)
	}
	return within(path, u.Scope)
}

// rootIndex returns which step of the plan's own sequence a path is in, from 1.
func rootIndex(path string) int {
	first, _, _ := strings.Cut(path, ".")
	i, _ := strconv.Atoi(first)
	return i
}

// Parts returns how many documents of their own a step has begun.
func Parts(ev *Event, verb Verb) int {
	switch {
	case verb == Child:
		return 1
	case ev.Fan != nil && ev.Fan.Paged:
		return ev.Fan.N
	case ev.Fan != nil && verb == Split:
		return ev.Fan.Next
	}
	return 0
}

// Bit reports that a bit is set.
func Bit(b []byte, i int) bool { return i/8 < len(b) && b[i/8]&(1<<(i%8)) != 0 }

// setBit returns b with a bit set.
func setBit(b []byte, i int) []byte {
	for len(b) <= i/8 {
		b = append(b, 0)
	}
	b[i/8] |= 1 << (i % 8)
	return b
}

// find returns the last event of a path, or nil.
func (d *Instance) find(path string) *Event {
	for _, e := range slices.Backward(d.Events) {
		if e.ID == path {
			return e
		}
	}
	return nil
}

// findRun returns the event of a path and a run, by which a message calls it, or nil. They may be those that the step
// had in an older version of the plan.
func (d *Instance) findRun(path string, run int) *Event {
	for _, e := range slices.Backward(d.Events) {
		if e.ID == path && e.Run == run || len(e.Was) > 0 && slices.Contains(e.Was, PathRun(path, run)) {
			return e
		}
	}
	return nil
}

// Waits returns what the instance waits for: its open steps that have none within.
func (d *Instance) Waits() (open []*Event) {
	for _, e := range d.Events {
		inner := func(x *Event) bool { return x != e && x.open() && within(x.ID, e.ID) }
		if e.open() && !slices.ContainsFunc(d.Events, inner) {
			open = append(open, e)
		}
	}
	return open
}

// PathOf returns the path that the step of a begin has in the plan of the document, or "". It differs from the begin's
// after an upgrade.
func (d *Instance) PathOf(b Begin) string {
	if e := d.findRun(b.Path, b.Run); e != nil {
		return e.ID
	}
	return ""
}

// Wants reports that a step still waits for an attempt, or an undo does. A worker asks it before an attempt that comes
// late.
func (d *Instance) Wants(b Begin) bool {
	e := d.findRun(b.Path, b.Run)
	switch {
	case e != nil && b.Undo > 0:
		return slices.ContainsFunc(e.Undos, func(u *Undo) bool {
			return u.Status == InProcess && u.N == b.Undo && u.Attempt == b.Attempt && (b.Item == nil || u.Item != nil && *u.Item == *b.Item)
		})
	case e == nil || !e.goesOn() || e.Ending != "":
		return false
	case b.Item != nil && e.Fan != nil:
		return !Bit(e.Fan.Ended, *b.Item) && e.Fan.Tries[*b.Item]+1 == b.Attempt
	}
	return e.Attempt == b.Attempt
}

// Knows reports that nothing can be learned from another run of an attempt: its success is known, or its step has left
// the document.
func (d *Instance) Knows(b Begin) bool {
	e := d.findRun(b.Path, b.Run)
	switch {
	case e == nil:
		return true
	case b.Undo > 0:
		return !slices.ContainsFunc(e.Undos, func(u *Undo) bool {
			return !u.Status.Final() && u.N == b.Undo && (b.Item == nil || u.Item != nil && *u.Item == *b.Item)
		})
	case b.Item != nil && e.Fan != nil:
		return Bit(e.Fan.Ended, *b.Item) && !Bit(e.Fan.Bad, *b.Item) || Bit(e.Fan.Late, *b.Item)
	}
	return e.Digest != ""
}
