package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
)

// world runs an instance "o1" and all its parts without a store, in virtual time. Agents answer by functions; messages
// wait in order.
type world struct {
	t       *testing.T
	keeper  *keeper
	queue   []sent
	now     time.Time
	agents  map[string]func(b Begin) Done // by step name; "undo NAME" for undos
	journal []string                      // what agents were asked
	begins  []Begin
	asked   []wire.Wrapped
	lines   []*Event // of the trail
	records []Record
}

type sent struct {
	at time.Time
	m  channel.Message
}

func newWorld(t *testing.T, build func(p *Plan)) *world {
	w := &world{t: t, now: time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC), agents: map[string]func(Begin) Done{}}
	w.keeper = newKeeper(newPlan(t, build), t.Errorf)
	return w
}

func newPlan(t *testing.T, build func(p *Plan)) *Plan {
	t.Helper()
	p := NewPlan("plan", 1)
	codec(p)
	build(p)
	if err := p.Finish(); err != nil {
		t.Fatal(err)
	}
	return p
}

func noting(v any, r jsontext.Value) (any, error) { return append(v.([]string), string(r)), nil }

func noAgent(context.Context, jsontext.Value, jsontext.Value) (jsontext.Value, string, error) {
	return nil, "", nil
}

func do(p *Plan, s *Seq, name string) *Node {
	n := p.Add(s, Do, name)
	n.Agent, n.Apply = noAgent, noting
	return n
}

func undoable(n *Node) *Node {
	n.Undo = func(context.Context, jsontext.Value, jsontext.Value) error { return nil }
	return n
}

func composite(p *Plan, s *Seq, verb Verb, name string) *Node {
	n := p.Add(s, verb, name)
	n.Within = 0
	return n
}

func wait(p *Plan, s *Seq, name string, sort channel.Kind) *Node {
	n := p.Add(s, Wait, name)
	n.Sort, n.Apply = sort, noting
	return n
}

func sleep(p *Plan, s *Seq, name string, d time.Duration) *Node {
	n := p.Add(s, Sleep, name)
	n.Forever = true
	n.Until = func(_ any, now time.Time) time.Time { return now.Add(d) }
	return n
}

// ask adds an Ask, which the kinds yes.NAME and no.NAME answer.
func ask(p *Plan, s *Seq, name string) *Node {
	n := p.Add(s, Ask, name)
	n.Command = func(any) channel.Message { return asked{name} }
	n.Answers = []Answer{{Kind: "yes." + channel.Kind(name), Apply: noting}, {Kind: "no." + channel.Kind(name), Refusal: true, Apply: noting}}
	n.UndoAsk = func(_ any, answer jsontext.Value) (channel.Message, error) { return takenBack{string(answer)}, nil }
	return n
}

// each adds an Each of so many items, whose results are counted.
func each(p *Plan, s *Seq, name string, items int) *Node {
	n := p.Add(s, Each, name)
	n.Agent, n.Gathered, n.Apply = noAgent, true, counting
	n.Items = func(any) ([]jsontext.Value, error) { return numbers(items), nil }
	return n
}

func numbers(n int) []jsontext.Value {
	items := make([]jsontext.Value, n)
	for i := range items {
		items[i] = jsontext.Value(fmt.Sprint(i))
	}
	return items
}

// counting counts results in the last text of the state.
func counting(v any, _ jsontext.Value) (any, error) {
	s := v.([]string)
	if len(s) > 0 {
		if n, err := strconv.Atoi(s[len(s)-1]); err == nil {
			s[len(s)-1] = strconv.Itoa(n + 1)
			return s, nil
		}
	}
	return append(s, "1"), nil
}

// split adds a Split of so many items. build makes the plan of a child.
func split(p *Plan, s *Seq, name string, items int, build func(*Plan)) *Node {
	n := each(p, s, name, items)
	n.Verb, n.Agent = Split, nil
	n.Start = func(_ any, item jsontext.Value) (jsontext.Value, error) {
		return jsontext.Value(fmt.Sprintf("[%q]", item)), nil
	}
	child(p, n, build)
	return n
}

