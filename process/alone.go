package process

import (
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
)

// Alone makes a program of a plan by itself, for package millracetest: the routes that it needs, and the function that
// registers it. agents replace those of the plan, by the names of their steps; see millracetest.Plan. Commands that the
// plan sends go to a queue of their own, where a function of agents answers them, or nobody.
func Alone(x wire.Inside, name string, part Part, agents map[string]any) (routes []channel.Route, register func(*handlers.Registry) error, err error) {
	if err := checkName(name); err != nil {
		return nil, nil, err
	}
	part = replacing{part, agents}
	d := define(name, part)
	if err := d.err(); err != nil {
		return nil, nil, fmt.Errorf("process: plan %s: %w", name, err)
	}
	routes = append(routes, Route(name, d.agentQueues()[1:]...)) // beside the plan's own
	for _, k := range slices.Sorted(maps.Keys(d.hear.commands)) {
		routes = append(routes, d.hear.commands[k].route)
	}
	for _, k := range slices.Sorted(maps.Keys(d.hear.events)) {
		routes = append(routes, d.hear.events[k].route(name))
	}
	return routes, func(r *handlers.Registry) error {
		for _, c := range d.hear.commands {
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

func (r replacing) addTo(d *definition) {
	d.hear.agents = maps.Clone(r.agents)
	r.Part.addTo(d)
	for _, name := range slices.Sorted(maps.Keys(d.hear.agents)) {
		d.fault("no step takes the agent %q", name)
	}
	d.hear.agents = nil
}
