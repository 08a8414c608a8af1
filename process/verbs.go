package process

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/process/internal/flow"
)

// Do calls an agent. The agent is a handler: it may be called more than once, with the same [Key] each time,
// and its context ends at the deadline. then is pure, and takes the result into the state; nil leaves the state as it
// is. An agent that has no result returns a struct{}.
func Do[S, R any](p *Plan[S], name string, agent func(context.Context, S) (R, error), then func(S, R) S) *Step[S, S, R] {
	n := p.add(flow.Do, name)
	n.Structure = jsonform.Print(reflect.TypeFor[R]())
	checkType[R](p.plan, n)
	if agent = replaced(p.plan, p.hear, name, agent); agent == nil {
		p.plan.Fault("step %s: the agent is nil", name)
	}
	n.Agent = func(ctx context.Context, raw, _ jsontext.Value) (jsontext.Value, string, error) {
		s, err := decode[S](raw)
		if err != nil {
			return nil, "", err
		}
		r, err := agent(ctx, s)
		if err != nil {
			return nil, "", err
		}
		return encodeResult(r)
	}
	n.Apply = applying(then)
	return &Step[S, S, R]{p, n}
}

// Ask sends a command and waits for the event that answers it. The value object that decides the command needs to know
// nothing of the process: the reply address travels along the chain of messages. The routes must lead the event to the
// group that has the plan's name.
func Ask[S any, C, E channel.Message](p *Plan[S], name string, command func(S) C, then func(S, E) S) *Step[S, S, E] {
	n := p.add(flow.Ask, name)
	n.Structure = fmt.Sprintf("%s %s", channel.KindOf[C](), channel.KindOf[E]())
	if command == nil {
		p.plan.Fault("step %s: the function that makes the command is nil", name)
		return &Step[S, S, E]{p, n}
	}
	n.Command = commanding(command)
	n.Answers = append(n.Answers, flow.Answer{Kind: channel.KindOf[E](), Apply: applying(then)})
	hear[E](p.hear, true, nil)
	emits(p.plan, p.hear, name, replaced[func(C) channel.Message](p.plan, p.hear, name, nil))
	return &Step[S, S, E]{p, n}
}

// Refused names another event that answers an Ask: a refusal. then may note it in the state. The step then fails.
func Refused[S, R any, E channel.Message](step *Step[S, S, R], then func(S, E) S) {
	step.fits("Refused", flow.Ask)
	kind := channel.KindOf[E]()
	for _, a := range step.node.Answers {
		if a.Kind == kind {
			step.plan.plan.Fault("step %s: two answers are of kind %s", step.node.Name, kind)
		}
	}
	step.node.Structure += " " + string(kind)
	step.node.Answers = append(step.node.Answers, flow.Answer{Kind: kind, Refusal: true, Apply: applying(then)})
	hear[E](step.plan.hear, true, nil)
}

// UndoAsk takes back by a command what the answer to an Ask stands for. The command is sent, and not waited for.
func UndoAsk[S, R any, C channel.Message](step *Step[S, S, R], command func(S) C) {
	step.fits("UndoAsk", flow.Ask)
	if command == nil {
		step.plan.plan.Fault("step %s: the function of UndoAsk is nil", step.node.Name)
		return
	}
	make, plan := commanding(command), step.plan
	emits(plan.plan, plan.hear, step.node.Name, replaced[func(C) channel.Message](plan.plan, plan.hear, "undo "+step.node.Name, nil))
	step.node.UndoAsk = func(v any, _ jsontext.Value) (channel.Message, error) { return make(v), nil }
}

// Wait waits for a message from outside: a signal (see [Instances.Signal]), or an event that the routes lead to the
// group with the plan's name. Such an event belongs to an instance by the reply address that it carries, or see
// [Keyed]. One that comes before the step is kept for it.
func Wait[S any, E channel.Message](p *Plan[S], name string, then func(S, E) S) *Step[S, S, E] {
	n := p.add(flow.Wait, name)
	n.Sort = channel.KindOf[E]()
	n.Structure = string(n.Sort)
	n.Apply = applying(then)
	hear[E](p.hear, false, nil)
	return &Step[S, S, E]{p, n}
}

// Keyed finds the instance that an event is for by its content, where a Wait listens to events that don't come from the
// process itself.
func Keyed[S any, E channel.Message](step *Step[S, S, E], id func(E) string) *Step[S, S, E] {
	step.fits("Keyed", flow.Wait)
	hear(step.plan.hear, true, id)
	return step
}

// Sleep waits for a time, up to ten years.
func Sleep[S any](p *Plan[S], name string, d time.Duration) {
	n := p.add(flow.Sleep, name)
	n.Forever = true
	if d <= 0 || d > channel.MaxDelay {
		p.plan.Fault("step %s: a sleep of %v; want a positive time of at most ten years", name, d)
	}
	n.Until = func(_ any, now time.Time) time.Time { return now.Add(d) }
}