func sub(p *Plan, s *Seq, name string, build func(*Plan)) *Node {
	n := p.Add(s, Child, name)
	n.Start = func(any, jsontext.Value) (jsontext.Value, error) { return jsontext.Value("[]"), nil }
	n.Apply = noting
	child(p, n, build)
	return n
}

func child(p *Plan, n *Node, build func(*Plan)) {
	part := p.NewPart(n)
	codec(part)
	build(part)
}

// give folds a message, and queues what it emits. It reports whether the document has changed.
func (w *world) give(id string, m any) bool {
	w.t.Helper()
	out, changed, err := w.keeper.fold(id, m, w.now)
	if err != nil {
		w.t.Fatalf("%s: %T: %v", id, m, err)
	}
	for _, m := range out {
		if x, ok := m.(wire.Wrapped); ok && x.ReplyTo != "" {
			w.asked = append(w.asked, x)
			continue
		}
		m, at := due(m, w.now)
		i := len(w.queue)
		for i > 0 && w.queue[i-1].at.After(at) {
			i--
		}
		w.queue = slices.Insert(w.queue, i, sent{at, m})
	}
	return changed
}

// run delivers what is due, and lets time pass while nothing is.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	end := w.now.Add(d)
	for range 200_000 {
		if len(w.queue) == 0 || w.queue[0].at.After(end) {
			w.now = end
			return
		}
		x := w.queue[0]
		w.queue = w.queue[1:]
		if x.at.After(w.now) {
			w.now = x.at
		}
		w.deliver(x.m)
	}
	w.t.Fatal("it never ends")
}

func (w *world) deliver(m channel.Message) {
	w.t.Helper()
	switch m := m.(type) {
	case Begin:
		w.work(m)
	case Start:
		w.give(m.ID, m)
	case Done:
		w.give(m.ID, m)
	case Alarm:
		w.give(m.ID, m)
	case Act:
		w.give(m.ID, m)
	case Fetch:
		w.fetch(m)
	case Fetched:
		w.give(m.ID, m)
	case Record:
		w.records, w.lines = append(w.records, m), append(w.lines, m.Lines...)
		maps.DeleteFunc(w.keeper.docs, func(id string, _ jsontext.Value) bool { return m.Forget && strings.HasPrefix(id, m.ID+"/") })
	default:
		w.asked = append(w.asked, wire.Wrapped{Message: m})
	}
}

// fetch brings steps back from the trail: a copy of each, and half of those that are wanted.
func (w *world) fetch(m Fetch) {
	w.t.Helper()
	back := Fetched{Plan: m.Plan, ID: m.ID, Word: m.Word}
	for _, x := range m.Want[:(len(m.Want)+1)/2] {
		for _, ev := range slices.Backward(w.lines) {
			if ev.ID == x.ID && ev.Run == x.Run && ev.Order == x.Order {
				c := *ev
				back.Steps = append(back.Steps, &c)
				break
			}
		}
	}
	w.give(m.ID, back)
	w.give(m.ID, back)
}

// work has an agent work on a begin. Without a function it does what it is asked.
func (w *world) work(m Begin) {
	w.t.Helper()
	name := m.Name
	if m.Undo > 0 {
		name = "undo " + name
	}
	if m.Item != nil {
		name += " " + string(m.Input)
		if m.Undo > 0 {
			item, _, _ := Armed(m.Result)
			name += string(item)
		}
	}
	w.journal, w.begins = append(w.journal, name), append(w.begins, m)
	done := Done{Outcome: OK, Result: jsontext.Value(fmt.Sprintf("%q", "did "+name))}
	if f := w.agents[name]; f != nil {
		done = f(m)
	}
	if done.Outcome != "" { // else it hangs
		w.give(m.ID, answering(m, done))
	}
}

