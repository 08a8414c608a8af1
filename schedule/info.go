package schedule

import "time"

// State says whether a schedule works.
type State string

const (
	Working  State = "working"
	Paused   State = "paused"   // by an operator
	Overdue  State = "overdue"  // something should have happened five minutes ago: no worker runs, or it has no time
	Orphaned State = "orphaned" // no worker has it any more
)

// Info is what is known of a schedule. Its times are in UTC, but for Next.
type Info struct {
	Name    string
	Spec    Spec
	Missed  string // "one", "all" or "none"; see Config
	Overlap string // "allow", "skip" or "queue"
	Program string // the source of the program that has registered it last
	Queue   string // of its messages
	State   State
	Next    time.Time // when it is due next, in the zone of the Spec; zero while it is paused or orphaned

	Paused   *Change // who has paused it
	Orphaned *Change // since when no worker has it
	Active   *Run    // the run that goes on, where runs must not overlap
	Waiting  int     // runs that wait for it to end
	Filling  int     // backfills that go on
	Runs     []Run   // the last 20, the newest first
	Changes  []Change
}

// A Run is what has become of a due time. Exactly one of these holds of it: it was skipped, it failed before it was
// sent, or it was sent.
type Run struct {
	ID      RunID     `json:"id,omitempty"`
	Due     time.Time `json:"due"`
	From    time.Time `json:"from"` // the first due time that it stands for
	Cause   Cause     `json:"cause"`
	Sent    time.Time `json:"sent,omitzero"`     // when its command was sent
	Command string    `json:"command,omitempty"` // the ID of the command
	Skipped string    `json:"skipped,omitempty"` // why it was not sent
	Ended   time.Time `json:"ended,omitzero"`    // when Done came
	Failed  string    `json:"failed,omitempty"`  // why there is no command, or what Done says, or that no Done came
}

// A Change is what somebody did to a schedule. The last 20 are kept, the newest first.
type Change struct {
	At   time.Time `json:"at"`
	ID   string    `json:"id,omitempty"` // of the message of Pause, Resume, Run or Backfill
	By   string    `json:"by,omitempty"` // who; for a registration, the program
	Why  string    `json:"why,omitempty"`
	What string    `json:"what"` // "paused", for example
}

// overdueAfter is how late something may be that a schedule is to do, before operators are told.
const overdueAfter = 5 * time.Minute

// info returns what an operator is told of a document.
func (d document) info(name string, now time.Time) Info {
	spec, _ := d.Definition.read()
	x := Info{
		Name: name, Spec: spec, Missed: d.Definition.Missed, Overlap: d.Definition.Overlap, Program: d.Program, Queue: d.Queue, State: Working,
		Paused: d.Paused, Orphaned: d.Stopped, Active: d.Active, Waiting: len(d.Waiting), Filling: len(d.Backfills), Runs: d.Runs, Changes: d.Changes,
	}
	late := !d.Armed.IsZero() && now.Sub(d.Armed) > overdueAfter
	switch {
	case d.Stopped != nil:
		x.State = Orphaned
	case d.Paused != nil:
		x.State = Paused
	default:
		if x.Next = d.Next; spec.due != nil && !d.Next.IsZero() {
			x.Next = spec.due.in(d.Next)
		}
		if late {
			x.State = Overdue
		}
	}
	return x
}
