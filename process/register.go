package process

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/internal/lru"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/values"
)

// A Part is what [Register] takes: a [Version] of the plan, an [Upgrade] between two, or [Metrics].
type Part interface{ addTo(h *host) }

type version struct {
	number int
	build  func(p *flow.Plan, hear *hearing)
}

// Version is a version of a plan, with a number from 1. A version never changes what it means: its steps, their names,
// their order and the types of their results stay. A plan that is to be different gets another number, and the old one
// stays registered until its instances have ended. Deadlines, attempts and the code of the agents may change.
func Version[S any](number int, plan func(*Plan[S])) Part {
	return version{number, func(p *flow.Plan, hear *hearing) {
		if plan == nil {
			p.Fault("version %d: the function that builds it is nil", number)
			return
		}
		plan(newPlan[S](p, hear))
	}}
}

func (v version) addTo(h *host) {
	if v.number < 1 {
		h.fault("version %d: want a number from 1", v.number)
		return
	}
	if h.versions[v.number] != nil {
		h.fault("version %d is registered twice", v.number)
		return
	}
	p := flow.NewPlan(h.name, v.number)
	v.build(p, h.hear)
	if err := p.Finish(); err != nil {
		h.fault("version %d: %w", v.number, err)
	}
	h.versions[v.number] = p
	h.newest = max(h.newest, v.number)
}

// host holds a plan's versions and handles its messages.
type host struct {
	name      string
	versions  map[int]*flow.Plan
	newest    int
	upgrades  map[int]upgrade
	hear      *hearing
	registry  *handlers.Registry
	instances *values.Collection[flow.Instance]
	goingBack *lru.Cache[struct{}] // instances that go back, as far as this worker has seen
	calls     *calls               // of agents
	atomic    bool                 // the store writes a document and a row at once
	faults    []error

	registerer prometheus.Registerer // of Metrics, or nil
	meters     *meters
}

func (h *host) fault(format string, args ...any) {
	h.faults = append(h.faults, fmt.Errorf(format, args...))
}

// Register registers a plan's handlers. New instances begin with the highest of the versions. The routes must have the
// plan's [Route]. It reports all faults together.
func Register(r *handlers.Registry, name string, parts ...Part) error {
	if err := checkName(name); err != nil {
		return err
	}
	h := &host{name: name, versions: map[int]*flow.Plan{}, upgrades: map[int]upgrade{}, hear: newHearing(), registry: r, instances: instances(r.Channels(), name), atomic: r.Channels().Store().Atomic(), goingBack: lru.New[struct{}](0, 0), calls: newCalls()}
	for _, p := range parts {
		if p == nil {
			h.fault("a part is nil")
			continue
		}
		p.addTo(h)
	}
	if h.newest == 0 {
		h.fault("it has no version")
	}
	var err error
	if h.meters, err = newMeters(h.registerer, name); err != nil {
		h.fault("%w", err)
	}
	h.check()
	checkUpgrades(h)
	if len(h.faults) > 0 {
		return fmt.Errorf("process: plan %s: %w", name, errors.Join(h.faults...))
	}
	h.register()
	return nil
}

