package acts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/processes"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/lanes"
)

const (
	mostShown = 32     // waiting messages whose tenants are counted
	mostCount = 10_000 // poison messages that are counted
)

// A QueueShown is all that is known of a queue.
type QueueShown struct {
	Queue
	Kinds   []channel.Kind `json:"kinds"`   // that the routes of programs lead to it
	Lanes   []Lane         `json:"lanes"`   // into which it is divided
	Tenants []Tenant       `json:"tenants"` // of the first messages that wait, the most frequent first
	More    bool           `json:"more"`    // its poison queue has more messages than were counted

	Guard string `json:"guard,omitempty"` // the queue waits while the service of this guard is away
}

// A Lane is a part of a queue.
type Lane struct {
	Lane     string `json:"lane"`
	Ready    *int64 `json:"ready"`
	InFlight *int64 `json:"in_flight"`
	Delayed  *int64 `json:"delayed"`
}

// A Tenant is a tenant with messages that wait.
type Tenant struct {
	Tenant  string `json:"tenant"` // "" for messages without one
	Waiting int    `json:"waiting"`
}

// showQueueActs has the act that shows one queue.
func showQueueActs() []*act.Act {
	return []*act.Act{act.New(act.Act{Noun: "queues", Verb: "show", Role: act.Viewer, About: "show all that is known of a queue",
		More: "TENANTS are those of the first 32 messages that wait, where the store shows these. OUT and P99 are of the last minutes, as its " +
			"workers have published them.",
	}, func(in *messageInput) []act.Field { return []act.Field{queueField(&in.queue)} }, showQueue)}
}

func showQueue(ctx context.Context, c *act.Call, in *messageInput) error {
	if err := checkFilled(ctx, c.Desk, in.queue); err != nil {
		if bad := (*act.UsageError)(nil); errors.As(err, &bad) {
			return act.Nothing("%v", err)
		}
		return err
	}
	st, err := c.Store.Queue(in.queue).Stats(ctx)
	if err != nil {
		return err
	}
	poisoned, more, err := poison.CountOf(ctx, c.Store, in.queue, mostCount)
	if err != nil {
		return err
	}
	line := QueueShown{Queue: newQueue(c.Desk, in.queue, st, poisoned), More: more, Kinds: kindsOf(c.Desk, in.queue), Lanes: []Lane{}, Tenants: []Tenant{}, Guard: c.Known.Guard(in.queue)}
	reports, err := catalog.ReadReports(ctx, c.Store)
	if err != nil {
		c.Note("What the workers publish can't be read, so rates are unknown: %v", err)
	}
	line.moves(look.LevelsOf(reports), catalog.Rates(reports, catalog.Window))
	paused, err := notedPauses(ctx, c)
	if err != nil {
		return err
	}
	if p, ok := paused[in.queue]; ok {
		line.Paused = newPause(p)
	}
	line.Away = awayOf(ctx, c, []string{in.queue})[in.queue]
	if err := line.divided(ctx, c); err != nil {
		return err
	}
	if err := line.tenants(ctx, c); err != nil {
		c.Note("The tenants of waiting messages are unknown: %v", err)
	}
	return line.tell(c)
}

