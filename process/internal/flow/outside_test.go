package flow

import (
	"container/heap"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
)

// effect is something that an agent has done, and has told about.
type effect struct {
	id     string
	doc    string // instance of the step
	path   string
	run    int
	item   int // wholeStep: none
	undoes bool
	taken  int             // when its success was folded first, in messages; 0: not yet
	begun  int             // when its undo was begun
	ended  int             // when its undo was folded
	undone map[string]bool // by the undo's key
	spared bool            // an operator has let its undo be
}

// place is a step of a document, or an item of it.
type place struct {
	doc, path string
	item      int
}

// outside is all that is not the engine: agents, and the value objects that decide commands. It keeps the journal that
// the audit goes by.
type outside struct {
	*sim
	effects []*effect
	byKey   map[string]*effect // of agents that know their keys
	byID    map[string]*effect
	undone  map[string]bool // undo keys that were worked on
	owners  map[string]string
	begun   map[string]bool // keys with attempts
	bad     map[string]bool // documents with a step that has said no, or was late
}

// agent works on a begin. One that has waited, or is a copy, asks the document first.
func (o *outside) agent(b Begin, asks bool) {
	part := o.plan.Find(b.Part)
	n := part.Node(b.Path)
	o.checkBegin(b)
	if d := o.keeper.get(b.ID); o.gone[TopID(b.ID)] || asks && d.Knows(b) && !d.Wants(b) {
		return
	}
	if (b.Attempt > 1 || o.chance(20)) && b.Undo == 0 && !o.keeper.get(b.ID).Wants(b) {
		o.log("  nobody wants %s %s any more", b.ID, b.Name)
		return
	}
	done := o.word(b)
	fate := o.rng.IntN(100)
	if o.kind {
		fate = 0
	}
	switch {
	case fate < 66: // it works
	case fate < 82:
		done.Outcome, done.Error = Failed, "503"
	case fate < 84:
		done.Outcome, done.Error, done.After = Failed, "later", time.Duration(o.rng.IntN(60))*time.Second
	case fate < 88:
		done.Outcome, done.Error = Refused, "refused"
	case fate < 90:
		done.Outcome, done.Error = Never, "never"
	case fate < 94 && !n.Forever:
		o.log("  the agent of %s %s hangs", b.ID, b.Name)
		if o.brief && b.Undo == 0 && !b.List {
			o.enqueue(SilentOf(b), o.now.Add(n.Try))
			heap.Push(&o.bag, &letter{m: woken(b), at: o.soon(40 * time.Hour), number: o.count*1000 + len(o.bag)})
		}
		return
	}
	switch {
	case done.Outcome != OK && b.Undo == 0:
		o.bad[b.ID] = true
	case done.Outcome != OK:
	case b.Undo > 0:
		o.undo(b)
	case b.List:
		done.Result = o.list(n, b)
	default:
		o.do(n, b, &done)
	}
	o.tell(b, done)
}

// succeed has the effect of an agent that hung.
func (o *outside) succeed(b Begin) {
	done := o.word(b)
	o.do(o.plan.Find(b.Part).Node(b.Path), b, &done)
	o.tell(b, done)
}

func (o *outside) word(b Begin) Done {
	done := Done{
		Plan: b.Plan, ID: b.ID, Path: b.Path, Run: b.Run, Attempt: b.Attempt, Item: b.Item, Undo: b.Undo, List: b.List, Outcome: OK,
		Began: o.now, Ended: o.now, Worker: "w",
	}
	if b.Item != nil && b.Undo == 0 {
		done.Echo = b.Input
	}
	return done
}

func (o *outside) tell(b Begin, done Done) {
	o.log("  the agent of %s %s (attempt %d, undo %d): %s %s %s", b.ID, b.Name, b.Attempt, b.Undo, done.Outcome, done.Result, done.Effect)
	o.enqueue(done, o.now.Add(o.latency()))
}

// checkBegin holds a begin against those before it.
func (o *outside) checkBegin(b Begin) {
	whose := fmt.Sprint(b.ID, b.Part, b.Path, b.Run, item(b.Item), b.Undo, b.List)
	if other, ok := o.owners[b.Key]; ok && other != whose {
		o.fault("one key for two: %s and %s", other, whose)
	}
	o.owners[b.Key] = whose
}

func item(i *int) int {
	if i == nil {
		return wholeStep
	}
	return *i
}

// do has an effect, unless the agent knows the key.
func (o *outside) do(n *Node, b Begin, done *Done) {
	names := o.grown.traits[n].names
	x := o.byKey[b.Key]
	if x == nil || names {
		x = o.newEffect(effect{doc: b.ID, path: b.Path, run: b.Run, item: item(b.Item), undoes: n.Undo != nil})
		o.byKey[b.Key] = x
	}
	done.Result = jsontext.Value(fmt.Sprintf("%q", x.id))
	if names {
		done.Effect = x.id
	}
}

func (o *outside) newEffect(x effect) *effect {
	x.id, x.undone = fmt.Sprint("e", len(o.effects)+1), map[string]bool{}
	o.effects = append(o.effects, &x)
	o.byID[x.id] = &x
	return &x
}

// operators is what an operator says of a step that is skipped.
const operators = "by hand"

