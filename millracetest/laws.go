package millracetest

import (
	"maps"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/poison"
)

// The laws that Simulate checks. A failing run names them.
const (
	DecidedOnce    = "decided once"    // each command, and each event that a value object or a view takes, is applied once
	PureDecisions  = "pure decisions"  // decided again in the same order, the same commands give the same values and emissions
	EmittedOnce    = "emitted once"    // what decisions emit is sent, and nothing else is sent in their name
	ViewsAreFolds  = "views are folds" // each view is a fold of all its events
	OrderFree      = "order-free"      // and the same in any order of them
	ReactionsRun   = "reactions run"   // each reaction has run to its end at least once
	EffectsOnce    = "effects once"    // and that of ReactOnce exactly once, but for what the guard can't close
	ProcessesEnd   = "processes end"   // no instance of a process is stuck unexpectedly, or waits past a deadline
	QueuesAreEmpty = "queues are empty"
	PoisonExpected = "poison expected" // only messages that the test expects are in poison queues
	WorkersRun     = "workers run"     // no worker ends by itself
	Invariant      = "invariant"       // what the test gives by Always
)

// finding is one fault of a run.
type finding struct{ law, what string }

func (f finding) String() string { return f.law + ": " + f.what }

// judge checks the laws of a run that has settled.
func (r *replay) judge() {
	for _, f := range r.sim.world.Failures() {
		r.sim.fault(WorkersRun, "%s", f)
	}
	targets := r.targets(r.checkPoison())
	r.checkApplied(targets)
	r.checkReactions(targets)
	r.decide(targets)
	r.repeat(targets)
	r.project(targets)
}

// checkPoison returns the messages in the poison queues.
func (r *replay) checkPoison() map[sentKey]bool {
	s := r.sim
	held := map[sentKey]bool{}
	for _, entry := range s.poison {
		if e, err := wire.Decode(entry.Body); err == nil {
			if e.DataRef != "" {
				e.Data = s.recorder.bodies[strings.TrimPrefix(e.DataRef, claims+"/")]
			}
			held[sentKey{entry.Queue, e.ID, e.Content()}] = true
		}
		if !slices.ContainsFunc(s.expected, func(expected func(poison.Entry) bool) bool { return expected(entry) }) {
			s.fault(PoisonExpected, "%s", describe(entry))
		}
	}
	return held
}

// targets finds the handlers of all messages that were sent to queues of the program.
func (r *replay) targets(held map[sentKey]bool) []*target {
	s := r.sim
	var all []*target
	for _, m := range s.recorder.sent {
		if !slices.Contains(s.queues, m.queue) {
			continue // another program handles it
		}
		cancelled := m.cancelled > 0 && m.cancelled >= m.copies // a copy that is left must be handled
		x := &target{sent: m, excused: held[sentKey{m.queue, m.e.ID, m.e.Content()}] || m.e.Due.After(s.ended) || cancelled}
		e := m.e
		d, err := r.registry.Inside().Handlers.Resolve(m.queue, &e)
		if err != nil {
			if !x.excused {
				s.fault(DecidedOnce, "%v is not in the poison queue of %s, although it can't be handled: %v", x, m.queue, err)
			}
			continue
		}
		x.handler = d.Handler
		about := s.handled[handledKey{m.queue, m.e.Kind}]
		if _, grouped := d.Group(); grouped && about.Unrecorded != nil { // else it takes a turn
			x.collection, x.view, x.recorded = about.Collection, about.View, !about.Unrecorded(&x.e)
		}
		all = append(all, x)
	}
	return all
}

const unapplied = "%s: it was sent, and no document has applied it: %v"

// checkApplied checks how often the writes of documents have applied each message.
func (r *replay) checkApplied(targets []*target) {
	s := r.sim
	type entry struct {
		collection string
		applied
	}
	known := map[entry]bool{}
	maps.Copy(r.unclear, r.clocks)
	for _, h := range s.recorder.docs {
		r.unclear[h.container] = r.unclear[h.container] || h.unclear
		once := map[applied]bool{}
		for _, x := range h.order {
			if once[x] && !h.unclear {
				s.fault(DecidedOnce, "%s %q has applied a message twice: %s", h.container, h.key, find(targets, h.container, x))
			}
			once[x], known[entry{h.container, x}] = true, true
		}
	}
	for _, x := range targets {
		x.applied = slices.ContainsFunc(x.as(), func(a applied) bool { return known[entry{x.collection, a}] })
		if x.view && !x.excused && !x.applied && !r.unclear[x.collection] {
			s.fault(DecidedOnce, unapplied, x.handler.Name(), x)
		}
	}
}

// checkReactions checks how often reactions have run to their end.
func (r *replay) checkReactions(targets []*target) {
	for _, x := range targets {
		if x.collection != "" || x.excused {
			continue
		}
		seen := r.sim.evidence.reacted[reactionKey{x.queue, x.e.ID}]
		if seen == nil || seen.successes == 0 {
			r.sim.fault(ReactionsRun, "%s: it was sent, and the reaction has never succeeded: %v", x.handler.Name(), x)
			continue
		}
		excused := 0
		for _, row := range noteRows(x.queue, x.e.ID) {
			excused += r.sim.evidence.troubled[row]
		}
		if seen.once && seen.successes > 1+excused {
			r.sim.fault(EffectsOnce, "%s: %d effects, and only %d faults at its note: %v", x.handler.Name(), seen.successes, excused, x)
		}
	}
}
