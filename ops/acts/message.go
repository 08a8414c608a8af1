package acts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/applied"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/ops/internal/track"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

const (
	mostOfFlow = 300 // requests that the flow of a message costs
	mostEvents = 8   // of a message, that are looked for
)

// A MessageShown is all that the store can tell of a message.
type MessageShown struct {
	Queue      string          `json:"queue"`
	ID         string          `json:"id"`
	Kind       channel.Kind    `json:"kind"`  // "" if nothing tells it
	State      string          `json:"state"` // waiting, delayed, held, poison, or gone: handled, cancelled or never there
	Sent       *time.Time      `json:"sent"`
	ReadyAt    *time.Time      `json:"ready_at"`
	Deliveries int             `json:"deliveries"`
	Message    json.RawMessage `json:"message"` // the envelope with its data; null if the message is gone
	Raw        []byte          `json:"raw,omitempty"`
	Lost       string          `json:"lost,omitempty"`
	Applied    *bool           `json:"applied"` // null: nothing tells it
	Why        string          `json:"why"`     // how that is known, or why not
	Flow       []FlowStep      `json:"flow"`
}

// A FlowStep is a step of the chain to which a message belongs, as far as the store can tell.
type FlowStep struct {
	Step  string   `json:"step"` // cause, message, decision, view, reaction, process, event or chain
	What  string   `json:"what"` // a kind, or a handler
	ID    string   `json:"id"`   // of a message, or the key of a document
	Where string   `json:"where"`
	State string   `json:"state"`
	Show  act.Link `json:"show"`
}

// A shownInput is what showing a message takes.
type shownInput struct{ queue, id, kind, key string }

// showMessageActs has the act that shows a message.
func showMessageActs() []*act.Act {
	return []*act.Act{act.New(act.Act{Noun: "messages", Verb: "show", Role: act.Viewer, Reveals: true, About: "show a message, whether it had its effect, and what came of it",
		More: "A message that was handled is gone: then its --kind and the --key of its document help to find what came of it. The flow has the messages and " +
			"documents that a bounded number of requests finds. It finds events by their IDs, which follow from the message's, in the queues of subscribers, " +
			"in their poison queues and in the records of views. A message without a handler's record leaves nothing.",
	}, func(in *shownInput) []act.Field {
		return []act.Field{
			queueField(&in.queue), act.Text(&in.id, "id", "the message's `ID`").At("ID").With(wire.CheckID),
			act.Text(&in.kind, "kind", "its `KIND`, if it is gone").From(kindNames),
			act.Text(&in.key, "key", "the `KEY` of its document, if the message is gone or doesn't name it").With(storage.CheckKey),
		}
	}, showMessage)}
}

// A flow finds out what belongs to a message.
type flow struct {
	c        *act.Call
	search   *track.Search
	poisoned map[string]int64
	e        channel.Envelope // of the message, as far as it is known
	queue    string
	reason   string // of the poison queue
	key      string // of its document
	steps    []FlowStep
}

func showMessage(ctx context.Context, c *act.Call, in *shownInput) error {
	if err := checkFilled(ctx, c.Desk, in.queue); err != nil {
		if bad := (*act.UsageError)(nil); errors.As(err, &bad) {
			return act.Nothing("%v", err)
		}
		return err
	}
	f := &flow{c: c, search: track.New(c.Desk, mostOfFlow), queue: in.queue, e: channel.Envelope{ID: in.id, Kind: channel.Kind(in.kind)}}
	m, err := f.locate(ctx)
	if err != nil {
		return err
	}
	f.key = cmp.Or(in.key, f.e.Subject)
	f.e.Subject = cmp.Or(f.e.Subject, in.key)
	if f.e.Kind == "" {
		f.e.Kind = f.onlyKind()
	}
	m.Kind = f.e.Kind
	if _, f.poisoned, err = look.Queues(ctx, c.Desk); err != nil {
		c.Note("The poison queues can't be counted, so they were not looked through: %v", err)
	}
	f.causes()
	verdict := f.decision(ctx, &m)
	if verdict.Known {
		m.Applied = &verdict.Applied
	}
	m.Why = verdict.Why
	if m.State == stateGone && !verdict.Applied && in.kind == "" && in.key == "" && m.Kind == "" {
		return act.Nothing("no message %s in queue %s. It may have been handled: --kind and --key find what came of it", storage.Quote(in.id), in.queue)
	}
	f.events(ctx)
	f.chain(ctx)
	f.findCauses(ctx)
	m.Flow = f.steps
	return f.tell(m)
}