// effectOf returns the effect that a result stands for.
func (o *outside) effectOf(result string) *effect {
	id, _, _ := strings.Cut(strings.Trim(result, `"`), "/")
	x := o.byID[id]
	if x == nil {
		if id != operators {
			o.fault("no effect %s", result)
		}
		return &effect{id: id, undone: map[string]bool{}}
	}
	return x
}

// undo takes an effect back.
func (o *outside) undo(b Begin) {
	result := b.Result
	if b.Item != nil {
		var err error
		if _, result, err = Armed(b.Result); err != nil {
			o.fault("%v", err)
		}
	}
	x := o.effectOf(string(result))
	if x.id != operators && (x.doc != b.ID || x.path != b.Path || x.item != item(b.Item)) {
		o.fault("effect %s of %s %s is undone by %s %s", x.id, x.doc, x.path, b.ID, b.Path)
	}
	x.undone[b.Key] = true
}

// list lists items.
func (o *outside) list(n *Node, b Begin) jsontext.Value {
	x := o.grown.traits[n]
	at := 0
	_, _ = fmt.Sscan(string(b.Input), &at)
	size := (x.items + x.lists - 1) / x.lists
	var next jsontext.Value
	if at+1 < x.lists {
		next = jsontext.Value(fmt.Sprint(at + 1))
	}
	raw, err := Listing(itemsOf(n, min(at*size, x.items), min((at+1)*size, x.items)), next)
	if err != nil {
		o.fault("%v", err)
	}
	return raw
}

// decide answers the command of an Ask by events, or not.
func (o *outside) decide(m asked, address string) {
	_, id, path, run, ok := Address(address)
	if !ok {
		o.fault("the command of %s has the reply address %q", m.Step, address)
		return
	}
	fate := o.rng.IntN(100)
	if o.kind {
		fate = 0
	}
	n := o.stepNamed(m.Step)
	kind, body := "yes."+m.Step, `"no"`
	switch {
	case fate < 80:
		x := o.newEffect(effect{doc: id, path: path, run: run, item: wholeStep, undoes: n.UndoAsk != nil})
		body = fmt.Sprintf("%q", x.id)
		if fate < 8 { // and once more, in other words
			o.enqueue(reply{id, Reply{Sort: channel.Kind(kind), Body: jsontext.Value(fmt.Sprintf("%q", x.id+"/2")), Path: path, Run: run}}, o.now.Add(o.latency()))
		}
	case fate < 90 || n.Forever:
		kind = "no." + m.Step
		o.bad[id] = true
	default:
		o.log("  nobody answers %s", m.Step)
		return
	}
	o.log("  %s is answered: %s %s", m.Step, kind, body)
	o.enqueue(reply{id, Reply{Sort: channel.Kind(kind), Body: jsontext.Value(body), Path: path, Run: run}}, o.now.Add(o.latency()))
}

func (o *outside) stepNamed(name string) (found *Node) {
	o.plan.Nodes(func(_ *Plan, n *Node) {
		if n.Name == name {
			found = n
		}
	})
	return found
}

// takeBack decides the undo of an Ask.
func (o *outside) takeBack(m takenBack, key string) {
	x := o.effectOf(m.Answer)
	x.undone[key] = true
}

// notice keeps when a success was folded, and when its undo was begun and folded.
func (o *outside) notice(m any, out []channel.Message) {
	switch m := m.(type) {
	case Done:
		switch {
		case m.Outcome != OK || m.List || m.Results != nil:
		case m.Undo > 0:
			for _, x := range o.effects {
				if x.doc == m.ID && x.path == m.Path && x.item == item(m.Item) && x.run == m.Run && len(x.undone) > 0 && x.ended == 0 {
					x.ended = o.count
				}
			}
		case strings.HasPrefix(string(m.Result), `"e`):
			if x := o.effectOf(string(m.Result)); x.taken == 0 {
				x.taken = o.count
			}
		}
	case reply:
		if strings.HasPrefix(string(m.r.Body), `"e`) {
			if x := o.effectOf(string(m.r.Body)); x.taken == 0 {
				x.taken = o.count
			}
		}
	}
	for _, m := range out {
		m, _ := due(m, o.now)
		if back, ok := m.(takenBack); ok { // nobody waits for its end
			x := o.effectOf(back.Answer)
			x.begun, x.ended = o.count, o.count
		}
		b, ok := m.(Begin)
		if !ok {
			continue
		}
		once := fmt.Sprint(b.Key, " ", b.Attempt, b.List, b.Input)
		if o.begun[once] {
			o.fault("%s: %s is begun twice by attempt %d", b.ID, b.Name, b.Attempt)
		}
		o.begun[once] = true
		if b.Undo > 0 {
			result := b.Result
			if b.Item != nil {
				_, result, _ = Armed(b.Result)
			}
			if x := o.effectOf(string(result)); x.begun == 0 {
				x.begun = o.count
			}
		}
	}
}

// live returns the effects of a place that were not undone.
func (o *outside) live(at place) (live []*effect) {
	for _, x := range o.effects {
		if x.doc == at.doc && x.path == at.path && (at.item == wholeStep || x.item == at.item) && len(x.undone) == 0 && x.undoes && !x.spared {
			live = append(live, x)
		}
	}
	return live
}
