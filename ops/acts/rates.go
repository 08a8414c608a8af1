package acts

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
)

// Rates are what workers have done in the last 24 hours.
type Rates struct {
	Queue string    `json:"queue,omitempty"` // "": all of them
	Since time.Time `json:"since"`           // from when on all is known
	Until time.Time `json:"until,omitzero"`  // when the newest report was published: what has happened since is not in it
	Slots []Slot    `json:"slots"`           // of ten minutes each, in the order of time; one without work is missing
}

// A Slot is what workers have done in ten minutes.
type Slot struct {
	Begin    time.Time `json:"begin"`
	Out      float64   `json:"out"` // messages that have left their queue: done, poisoned or cancelled
	Retried  float64   `json:"retried"`
	Poisoned float64   `json:"poisoned"`
	P99      float64   `json:"p99_seconds"` // running time of handlers, of the slowest report; 0 where none ran
}

// A ratesInput is what rates takes.
type ratesInput struct{ queue string }

func rateActs() []*act.Act {
	return []*act.Act{act.New(act.Act{Noun: "rates", Role: act.Viewer, About: "show what workers have done in the last 24 hours",
		More: "Workers publish each minute what they have done, and the store keeps that for a day. OUT are messages that have left their queue: " +
			"done, poisoned or cancelled. How many came in, and how long messages waited, is not kept: queues list and top have the present.",
	}, func(in *ratesInput) []act.Field {
		return []act.Field{act.Text(&in.queue, "queue", "only of this `QUEUE`").With(storage.CheckName).From(queueNames)}
	}, showRates)}
}

func showRates(ctx context.Context, c *act.Call, in *ratesInput) error {
	spans, since, err := c.Past.Read(ctx, c.Store)
	if err != nil {
		return err
	}
	r := Rates{Queue: in.queue, Since: since, Until: c.Past.Until(), Slots: []Slot{}}
	for _, x := range spans {
		s := Slot{Begin: x.Begin}
		for name, w := range x.Queues {
			if in.queue == "" || name == in.queue {
				s.Out, s.Retried, s.Poisoned, s.P99 = s.Out+w.Out, s.Retried+w.Retried, s.Poisoned+w.Poisoned, max(s.P99, w.P99/1000)
			}
		}
		r.Slots = append(r.Slots, s)
	}
	return c.Draw(r, func(width int, _ func(string) string) string { return r.draw(width) })
}

// draw draws the hours as bars of what left the queues.
func (r Rates) draw(width int) string {
	hours := map[time.Time]*Slot{}
	most := 0.0
	for _, s := range r.Slots {
		begin := s.Begin.Truncate(time.Hour)
		h := hours[begin]
		if h == nil {
			h = &Slot{Begin: begin}
			hours[begin] = h
		}
		h.Out, h.Retried, h.Poisoned, h.P99 = h.Out+s.Out, h.Retried+s.Retried, h.Poisoned+s.Poisoned, max(h.P99, s.P99)
		most = max(most, h.Out)
	}
	if most == 0 {
		return "No worker has published any work in the last 24 hours."
	}
	lines := []string{"HOUR (UTC)          OUT   RETRIED  POISONED       P99"}
	room := max(0, width-utf8.RuneCountInString(lines[0])-2)
	for begin := r.Since.Truncate(time.Hour); begin.Before(r.Since.Add(catalog.Past)); begin = begin.Add(time.Hour) {
		h := hours[begin]
		if h == nil {
			continue
		}
		p99 := time.Duration(h.P99 * float64(time.Second)).Round(time.Millisecond)
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%-12s %10.0f %9.0f %9.0f %9s  %s", begin.Format("Jan 02 15:04"), h.Out, h.Retried, h.Poisoned, p99,
			strings.Repeat("▇", int(h.Out/most*float64(room)))), " "))
	}
	return strings.Join(lines, "\n")
}
