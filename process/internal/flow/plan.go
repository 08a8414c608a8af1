package flow

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
)

// A Verb is what a node does.
type Verb string

// The verbs.
const (
	Do    Verb = "do"    // an agent
	Ask   Verb = "ask"   // a command that one of several events answers
	Wait  Verb = "wait"  // for a signal or an event
	Sleep Verb = "sleep" // for a time
	Then  Verb = "then"  // a pure function
	If    Verb = "if"
	All   Verb = "all"
	Any   Verb = "any"
	Each  Verb = "each"  // an agent for each item
	Split Verb = "split" // a child for each item
	Child Verb = "sub"   // one child
	Pivot Verb = "pivot" // nothing before it is undone any more
)

// Defaults of nodes and plans.
const (
	DefaultTry       = time.Minute
	DefaultWithin    = time.Hour
	DefaultBackoff   = time.Second
	DefaultAtOnce    = 256
	DefaultRetention = 30 * 24 * time.Hour
	UndoWithin       = 24 * time.Hour
	Grace            = 30 * time.Second
	maxBackoff       = time.Minute
	maxDepth         = 8
)

// Bounds of a document.
const (
	MaxPage     = 1024      // items in one document
	MaxPages    = 1024      // pages of one fan
	maxPageSize = 128 << 10 // bytes of the items of a page
	MaxSize     = 256 << 10 // bytes of a document
	resultRoom  = 64 << 10  // beyond that, for a result that can't be taken into the state
	maxEarly    = 64
	earlyRoom   = 48 << 10 // beside MaxSize, for early signals
	maxFailures = 5
	maxNotes    = 16
	maxText     = 500     // bytes of a text
	maxLines    = 64      // ended steps that stay in the document
	maxBad      = 64      // failed items that are listed
	maxBadLine  = 8       // of these, in the trail
	maxBadItem  = 1 << 10 // bytes of an item that is listed itself
	maxTwice    = 16      // further successes of a step that are told apart
)

// A Seq is a sequence of steps.
type Seq struct {
	Path  string
	Owner *Node // nil: the plan's own
	Alt   bool  // it is the owner's Else
	Steps []*Node
}

// A Node is a step of a plan.
type Node struct {
	Path, Name string
	Verb       Verb
	Seq        *Seq
	Index      int    // in Seq
	Branches   []*Seq // of If, All and Any
	Else       *Seq
	Child      *Plan // of Split and Child

	Try, Within      time.Duration
	Forever          bool
	Attempts         int // 0: as many as there is time for
	Backoff          time.Duration
	By               string
	AtOnce           int
	Tolerate         int
	Share            float64 // of Tolerate, where it is a share
	Sort             channel.Kind
	Answers          []Answer // of Ask
	Structure        string   // of its types, for the fingerprint
	Listed, Gathered bool

	Agent   func(ctx context.Context, state, item jsontext.Value) (result jsontext.Value, effect string, err error)
	List    func(ctx context.Context, state, cursor jsontext.Value) (jsontext.Value, error) // of EachFrom; see Listing
	Undo    func(ctx context.Context, state, result jsontext.Value) error                   // of agents
	UndoAsk func(state any, answer jsontext.Value) (channel.Message, error)
	Apply   func(state any, result jsontext.Value) (any, error) // Then, If's condition excepted
	Cond    func(state any) bool
	Command func(state any) channel.Message
	Items   func(state any) ([]jsontext.Value, error)
	Start   func(state any, item jsontext.Value) (jsontext.Value, error) // of children
	Until   func(state any, now time.Time) time.Time
}

// An Answer is an event that ends an Ask.
type Answer struct {
	Kind    channel.Kind
	Refusal bool
	Apply   func(state any, answer jsontext.Value) (any, error)
}

// undoable reports that the node's agent or command can be taken back.
func (n *Node) undoable() bool {
	return n.Undo != nil || n.UndoAsk != nil || n.Child != nil && n.Child.undoable
}

