package millracetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/post"
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
	QueuesAreEmpty = "queues are empty"
	PoisonExpected = "poison expected" // only messages that the test expects are in poison queues
	WorkersRun     = "workers run"     // no worker ends by itself
	Invariant      = "invariant"       // what the test gives by Always
)

// finding is one fault of a run.
type finding struct{ law, what string }

func (f finding) String() string { return f.law + ": " + f.what }

// target is a message with the handler that it is for.
type target struct {
	*sent
	handler    *handlers.Handler
	collection string // that it is folded into; "" for a reaction
	view       bool   // that collection is a view
	poisoned   bool
}

func (x *target) String() string { return fmt.Sprintf("%s %s %.300s", x.e.Kind, x.e.ID, x.e.Data) }

// laws checks a run that has settled. replay is a bubble of its own; see replay.
func (s *Sim) laws(r *replay) {
	for _, f := range s.world.Failures() {
		s.fault(WorkersRun, "%s", f)
	}
	held := s.checkPoison()
	targets := s.targets(r, held)
	s.checkApplied(targets)
	s.checkReactions(targets)
	r.decide(targets)
	r.project(targets)
}

// checkPoison returns the messages in the poison queues.
func (s *Sim) checkPoison() map[sentKey]bool {
	held := map[sentKey]bool{}
	for _, entry := range s.poison {
		if e, err := post.Decode(entry.Body); err == nil {
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
func (s *Sim) targets(r *replay, held map[sentKey]bool) []*target {
	var all []*target
	for _, m := range s.recorder.sent {
		if !slices.Contains(s.queues, m.queue) || m.e.Due.After(s.ended) {
			continue // another program handles it, or it was not due
		}
		x := &target{sent: m, poisoned: held[sentKey{m.queue, m.e.ID, m.e.Content()}]}
		e := m.e
		d, err := r.registry.Resolve(m.queue, &e)
		if err != nil {
			if !x.poisoned {
				s.fault(DecidedOnce, "%v is not in the poison queue of %s, although it can't be handled: %v", x, m.queue, err)
			}
			continue
		}
		x.handler = d.Handler
		if _, folds := d.Group(); folds {
			verb, name, _ := strings.Cut(d.Handler.Name(), " ")
			x.collection, x.view = name, verb == "project"
		}
		all = append(all, x)
	}
	return all
}

// checkApplied checks by the documents' own records which messages were applied.
func (s *Sim) checkApplied(targets []*target) {
	type entry struct {
		collection string
		applied
	}
	known, unclear := map[entry]bool{}, map[string]bool{}
	for _, h := range s.recorder.docs {
		unclear[h.container] = unclear[h.container] || h.unclear
		once := map[applied]bool{}
		for _, x := range h.order {
			if once[x] {
				s.fault(DecidedOnce, "%s %q has applied a message twice: %s", h.container, h.key, find(targets, h.container, x))
			}
			once[x], known[entry{h.container, x}] = true, true
		}
	}
	for _, x := range targets {
		if x.collection != "" && !x.poisoned && !known[entry{x.collection, appliedOf(&x.e)}] && !unclear[x.collection] {
			s.fault(DecidedOnce, "%s: it was sent, and no document has applied it: %v", x.handler.Name(), x)
		}
	}
}

// find returns the message that a document of a collection has applied.
func find(targets []*target, collection string, x applied) *target {
	for _, t := range targets {
		if t.collection == collection && appliedOf(&t.e) == x {
			return t
		}
	}
	return nil
}

// checkReactions checks how often reactions have run to their end.
func (s *Sim) checkReactions(targets []*target) {
	for _, x := range targets {
		if x.collection != "" || x.poisoned {
			continue
		}
		r := s.reacted[reactionKey{x.queue, x.e.ID}]
		if r == nil || r.successes == 0 {
			s.fault(ReactionsRun, "%s: it was sent, and the reaction has never succeeded: %v", x.handler.Name(), x)
			continue
		}
		id := onceID(x.queue, x.e.ID)
		excused := s.troubled["row "+once+"/"+x.queue+"/t-"+id] + s.troubled["row "+once+"/"+x.queue+"/u-"+id]
		switch {
		case r.once && r.again:
			s.fault(EffectsOnce, "%s: the effect was repeated after it was noted as done: %v", x.handler.Name(), x)
		case r.once && r.successes > 1+excused:
			s.fault(EffectsOnce, "%s: %d effects, and only %d faults at its note: %v", x.handler.Name(), r.successes, excused, x)
		}
	}
}
