package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// queueLine is what -json prints of a queue. null is an unknown number.
type queueLine struct {
	Queue    string   `json:"queue"`
	Ready    *int64   `json:"ready"`
	InFlight *int64   `json:"in_flight"`
	Delayed  *int64   `json:"delayed"`
	Poison   int64    `json:"poison"`
	Oldest   *float64 `json:"oldest_seconds"` // age of the oldest ready message, 0 if there is none
	Routed   bool     `json:"routed"`         // messages are sent to the queue; otherwise it has messages, or a poison queue

	Consumers []consumer  `json:"consumers"`
	Paused    *pausedLine `json:"paused"`     // null: it is consumed
	WaitsFrom *int        `json:"waits_from"` // the level from which its workers leave it out, while they do; null: it is consumed
}

// consumer is a version of a program that consumes a queue.
type consumer struct {
	Program string    `json:"program"`
	Version string    `json:"version"`
	Last    time.Time `json:"last"` // when it last published that
}

// queues prints the queues of the routes, those of which only a poison queue is left, and other ones with messages, as
// far as the store lists its queues.
func queues(ctx context.Context, c *call) error {
	names, poison, err := c.knownQueues(ctx)
	if err != nil {
		return err
	}
	paused, err := coordCall{c}.notedPauses(ctx)
	if err != nil {
		return err
	}
	waits, err := readLevels(ctx, c)
	if err != nil {
		return err
	}
	for q := range paused {
		if !slices.Contains(names, q) { // it was known when it was paused
			names = append(names, q)
		}
	}
	slices.Sort(names)
	names, stats, _, err := c.withUnseen(ctx, names)
	if err != nil {
		return err
	}
	var rows [][]string
	for i, name := range names {
		st := stats[i]
		if c.json {
			line := queueLine{Queue: name, Ready: known(st.Ready), InFlight: known(st.InFlight), Delayed: known(st.Delayed), Poison: poison[name], Routed: c.routed(name), Consumers: []consumer{}}
			for _, d := range c.known.consumers(name) {
				line.Consumers = append(line.Consumers, consumer{d.Name, d.Version, d.Last})
			}
			if st.Oldest >= 0 {
				seconds := st.Oldest.Seconds()
				line.Oldest = &seconds
			}
			if p, ok := paused[name]; ok {
				line.Paused = newPausedLine(p)
			}
			if from, ok := waits[name]; ok {
				line.WaitsFrom = &from
			}
			if err := c.out.line(line); err != nil {
				return err
			}
			continue
		}
		oldest := unknown
		if st.Oldest >= 0 {
			oldest = age(st.Oldest)
		}
		row := []string{name, number(st.Ready), number(st.InFlight), number(st.Delayed), fmt.Sprint(poison[name]), oldest, c.consumedBy(name)}
		rows = append(rows, row)
	}
	if !c.json {
		c.out.table([]string{"QUEUE", "READY", "IN FLIGHT", "DELAYED", "POISON", "OLDEST", "CONSUMED BY"}, rows)
		printHeld(c, paused, waits)
	}
	return nil
}

// printHeld names the queues that aren't consumed, and says why.
func printHeld(c *call, paused map[string]pause.Pause, waits map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(paused)) {
		c.out.printf("%s\n", boot.Clean(fmt.Sprintf("Paused: %s, %s", name, pauseOf(paused[name]))))
	}
	for _, name := range slices.Sorted(maps.Keys(waits)) {
		c.out.printf("%s\n", boot.Clean(fmt.Sprintf("Waits: %s, %s", name, levelOf(waits[name]))))
	}
}

// consumedBy names a queue's consumers for people.
func (c *call) consumedBy(queue string) string {
	switch all := c.known.consumers(queue); {
	case !c.routed(queue):
		return "in no route"
	case len(all) > 0:
		return versions(all)
	case len(c.known.published) > 0 || c.known.own != nil:
		return "nobody"
	}
	return unknown
}

// statsOf counts the messages of queues, of several at a time.
func (c *call) statsOf(ctx context.Context, names []string) ([]storage.Stats, error) {
	stats := make([]storage.Stats, len(names))
	g, asking := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, name := range names {
		if storage.CheckName(name) != nil { // a blob that no worker has written
			stats[i] = storage.Stats{Ready: -1, InFlight: -1, Delayed: -1, Oldest: -1}
			continue
		}
		g.Go(func() (err error) {
			stats[i], err = c.store.Queue(name).Stats(asking)
			return err
		})
	}
	return stats, g.Wait()
}

// knownQueues returns the sorted names of the queues that are routed or have a poison queue, and the number of poison
// messages of each.
func (c *call) knownQueues(ctx context.Context) (names []string, poisoned map[string]int64, err error) {
	if poisoned, err = poison.Count(ctx, c.store); err != nil {
		return nil, nil, err
	}
	all := maps.Clone(c.known.queues)
	for q := range poisoned {
		all[q] = true
	}
	return slices.Sorted(maps.Keys(all)), poisoned, nil
}

// routed reports that a route leads to a queue, of this binary or of a program as it is now.
func (c *call) routed(queue string) bool { return c.known.routedNow()[queue] || ownRoutes(c, queue) }

func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

func number(n int64) string {
	if n < 0 {
		return unknown
	}
	return fmt.Sprint(n)
}
