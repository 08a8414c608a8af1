package process

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/process/internal/flow"
)

// hearing are the events that a plan listens to, and the commands that it sends.
type hearing struct {
	events   map[channel.Kind]*heard
	commands map[channel.Kind]*command
	agents   map[string]any // see [Alone]; those that no step has taken
}

// command is a command that a plan sends.
type command struct {
	step     string // one that sends it
	route    channel.Route
	answers  bool // see [Alone]
	register func(*handlers.Registry)
}

// heard is an event that a plan listens to.
type heard struct {
	kind     channel.Kind
	needed   bool // the routes must lead it to the plan
	key      func(any) string
	register func(h *host, x *heard)
	route    func(plan string) channel.Route
	schema   func() ([]byte, error)
}

// maxSchema is how large the JSON Schema of a signal may be that is stored.
const maxSchema = 4 << 10

// schemas are those of the kinds that a plan's steps wait for.
func (h *hearing) schemas(p *flow.Plan) map[channel.Kind]json.RawMessage {
	all := map[channel.Kind]json.RawMessage{}
	p.Nodes(func(_ *flow.Plan, n *flow.Node) {
		if x := h.events[n.Sort]; x != nil && n.Verb == flow.Wait {
			if schema, err := x.schema(); err == nil && len(schema) <= maxSchema {
				all[n.Sort] = schema
			}
		}
	})
	return all
}

func newHearing() *hearing {
	return &hearing{events: map[channel.Kind]*heard{}, commands: map[channel.Kind]*command{}}
}

// hear notes that a plan listens to events of a type.
func hear[E channel.Message](h *hearing, needed bool, id func(E) string) {
	kind := channel.KindOf[E]()
	x := h.events[kind]
	if x == nil {
		x = &heard{
			kind: kind, register: registerHeard[E],
			route:  func(plan string) channel.Route { return channel.Event[E](plan) },
			schema: func() ([]byte, error) { return jsonform.Schema(reflect.TypeFor[E]()) },
		}
		h.events[kind] = x
	}
	x.needed = x.needed || needed
	if id != nil {
		x.key = func(m any) string { return id(m.(E)) }
	}
}

// replaced returns the function that replaces f, or f.
func replaced[F any](p *flow.Plan, h *hearing, name string, f F) F {
	other, ok := h.agents[name]
	if !ok {
		return f
	}
	delete(h.agents, name)
	g, ok := other.(F)
	if !ok {
		p.Fault("the agent %q is a %T; want a %v", name, other, reflect.TypeFor[F]())
		return f
	}
	return g
}

// kinds are those of the events that the plan hears, in words.
func (h *hearing) kinds() string {
	var all []string
	for k := range h.events {
		all = append(all, string(k))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// asked is the queue of the commands of a plan that is alone.
const asked = "asked"

// emits notes that a step sends commands of a type. answer may be nil.
func emits[C channel.Message](p *flow.Plan, h *hearing, step string, answer func(C) channel.Message) {
	kind := channel.KindOf[C]()
	if old := h.commands[kind]; old != nil && answer != nil && old.answers {
		p.Fault("the steps %s and %s send the same command: give one of them the function that answers it", old.step, step)
	}
	if old := h.commands[kind]; old != nil && answer == nil {
		return
	}
	h.commands[kind] = &command{step, channel.Command[C](asked), answer != nil, func(r *handlers.Registry) {
		handling.Reply(r.Inside(), handling.As{}, "answer to "+string(kind), asked, func(_ context.Context, _ *channel.Envelope, c C) ([]channel.Message, error) {
			if answer == nil {
				return nil, nil
			}
			m := answer(c)
			if wire.IsNil(m) {
				return nil, nil
			}
			if h.events[m.Kind()] == nil {
				return nil, handlers.Poison("odd answer", fmt.Errorf("the function that stands in for the step %s answers with %s; the plan hears %s", step, m.Kind(), h.kinds()))
			}
			return []channel.Message{m}, nil
		})
	}}
}
