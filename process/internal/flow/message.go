package flow

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
)

// Queues of a plan, by what is appended to its name.
const (
	AgentsSuffix = "-do"     // begins, for agents without a queue of their own
	AlarmsSuffix = "-alarms" // alarms, so that no backlog makes them late
	RecordSuffix = "-record" // what the index and the trail are written from
)

// KindOf returns the kind of a plan's messages of a sort: "process.fulfil.done".
func KindOf(plan, sort string) channel.Kind { return channel.Kind("process." + plan + "." + sort) }

// BeginKind returns the kind of a plan's begins that go to a queue of agents.
func BeginKind(plan, queue string) channel.Kind {
	if queue == "" {
		return KindOf(plan, "begin")
	}
	return KindOf(plan, "begin."+queue)
}

// Start begins an instance, or a part of one: a child with a plan of its own, or a page of items.
type Start struct {
	Plan    string         `json:"plan"`
	ID      string         `json:"id"`
	State   jsontext.Value `json:"state,omitempty" millrace:"secret"`
	By      time.Time      `json:"by,omitzero"`   // of parts: the deadline of the step that they belong to
	Firm    bool           `json:"firm,omitzero"` // of parts: the whole only goes on
	Version int            `json:"version,omitzero"`
	Part    string         `json:"part,omitempty"`   // where the part's plan is in the whole; see Plan.Find
	Parent  *Parent        `json:"parent,omitempty"` // of parts
	Page    *Page          `json:"page,omitempty"`
}

// Kind is the kind of the plan's starts.
func (m Start) Kind() channel.Kind { return KindOf(m.Plan, "start") }

// Subject is the instance.
func (m Start) Subject() string { return m.ID }

// Parent is whom a part answers, and as which child.
type Parent struct {
	ID    string `json:"id"`
	Path  string `json:"path"`
	Run   int    `json:"run,omitzero"`
	Index int    `json:"index"`
}

// Page is the part of a fan's items that an instance of its own holds.
type Page struct {
	Items  []jsontext.Value `json:"items,omitempty" millrace:"secret"` // of a Start
	First  int              `json:"first"`                             // index of the first item among all
	AtOnce int              `json:"atonce"`
	Hold   bool             `json:"hold,omitzero"` // it begins nothing until it is told to

	Results []jsontext.Value `json:"results,omitempty" millrace:"secret"` // of a document: for the parent's gathering
}

// Outcomes of a Done.
const (
	OK        = "ok"
	Failed    = "failed"   // this attempt
	Refused   = "refused"  // for good: the agent says no
	Never     = "never"    // for good: the agent can't
	Unknown   = "unknown"  // of this attempt: it may have had its effect, and nobody can ask
	Withdrawn = "canceled" // of a child
	Lost      = "lost"     // unknown: the word for it is in the poison queue
	Halted    = "stuck"    // of a child: it hasn't ended, and somebody must act
	Moving    = "moving"   // of a child: somebody has
	Silent    = "silent"   // not yet: the attempt outlives its time, and may still succeed
)

// Done says how an attempt at a step ended, or a child.
type Done struct {
	Plan    string         `json:"plan"`
	ID      string         `json:"id"`
	Path    string         `json:"path"`
	Run     int            `json:"run,omitzero"`
	Attempt int            `json:"attempt,omitzero"`
	Item    *int           `json:"item,omitempty"` // of fans: the index
	Undo    int            `json:"undo,omitzero"`  // of an undo: its number, from 1
	List    bool           `json:"list,omitzero"`  // of the agent that lists items
	Outcome string         `json:"outcome"`
	Result  jsontext.Value `json:"result,omitempty" millrace:"secret"`
	Effect  string         `json:"effect,omitempty"` // the result's own word for it, else empty
	Error   string         `json:"error,omitempty"`
	After   time.Duration  `json:"after,omitzero"` // that the agent asks for before the next attempt
	Began   time.Time      `json:"began,omitzero"` // by the agent's clock, as Ended
	Ended   time.Time      `json:"ended,omitzero"`
	Worker  string         `json:"worker,omitempty"`
	Echo    jsontext.Value `json:"echo,omitempty" millrace:"secret"` // of fans: the item, where it may be needed again
	Unheard bool           `json:"unheard,omitzero"`                 // an attempt was given up, and may still succeed

	Results []jsontext.Value `json:"results,omitempty" millrace:"secret"` // of a page
	Failed  int              `json:"failed,omitzero"`                     // of a page: items that failed
	Sort    channel.Kind     `json:"kind,omitempty"`                      // of an event that is lost: its kind
	At      time.Time        `json:"at,omitzero"`                         // of an alarm that is lost: its time
	Seq     uint64           `json:"seq,omitzero"`                        // of a child that is stuck, or moves again: orders these words
	Undoes  bool             `json:"undoes,omitzero"`                     // of such a word: the child has ended, and takes something back
}

// SilentOf says that an attempt outlives its time. It is no attempt's end, also to a program that doesn't know it.
func SilentOf(b Begin) Done {
	return Done{Plan: b.Plan, ID: b.ID, Path: b.Path, Run: b.Run, Attempt: -1, Outcome: Silent, Unheard: true}
}

// Kind is the kind of the plan's completions.
func (m Done) Kind() channel.Kind { return KindOf(m.Plan, "done") }

// Subject is the instance.
func (m Done) Subject() string { return m.ID }

// Alarm says that it is At, or later.
type Alarm struct {
	Plan  string    `json:"plan"`
	ID    string    `json:"id"`
	At    time.Time `json:"at"`
	Purge bool      `json:"purge,omitzero"` // the instance's retention is over
}

