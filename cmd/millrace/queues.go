package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

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
	Routed   bool     `json:"routed"`         // messages are sent to the queue; otherwise only its poison queue is known
}

// queues prints the queues of the routes, and the queues of which only a poison queue is left.
func queues(ctx context.Context, c *call) error {
	names, poison, err := c.knownQueues(ctx)
	if err != nil {
		return err
	}
	stats := make([]storage.Stats, len(names))
	g, asking := errgroup.WithContext(ctx)
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
	if err := g.Wait(); err != nil {
		return err
	}
	var rows [][]string
	for i, name := range names {
		st := stats[i]
		if c.json {
			line := queueLine{Queue: name, Ready: known(st.Ready), InFlight: known(st.InFlight), Delayed: known(st.Delayed), Poison: poison[name], Routed: c.routed(name)}
			if st.Oldest >= 0 {
				seconds := st.Oldest.Seconds()
				line.Oldest = &seconds
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
		row := []string{name, number(st.Ready), number(st.InFlight), number(st.Delayed), fmt.Sprint(poison[name]), oldest}
		if !c.routed(name) {
			row = append(row, "in no route")
		}
		rows = append(rows, row)
	}
	if !c.json {
		c.out.table([]string{"QUEUE", "READY", "IN FLIGHT", "DELAYED", "POISON", "OLDEST"}, rows)
	}
	return nil
}

// knownQueues returns the sorted names of the queues that are routed or have a poison queue, and the number of poison
// messages of each.
func (c *call) knownQueues(ctx context.Context) (names []string, poisoned map[string]int64, err error) {
	if poisoned, err = poison.Count(ctx, c.store); err != nil {
		return nil, nil, err
	}
	all := map[string]bool{}
	for q := range poisoned {
		all[q] = true
	}
	for _, q := range c.channels.Routes().Queues() {
		all[q] = true
	}
	return slices.Sorted(maps.Keys(all)), poisoned, nil
}

// routed reports that a route leads to a queue.
func (c *call) routed(queue string) bool {
	return slices.Contains(c.channels.Routes().Queues(), queue)
}

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