// stateGone is the state of a message that is nowhere.
const stateGone = "gone"

// locate finds the message in its queue, or in its poison queue.
func (f *flow) locate(ctx context.Context) (m MessageShown, err error) {
	m = MessageShown{Queue: f.queue, ID: f.e.ID, State: stateGone, Flow: []FlowStep{}}
	ids := []string{f.e.ID}
	places, err := f.search.In(ctx, f.queue, ids)
	if err != nil {
		f.c.Note("The queue can't be looked through: %v", err)
	}
	if len(places) == 0 {
		if places, err = f.search.Poisoned(ctx, f.queue, ids); err != nil {
			return m, err
		}
	}
	if len(places) == 0 {
		return m, nil
	}
	p := places[0]
	body := p.Peeked.Body
	m.State, m.Sent, m.ReadyAt, m.Deliveries = p.State, act.Maybe(p.Peeked.SentAt), act.Maybe(p.Peeked.ReadyAt), p.Peeked.Deliveries
	if p.State == track.Poison {
		body, m.Deliveries, f.reason = p.Entry.Body, p.Entry.Deliveries, p.Entry.Reason
	}
	if p.Decoded {
		f.e = p.Envelope
	}
	m.Message, m.Raw, m.Lost, err = veiled(ctx, f.c, f.queue, body)
	return m, err
}

// onlyKind is the kind of the queue's messages, if they have only one.
func (f *flow) onlyKind() channel.Kind {
	if kinds := kindsOf(f.c.Desk, f.queue); len(kinds) == 1 {
		return kinds[0]
	}
	return ""
}

// linkTo leads to a message.
func linkTo(queue, id string, more map[string]string) act.Link {
	with := map[string]string{"queue": queue, "id": id}
	maps.Copy(with, more)
	return act.Link{Text: id, Act: "messages show", With: with}
}

// add adds a step.
func (f *flow) add(s FlowStep) { f.steps = append(f.steps, s) }

// stateUnseen is the state of a message that is not among those that were looked at: most likely it was handled, so
// nothing can be shown of it.
const stateUnseen = "not seen: gone, or behind the first messages of its queue"

// causes tells what brought the message about.
func (f *flow) causes() {
	if id := f.e.Correlation; id != "" && id != f.e.ID {
		f.add(FlowStep{Step: "first", What: "the first message of the chain", ID: id, State: stateUnseen})
	}
	if id := f.e.Causation; id != "" && id != f.e.Correlation {
		f.add(FlowStep{Step: "cause", What: "the message that brought it about", ID: id, State: stateUnseen})
	}
}

// findCauses looks for the causes that were not seen yet. A queue costs several requests. So this comes last, and the
// message's own queue and those that get messages today are the first.
func (f *flow) findCauses(ctx context.Context) {
	queues := f.queuesOf()
	routed := f.c.Known.RoutedNow()
	slices.SortStableFunc(queues, func(a, b string) int { return cmp.Compare(f.rank(a, routed), f.rank(b, routed)) })
	for _, q := range queues {
		if err := f.findCausesIn(ctx, q); err != nil {
			f.c.Note("Not all queues were looked through for what brought the message about: %s: %v", q, err)
			return
		}
	}
}

// rank orders queues by how likely a cause is in them.
func (f *flow) rank(queue string, routed map[string]bool) int {
	switch {
	case queue == f.queue:
		return 0
	case routed[queue]:
		return 1
	}
	return 2
}

