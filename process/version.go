package process

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/process/internal/flow"
)

// A Part is what [Register] takes: a [Version] of the plan, an [Upgrade] between two, or [Metrics].
type Part interface{ addTo(d *definition) }

type version struct {
	number int
	state  reflect.Type
	build  func(p *flow.Plan, hear *hearing)
}

// Version is a version of a plan, with a number from 1. A version never changes what it means: its steps, their names,
// their order and the types of their results stay. A plan that is to be different gets another number, and the old one
// stays registered until its instances have ended. Deadlines, attempts and the code of the agents may change.
func Version[S any](number int, plan func(*Plan[S])) Part {
	return version{number, reflect.TypeFor[S](), func(p *flow.Plan, hear *hearing) {
		if plan == nil {
			p.Fault("version %d: the function that builds it is nil", number)
			return
		}
		plan(newPlan[S](p, hear))
	}}
}

func (v version) addTo(d *definition) {
	if v.number < 1 {
		d.fault("version %d: want a number from 1", v.number)
		return
	}
	if d.versions[v.number] != nil {
		d.fault("version %d is registered twice", v.number)
		return
	}
	p := flow.NewPlan(d.name, v.number)
	v.build(p, d.hear)
	if err := p.Finish(); err != nil {
		d.fault("version %d: %w", v.number, err)
	}
	d.versions[v.number] = p
	d.states = append(d.states, v.state)
	d.newest = max(d.newest, v.number)
}

// definition is what the parts of a plan say together.
type definition struct {
	name       string
	versions   map[int]*flow.Plan
	states     []reflect.Type // of the versions; one may be there more than once
	newest     int
	upgrades   map[int]upgrade
	hear       *hearing
	registerer prometheus.Registerer // of Metrics, or nil
	faults     []error
}

func define(name string, parts ...Part) *definition {
	d := &definition{name: name, versions: map[int]*flow.Plan{}, upgrades: map[int]upgrade{}, hear: newHearing()}
	for _, p := range parts {
		if p == nil {
			d.fault("a part is nil")
			continue
		}
		p.addTo(d)
	}
	return d
}

func (d *definition) fault(format string, args ...any) {
	d.faults = append(d.faults, fmt.Errorf(format, args...))
}

// err returns all faults together, or nil.
func (d *definition) err() error { return errors.Join(d.faults...) }

// agentQueues returns the queues that the steps name for their agents; "" is the plan's own.
func (d *definition) agentQueues() []string {
	all := map[string]bool{"": true}
	for _, p := range d.versions {
		p.Nodes(func(_ *flow.Plan, n *flow.Node) { all[n.By] = true })
	}
	return slices.Sorted(maps.Keys(all))
}
