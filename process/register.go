package process

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/internal/lru"
	"github.com/millrace-go/millrace/process/internal/flow"
)

// Register registers a plan's handlers. New instances begin with the highest of the versions. The routes must have the
// plan's [Route]. It reports all faults together.
func Register(r *handlers.Registry, name string, parts ...Part) error {
	if err := checkName(name); err != nil {
		return err
	}
	d := define(name, parts...)
	if d.newest == 0 {
		d.fault("it has no version")
	}
	meters, err := newMeters(d.registerer, name)
	if err != nil {
		d.fault("%w", err)
	}
	checkRoutes(d, r.Inside())
	checkUpgrades(d)
	if err := d.err(); err != nil {
		return fmt.Errorf("process: plan %s: %w", name, err)
	}
	in := r.Inside()
	documents, goingBack := instances(in.Channels, name), lru.New[struct{}](0, 0)
	k := newKeeper(d, in.Channels.Store(), documents, meters)
	h := &host{d, in, documents, goingBack, k}
	h.register(newAgents(d, in, documents, goingBack, meters), &sweeper{k, in.Logger})
	return nil
}

// checkRoutes holds the plan against the routes.
func checkRoutes(d *definition, r *handling.Registry) {
	routes := r.Channels.Routes()
	if !routes.Has(flow.KindOf(d.name, "start")) {
		d.fault("the routes don't have it: add process.Route(%q) to them", d.name)
		return
	}
	timeout := r.Timeout
	for _, p := range d.versions {
		p.Nodes(func(_ *flow.Plan, n *flow.Node) {
			if n.By != "" && !routes.Has(flow.BeginKind(d.name, n.By)) {
				d.fault("step %s: the routes don't have the queue %s: add it to process.Route(%q, ...)", n.Name, n.By, d.name)
			}
			if (n.Agent != nil || n.Undo != nil) && n.Try > timeout {
				d.fault("step %s: Try is %v, and handlers.Config.Timeout is %v: make that longer", n.Name, n.Try, timeout)
			}
		})
	}
	for _, k := range slices.Sorted(maps.Keys(d.hear.commands)) {
		if !routes.Has(k) {
			d.fault("step %s: it sends %s, which has no route: add channel.Command for it to the routes", d.hear.commands[k].step, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(d.hear.events)) {
		if x := d.hear.events[k]; x.needed && !slices.Contains(routes.Kinds(d.name), k) {
			d.fault("it listens to %s: add the group %q to the event's route", k, d.name)
		}
	}
}

// register registers the handlers of the plan's messages, and of the events that it listens to.
func (h *host) register(a *agents, s *sweeper) {
	as := func(m channel.Message) handling.As {
		return handling.As{Kind: m.Kind(), Form: "plan", States: h.states}
	}
	name := "process " + h.name
	foldInto[flow.Start](h, as(flow.Start{Plan: h.name}), name+" start", h.name, nil)
	foldInto[flow.Done](h, as(flow.Done{Plan: h.name}), name+" done", h.name, nil)
	onPoison(h, as(flow.Start{Plan: h.name}), h.name, lostStart)
	onPoison(h, as(flow.Done{Plan: h.name}), h.name, lostDone)
	onPoison(h, as(flow.Alarm{Plan: h.name}), h.name+flow.AlarmsSuffix, lostAlarm)
	foldInto(h, as(flow.Signal{Plan: h.name}), name+" signal", h.name, func(m *flow.Signal, from string) { m.From = from })
	foldInto(h, as(flow.Act{Plan: h.name}), name+" act", h.name, func(m *flow.Act, from string) { m.From = from })
	alarm, record, sweep := as(flow.Alarm{Plan: h.name}), as(flow.Record{Plan: h.name}), as(flow.Sweep{Plan: h.name})
	alarm.Standing, record.Standing, sweep.Standing = endsRetention, housekeeping, housekeeping
	foldInto[flow.Alarm](h, alarm, name+" alarm", h.name+flow.AlarmsSuffix, nil)
	for _, k := range slices.Sorted(maps.Keys(h.hear.events)) {
		if slices.Contains(h.registry.Channels.Routes().Kinds(h.name), k) {
			h.hear.events[k].register(h, h.hear.events[k])
		}
	}
	handling.Reply(h.registry, record, name+" record", h.name+flow.RecordSuffix, h.keeper.record)
	foldInto[flow.Fetched](h, as(flow.Fetched{Plan: h.name}), name+" fetched", h.name, nil)
	handling.Reply(h.registry, as(flow.Fetch{Plan: h.name}), name+" fetch", h.name+flow.RecordSuffix, h.keeper.fetch)
	handling.Reply(h.registry, sweep, name+" sweep", h.name+flow.RecordSuffix, s.sweep)
	for _, q := range queuesOfAgents(h.definition, h.registry.Channels.Routes()) {
		begin := as(flow.Begin{Plan: h.name, Queue: q})
		queue := q
		if q == "" {
			queue = h.name + flow.AgentsSuffix
		}
		handling.Reply(h.registry, begin, name+" agent", queue, a.run)
		onPoison(h, begin, queue, givenUp)
	}
	h.registry.Hooks.BeforeStart(h.begin)
	h.registry.Hooks.OnClockSet(h.lookAgain)
}

// Messages that are planned ahead, and that no test of a program waits for.
func housekeeping(*channel.Envelope) bool { return true }

func endsRetention(e *channel.Envelope) bool {
	m, err := decode[flow.Alarm](jsontext.Value(e.Data))
	return err == nil && m.Purge
}

// queuesOfAgents returns the queues of a plan's agents that the routes have; "" is the plan's own.
func queuesOfAgents(d *definition, routes *channel.Routes) []string {
	all := d.agentQueues()
	for _, q := range routes.Queues() {
		if routes.Has(flow.BeginKind(d.name, q)) {
			all = append(all, q)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// named is a message that is for an instance.
type named interface {
	channel.Message
	Subject() string
}

// foldInto registers the handler of a kind. from, unless it is nil, tells a message its ID: its note in the document
// has that, and so whoever sent it finds the answer.
func foldInto[M named](h *host, as handling.As, name, queue string, from func(m *M, id string)) {
	handling.Fold(h.registry, as, name, queue, h.instances,
		func(_ *channel.Envelope, m M) (string, bool) { return m.Subject(), true },
		func(v flow.Instance, e *channel.Envelope, m M) (flow.Instance, []channel.Message, error) {
			if from != nil {
				from(&m, e.ID)
			}
			return h.fold(m.Subject(), v, e, m)
		})
}

// onPoison registers the compensation of the messages of a queue. It may return any message of the framework.
func onPoison[M channel.Message](h *host, as handling.As, queue string, f func(*channel.Envelope, M, handlers.Poisoned) []channel.Message) {
	handling.OnPoison(h.registry, as, queue, func(e *channel.Envelope, m M, why handlers.Poisoned) ([]channel.Message, error) {
		return f(e, m, why), nil
	})
}

// registerHeard registers the handler of an event that the plan listens to.
func registerHeard[E channel.Message](h *host, x *heard) {
	id := func(e *channel.Envelope, m E) (id, path string, run int) {
		if plan, id, path, run, ok := flow.Address(e.ReplyTo); ok && plan == h.name {
			return id, path, run
		}
		if x.key != nil {
			return x.key(m), "", 0
		}
		return "", "", 0
	}
	onPoison(h, handling.As{}, h.name, func(e *channel.Envelope, m E, why handlers.Poisoned) []channel.Message {
		key, path, run := id(e, m)
		if key == "" {
			return nil
		}
		return lost(flow.Done{Plan: h.name, ID: key, Path: path, Run: run, Sort: x.kind}, why)
	})
	handling.Fold(h.registry, handling.As{Form: "plan", States: h.states}, "process "+h.name+" hears", h.name, h.instances,
		func(e *channel.Envelope, m E) (string, bool) {
			key, _, _ := id(e, m)
			return key, key != ""
		},
		func(v flow.Instance, e *channel.Envelope, m E) (flow.Instance, []channel.Message, error) {
			body, err := jsonform.Encode(m)
			if err != nil {
				return v, nil, err
			}
			key, path, run := id(e, m)
			if path == "" { // it was found by Keyed
				if err := checkInstance(h.name, key); err != nil {
					return v, nil, handlers.Poison("Keyed returns what is no ID", err)
				}
			}
			return h.fold(key, v, e, flow.Reply{Sort: x.kind, Body: body, Path: path, Run: run})
		})
}