// SleepUntil waits until a time that follows from the state. until is pure.
func SleepUntil[S any](p *Plan[S], name string, until func(S) time.Time) {
	n := p.add(flow.Sleep, name)
	n.Forever = true
	if until == nil {
		p.plan.Fault("step %s: the function that says until when is nil", name)
		return
	}
	n.Until = func(v any, now time.Time) time.Time {
		t := until(v.(*state[S]).value)
		if latest := now.Add(channel.MaxDelay); t.After(latest) {
			return latest
		}
		return t
	}
}

// Then changes the state by a pure function, with no message.
func Then[S any](p *Plan[S], name string, f func(S) S) {
	n := p.add(flow.Then, name)
	n.Forever = true
	if f == nil {
		p.plan.Fault("step %s: the function is nil", name)
		return
	}
	n.Apply = func(v any, _ jsontext.Value) (any, error) {
		s := v.(*state[S])
		return &state[S]{f(s.value), s.foreign}, nil
	}
}

// Pivot is the point from which the plan only goes on: what was done before is not undone any more, and a step that
// fails after it is tried until it works, or is stuck until somebody acts. Nobody unships a parcel.
func Pivot[S any](p *Plan[S], name string) { p.add(flow.Pivot, name).Forever = true }

// If runs the steps of yes where cond holds for the state, and else those of no, which may be nil. cond is pure.
func If[S any](p *Plan[S], name string, cond func(S) bool, yes, no func(*Plan[S])) *Step[S, S, S] {
	n := p.add(flow.If, name)
	n.Within = 0
	if cond == nil {
		p.plan.Fault("step %s: the condition is nil", name)
		cond = func(S) bool { return false }
	}
	n.Cond = func(v any) bool { return cond(v.(*state[S]).value) }
	p.sub(p.plan.Branch(n), name, yes)
	if no != nil {
		p.sub(p.plan.Branch(n), name, no)
	}
	return &Step[S, S, S]{p, n}
}

// All runs branches side by side. It ends when all have ended, and fails when one fails; the others are cancelled then.
func All[S any](p *Plan[S], name string, branches ...func(*Plan[S])) *Step[S, S, S] {
	return branching(p, flow.All, name, branches)
}

// Any runs branches side by side. It ends when one has ended well. The others are cancelled, and what they have done is
// undone. It fails when all fail.
func Any[S any](p *Plan[S], name string, branches ...func(*Plan[S])) *Step[S, S, S] {
	return branching(p, flow.Any, name, branches)
}

func branching[S any](p *Plan[S], verb flow.Verb, name string, branches []func(*Plan[S])) *Step[S, S, S] {
	n := p.add(verb, name)
	n.Within = 0
	if len(branches) < 2 {
		p.plan.Fault("step %s: %d branches; want at least 2", name, len(branches))
	}
	for _, b := range branches {
		p.sub(p.plan.Branch(n), name, b)
	}
	return &Step[S, S, S]{p, n}
}

// Child runs another plan as an instance of its own, in this one's tree. start makes its state, and then takes its last
// state into this one's.
func Child[S, T any](p *Plan[S], name string, start func(S) T, plan func(*Plan[T]), then func(S, T) S) *Step[S, S, T] {
	n := p.add(flow.Child, name)
	n.Apply = applying(then)
	if start == nil {
		p.plan.Fault("step %s: the function that makes the state is nil", name)
	}
	n.Start = func(v any, _ jsontext.Value) (jsontext.Value, error) {
		return jsonform.Encode(start(v.(*state[S]).value))
	}
	part(p, n, plan)
	return &Step[S, S, T]{p, n}
}

// part builds the plan of a step's children.
func part[S, T any](p *Plan[S], n *flow.Node, plan func(*Plan[T])) {
	sub := p.plan.NewPart(n)
	if plan == nil {
		p.plan.Fault("step %s: the function that builds its plan is nil", n.Name)
		return
	}
	plan(newPlan[T](sub, p.hear))
}

// checkType refuses a type that loses fields on its way.
func checkType[T any](p *flow.Plan, n *flow.Node) {
	t := reflect.TypeFor[T]()
	if t.Kind() == reflect.Struct && t.NumField() == 0 { // a result that says nothing
		return
	}
	if lost, err := jsonform.Check(t); err != nil {
		p.Fault("step %s: %v: %w", n.Name, t, err)
	} else if len(lost) > 0 {
		p.Fault("step %s: %v loses its field %s in JSON: export it, or mark it with json:\"-\"", n.Name, t, lost[0])
	}
}
