package schedule

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
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
	d := &decision{doc: x.doc, name: "it", now: now.UTC(), count: func(result) {}}
	messages, err := decide(d)
	if err != nil {
		return
	}
	x.doc = d.doc
	for _, m := range messages {
		if w, ok := wire.Unwrap(m).(wake); ok {
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

// A zone's rules have changed since the next due time was computed: its clocks are behind, or ahead, of what they were.
// The due time moves with them. So it comes once, and no other one comes instead.
func TestAZoneWhoseRulesHaveChanged(t *testing.T) {
	t.Parallel()
	const dhaka, kathmandu = "Asia/Dhaka", "Asia/Kathmandu" // six hours, and a quarter of an hour less
	midnight := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	at := func(clock string) time.Time {
		x, err := time.Parse("02 15:04", clock)
		if err != nil {
			t.Fatal(err)
		}
		return midnight.AddDate(0, 0, x.Day()-1).Add(x.Sub(x.Truncate(24 * time.Hour)))
	}
	for _, c := range []struct {
		name          string
		cron          string
		before, after string
		restarts      string   // a registration; empty: none
		wakes         []string // workers' clocks
		want          string
	}{
		{"later, at a registration", "51 5 * * *", dhaka, kathmandu, "01 12:00", []string{"01 23:51", "02 00:06", "03 00:06"}, "02 00:06, 03 00:06"},
		{"later, at a wake", "51 5 * * *", dhaka, kathmandu, "", []string{"01 23:51", "02 00:06", "03 00:06"}, "02 00:06, 03 00:06"},
		{"later, at a wake that is late", "51 5 * * *", dhaka, kathmandu, "", []string{"02 00:06", "03 00:06"}, "02 00:06, 03 00:06"},
		{"earlier, at a registration", "51 5 * * *", kathmandu, dhaka, "01 12:00", []string{"01 23:51", "02 23:51"}, "01 23:51, 02 23:51"},
		{"earlier, at a registration between the two", "51 5 * * *", kathmandu, dhaka, "02 00:00", []string{"02 00:00", "02 23:51"}, "01 23:51, 02 23:51"},
		{"earlier, at a wake", "51 5 * * *", kathmandu, dhaka, "", []string{"02 00:06", "02 23:51"}, "01 23:51, 02 23:51"},
		{"a due time that both have", "*/15 * * * *", dhaka, kathmandu, "01 00:05", []string{"01 00:15", "01 00:30"}, "01 00:15, 01 00:30"},
		{"each hour", "0 * * * *", dhaka, kathmandu, "01 00:05", []string{"01 01:00", "01 01:15", "01 02:15"}, "01 01:15, 01 02:15"},
		{"a day of the week", "51 5 * * 3", dhaka, kathmandu, "01 12:00", []string{"03 23:51", "04 00:06", "11 00:06"}, "04 00:06, 11 00:06"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := newTheatre(1)
			cfg := Config{Missed: All, Within: 1000 * time.Hour, Grace: time.Hour}
			x.register(midnight, defined(t, Cron(c.cron, c.before), cfg))
			def := defined(t, Cron(c.cron, c.after), cfg)
			x.doc.Definition = def // the zone keeps its name, and has other rules
			if c.restarts != "" {
				x.register(at(c.restarts), def)
			}
			for _, clock := range c.wakes {
				if m := (wake{Schedule: "it", Due: x.doc.Armed}); !m.Due.After(at(clock)) {
					x.play(at(clock), func(d *decision) ([]channel.Message, error) { return d.wake(&channel.Envelope{}, m, x.jobs) })
				}
			}
			got := ""
			for _, tick := range x.ticks {
				got += ", " + tick.Due.UTC().Format("02 15:04")
			}
			if got = strings.TrimPrefix(got, ", "); got != c.want {
				t.Errorf("got %s, want %s; noted %+v", got, c.want, x.doc.Changes)
			}
			if c.cron != "*/15 * * * *" && !strings.HasSuffix(x.doc.Changes[0].What, "by the present rules of "+c.after) {
				t.Errorf("noted %+v, want the due time that has moved", x.doc.Changes)
			}
		})
	}
}

// A backfill goes on with the present rules of its zone.
func TestABackfillInAZoneWhoseRulesHaveChanged(t *testing.T) {
	t.Parallel()
	midnight := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	x := newTheatre(1)
	x.register(midnight.AddDate(0, 0, 20), defined(t, Cron("51 5 * * *", "Asia/Dhaka"), Config{Overlap: Skip}))
	x.play(midnight.AddDate(0, 0, 20), func(d *decision) ([]channel.Message, error) {
		return d.order(&channel.Envelope{ID: "1"}, order{Do: backfill, By: "ada", From: midnight, To: midnight.AddDate(0, 0, 2)})
	})
	x.doc.Definition = defined(t, Cron("51 5 * * *", "Asia/Kathmandu"), Config{Overlap: Skip})
	x.play(midnight.AddDate(0, 0, 20), func(d *decision) ([]channel.Message, error) {
		return d.wake(&channel.Envelope{}, wake{Schedule: "it"}, x.jobs)
	})
	if len(x.ticks) != 1 || !x.ticks[0].Due.Equal(midnight.Add(24*time.Hour+6*time.Minute)) {
		t.Errorf("got %+v, want the first due time by the present rules", x.ticks)
	}
}

// The nearest due time is found, however far it is.
func TestTheNearestDueTime(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		x, err := time.Parse("2006-01-02 15:04:05", text)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for _, c := range []struct{ cron, of, want string }{
		{"0 0 29 2 *", "2028-02-29 00:00:00", "2028-02-29 00:00:00"},
		{"0 0 29 2 *", "2029-02-28 00:00:00", "2028-02-29 00:00:00"},
		{"0 0 29 2 *", "2030-03-02 00:00:00", "2032-02-29 00:00:00"},
		{"0 * * * *", "2026-01-01 00:29:59", "2026-01-01 00:00:00"},
		{"0 * * * *", "2026-01-01 00:30:00", "2026-01-01 01:00:00"},
		{"0 * * * *", "2026-01-01 00:59:59", "2026-01-01 01:00:00"},
		{"0 * * * *", "2026-01-01 00:00:01", "2026-01-01 00:00:00"},
		{"* * * * * *", "2026-01-01 00:00:01", "2026-01-01 00:00:01"},
	} {
		if got := Cron(c.cron, "UTC").nearest(at(c.of)); !got.Equal(at(c.want)) {
			t.Errorf("%s: nearest to %s: got %v, want %s", c.cron, c.of, got, c.want)
		}
	}
	if got := Cron("0 0 * * *", "UTC").nearest(time.Time{}); !got.IsZero() {
		t.Errorf("nearest to no time: got %v", got)
	}
}

// A wake was delayed by a clock that was wrong. Another one is sent when a worker starts, unless others have just
// started, and when a clock was set. Its copy does nothing.
func TestAWakeThatAWrongClockHasDelayed(t *testing.T) {
	t.Parallel()
	right := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	due := right.Add(10 * time.Second)
	def := defined(t, Cron("10 0 12 * * *", "UTC"), Config{})
	for _, wrong := range []time.Duration{time.Minute, time.Hour, 30 * 24 * time.Hour} {
		x := newTheatre(1)
		again := func(now time.Time) {
			x.play(now, func(d *decision) ([]channel.Message, error) {
				return d.wake(&channel.Envelope{}, wake{Schedule: "it", Again: true}, x.jobs)
			})
		}
		again(right) // of a schedule that nobody has registered yet
		want := func(what string, n int) {
			t.Helper()
			if len(x.wakes) != n {
				t.Errorf("%s, by a clock %v behind: got %d wakes, want %d", what, wrong, len(x.wakes), n)
			}
		}
		x.register(right.Add(-wrong), def)
		x.register(right.Add(-wrong+time.Second), def)
		want("two registrations together", 1)
		again(right)
		want("the clock was set", 2)
		x.register(right, def)
		want("a registration just after", 2)
		x.doc.Sent = right.Add(-wrong)
		x.register(right, def)
		want("a registration by a clock that is right", 3)
		x.doc.Sent = right.Add(wrong)
		x.register(right, def)
		want("a registration by a clock that is right, after one that was ahead", 4)
		if last := x.wakes[3]; wrong < 24*time.Hour && !last.Due.Equal(due) {
			t.Errorf("got a wake at %v, want %v", last.Due, due)
		}
		for range 3 {
			m := x.wakes[3]
			x.play(due, func(d *decision) ([]channel.Message, error) { return d.wake(&channel.Envelope{}, m, x.jobs) })
		}
		if len(x.ticks) != 1 || !x.ticks[0].Due.Equal(due) {
			t.Errorf("got %+v, want one at %v", x.ticks, due)
		}
	}
}
