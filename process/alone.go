package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/process/internal/flow"
)

// Alone makes a program of a plan by itself, for package millracetest: the routes that it needs, and the function that
// registers it. agents replace those of the plan, by the names of their steps; see millracetest.Plan. Commands that the
// plan sends go to a queue of their own, where a function of agents answers them, or nobody.
func Alone(x wire.Inside, name string, part Part, agents map[string]any) (routes []channel.Route, register func(*handlers.Registry) error, err error) {
	if err := checkName(name); err != nil {
		return nil, nil, err
	}
	part = replacing{part, agents}
	h := &host{name: name, versions: map[int]*flow.Plan{}, upgrades: map[int]upgrade{}, hear: newHearing()}
	part.addTo(h)
	if len(h.faults) > 0 {
		return nil, nil, fmt.Errorf("process: plan %s: %w", name, errors.Join(h.faults...))
	}
	queues := map[string]bool{}
	for _, p := range h.versions {
		p.Nodes(func(_ *flow.Plan, n *flow.Node) { queues[n.By] = true })
	}
	delete(queues, "")
	routes = append(routes, Route(name, slices.Sorted(maps.Keys(queues))...))
	for _, k := range slices.Sorted(maps.Keys(h.hear.commands)) {
		routes = append(routes, h.hear.commands[k].route)
	}
	for _, k := range slices.Sorted(maps.Keys(h.hear.events)) {
		routes = append(routes, h.hear.events[k].route(name))
	}
	return routes, func(r *handlers.Registry) error {
		for _, c := range h.hear.commands {
			c.register(r)
		}
		return Register(r, name, part)
	}, nil
}

// replacing is a version with other agents.
type replacing struct {
	Part
	agents map[string]any
}

func (r replacing) addTo(h *host) {
	h.hear.agents = maps.Clone(r.agents)
	r.Part.addTo(h)
	for _, name := range slices.Sorted(maps.Keys(h.hear.agents)) {
		h.fault("no step takes the agent %q", name)
	}
	h.hear.agents = nil
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
		handlers.ReplyAs(wire.Inside{}, r, "answer to "+string(kind), asked, func(_ context.Context, _ *channel.Envelope, c C) ([]channel.Message, error) {
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
