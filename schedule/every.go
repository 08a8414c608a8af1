package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/handling/usercode"
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

// byClock reports that the clock has caused a run, and no operator.
func (c Cause) byClock() bool { return c == Scheduled || c == Missing }

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
		d := &decision{document: v, name: name(m), now: time.Now().UTC().Round(0), count: s.counter(name(m))}
		messages, err := decide(d, e, m)
		return d.document, messages, err
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

// A job is a schedule as a program has registered it.
type job struct {
	name       string
	definition definition
	kind       channel.Kind // empty: runs may differ
	queue      func(channel.Kind) (string, error)
	command    func(Tick) channel.Message
	metrics    metrics
	log        *slog.Logger
}

// buildTime is how long the user's function may take.
const buildTime = 5 * time.Second

// build makes the command of a tick. It calls the user's code on a goroutine that may be lost.
func (j *job) build(t Tick, id string) (built, error) {
	type outcome struct {
		command built
		err     error
	}
	ended := make(chan outcome, 1)
	go func() {
		var o outcome
		o.err = usercode.Contain(func() (err error) {
			o.command, err = j.compose(t, id)
			return err
		})
		ended <- o
	}()
	patience := time.NewTimer(buildTime)
	defer patience.Stop()
	select {
	case o := <-ended:
		return o.command, o.err
	case <-patience.C:
		return built{}, fmt.Errorf("the function for its commands hangs: it was given up after %v", buildTime)
	}
}

// compose makes the command and all that its methods say of it.
func (j *job) compose(t Tick, id string) (built, error) {
	m := j.command(t)
	if wire.IsNil(m) {
		return built{}, errors.New("the function for its commands returns nil")
	}
	k := m.Kind()
	if j.kind != "" && k != j.kind {
		return built{}, fmt.Errorf("the kind of its command is %s now, and was %s", k, j.kind)
	}
	if _, err := j.queue(k); err != nil {
		return built{}, err
	}
	e, err := wire.Compose(m, "/"+collection, t.Due)
	if err != nil {
		return built{}, err
	}
	if chosen, ok := m.(channel.Identified); !ok || chosen.MessageID() == "" {
		e.ID = id
	}
	if _, err := e.Encode(); err != nil {
		return built{}, err
	}
	return built{kind: e.Kind, id: e.ID, subject: e.Subject, data: e.Data}, nil
}

// built is a command whose content and attributes are known, so that to send it calls none of the user's code.
type built struct {
	kind        channel.Kind
	id, subject string
	data        []byte
}

// Kind is the name on the wire.
func (m built) Kind() channel.Kind { return m.kind }

// MessageID is the command's ID.
func (m built) MessageID() string { return m.id }

// Subject is the command's own subject, or empty.
func (m built) Subject() string { return m.subject }

// MarshalJSON returns the body.
func (m built) MarshalJSON() ([]byte, error) { return m.data, nil }

// id returns the ID of the command of an entry. It follows from the schedule and the due time, or from the order. An ID
// counts from the due time it carries, and a message that is too old can't be judged: so the ID of a run that is very
// late carries the present time.
func (x entry) id(schedule string, now time.Time) string {
	due := x.Due.Format(time.RFC3339)
	switch {
	case x.Asked != "":
		return channel.DerivedID(x.Asked, string(x.Cause), due)
	case now.Sub(x.Due) > veryLate:
		return wire.DerivedAt(now, collection, schedule, due)
	}
	return wire.DerivedAt(x.Due, collection, schedule, due)
}

const veryLate = 7 * 24 * time.Hour

// sent notes that the command of a run is sent.
func (j *job) sent(r Run) {
	j.metrics.count(sent)
	if r.Cause.byClock() {
		j.metrics.observe(r.Sent.Sub(r.Due))
	}
}

// failed notes that a run has no command.
func (j *job) failed(r Run, err error) {
	j.metrics.count(failed)
	attrs := []slog.Attr{slog.String("schedule", j.name), slog.Time("due", r.Due), slog.Any("error", err)}
	if p, ok := errors.AsType[*handlers.PanicError](err); ok {
		attrs = append(attrs, slog.String("stack", p.Stack))
	}
	j.log.LogAttrs(context.Background(), slog.LevelError, "a schedule could not make its command; it goes on with the next due time", attrs...)
}