// answering makes a completion the answer to a begin.
func answering(m Begin, done Done) Done {
	done.Plan, done.ID, done.Path, done.Run, done.Attempt = m.Plan, m.ID, m.Path, m.Run, m.Attempt
	done.Item, done.Undo, done.List, done.Echo = m.Item, m.Undo, m.List, m.Input
	return done
}

func hang(Begin) Done { return Done{} }

// did is a success with a result.
func did(result string) Done {
	return Done{Outcome: OK, Result: jsontext.Value(fmt.Sprintf("%q", result))}
}

// effective is a success with a result that names its effect.
func effective(effect string) Done {
	d := did(effect)
	d.Effect = effect
	return d
}

// fails returns an agent whose first attempts fail.
func fails(times int, outcome string) func(Begin) Done {
	return func(b Begin) Done {
		if b.Attempt <= times {
			return Done{Outcome: outcome, Error: "no"}
		}
		return did("at last")
	}
}

func (w *world) begin(name string) Begin {
	w.t.Helper()
	for _, b := range slices.Backward(w.begins) {
		if b.Name == name {
			return b
		}
	}
	w.t.Fatalf("%s was never begun: %v", name, w.journal)
	return Begin{}
}

func (w *world) start() { w.give("o1", Start{Plan: "plan", ID: "o1", State: jsontext.Value(`[]`)}) }

func (w *world) act(do, path string) { w.actOn("o1", do, path, "") }

func (w *world) actOn(id, do, path, result string) {
	w.t.Helper()
	m := Act{Plan: "plan", ID: id, Do: do, Path: path, By: "ada", Why: "why not"}
	if result != "" {
		m.Result = jsontext.Value(result)
	}
	w.give(id, m)
}

func (w *world) signal(sort channel.Kind, body string) bool {
	w.t.Helper()
	return w.give("o1", Signal{Plan: "plan", ID: "o1", Sort: sort, Body: jsontext.Value(fmt.Sprintf("%q", body))})
}

// answer answers the last Ask by an event.
func (w *world) answer(sort channel.Kind, body string) bool {
	w.t.Helper()
	for _, x := range slices.Backward(w.asked) {
		if x.ReplyTo != "" {
			_, id, path, run, _ := Address(x.ReplyTo)
			return w.give(id, Reply{Sort: sort, Body: jsontext.Value(fmt.Sprintf("%q", body)), Path: path, Run: run})
		}
	}
	w.t.Fatal("nobody has asked")
	return false
}

func (w *world) doc() *Instance { return w.keeper.get("o1") }

// want compares the status, and what the agents were asked.
func (w *world) want(status Status, journal ...string) {
	w.t.Helper()
	if d := w.doc(); d.Status != status {
		raw, _ := json.MarshalIndent(d, "", " ")
		w.t.Errorf("status: got %s, want %s\n%s", d.Status, status, raw)
	}
	if got, want := strings.Join(w.journal, ", "), strings.Join(journal, ", "); got != want {
		w.t.Errorf("agents:\n got %s\nwant %s", got, want)
	}
}

func (w *world) wantState(want string) {
	w.t.Helper()
	if got := string(w.doc().State); got != want {
		w.t.Errorf("state: got %s, want %s", got, want)
	}
}

func (w *world) wantNote(want string) {
	w.t.Helper()
	for _, x := range w.doc().Notes {
		if strings.Contains(x.Do+" "+x.Path+" "+x.By+" "+x.Why, want) {
			return
		}
	}
	w.t.Errorf("no note says %q: %+v", want, w.doc().Notes)
}

// three is a plan of three steps.
func three(p *Plan) {
	undoable(do(p, p.Root, "reserve"))
	undoable(do(p, p.Root, "charge"))
	do(p, p.Root, "ship")
}
