package millracetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A replay repeats what a run did, message by message, on a store of its own: without faults, workers or queues, and at
// another time. It is the run's judge.
type replay struct {
	sim      *Sim
	t        *testing.T
	store    *storage.Store
	recorder *recorder
	registry *handlers.Registry
	unclear  map[string]bool // collections in which something else than messages has changed a document
	skip     map[string]bool // sources of value objects that can't be compared
	clocks   map[string]bool // collections whose decisions read the clock
	now      time.Time       // what a fold takes for the present, if it asks properly
}

// newReplay begins a replay within its bubble.
func newReplay(t *testing.T, s *Sim) *replay {
	t.Helper()
	r := &replay{sim: s, t: t, unclear: map[string]bool{}, skip: map[string]bool{}}
	own := worldtest.OpenStore(t, worldtest.Virtual)
	if s.world.Plan.Plain { // a process sends other messages there
		own = storagetest.Plain(own)
	}
	r.store, r.recorder = record(own)
	r.now = time.Now()
	p := s.program
	p.Handlers.Logger = nil
	var err error
	if r.registry, err = p.register(r.store, slog.New(slog.DiscardHandler), watches{fold: r.recorder.noteFolded, clock: func() time.Time { return r.now }}); err != nil {
		t.Fatal(err)
	}
	r.recorder.divide(r.registry.Channels())
	r.clocks = map[string]bool{}
	for _, h := range r.registry.Inside().Handlers.About() {
		r.clocks[h.Collection] = r.clocks[h.Collection] || h.Clock
	}
	return r
}

// apply folds one message.
func (r *replay) apply(x *target) error {
	e := x.e
	d, err := r.registry.Inside().Handlers.Resolve(x.queue, &e)
	if err != nil {
		return err
	}
	g, ok := d.Group()
	if !ok {
		return errors.New("it has another handler now")
	}
	return handling.Handle(context.WithoutCancel(r.t.Context()), g, []*handling.Delivery{d}, nil)[0].Err
}

// decide repeats all decisions, for each value object in the order in which the run made them.
func (r *replay) decide(targets []*target) {
	for _, h := range r.histories(targets, false) {
		source := "/" + h.container + "/" + url.PathEscape(h.key)
		if r.skip[source] = h.unclear || r.clocks[h.container]; r.skip[source] {
			continue
		}
		if h.first != nil {
			if _, err := r.store.Blobs(h.container).Put(r.t.Context(), h.key, h.first, storage.Condition{IfAbsent: true}); err != nil {
				r.t.Fatal(err)
			}
		}
		for _, x := range h.order {
			switch t := find(targets, h.container, x); {
			case t == nil:
				r.sim.fault(DecidedOnce, "%s %q has applied a message that was never sent", h.container, h.key)
				r.skip[source] = true
			default:
				r.now = h.at[x]
				if err := r.apply(t); err != nil {
					r.sim.fault(PureDecisions, "%s %q: decided again with the same value, it fails: %v: %v", h.container, h.key, err, t)
					r.skip[source] = true
				}
			}
			if r.skip[source] {
				break
			}
		}
		if r.skip[source] {
			continue
		}
		if got, want := r.value(h), h.last.Value; canonical(got) != canonical(want) {
			r.sim.fault(PureDecisions, "%s %q: decided again in the same order, the same messages give another value (- in the run, + again)\n%s\nthe messages:%s",
				h.container, h.key, diffJSON(want, got), r.messages(targets, h))
			r.skip[source] = true
		}
	}
	r.compareEmissions()
}

// repeat gives the repeated value objects the messages that they have not applied, and those of which they keep no
// record, once more. None may change anything now.
func (r *replay) repeat(targets []*target) {
	r.now = r.sim.ended
	for _, x := range targets {
		if x.collection == "" || x.view || x.excused || r.unclear[x.collection] || x.applied && x.recorded {
			continue
		}
		before := r.recorder.written()
		err := r.apply(x)
		changed := r.recorder.written() > before
		switch {
		case x.applied && (changed || err != nil):
			r.sim.fault(DecidedOnce, "%s: it came again, and was not recognised by the value that had applied it (%v): %v", x.handler.Name(), err, x)
		case changed || err != nil:
			r.sim.fault(DecidedOnce, unapplied, x.handler.Name(), x)
		}
	}
}

// emission tells a message that a value object has emitted.
type emission struct {
	queue, source string
	sequence      uint64
}

