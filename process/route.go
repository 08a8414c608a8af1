package process

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/storage"
)

// Route leads the messages of a plan to its queues, which are named after it: NAME for what advances instances, NAME-do
// for agents, NAME-alarms and NAME-record. agents are further queues of agents; see [Step.By]. A plan's name is 3 to 40
// lower-case letters, digits and single hyphens, beginning with a letter.
func Route(plan string, agents ...string) channel.Route {
	if err := checkName(plan); err != nil {
		return channel.Faulty(wire.Inside{}, err)
	}
	command := wire.Inside{Command: true}
	routes := []channel.Route{
		channel.Routed(command, flow.Start{Plan: plan}, plan),
		channel.Routed(command, flow.Done{Plan: plan}, plan),
		channel.Routed(command, flow.Signal{Plan: plan}, plan),
		channel.Routed(command, flow.Act{Plan: plan}, plan),
		channel.Routed(command, flow.Alarm{Plan: plan}, plan+flow.AlarmsSuffix),
		channel.Routed(command, flow.Record{Plan: plan}, plan+flow.RecordSuffix),
		channel.Routed(command, flow.Sweep{Plan: plan}, plan+flow.RecordSuffix),
		channel.Routed(command, flow.Fetch{Plan: plan}, plan+flow.RecordSuffix),
		channel.Routed(command, flow.Fetched{Plan: plan}, plan),
		channel.Routed(command, flow.Begin{Plan: plan}, plan+flow.AgentsSuffix),
	}
	for i, q := range agents {
		if slices.Contains(agents[:i], q) {
			return channel.Faulty(wire.Inside{}, fmt.Errorf("route of the plan %s names queue %s twice", plan, q))
		}
		routes = append(routes, channel.Routed(command, flow.Begin{Plan: plan, Queue: q}, q))
	}
	return channel.Together(wire.Inside{}, routes...)
}

const maxName = 40 // leaves room for the suffixes

func checkName(plan string) error {
	if err := storage.CheckName(plan); err != nil {
		return fmt.Errorf("process: plan: %w", err)
	}
	if len(plan) > maxName {
		return fmt.Errorf("process: plan %s: its name has %d characters; want at most %d", plan, len(plan), maxName)
	}
	return nil
}

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