// Kind is the kind of the plan's alarms.
func (m Alarm) Kind() channel.Kind { return KindOf(m.Plan, "alarm") }

// Subject is the instance.
func (m Alarm) Subject() string { return m.ID }

// Signal brings a message from outside to the step that waits for its kind.
type Signal struct {
	Plan string         `json:"plan"`
	ID   string         `json:"id"`
	Sort channel.Kind   `json:"kind"`
	Body jsontext.Value `json:"body" millrace:"secret"`
	From string         `json:"-"` // ID of the message that brings it
}

// Kind is the kind of the plan's signals.
func (m Signal) Kind() channel.Kind { return KindOf(m.Plan, "signal") }

// Subject is the instance.
func (m Signal) Subject() string { return m.ID }

// Acts.
const (
	ActCancel = "cancel"
	ActRetry  = "retry" // a step that is stuck, or its undo, once more
	ActSkip   = "skip"  // a step that is stuck counts as done, with a result
	ActFail   = "fail"  // a step whose outcome is unknown was not done
	ActRerun  = "rerun" // from a step on, with keys of their own
	ActNudge  = "nudge" // look whether an alarm is missing
	ActUndo   = "undo"  // a child: take back what was done
	ActGo     = "go"    // a page: begin
)

// Act is what an operator, or a parent, asks of an instance.
type Act struct {
	Plan   string         `json:"plan"`
	ID     string         `json:"id"`
	Do     string         `json:"do"`
	Path   string         `json:"path,omitempty"`
	Item   *int           `json:"item,omitempty"` // of a step whose items' outcomes are unknown; nil: all of them
	Result jsontext.Value `json:"result,omitempty" millrace:"secret"`
	Undo   int            `json:"undo,omitzero"`   // of a parent's undo: its number
	Parent bool           `json:"parent,omitzero"` // it comes from the step that the part belongs to
	Keep   bool           `json:"keep,omitzero"`   // of a parent's cancel: what was done is not taken back
	By     string         `json:"by,omitempty"`
	Why    string         `json:"why,omitempty"`
	From   string         `json:"-"` // ID of the message that brings it
}

// Kind is the kind of the plan's acts.
func (m Act) Kind() channel.Kind { return KindOf(m.Plan, "act") }

// Subject is the instance.
func (m Act) Subject() string { return m.ID }

// Begin asks an agent to do a step, an item of a fan, or an undo.
type Begin struct {
	Plan      string         `json:"plan"`
	Queue     string         `json:"queue,omitempty"` // of the agents; empty: the plan's own
	ID        string         `json:"id"`
	Version   int            `json:"version"`
	Part      string         `json:"part,omitempty"`
	Path      string         `json:"path"`
	Name      string         `json:"name"`
	Run       int            `json:"run,omitzero"`
	Attempt   int            `json:"attempt"`
	Item      *int           `json:"item,omitempty"`
	Undo      int            `json:"undo,omitzero"`
	List      bool           `json:"list,omitzero"`
	Later     bool           `json:"later,omitzero"` // its agent has said Later
	Key       string         `json:"key"`
	HandBacks int            `json:"handbacks,omitzero"` // how often its agent has said so
	Within    time.Duration  `json:"within,omitzero"`    // what is left until the step's deadline; 0: none
	State     jsontext.Value `json:"state,omitempty" millrace:"secret"`
	Input     jsontext.Value `json:"input,omitempty" millrace:"secret"`  // the item, or where a list goes on
	Result    jsontext.Value `json:"result,omitempty" millrace:"secret"` // of an undo: what is to be undone
}

// Kind is the kind of the plan's begins to that queue.
func (m Begin) Kind() channel.Kind { return BeginKind(m.Plan, m.Queue) }

// Subject is the instance.
func (m Begin) Subject() string { return m.ID }

// Record asks for the index row of an instance to be brought up to date, and for lines to be written to its trail.
type Record struct {
	Plan   string   `json:"plan"`
	ID     string   `json:"id"`
	Lines  []*Event `json:"lines,omitempty"`
	Forget bool     `json:"forget,omitzero"` // delete its parts, its trail and its index row
	Delete bool     `json:"delete,omitzero"` // and the document
}

// Kind is the kind of the plan's records.
func (m Record) Kind() channel.Kind { return KindOf(m.Plan, "record") }

// Subject is the instance.
func (m Record) Subject() string { return m.ID }

// Fetch asks for steps that an instance has shelved.
type Fetch struct {
	Plan string    `json:"plan"`
	ID   string    `json:"id"`
	Want []Shelved `json:"want"`
	Word *Done     `json:"word,omitempty"` // for which the first one is needed
}

// Kind is the kind of the plan's fetches.
func (m Fetch) Kind() channel.Kind { return KindOf(m.Plan, "fetch") }

// Subject is the instance.
func (m Fetch) Subject() string { return m.ID }

// Fetched brings steps back that an instance has shelved: the first ones that it wants, as many as a message holds.
type Fetched struct {
	Plan  string   `json:"plan"`
	ID    string   `json:"id"`
	Steps []*Event `json:"steps"`
	Word  *Done    `json:"word,omitempty"`
}

// Kind is the kind of the plan's answers to fetches.
func (m Fetched) Kind() channel.Kind { return KindOf(m.Plan, "fetched") }

// Subject is the instance.
func (m Fetched) Subject() string { return m.ID }

// Sweep asks for instances to be found that nobody has looked at in time.
type Sweep struct {
	Plan string    `json:"plan"`
	At   time.Time `json:"at"`
}

// Kind is the kind of the plan's sweeps.
func (m Sweep) Kind() channel.Kind { return KindOf(m.Plan, "sweep") }