// check holds the plan against the routes.
func (h *host) check() {
	routes := h.registry.Channels().Routes()
	if !routes.Has(flow.KindOf(h.name, "start")) {
		h.fault("the routes don't have it: add process.Route(%q) to them", h.name)
		return
	}
	timeout := h.registry.Timeout()
	for _, p := range h.versions {
		p.Nodes(func(_ *flow.Plan, n *flow.Node) {
			if n.By != "" && !routes.Has(flow.BeginKind(h.name, n.By)) {
				h.fault("step %s: the routes don't have the queue %s: add it to process.Route(%q, ...)", n.Name, n.By, h.name)
			}
			if (n.Agent != nil || n.Undo != nil) && n.Try > timeout {
				h.fault("step %s: Try is %v, and handlers.Config.Timeout is %v: make that longer", n.Name, n.Try, timeout)
			}
		})
	}
	for _, k := range slices.Sorted(maps.Keys(h.hear.commands)) {
		if !routes.Has(k) {
			h.fault("step %s: it sends %s, which has no route: add channel.Command for it to the routes", h.hear.commands[k].step, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(h.hear.events)) {
		if x := h.hear.events[k]; x.needed && !slices.Contains(routes.Kinds(h.name), k) {
			h.fault("it listens to %s: add the group %q to the event's route", k, h.name)
		}
	}
}

// instances returns the collection of a plan's documents. A document tells by itself whether it has taken a start, an
// end or an alarm. Signals, acts and events of the program have a record.
func instances(c *channel.Channels, plan string) *values.Collection[flow.Instance] {
	start, done, alarm, fetched := flow.KindOf(plan, "start"), flow.KindOf(plan, "done"), flow.KindOf(plan, "alarm"), flow.KindOf(plan, "fetched")
	return values.New(c, plan, values.Config[flow.Instance]{
		Idempotent: func(e *channel.Envelope) bool {
			return e.Kind == start || e.Kind == done || e.Kind == alarm || e.Kind == fetched
		},
	}).AsIs(wire.Inside{})
}

func (h *host) register() {
	x := func(m channel.Message) wire.Inside { return wire.Inside{Kind: m.Kind(), Form: "plan"} }
	name := "process " + h.name
	foldInto[flow.Start](h, x(flow.Start{Plan: h.name}), name+" start", h.name, nil)
	foldInto[flow.Done](h, x(flow.Done{Plan: h.name}), name+" done", h.name, nil)
	handlers.OnPoisonAs(x(flow.Start{Plan: h.name}), h.registry, h.name, lostStart)
	handlers.OnPoisonAs(x(flow.Done{Plan: h.name}), h.registry, h.name, lostDone)
	handlers.OnPoisonAs(x(flow.Alarm{Plan: h.name}), h.registry, h.name+flow.AlarmsSuffix, lostAlarm)
	foldInto(h, x(flow.Signal{Plan: h.name}), name+" signal", h.name, func(m *flow.Signal, from string) { m.From = from })
	foldInto(h, x(flow.Act{Plan: h.name}), name+" act", h.name, func(m *flow.Act, from string) { m.From = from })
	alarm, record, sweep := x(flow.Alarm{Plan: h.name}), x(flow.Record{Plan: h.name}), x(flow.Sweep{Plan: h.name})
	alarm.Standing, record.Standing, sweep.Standing = endsRetention, housekeeping, housekeeping
	foldInto[flow.Alarm](h, alarm, name+" alarm", h.name+flow.AlarmsSuffix, nil)
	for _, k := range slices.Sorted(maps.Keys(h.hear.events)) {
		if slices.Contains(h.registry.Channels().Routes().Kinds(h.name), k) {
			h.hear.events[k].register(h, h.hear.events[k])
		}
	}
	handlers.ReplyAs(record, h.registry, name+" record", h.name+flow.RecordSuffix, h.record)
	foldInto[flow.Fetched](h, x(flow.Fetched{Plan: h.name}), name+" fetched", h.name, nil)
	handlers.ReplyAs(x(flow.Fetch{Plan: h.name}), h.registry, name+" fetch", h.name+flow.RecordSuffix, fetcher{h}.fetch)
	handlers.ReplyAs(sweep, h.registry, name+" sweep", h.name+flow.RecordSuffix, sweeper{h}.sweep)
	for _, q := range agents(h) {
		begin := x(flow.Begin{Plan: h.name, Queue: q})
		queue := q
		if q == "" {
			queue = h.name + flow.AgentsSuffix
		}
		handlers.ReplyAs(begin, h.registry, name+" agent", queue, h.agent)
		handlers.OnPoisonAs(begin, h.registry, queue, givenUp)
	}
	h.registry.BeforeStart(wire.Inside{}, h.begin)
	handlers.OnClockSet(wire.Inside{}, h.registry, h.lookAgain)
}

// Messages that are planned ahead, and that no test of a program waits for.
func housekeeping(*channel.Envelope) bool { return true }

func endsRetention(e *channel.Envelope) bool {
	m, err := decode[flow.Alarm](jsontext.Value(e.Data))
	return err == nil && m.Purge
}

// agents returns the queues of a plan's agents that the routes have; "" is the plan's own.
func agents(h *host) []string {
	all := map[string]bool{"": true}
	routes := h.registry.Channels().Routes()
	for _, p := range h.versions {
		p.Nodes(func(_ *flow.Plan, n *flow.Node) { all[n.By] = true })
	}
	for _, q := range routes.Queues() {
		all[q] = all[q] || routes.Has(flow.BeginKind(h.name, q))
	}
	maps.DeleteFunc(all, func(_ string, has bool) bool { return !has })
	return slices.Sorted(maps.Keys(all))
}

// named is a message that is for an instance.
type named interface {
	channel.Message
	Subject() string
}

// foldInto registers the handler of a kind. from, unless it is nil, tells a message its ID: its note in the document
// has that, and so whoever sent it finds the answer.
func foldInto[M named](h *host, x wire.Inside, name, queue string, from func(m *M, id string)) {
	handlers.Fold(x, h.registry, name, queue, h.instances,
		func(_ *channel.Envelope, m M) (string, bool) { return m.Subject(), true },
		func(v flow.Instance, e *channel.Envelope, m M) (flow.Instance, []channel.Message, error) {
			if from != nil {
				from(&m, e.ID)
			}
			return h.fold(m.Subject(), v, e, m)
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
	handlers.OnPoisonAs(wire.Inside{}, h.registry, h.name, func(e *channel.Envelope, m E, why handlers.Poisoned) []channel.Message {
		key, path, run := id(e, m)
		if key == "" {
			return nil
		}
		return lost(flow.Done{Plan: h.name, ID: key, Path: path, Run: run, Sort: x.kind}, why)
	})
	handlers.Fold(wire.Inside{Form: "plan"}, h.registry, "process "+h.name+" hears", h.name, h.instances,
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

// fold advances an instance by a message.
func (h *host) fold(id string, v flow.Instance, e *channel.Envelope, m any) (flow.Instance, []channel.Message, error) {
	number, part := v.Version, v.Part
	if start, ok := m.(flow.Start); ok && number == 0 {
		number, part = start.Version, start.Part
	}
	if number == 0 {
		number = h.newest
	}
	whole := h.versions[number]
	if u, ok := h.upgrades[number]; ok && v.Parent == nil && v.Version == number && !v.Status.Final() {
		if next, ok := u.apply(v, h.versions[u.to]); ok {
			v, whole = next, h.versions[u.to]
		}
	}
	ended := needsNoSteps(v, m)
	if ended { // its version may be gone, as no instance goes on by it
		whole = h.versions[h.newest]
	} else if whole == nil {
		return v, nil, handlers.Later(unknownVersion, fmt.Sprintf("no version %d of the plan %s is registered here", number, h.name))
	}
	if v.Print != "" && v.Print != whole.Print && !ended {
		return v, nil, handlers.Later(unknownVersion, fmt.Sprintf("version %d of the plan %s is another one here", number, h.name))
	}
	plan := whole.Find(part)
	if plan == nil {
		return v, nil, handlers.Poison("no such part", fmt.Errorf("process: plan %s, version %d, has no part %s", h.name, number, part))
	}
	now := h.registry.Channels().Outbox().Now().UTC() // a message may have waited for long, and what begins now has all its time
	for _, t := range []time.Time{e.Time, e.Due} {
		if t.After(now) { // by the clock of another machine
			now = t
		}
	}
	before := v.Status
	out, changed, err := plan.Advance(id, &v, m, now)
	switch {
	case errors.Is(err, flow.ErrOtherInput):
		return v, nil, handlers.Poison("started with another input", fmt.Errorf("process: %s %s: %w", h.name, id, err))
	case errors.Is(err, flow.ErrTooLarge):
		return v, nil, handlers.Poison("document too large", fmt.Errorf("process: %s %s: %w", h.name, id, err))
	case errors.Is(err, flow.ErrEarly):
		return v, nil, handlers.Poison("too many early signals", fmt.Errorf("process: %s %s: %w", h.name, id, err))
	case errors.Is(err, flow.ErrPurged):
		return v, nil, handlers.Poison("success of a purged instance", fmt.Errorf("process: %s %s: %w", h.name, id, err))
	case err != nil:
		return v, nil, fmt.Errorf("process: %s %s: %w", h.name, id, err)
	case !changed:
		return v, nil, values.ErrUnchanged
	}
	switch {
	case v.Status == before:
	case v.Status == InProcess:
		h.goingBack.Take(id)
	case v.Status != Completed && v.Status != Stuck:
		h.goingBack.Add(id, struct{}{}, len(id))
	}
	out, err = h.beside(id, before, v, out)
	return v, out, err
}

// needsNoSteps reports that an instance takes a message by its document alone, whatever its plan is: it has ended, and
// the message can't undo anything.
func needsNoSteps(v flow.Instance, m any) bool {
	ended := v.Status.Final()
	switch m := m.(type) {
	case flow.Start:
		return ended
	case flow.Alarm:
		return ended || m.Purge
	case flow.Signal:
		return ended
	case flow.Act:
		return ended && (m.Do == flow.ActCancel || m.Do == flow.ActNudge)
	case flow.Done:
		return ended && v.Knows(flow.Begin{Path: m.Path, Run: m.Run, Item: m.Item, Undo: m.Undo})
	}
	return false
}

// unknownVersion is how long a message waits before another worker may know its instance's version.
const unknownVersion = 10 * time.Second
