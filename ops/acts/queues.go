package acts

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/storage"
)

// A Queue is a queue with its numbers. null is an unknown number.
type Queue struct {
	Queue    string   `json:"queue"`
	Ready    *int64   `json:"ready"`
	InFlight *int64   `json:"in_flight"`
	Delayed  *int64   `json:"delayed"`
	Poison   int64    `json:"poison"`
	Oldest   *float64 `json:"oldest_seconds"` // age of the oldest ready message, 0 if there is none
	Routed   bool     `json:"routed"`         // messages are sent to the queue; otherwise it has messages, or a poison queue

	Consumers []Consumer `json:"consumers"`
	Paused    *Pause     `json:"paused"`     // null: it is consumed
	Away      *Away      `json:"away"`       // the service that its handlers need is away; null: it isn't, or that is unknown
	WaitsFrom *int       `json:"waits_from"` // the level from which its workers leave it out, while they do; null: it is consumed

	Out *float64 `json:"out_per_second"` // messages that have left it in the last minutes: done, poisoned or cancelled
	P99 *float64 `json:"p99_seconds"`    // running time of its handlers, of the slowest worker
}

// A Consumer is a version of a program that consumes a queue.
type Consumer struct {
	Program string    `json:"program"`
	Version string    `json:"version"`
	Last    time.Time `json:"last"` // when it last published that
}

// An Away is a service for which queues wait.
type Away struct {
	Guard string     `json:"guard"` // of the service
	Asks  bool       `json:"asks"`  // the service is there, and asks to wait
	Since *time.Time `json:"since"` // null: unknown
}

// State is in a few words what keeps a queue from being consumed; "" for nothing that is known.
func (q *Queue) State() string {
	switch {
	case q.Paused != nil:
		return "paused by " + q.Paused.By
	case q.Away != nil:
		return "waits for guard " + q.Away.Guard
	case q.WaitsFrom != nil:
		return fmt.Sprintf("waits from level %d on", *q.WaitsFrom)
	}
	return ""
}

// awayOf are the services that are away for all processes, by the queues that wait for them. A note says why that is
// unknown.
func awayOf(ctx context.Context, c *act.Call, queues []string) map[string]*Away {
	if !slices.ContainsFunc(queues, func(q string) bool { return c.Known.Guard(q) != "" }) {
		return nil
	}
	found, err := guard.Outages(ctx, c.Store)
	if err != nil {
		c.Note("Whether queues wait for the service of a guard can't be read: %v", err)
	}
	all := map[string]*Away{}
	for _, s := range found {
		for _, q := range queues {
			if c.Known.Guard(q) == s.Name && (s.All || s.Damaged) {
				all[q] = &Away{s.Name, s.Asks, act.Maybe(s.Since)}
			}
		}
	}
	return all
}

func queueActs() []*act.Act {
	return append([]*act.Act{
		act.New(act.Act{Noun: "queues", Verb: "list", Alone: true, Role: act.Viewer, About: "count the messages of each queue and of its poison queue",
			More: "queues alone is the same. READY can be received now. IN FLIGHT is held by a worker. DELAYED becomes ready later. – means " +
				"unknown: a queue in the cloud does not count these separately. CONSUMED BY names the programs whose workers have a handler for " +
				"the queue and have published that within two days. STATE is what keeps the queue from being consumed. Under the table it names the queues that are paused, " +
				"and those that their workers leave out at the level of their program.",
		}, nil, listQueues),
	}, append(pauseActs(), messageActs()...)...)
}

// listQueues tells the queues of the routes, those of which only a poison queue is left, and other ones with messages,
// as far as the store lists its queues.
func listQueues(ctx context.Context, c *act.Call, _ *act.None) error {
	names, poison, err := look.Queues(ctx, c.Desk)
	if err != nil {
		return err
	}
	paused, err := notedPauses(ctx, c)
	if err != nil {
		return err
	}
	reports, err := catalog.ReadReports(ctx, c.Store)
	if err != nil {
		return err
	}
	waits, rates := look.LevelsOf(reports), catalog.Rates(reports, catalog.Window)
	for q := range paused {
		if !slices.Contains(names, q) { // it was known when it was paused
			names = append(names, q)
		}
	}
	slices.Sort(names)
	names, stats, _, err := look.WithUnseen(ctx, c.Desk, names)
	if err != nil {
		return err
	}
	away := awayOf(ctx, c, names)
	if err := c.Table("", "QUEUE", "READY", "IN FLIGHT", "DELAYED", "POISON", "OLDEST", "CONSUMED BY", "STATE"); err != nil {
		return err
	}
	for i, name := range names {
		st := stats[i]
		line := newQueue(c.Desk, name, st, poison[name])
		var oldest any
		if st.Oldest >= 0 {
			oldest = st.Oldest
		}
		if p, ok := paused[name]; ok {
			line.Paused = newPause(p)
		}
		line.Away = away[name]
		line.moves(waits, rates)
		if err := c.Row(line, name, cell(st.Ready), cell(st.InFlight), cell(st.Delayed), poison[name], oldest, look.ConsumedBy(c.Desk, name), line.State()); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(paused)) {
		if err := c.Say(nil, "Paused: %s, %s", name, look.PauseText(paused[name])); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(waits)) {
		if err := c.Say(nil, "Waits: %s, %s", name, look.LevelText(waits[name])); err != nil {
			return err
		}
	}
	return nil
}

// newQueue tells the numbers of a queue.
func newQueue(d *act.Desk, name string, st storage.Stats, poisoned int64) Queue {
	q := Queue{Queue: name, Ready: number(st.Ready), InFlight: number(st.InFlight), Delayed: number(st.Delayed), Poison: poisoned, Routed: look.Routed(d, name), Consumers: []Consumer{}}
	for _, x := range d.Known.Consumers(name) {
		q.Consumers = append(q.Consumers, Consumer{x.Name, x.Version, x.Last})
	}
	if st.Oldest >= 0 {
		seconds := st.Oldest.Seconds()
		q.Oldest = &seconds
	}
	return q
}

// moves tells of a queue what its workers have published last.
func (q *Queue) moves(waits map[string]int, rates map[string]catalog.Rate) {
	if from, ok := waits[q.Queue]; ok {
		q.WaitsFrom = &from
	}
	if r, ok := rates[q.Queue]; ok {
		seconds := r.P99.Seconds()
		q.Out, q.P99 = &r.Out, &seconds
	}
}