// kindsOf are the kinds that come to a queue by the routes of any program.
func kindsOf(d *act.Desk, queue string) []channel.Kind {
	all := []channel.Kind{}
	for _, x := range d.Known.All() {
		for _, q := range x.Queues {
			if q.Name == queue {
				all = append(all, q.Kinds...)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// divided counts the lanes of a queue.
func (q *QueueShown) divided(ctx context.Context, c *act.Call) error {
	by := c.Known.Lanes()[q.Queue.Queue]
	if by == (lanes.Queue{}) {
		return nil
	}
	names := by.Names(q.Queue.Queue)
	stats, err := look.Stats(ctx, c.Desk, names)
	if err != nil {
		return err
	}
	for i, name := range names {
		q.Lanes = append(q.Lanes, Lane{name, number(stats[i].Ready), number(stats[i].InFlight), number(stats[i].Delayed)})
	}
	return nil
}

// tenants counts the tenants of the first messages that wait.
func (q *QueueShown) tenants(ctx context.Context, c *act.Call) error {
	counts, n := map[string]int{}, 0
	for m, err := range c.Store.Queue(q.Queue.Queue).Peek(ctx) {
		if errors.Is(err, storage.ErrUnsupported) {
			return nil
		}
		if err != nil {
			return err
		}
		if e, err := wire.Decode(m.Body); err == nil {
			counts[e.Tenant]++
		}
		if n++; n == mostShown {
			break
		}
	}
	for name, n := range counts {
		q.Tenants = append(q.Tenants, Tenant{name, n})
	}
	slices.SortFunc(q.Tenants, func(a, b Tenant) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), strings.Compare(a.Tenant, b.Tenant))
	})
	return nil
}

// tell tells people and programs of the queue.
func (q *QueueShown) tell(c *act.Call) error {
	var consumers, kinds, tenants []string
	for _, x := range q.Consumers {
		consumers = append(consumers, strings.TrimSpace(x.Program+" "+x.Version))
	}
	for _, k := range q.Kinds {
		kinds = append(kinds, string(k))
	}
	for _, x := range q.Tenants {
		if x.Tenant != "" {
			tenants = append(tenants, fmt.Sprintf("%s: %d", act.Short(x.Tenant), x.Waiting))
		}
	}
	parts := []act.Part{
		{Name: "Ready", Value: counted(q.Ready)}, {Name: "In flight", Value: counted(q.InFlight)}, {Name: "Delayed", Value: counted(q.Delayed)},
		{Name: "Poison", Value: atLeast(q.Poison, q.More)}, {Name: "Oldest ready", Value: inSeconds(q.Oldest)}, {Name: "Out a second, in the last 2 minutes", Value: perSecond(q.Out)},
		{Name: "Slowest handlers, in the last 2 minutes", Value: ranFor(q.P99)}, {Name: "Consumed by", Value: cmp.Or(strings.Join(consumers, ", "), look.ConsumedBy(c.Desk, q.Queue.Queue))},
		{Name: "Kinds", Value: strings.Join(kinds, ", ")}, {Name: "Tenants of the first messages", Value: strings.Join(tenants, ", ")},
	}
	parts = append(q.standing(), parts...)
	if q.Guard != "" {
		parts = append(parts, act.Part{Name: "Guard", Value: act.Link{Text: q.Guard, Act: "guards show", With: map[string]string{"name": q.Guard}}})
	}
	if err := c.Thing(q, parts, ""); err != nil || len(q.Lanes) == 0 {
		return err
	}
	if err := c.Table("", "LANE", "READY", "IN FLIGHT", "DELAYED"); err != nil {
		return err
	}
	for _, l := range q.Lanes {
		if err := c.Row(nil, l.Lane, counted(l.Ready), counted(l.InFlight), counted(l.Delayed)); err != nil {
			return err
		}
	}
	return nil
}

// standing says why the messages of a queue wait, if anything is known to keep them.
func (q *Queue) standing() (parts []act.Part) {
	if p := q.Paused; p != nil {
		text := fmt.Sprintf("paused by %s since %s (%s)", p.By, act.Clock(p.Since), act.Ago(p.Since))
		if p.Until != nil {
			text += ", until " + act.Clock(*p.Until)
		}
		if p.Why != "" {
			text += ": " + p.Why
		}
		parts = append(parts, act.Part{Name: "State", Value: text})
	}
	if a := q.Away; a != nil {
		text := fmt.Sprintf("waits: the service of guard %s is away", a.Guard)
		if a.Asks {
			text = fmt.Sprintf("waits: the service of guard %s asks to wait", a.Guard)
		}
		if a.Since != nil {
			text += fmt.Sprintf(" since %s (%s)", act.Clock(*a.Since), act.Ago(*a.Since))
		}
		parts = append(parts, act.Part{Name: "State", Value: act.Link{Text: text, Act: "guards show", With: map[string]string{"name": a.Guard}}})
	}
	if q.WaitsFrom != nil {
		parts = append(parts, act.Part{Name: "State", Value: "waits: " + look.LevelText(*q.WaitsFrom)})
	}
	return parts
}

// counted is a number for people; "–" if it is unknown.
func counted(n *int64) any {
	if n == nil {
		return act.Unknown
	}
	return *n
}

// atLeast is a number for people that may have been counted up to a bound.
func atLeast(n int64, more bool) any {
	if more {
		return fmt.Sprintf("≥ %d", n)
	}
	return n
}

// inSeconds is a time span for people; nil if it is unknown.
func inSeconds(s *float64) any {
	if s == nil {
		return nil
	}
	return time.Duration(*s * float64(time.Second))
}

// ranFor is the running time of handlers for people, which is short mostly; nil if none ran, or if it is unknown.
func ranFor(s *float64) any {
	if s == nil || *s == 0 {
		return nil
	}
	return processes.Took(time.Duration(*s * float64(time.Second)))
}

// perSecond is a rate for people; nil if it is unknown.
func perSecond(x *float64) any {
	if x == nil {
		return nil
	}
	return fmt.Sprintf("%.2g", *x)
}
