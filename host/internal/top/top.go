// Package top is the verb that shows the queues of a store again and again: on a terminal as a screen, elsewhere as
// lines.
//
//	a := top.Act(func() top.Seat { … }) // an act like all others
//
// It is no act of package acts, because it may have the terminal to itself. So the caller says where the act sits, once
// somebody does the act. Package watch has what is seen.
//
// # Laws
//
//   - top leaves the terminal as it was, however it ends, unless its process is killed.
//   - If the store can't be reached after a first look, top goes on. It shows the last look, and why there is no newer
//     look.
//   - A picture fits its terminal: what matters least goes first.
//
// # Files
//
//	top.go      the act, its rounds, and its lines
//	picture.go  the picture on a screen
package top

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/host/internal/terminal"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/watch"
)

const (
	leastEvery = 100 * time.Millisecond
	lookWithin = 10 * time.Second // after which a look at a store that doesn't answer has failed
)

// A Line is a queue in a round of top. null is an unknown number.
type Line struct {
	At       time.Time `json:"at"`
	Queue    string    `json:"queue"`
	Ready    *int64    `json:"ready"`
	InFlight *int64    `json:"in_flight"`
	Delayed  *int64    `json:"delayed"`
	Poison   int64     `json:"poison"`
	Lag      *float64  `json:"lag_seconds"`
	In       *float64  `json:"in_per_second"`
	Out      *float64  `json:"out_per_second"`
	Change   *float64  `json:"change_per_second"`
	P99      *float64  `json:"p99_seconds"`
}

// A Seat is where top sits.
type Seat struct {
	Screen *terminal.Screen // nil: it prints lines
	JSON   bool             // programs read the lines
}

// An input is what top takes.
type input struct {
	every  time.Duration
	rounds int
}

// Act is the act. sit is called once, when somebody does it. Its screen is closed in the end.
func Act(sit func() Seat) *act.Act {
	return act.New(act.Act{Noun: "top", Role: act.Viewer, About: "watch the queues",
		More: "On a terminal it is a screen, until a signal (Ctrl-C). Elsewhere it prints a line for each queue again and again. LAG is the age " +
			"of the oldest ready message. OUT counts the messages that left the queue, handled, poisoned or cancelled, by what the workers " +
			"published in the last two minutes. IN is OUT and the growth of the queue over the same time, so it is known after a minute. P99 is " +
			"the time within which 99 of 100 runs of a handler ended, in the slowest worker.",
	}, func(in *input) []act.Field {
		in.every = 2 * time.Second
		return []act.Field{
			act.Duration(&in.every, "every", "look at the queues again after this `TIME`, at least 100ms", leastEvery, 24*time.Hour),
			act.Number(&in.rounds, "n", "end after this `NUMBER` of looks; 0 means never", 0, 1<<30),
		}
	}, func(ctx context.Context, c *act.Call, in *input) error {
		seat := sit()
		show := printer(c, seat.JSON)
		if seat.Screen != nil {
			defer seat.Screen.Close()
			show = func(l *watch.Look, failed error) error { return draw(seat.Screen, l, failed) }
		}
		return in.show(ctx, c.Desk, show)
	})
}

// show shows the queues until the rounds are over or ctx ends.
func (in *input) show(ctx context.Context, desk *act.Desk, show func(last *watch.Look, failed error) error) error {
	var last *watch.Look
	var w watch.Watch
	tick := time.NewTicker(in.every)
	defer tick.Stop()
	for round := 1; ; round++ {
		looking, cancel := context.WithTimeout(ctx, lookWithin)
		now, err := w.Look(looking, desk)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil // a signal is how it ends
		case err != nil && last == nil:
			return err
		case err == nil:
			last = now
		}
		if err := show(last, err); err != nil {
			return err
		}
		if round == in.rounds {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// printer returns what prints a line for each queue.
func printer(c *act.Call, json bool) func(*watch.Look, error) error {
	noted := ""
	return func(l *watch.Look, failed error) error {
		if failed != nil {
			c.Note("%v", failed)
			return nil
		}
		if l.Note != noted && l.Note != "" && !json { // in JSON the rates are null
			c.Note("%s", l.Note)
		}
		noted = l.Note
		for i, name := range l.Names {
			x := cells(l, i)
			if err := c.Say(newLine(l, i), "%s  %s  ready %s  in flight %s  delayed %s  poison %s  lag %s  in %s  out %s  p99 %s",
				l.At.Format(time.TimeOnly), name, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]); err != nil {
				return err
			}
		}
		return c.Flush()
	}
}

func newLine(l *watch.Look, i int) Line {
	st, r := l.Stats[i], l.Rates[i]
	line := Line{At: l.At.UTC(), Queue: l.Names[i], Ready: known(st.Ready), InFlight: known(st.InFlight), Delayed: known(st.Delayed), Poison: l.Poisoned[l.Names[i]], In: r.In, Out: r.Out, Change: r.Change}
	if st.Oldest >= 0 {
		seconds := st.Oldest.Seconds()
		line.Lag = &seconds
	}
	if r.P99 > 0 {
		seconds := r.P99.Seconds()
		line.P99 = &seconds
	}
	return line
}

// known is nil for an unknown number.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}