// deadline returns when a node that begins now must have ended; zero: never.
func (n *Node) deadline(now time.Time) time.Time {
	if n.Forever || n.Within <= 0 {
		return time.Time{}
	}
	return now.Add(n.Within)
}

// A Plan is a tree of steps over a state.
type Plan struct {
	Name      string
	Version   int
	Part      string // of a child's plan: where it is in the whole
	Root      *Seq
	Within    time.Duration // 0: no deadline of the whole
	Retention time.Duration
	Keep      bool // a cancelled instance keeps what was done
	Print     string

	Decode func(jsontext.Value) (any, error)
	Encode func(old jsontext.Value, state any) (jsontext.Value, error)
	Tags   func(state any) map[string]string
	Ended  func(state any, id string, s Status, why string) channel.Message // sent when it ends, or is stuck; nil: nothing

	nodes    map[string]*Node
	names    map[string]bool
	whole    *Plan
	undoable bool
	depth    int
	longest  time.Duration // Try of an agent
	faults   []error
	bounds   bounds // of the whole
}

// bounds are how much of some things a document holds. Tests choose less.
type bounds struct {
	page  int // items
	lines int // ended steps
	shelf int // bytes, before steps go to the shelf
}

// NewPlan returns an empty plan. Build it, then call Finish.
func NewPlan(name string, version int) *Plan {
	p := &Plan{Name: name, Version: version, Root: &Seq{}, Retention: DefaultRetention, nodes: map[string]*Node{}, names: map[string]bool{}}
	p.whole, p.bounds = p, bounds{MaxPage, maxLines, MaxSize / 2}
	return p
}

// NewPart returns the empty plan of a node's children.
func (p *Plan) NewPart(n *Node) *Plan {
	part := NewPlan(p.Name, p.Version)
	part.whole, part.depth = p.whole, p.depth+1
	part.Part = n.Path
	if p.Part != "" {
		part.Part = p.Part + "/" + n.Path
	}
	n.Child = part
	return part
}

// Fault notes what is wrong with the plan.
func (p *Plan) Fault(format string, args ...any) {
	p.whole.faults = append(p.whole.faults, fmt.Errorf(format, args...))
}

// Add appends a step to a sequence of the plan.
func (p *Plan) Add(s *Seq, verb Verb, name string) *Node {
	n := &Node{
		Path: join(s.Path, len(s.Steps)+1), Name: name, Verb: verb, Seq: s, Index: len(s.Steps),
		Try: DefaultTry, Within: DefaultWithin, Backoff: DefaultBackoff, AtOnce: DefaultAtOnce,
	}
	s.Steps = append(s.Steps, n)
	p.nodes[n.Path] = n
	switch why := badName(name); {
	case why != "":
		p.Fault("step %s: its name is %.120q: %s", n.Path, name, why)
	case p.names[name]:
		p.Fault("step %s: another step has the name %q; want names of their own", n.Path, name)
	case strings.Count(n.Path, ".")+p.depth > 2*maxDepth:
		p.Fault("step %s: it is nested deeper than %d", n.Path, maxDepth)
	}
	p.names[name] = true
	return n
}

// badName says why a step can't have a name, or "". Operators name steps by it, and also by their paths.
func badName(name string) string {
	switch {
	case name == "" || len(name) > maxStepName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return "want 1 to 100 bytes of text, in UTF-8 and without control characters"
	case strings.TrimSpace(name) != name:
		return "want no space at its ends"
	case strings.ContainsAny(name, "/~#"):
		return "want none of / ~ #, which the paths of steps have"
	case pathLike.MatchString(name):
		return "want a word: that is the path of a step"
	}
	return ""
}

const maxStepName = 100 // bytes

var pathLike = regexp.MustCompile(`^[0-9]{2,}(\.[0-9]{2,})*$`)