// findCausesIn looks in a queue and in its poison queue.
func (f *flow) findCausesIn(ctx context.Context, queue string) error {
	var ids []string
	for _, s := range f.steps {
		if s.State == stateUnseen {
			ids = append(ids, s.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	places, err := f.search.In(ctx, queue, ids)
	if err == nil && f.poisoned[queue] > 0 {
		var more []track.Place
		more, err = f.search.Poisoned(ctx, queue, ids)
		places = append(places, more...)
	}
	for _, p := range places {
		f.seen(p)
	}
	return err
}

// seen tells where a cause is, if p has it. It reports that p has one.
func (f *flow) seen(p track.Place) (one bool) {
	for i := range f.steps {
		if s := &f.steps[i]; (s.Step == "first" || s.Step == "cause") && s.ID == p.Envelope.ID && s.ID != f.e.ID {
			s.Where, s.State, s.Show, one = "queue "+p.Queue, p.State, linkTo(p.Queue, s.ID, nil), true
		}
	}
	return one
}

// decision tells whether the handler of the message has applied it.
func (f *flow) decision(ctx context.Context, m *MessageShown) applied.Verdict {
	f.add(FlowStep{Step: "message", What: string(f.e.Kind), ID: f.e.ID, Where: "queue " + f.queue, State: m.State,
		Show: linkTo(f.queue, f.e.ID, nil)})
	if f.e.Kind == "" {
		return applied.Verdict{Why: "its kind is not known"}
	}
	v, err := f.was(ctx, f.queue, f.reason, &f.e)
	if err != nil {
		f.c.Note("Whether it was applied can't be read: %v", err)
		return applied.Verdict{Why: "it can't be read"}
	}
	f.key = cmp.Or(v.Key, f.key)
	f.handled(f.queue, &f.e, f.key, v)
	return v
}

// was asks whether a message was applied, if the search may.
func (f *flow) was(ctx context.Context, queue, reason string, e *channel.Envelope) (applied.Verdict, error) {
	if !f.search.May(3) {
		return applied.Verdict{}, track.ErrEnough
	}
	return applied.Near(ctx, f.c.Desk, poison.Entry{Queue: queue, Reason: reason}, e)
}

// handled tells what the handler of a message has done.
func (f *flow) handled(queue string, e *channel.Envelope, key string, v applied.Verdict) {
	h, ok := f.c.Known.Handler(queue, e.Kind)
	if !ok {
		return
	}
	s := FlowStep{Step: "reaction", What: h.Name, Where: "queue " + queue, State: stateOf(v)}
	if h.Collection != "" && key != "" {
		s.Step, s.ID, s.Where = "decision", key, h.Collection
		s.Show = act.Link{Text: key, Act: "values show", With: map[string]string{"kind": h.Collection, "key": key}}
		if slices.Contains(f.c.Known.Collections(true), h.Collection) {
			s.Step, s.Show = "view", act.Link{Text: key, Act: "views show", With: map[string]string{"view": h.Collection, "key": key}}
		}
	}
	if plan, ok := process.PlanOf(e.Kind); ok && key != "" {
		s.Step, s.ID, s.Where = "process", key, plan
		s.Show = act.Link{Text: key, Act: "processes show", With: map[string]string{"id": key, "plan": plan}}
	}
	f.add(s)
}

// stateOf tells a verdict in words.
func stateOf(v applied.Verdict) string {
	switch {
	case v.Known && v.Applied:
		return "applied"
	case v.Known:
		return "not applied"
	}
	return "unknown: " + v.Why
}

// events looks for what the message has brought about, in the queues of subscribers and in the records of views.
func (f *flow) events(ctx context.Context) {
	h, ok := f.c.Known.Handler(f.queue, f.e.Kind)
	if !ok || h.Collection == "" || f.key == "" {
		return
	}
	source := "/" + h.Collection + "/" + url.PathEscape(f.key)
	groups := f.groups()
	for n := range mostEvents {
		parts := []string{"event", source, strconv.Itoa(n)}
		if h.Group != "" {
			parts = append(parts, h.Group)
		}
		e := channel.Envelope{ID: wire.DerivedID(f.e.ID, parts...), Subject: f.key}
		seen := false
		for _, q := range groups {
			one, err := f.event(ctx, q, e)
			if seen = seen || one; err != nil {
				f.c.Note("Not all events were looked for in queue %s: %v", q, err)
				return
			}
		}
		if !seen {
			return
		}
	}
}

// groups are the queues to which events go.
func (f *flow) groups() []string {
	all := map[string]bool{}
	for _, d := range f.c.Known.All() {
		for _, q := range d.Queues {
			if q.Group && q.Name != f.queue {
				all[q.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// event looks for an event that goes to a queue.
func (f *flow) event(ctx context.Context, queue string, e channel.Envelope) (seen bool, err error) {
	places, err := f.search.In(ctx, queue, []string{e.ID})
	if err == nil && f.poisoned[queue] > 0 {
		var more []track.Place
		more, err = f.search.Poisoned(ctx, queue, []string{e.ID})
		places = append(places, more...)
	}
	if err != nil {
		return false, err
	}
	for _, p := range places {
		f.add(FlowStep{Step: "event", What: string(p.Envelope.Kind), ID: p.Envelope.ID, Where: "queue " + queue, State: p.State,
			Show: linkTo(queue, p.Envelope.ID, nil)})
		seen = true
	}
	if seen {
		return true, nil
	}
	for _, h := range f.handlersOf(queue) {
		e.Kind = h.Kind
		v, err := f.was(ctx, queue, "", &e)
		if err != nil {
			return seen, err
		}
		if v.Known && v.Applied {
			f.add(FlowStep{Step: "event", What: string(h.Kind), ID: e.ID, Where: "queue " + queue, State: "handled",
				Show: linkTo(queue, e.ID, map[string]string{"key": e.Subject, "kind": string(h.Kind)})})
			f.handled(queue, &e, cmp.Or(v.Key, e.Subject), v)
			return true, nil
		}
	}
	return seen, nil
}

// handlersOf are the handlers of a queue that leave a record, one of each collection.
func (f *flow) handlersOf(queue string) (all []catalog.Handler) {
	seen := map[string]bool{}
	for _, d := range f.c.Known.All() {
		for _, q := range d.Queues {
			for _, h := range q.Handlers {
				if q.Name == queue && (h.Collection != "" || h.Once) && !seen[h.Collection] {
					seen[h.Collection] = true
					all = append(all, h)
				}
			}
		}
	}
	return all
}

// queuesOf are the known queues, sorted.
func (f *flow) queuesOf() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(f.c.Known.Queues)), func(q string) bool { return storage.CheckName(q) != nil })
}

// chain looks for other messages of the chain among the first of all queues.
func (f *flow) chain(ctx context.Context) {
	first, told := cmp.Or(f.e.Correlation, f.e.ID), map[string]bool{}
	for _, s := range f.steps {
		told[s.Where+" "+s.ID] = true
	}
	for _, q := range f.queuesOf() {
		places, err := f.search.First(ctx, q)
		if err != nil {
			f.c.Note("Not all queues were looked through for other messages of the chain: %s: %v", q, err)
			return
		}
		for _, p := range places {
			if e := p.Envelope; p.Decoded && !f.seen(p) && (e.Correlation == first || e.ID == first) && !told["queue "+q+" "+e.ID] {
				f.add(FlowStep{Step: "chain", What: string(e.Kind), ID: e.ID, Where: "queue " + q, State: p.State,
					Show: linkTo(q, e.ID, nil)})
			}
		}
	}
}

// state is the state of the message for people. That of a poison message leads to its entry.
func (f *flow) state(m MessageShown) any {
	if m.State != track.Poison {
		return m.State
	}
	return act.Link{Text: m.State, Act: "poison show", With: map[string]string{"id": m.ID, "queue": m.Queue}}
}

// tell tells the message and its flow.
func (f *flow) tell(m MessageShown) error {
	has := "unknown"
	if m.Applied != nil {
		has = map[bool]string{true: "yes", false: "no"}[*m.Applied]
	}
	if m.Why != "" {
		has += ": " + m.Why
	}
	parts := []act.Part{
		{Name: "Queue", Value: act.Link{Text: m.Queue, Act: "queues show", With: map[string]string{"queue": m.Queue}}}, {Name: "ID", Value: m.ID}, {Name: "Kind", Value: string(m.Kind)},
		{Name: "State", Value: f.state(m)}, {Name: "Applied", Value: has}, {Name: "Reason", Value: f.reason}, {Name: "Error", Value: f.c.Fault(f.e.LastError, string(f.e.Kind))},
		{Name: "Subject", Value: f.e.Subject}, {Name: "Tenant", Value: f.e.Tenant}, {Name: "Attempts", Value: f.e.Attempts}, {Name: "Handed back", Value: f.e.HandBacks},
		{Name: "Deliveries", Value: m.Deliveries}, {Name: "Lost", Value: m.Lost},
	}
	for _, x := range []struct {
		name string
		at   *time.Time
	}{{"Made", act.Maybe(f.e.Time)}, {"Sent", m.Sent}, {"Ready", m.ReadyAt}, {"Due", act.Maybe(f.e.Due)}, {"First failed", act.Maybe(f.e.FirstFailed)}} {
		if x.at != nil {
			parts = append(parts, act.Part{Name: x.name, Value: act.Clock(*x.at)})
		}
	}
	text := ""
	if m.State != stateGone {
		text = textOf(m.Message, m.Raw)
	}
	if err := f.c.Thing(m, parts, text); err != nil {
		return err
	}
	if err := f.c.Table("", "STEP", "WHAT", "ID OR KEY", "WHERE", "STATE"); err != nil {
		return err
	}
	for _, s := range m.Flow {
		id := any(s.ID)
		if s.Show.Act != "" {
			id = s.Show
		}
		if err := f.c.Row(nil, s.Step, act.Short(s.What), id, s.Where, act.Short(s.State)); err != nil {
			return err
		}
	}
	return nil
}
