package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// A Tick is what a schedule makes a command of.
type Tick struct {
	// Schedule is the schedule's name.
	Schedule string

	// Due is when the command was due, in the zone of the Spec. For Asked it is when an operator asked for it.
	Due time.Time

	// From is the first due time that the tick stands for. It is before Due where others were missed, and Due otherwise.
	From time.Time

	// Cause says why the tick comes.
	Cause Cause

	// Run is for Done. Put it into the command where the schedule's runs must not overlap.
	Run RunID
}

// Cause says why a run begins.
type Cause string

const (
	Scheduled  Cause = "scheduled" // its time has come
	Missing    Cause = "missed"    // its time was missed, and it is made up for
	Asked      Cause = "asked"     // an operator wants it now
	Backfilled Cause = "backfill"  // an operator wants it for a due time that has passed
)

// Every registers a schedule: command makes the command for each of its due times. The name is unique in the store, and
// stays as it is. M is the type of a command that has a route. It may be channel.Message, as for
// process.Instances.Starting, which starts a process; then the route is looked up when a run begins. A command that
// doesn't choose its ID (see channel.Identified) gets one that follows from the name and the due time.
//
// command must return soon: it is given up after five seconds. If it is given up, panics, or returns a command that
// can't be sent, that run has failed, and the schedule goes on.
func Every[M channel.Message](h *handlers.Registry, name string, spec Spec, command func(Tick) M, cfg Config) {
	s := handling.Kept(h.Inside(), func() *set { return newSet(h) })
	j := &job{name: name, log: h.Inside().Logger}
	var faults []error
	refuse := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	refuse(checkName(name))
	if s.jobs[name] != nil {
		refuse(errors.New("it is registered twice"))
	}
	var err error
	j.definition, err = define(spec, cfg)
	refuse(err)
	if command == nil {
		refuse(errors.New("the function for its commands is nil"))
	}
	j.queue = h.Channels().Routes().CommandQueue
	if reflect.TypeFor[M]().Kind() != reflect.Interface {
		j.kind = channel.KindOf[M]()
		_, err := j.queue(j.kind)
		refuse(err)
	}
	j.metrics, err = newMetrics(cfg.Metrics, name)
	refuse(err)
	j.command = func(t Tick) channel.Message { return command(t) }
	if len(faults) > 0 {
		h.Inside().Faults.Add(fmt.Errorf("schedule %s: %w", storage.Quote(name), errors.Join(faults...)))
		return
	}
	s.jobs[name] = j
}

// A set is the schedules of a registry.
type set struct {
	channels *channel.Channels
	queue    string
	jobs     map[string]*job // by name
}

// newSet registers the handlers of the schedules' own messages.
func newSet(h *handlers.Registry) *set {
	s := &set{channels: h.Channels(), jobs: map[string]*job{}}
	var err error
	if s.queue, err = s.channels.Routes().CommandQueue(wakeKind); err != nil {
		h.Inside().Faults.Add(errors.New("schedule: the routes lack the messages of schedules: add schedule.Route() to them"))
		return s
	}
	c := documents(s.channels)
	fold(h, s, c, wake.Subject, func(d *decision, e *channel.Envelope, m wake) ([]channel.Message, error) { return d.wake(e, m, s) })
	fold(h, s, c, register.Subject, (*decision).register)
	fold(h, s, c, order.Subject, (*decision).order)
	fold(h, s, c, Done.Subject, func(d *decision, _ *channel.Envelope, m Done) ([]channel.Message, error) { return d.done(m) })
	h.Inside().Hooks.BeforeStart(s.announce)
	h.Inside().Hooks.OnClockSet(s.lookAgain)
	return s
}

// plannedAhead says of all messages of schedules that nobody waits for those that are due later: a schedule always has
// one for its next due time.
func plannedAhead(*channel.Envelope) bool { return true }

// documents returns the collection of all schedules. The document itself knows a copy of a wake, so its record needs no
// entry of it.
func documents(c *channel.Channels) *values.Collection[document] {
	return values.NewKept(wire.Inside{}, c, collection, values.Config[document]{Idempotent: func(e *channel.Envelope) bool { return e.Kind == wakeKind }})
}

// fold registers the handler of a kind.
func fold[M channel.Message](h *handlers.Registry, s *set, c *values.Collection[document], name func(M) string, decide func(*decision, *channel.Envelope, M) ([]channel.Message, error)) {
	key := func(_ *channel.Envelope, m M) (string, bool) { return name(m), true }
	handling.Fold(h.Inside(), handling.As{Form: "schedules", Clock: true, Standing: plannedAhead}, "decide "+collection, s.queue, c, key, func(v document, e *channel.Envelope, m M) (document, []channel.Message, error) {
		d := &decision{doc: v, name: name(m), now: time.Now().UTC().Round(0), count: s.counter(name(m))}
		messages, err := decide(d, e, m)
		return d.doc, messages, err
	})
}

// counter counts what becomes of due times, if the schedule is known here.
func (s *set) counter(name string) func(result) {
	if j := s.jobs[name]; j != nil {
		return j.metrics.count
	}
	return func(result) {}
}

// announce registers the schedules, before a worker receives anything.
func (s *set) announce(ctx context.Context) error {
	var all []channel.Message
	for _, j := range slices.SortedFunc(maps.Values(s.jobs), func(a, b *job) int { return cmp.Compare(a.name, b.name) }) {
		all = append(all, register{Schedule: j.name, Queue: s.queue, Definition: j.definition})
	}
	if len(all) == 0 {
		return nil
	}
	if err := s.channels.Send(ctx, all...); err != nil {
		return fmt.Errorf("schedule: register: %w", err)
	}
	return nil
}

// lookAgain has each schedule send another wake, because a clock has just been set.
func (s *set) lookAgain(ctx context.Context) error {
	var all []channel.Message
	for _, name := range slices.Sorted(maps.Keys(s.jobs)) {
		all = append(all, wake{Schedule: name, Again: true})
	}
	if err := s.channels.Send(ctx, all...); err != nil {
		return fmt.Errorf("schedule: look again: %w", err)
	}
	return nil
}