// Branch returns a new sequence of a step.
func (p *Plan) Branch(n *Node) *Seq {
	s := &Seq{Path: join(n.Path, len(n.Branches)+1), Owner: n}
	n.Branches = append(n.Branches, s)
	return s
}

// NewElse returns the sequence that runs instead when the step fails.
func (p *Plan) NewElse(n *Node) *Seq {
	if n.Else != nil {
		p.Fault("step %s: it has two Else; want one", n.Name)
	}
	n.Else = &Seq{Path: join(n.Path, 0), Owner: n, Alt: true}
	return n.Else
}

func join(path string, i int) string {
	if path == "" {
		return fmt.Sprintf("%02d", i)
	}
	return fmt.Sprintf("%s.%02d", path, i)
}

// Finish checks the plan and all its parts, and sets the fingerprint. It returns all faults together.
func (p *Plan) Finish() error {
	p.finish()
	p.Print = p.fingerprint()
	return errors.Join(p.faults...)
}

func (p *Plan) finish() {
	if len(p.Root.Steps) == 0 {
		p.Fault("the plan %s has no step", p.Name)
	}
	p.finishSeq(p.Root)
}

func (p *Plan) finishSeq(s *Seq) {
	for _, n := range s.Steps {
		if n.Child != nil {
			n.Child.finish()
		}
		p.undoable = p.undoable || n.undoable()
		if n.Agent != nil || n.Undo != nil {
			p.whole.longest = max(p.whole.longest, n.Try)
		}
		if n.Verb == Pivot && n.escapable() {
			p.Fault("step %s: a pivot within an Any, or within a step that has an Else; want it where nothing leads back", n.Name)
		}
		for _, b := range n.Branches {
			p.finishSeq(b)
		}
		if n.Else != nil {
			p.finishSeq(n.Else)
		}
	}
}

// escapable reports that the plan may go on in another way than by the step, and take back what it has done.
func (n *Node) escapable() bool {
	for o := n.Seq.Owner; o != nil; o = o.Seq.Owner {
		if o.Verb == Any || o.Else != nil {
			return true
		}
	}
	return false
}

// Find returns the plan of a part. The empty part is the whole.
func (p *Plan) Find(part string) *Plan {
	for part != "" && p != nil {
		var path string
		path, part, _ = strings.Cut(part, "/")
		n := p.nodes[path]
		if n == nil {
			return nil
		}
		p = n.Child
	}
	return p
}

// Node returns the step of a path, or nil.
func (p *Plan) Node(path string) *Node { return p.nodes[path] }

// Step returns the step of a name, or nil.
func (p *Plan) Step(name string) *Node {
	for _, n := range p.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// Nodes calls f with each step of the plan and of its parts, in the plan's order.
func (p *Plan) Nodes(f func(*Plan, *Node)) { p.walk(p.Root, f) }

func (p *Plan) walk(s *Seq, f func(*Plan, *Node)) {
	for _, n := range s.Steps {
		f(p, n)
		for _, b := range n.Branches {
			p.walk(b, f)
		}
		if n.Else != nil {
			p.walk(n.Else, f)
		}
		if n.Child != nil {
			n.Child.walk(n.Child.Root, f)
		}
	}
}

// OwnerOf divides the path of a step into that of the step that it belongs to, and the number of the branch. ok is
// false for a step of the plan's own sequence.
func OwnerOf(path string) (owner, branch string, ok bool) {
	at := strings.LastIndexByte(path, '.')
	if at < 0 {
		return "", "", false
	}
	path = path[:at]
	if at = strings.LastIndexByte(path, '.'); at < 0 { // no plan makes such a path
		return "", path, true
	}
	return path[:at], path[at+1:], true
}

// within reports that a path is in a scope: the path of a step or a sequence, or "" for all.
func within(path, scope string) bool {
	return scope == "" || path == scope || strings.HasPrefix(path, scope) && path[len(scope)] == '.'
}
