package schedule

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/post"
)

type tickOf struct {
	Tick Tick `json:"tick"`
}

func (tickOf) Kind() channel.Kind { return "test.tick.v1" }

// A theatre plays a document without a store: messages come late, twice and in any order, to workers whose clocks
// differ.
type theatre struct {
	r     *rand.Rand
	doc   document
	jobs  *set
	ticks []Tick
	wakes []wake // that are under way, and those that have come may come again
	dones []Done
}

func newTheatre(seed uint64) *theatre {
	x := &theatre{r: rand.New(rand.NewPCG(seed, 7)), jobs: &set{jobs: map[string]*job{}}}
	m, err := newMetrics(nil, "it")
	if err != nil {
		panic(err)
	}
	x.jobs.jobs["it"] = &job{name: "it", kind: tickOf{}.Kind(), metrics: m, log: slog.New(slog.NewTextHandler(io.Discard, nil)), command: func(t Tick) channel.Message {
		x.ticks = append(x.ticks, t)
		x.dones = append(x.dones, Done{Run: t.Run})
		return tickOf{t}
	}}
	return x
}

// play lets a worker whose clock says now decide about a message.
func (x *theatre) play(now time.Time, decide func(d *decision) ([]channel.Message, error)) {
	d := &decision{document: x.doc, name: "it", now: now.UTC(), count: func(result) {}}
	messages, err := decide(d)
	if err != nil {
		return
	}
	x.doc = d.document
	for _, m := range messages {
		if w, ok := post.Unwrap(m).(wake); ok {
			x.wakes = append(x.wakes, w)
		}
	}
}

func (x *theatre) register(now time.Time, def definition) {
	e := &channel.Envelope{Time: now, Source: "/test"}
	x.play(now, func(d *decision) ([]channel.Message, error) {
		return d.register(e, register{Schedule: "it", Queue: QueueName, Definition: def})
	})
}

// covered fails the test unless the ticks and the due times that were left out stand for each due time once, in order.
func (x *theatre) covered(t *testing.T, spec Spec, from time.Time) {
	t.Helper()
	type span struct{ from, due time.Time }
	var all []span
	for _, tick := range x.ticks {
		all = append(all, span{tick.From, tick.Due})
	}
	slices.SortStableFunc(all, func(a, b span) int { return a.due.Compare(b.due) })
	for _, s := range all {
		if want := spec.Next(from); !s.from.Equal(want) {
			t.Fatalf("after %v comes a tick from %v to %v, want one from %v", from, s.from, s.due, want)
		}
		from = s.due
	}
	if !spec.Next(from).Equal(x.doc.Next) && len(x.doc.Waiting) == 0 {
		t.Fatalf("the last tick is for %v, and the next due time is %v", from, x.doc.Next)
	}
}

// run lets things happen at random, from the night on in which the clocks of Berlin are changed. The clocks of the
// workers differ by up to an hour, jump and go back. The definitions are registered in turn.
func (x *theatre) run(t *testing.T, defs ...definition) (began time.Time) {
	t.Helper()
	now := time.Date(2026, 10, 24, 23, 0, 0, 0, time.UTC)
	x.register(now, defs[0])
	began = x.doc.Decided
	for range 200 {
		now = now.Add(time.Duration(x.r.IntN(600)) * time.Second)
		clock := now.Add(time.Duration(x.r.IntN(7200)-3600) * time.Second)
		switch x.r.IntN(8) {
		case 0:
			x.register(clock, defs[x.r.IntN(len(defs))])
		case 1, 2:
			if len(x.dones) > 0 {
				m := x.dones[x.r.IntN(len(x.dones))]
				x.play(clock, func(d *decision) ([]channel.Message, error) { return d.done(m) })
			}
		default:
			m := x.wakes[x.r.IntN(len(x.wakes))]
			if m.Due.After(now.Add(time.Hour)) {
				continue // no clock is so far ahead
			}
			x.play(clock, func(d *decision) ([]channel.Message, error) { return d.wake(&channel.Envelope{}, m, x.jobs) })
		}
	}
	if len(x.ticks) < 5 {
		t.Fatalf("got %d ticks only", len(x.ticks))
	}
	return began
}

func defined(t *testing.T, spec Spec, cfg Config) definition {
	t.Helper()
	def, err := define(spec, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return def
}

// Whatever the workers' clocks say, and whatever comes when and how often, each due time is in one tick.
func TestClocksThatDiffer(t *testing.T) {
	t.Parallel()
	spec := Cron("*/10 * * * *", "Europe/Berlin")
	for _, missed := range []Missed{One, All} {
		for _, overlap := range []Overlap{Allow, Queue} {
			for seed := range uint64(50) {
				t.Run(fmt.Sprint(missed, overlap, seed), func(t *testing.T) {
					x := newTheatre(seed)
					began := x.run(t, defined(t, spec, Config{Missed: missed, Within: 1000 * time.Hour, Overlap: overlap}))
					x.covered(t, spec, began)
				})
			}
		}
	}
}

// Definitions that replace one another give no due time twice, whatever the workers' clocks say.
func TestChangesUnderClocksThatDiffer(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			x := newTheatre(seed)
			cfg := Config{Missed: All, Within: 1000 * time.Hour}
			last := x.run(t, defined(t, Cron("*/10 * * * *", "Europe/Berlin"), cfg), defined(t, Cron("*/15 * * * *", "Europe/Berlin"), cfg), defined(t, Interval(7*time.Minute), cfg))
			for _, tick := range x.ticks {
				if !tick.Due.After(last) {
					t.Fatalf("after %v comes a tick of %v", last, tick.Due)
				}
				last = tick.Due
			}
		})
	}
}