// compareEmissions compares what was sent in the name of value objects.
func (r *replay) compareEmissions() {
	here, there := emissions(r.recorder), emissions(r.sim.recorder)
	keys := slices.Collect(maps.Keys(here))
	for k := range there {
		if here[k] == nil {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b emission) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	for _, k := range keys {
		got, want := there[k], here[k]
		isValue := r.isValue(k.source)
		switch {
		case r.skip[k.source] || !isValue:
		case got == nil:
			r.sim.fault(EmittedOnce, "emission %d of %s never came to queue %s: %s %s", k.sequence, k.source, k.queue, want.e.Kind, want.e.Data)
		case want == nil:
			r.sim.fault(EmittedOnce, "queue %s got an emission of %s that nothing decided: %s %s", k.queue, k.source, got.e.Kind, got.e.Data)
		case got.e.Kind != want.e.Kind || !bytes.Equal(got.e.Data, want.e.Data):
			r.sim.fault(PureDecisions, "%s: decided again, emission %d to queue %s is another one (- in the run, + again)\n%s", k.source, k.sequence, k.queue,
				diff(lines(string(got.e.Kind)+" "+indented(got.e.Data)), lines(string(want.e.Kind)+" "+indented(want.e.Data))))
		}
	}
}

// isValue reports that a source is a document of the run.
func (r *replay) isValue(source string) bool {
	container, _, ok := strings.Cut(strings.TrimPrefix(source, "/"), "/")
	return ok && slices.ContainsFunc(slices.Collect(maps.Keys(r.sim.recorder.docs)), func(at docPlace) bool { return at.container == container })
}

func emissions(r *recorder) map[emission]*sent {
	all := map[emission]*sent{}
	for _, m := range r.sent {
		if m.e.Sequence > 0 {
			all[emission{m.queue, m.e.Source, m.e.Sequence}] = m
		}
	}
	return all
}

// project folds the events of all views in another order.
func (r *replay) project(targets []*target) {
	var events []*target
	for _, x := range targets {
		if x.view && (x.applied || !x.excused) {
			events = append(events, x)
		}
	}
	rand.New(rand.NewPCG(r.sim.Seed, 3)).Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	for _, x := range events {
		if err := r.apply(x); err != nil {
			r.sim.fault(OrderFree, "%s: folded in another order, an event fails: %v: %v", x.handler.Name(), err, x)
			return
		}
	}
	var ordered *replay
	for _, h := range r.histories(targets, true) {
		if h.unclear {
			continue
		}
		got, want := r.value(h), h.last.Value
		if canonical(got) == canonical(want) {
			continue
		}
		if ordered == nil {
			ordered = newReplay(r.t, r.sim)
		}
		law, what := ViewsAreFolds, "is not the fold of its events"
		if ordered.fold(targets, h) {
			law, what = OrderFree, "depends on the order of its events: let the fold not depend on it, or use views.Latest for events that take each other back"
		}
		r.sim.fault(law, "view %s, document %q, %s (- in the run, + folded again)\n%s\nthe events, as the run folded them:%s",
			h.container, h.key, what, diffJSON(want, got), r.messages(targets, h))
	}
}

// fold folds the events of a document in the run's order. It reports whether the fold gives the document of the run.
func (r *replay) fold(targets []*target, h *history) bool {
	for _, x := range h.order {
		if t := find(targets, h.container, x); t == nil || r.apply(t) != nil {
			return false
		}
	}
	return canonical(r.value(h)) == canonical(h.last.Value)
}

// histories returns the documents of views, or of value objects, sorted. A document that only the replay has is one of
// them, without a history.
func (r *replay) histories(targets []*target, views bool) []*history {
	kinds := map[string]bool{} // by collection: it is a view
	for _, x := range targets {
		if x.collection != "" {
			kinds[x.collection] = x.view
		}
	}
	all := maps.Clone(r.sim.recorder.docs)
	for at := range r.recorder.docs {
		if all[at] == nil {
			all[at] = &history{docPlace: at}
		}
	}
	var some []*history
	for at, h := range all {
		if view, known := kinds[at.container]; known && view == views {
			some = append(some, h)
		}
	}
	slices.SortFunc(some, func(a, b *history) int {
		return strings.Compare(a.container+"\x00"+a.key, b.container+"\x00"+b.key)
	})
	return some
}

// value returns a document's value in the replay; nil if there is none.
func (r *replay) value(h *history) json.RawMessage {
	if own := r.recorder.docs[h.docPlace]; own != nil {
		own.read()
		return own.last.Value
	}
	return nil
}

// messages lists what a document has applied.
func (r *replay) messages(targets []*target, h *history) string {
	var b strings.Builder
	for _, x := range h.order {
		fmt.Fprintf(&b, "\n  %v", find(targets, h.container, x))
	}
	return b.String()
}

// canonical returns JSON with sorted members.
func canonical(form json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(form))
	d.UseNumber()
	var x any
	if d.Decode(&x) != nil {
		return string(form)
	}
	b, err := json.Marshal(x)
	if err != nil {
		return string(form)
	}
	return string(b)
}
