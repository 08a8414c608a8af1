package views_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/values"
)

func TestProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustFold("totals", added("1", "ada", 5), added("2", "ada", 7), added("3", "bob", 1))
	w.wantTotal("ada", Total{Sum: 12, Count: 2})
	w.wantTotal("bob", Total{Sum: 1, Count: 1})
	w.wantTotal("eve", Total{})
	if got, want := w.Totals.Name(), "totals"; got != want {
		t.Errorf("got name %s, want %s", got, want)
	}
}

// Each event counts once, whatever is delivered twice, together or apart, in any order.
func TestProjectCountsOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t)
			var events []channel.Envelope
			want := Total{}
			for i := range 40 {
				e := added(channel.NewID(), "ada", i)
				want.Sum, want.Count = want.Sum+i, want.Count+1
				events = append(events, e, e, e)
			}
			r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
			for len(events) > 0 {
				n := min(1+r.IntN(20), len(events))
				w.mustFold("totals", events[:n]...)
				events = events[n:]
			}
			w.wantTotal("ada", want)
		})
	}
}

func TestLatest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	events := w.toggle("2026-12-24", "2026-12-25", "2026-12-25")
	w.mustFold("months", events...)
	w.wantMonth("2026-12", "2026-12-24")
}

// Filled and Emptied arrive swapped, in one batch or in two: the newest of each source counts.
func TestLatestSwapped(t *testing.T) {
	t.Parallel()
	const day, other, source, otherSource = "2026-12-24", "2026-12-25", "/days/2026-12-24", "/days/2026-12-25"
	filled, emptied := event("1", source, 1, Filled{Date: day}), event("2", source, 2, Emptied{Date: day})
	again := event("3", source, 3, Filled{Date: day})
	otherFilled := event("4", otherSource, 1, Filled{Date: other})
	for name, test := range map[string]struct {
		batches [][]channel.Envelope
		want    []string
	}{
		"in order":               {[][]channel.Envelope{{filled}, {emptied}}, nil},
		"swapped":                {[][]channel.Envelope{{emptied}, {filled}}, nil},
		"swapped in one":         {[][]channel.Envelope{{emptied, filled}}, nil},
		"swapped and repeated":   {[][]channel.Envelope{{emptied}, {filled}, {emptied}, {filled, filled}}, nil},
		"newest first":           {[][]channel.Envelope{{again}, {filled}, {emptied}}, []string{day}},
		"newest in the middle":   {[][]channel.Envelope{{filled}, {again}, {emptied}}, []string{day}},
		"another source is free": {[][]channel.Envelope{{again}, {otherFilled}, {emptied}}, []string{day, other}},
		"the other one first":    {[][]channel.Envelope{{otherFilled, emptied}, {filled}}, []string{other}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, batch := range test.batches {
				w.mustFold("months", batch...)
			}
			w.wantMonth("2026-12", test.want...)
		})
	}
}

func TestLatestWithoutSequence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := event("1", "/days/2026-12-24", 1, Filled{Date: "2026-12-24"})
	bad := event("2", "/days/2026-12-25", 0, Filled{Date: "2026-12-25"})
	errs := fold(t, w.Registry, "months", good, bad)
	if v := verdict.Judge(errs[1]); errs[0] != nil || v.Action != verdict.ToPoison || v.Reason != "no sequence" {
		t.Errorf("got errors %v, want poison for the second alone", errs)
	}
	w.wantMonth("2026-12", "2026-12-24")
}

// A delayed event is as old as its decision, in the order of the decision's emissions. It counts when it comes, unless
// its source has emitted another one since.
func TestLatestDelayed(t *testing.T) {
	t.Parallel()
	const date = "2026-12-24"
	later := channel.After(time.Hour, Filled{Date: date})
	for name, c := range map[string]struct {
		emits [][]channel.Message // of one decision after the other
		want  []string            // in the end
	}{
		"alone":         {[][]channel.Message{{later}}, []string{date}},
		"named last":    {[][]channel.Message{{Emptied{Date: date}, later}}, []string{date}},
		"named first":   {[][]channel.Message{{later, Emptied{Date: date}}}, nil},
		"outdated":      {[][]channel.Message{{later}, {Emptied{Date: date}}}, nil},
		"of a decision": {[][]channel.Message{{Emptied{Date: date}}, {later}}, []string{date}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				for i, ms := range c.emits {
					e := event(fmt.Sprint(i), "/test", 0, Toggle{Date: date})
					out := w.days.Apply(t.Context(), date, []values.Change[Day]{{Envelope: &e, Fold: func(d Day) (Day, []channel.Message, error) { return d, ms, nil }}}, nil)
					if out[0].Err != nil {
						t.Fatal(out[0].Err)
					}
				}
				w.mustFold("months", worldtest.Take(t, w.Store, "months")...)
				w.wantMonth("2026-12")
				time.Sleep(time.Hour)
				w.mustFold("months", worldtest.Take(t, w.Store, "months")...)
				w.wantMonth("2026-12", c.want...)
			})
		})
	}
}

// All orders of the events of two sources, with repeats, end in the last state of both sources.
func TestLatestAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 2))
			w := newWorld(t)
			dates := []string{"2026-12-24", "2026-12-25", "2026-12-26"}
			full := map[string]bool{}
			var events []channel.Envelope
			for range 30 {
				date := dates[r.IntN(len(dates))]
				full[date] = !full[date]
				events = append(events, w.toggle(date)...)
			}
			events = append(events, events[:15]...)
			r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
			for len(events) > 0 {
				n := min(1+r.IntN(8), len(events))
				w.mustFold("months", events[:n]...)
				events = events[n:]
			}
			want := slices.DeleteFunc(dates, func(d string) bool { return !full[d] })
			w.wantMonth("2026-12", want...)
		})
	}
}
