package views_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/views"
)

func (w *world) rebuild() (int, error) {
	return views.Rebuild(w.t.Context(), w.months, w.days, func(date string, _ Day) string { return date[:7] }, Month.restore)
}

func (w *world) mustRebuild() int {
	w.t.Helper()
	n, err := w.rebuild()
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

var months = []string{"2026-11", "2026-12", "2027-01"}

// history toggles days at random. It returns the events, and which days are full in the end.
func (w *world) history(r *rand.Rand, n int) (events []channel.Envelope, full map[string][]string) {
	w.t.Helper()
	state := map[string]bool{}
	for range n {
		date := fmt.Sprintf("%s-%02d", months[r.IntN(len(months))], 1+r.IntN(6))
		state[date] = !state[date]
		events = append(events, w.toggle(date)...)
	}
	full = map[string][]string{}
	for date, on := range state {
		if on {
			full[date[:7]] = append(full[date[:7]], date)
			slices.Sort(full[date[:7]])
		}
	}
	return events, full
}

func (w *world) wantMonths(full map[string][]string) {
	w.t.Helper()
	for _, m := range months {
		w.wantMonth(m, full[m]...)
	}
}

func TestRebuildAfterClear(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	events, full := w.history(rand.New(rand.NewPCG(1, 1)), 60)
	w.mustFold("months", events...)
	w.wantMonths(full)

	if err := w.months.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantMonths(nil)
	n := w.mustRebuild()
	w.wantMonths(full)
	days := 0
	for _, err := range w.days.Keys(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		days++
	}
	if n != days || n == 0 {
		t.Errorf("got %d value objects, want %d", n, days)
	}

	// A repeat on the rebuilt view writes nothing.
	_, before, err := w.months.GetFresh(t.Context(), months[0])
	if err != nil {
		t.Fatal(err)
	}
	w.mustRebuild()
	w.wantMonths(full)
	if _, after, _ := w.months.GetFresh(t.Context(), months[0]); after != before {
		t.Errorf("repeating it wrote: version %d, before %d", after, before)
	}

	// Later events are folded on top.
	w.mustFold("months", w.toggle("2027-03-01")...)
	w.wantMonth("2027-03", "2027-03-01")
	w.mustFold("months", events...) // all past events once more
	w.wantMonths(full)
}

// Events that are still under way when the view is rebuilt are neither lost nor folded twice, wherever the rebuild
// comes between them.
func TestRebuildWhileEventsAreUnderWay(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 3))
			w := newWorld(t)
			first, _ := w.history(r, 20)
			r.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
			w.mustFold("months", first[:10]...)
			if err := w.months.Clear(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.mustFold("months", first[10:15]...)
			w.mustRebuild()
			w.mustFold("months", first[8:]...)
			w.mustRebuild()
			full := map[string][]string{}
			for date, err := range w.days.Keys(t.Context(), "", "") {
				if err != nil {
					t.Fatal(err)
				}
				day, err := w.days.Get(t.Context(), date, "")
				if err != nil {
					t.Fatal(err)
				}
				if day.Value.Full {
					full[date[:7]] = append(full[date[:7]], date)
				}
			}
			w.wantMonths(full)
		})
	}
}

// The value object changes after the rebuild has read it and before it writes. Whichever write comes last, the newest
// state stays.
func TestRebuildRacesWithANewEvent(t *testing.T) {
	t.Parallel()
	for _, folded := range []bool{false, true} {
		t.Run(fmt.Sprint("folded meanwhile ", folded), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.mustFold("months", w.toggle("2026-12-24")...)
			if err := w.months.Clear(t.Context()); err != nil {
				t.Fatal(err)
			}
			var late []channel.Envelope
			done := false
			_, err := views.Rebuild(t.Context(), w.months, w.days, func(date string, _ Day) string {
				if !done {
					done = true
					late = w.toggle("2026-12-24") // the rebuild has read it as full, and it is emptied now
					if folded {
						w.mustFold("months", late...)
					}
				}
				return date[:7]
			}, Month.restore)
			if err != nil {
				t.Fatal(err)
			}
			if !folded {
				w.wantMonth("2026-12", "2026-12-24")
				w.mustFold("months", late...)
			}
			w.wantMonth("2026-12")
		})
	}
}

// Workers fold on while the view is rebuilt again and again.
func TestRebuildWithWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	events, full := w.history(rand.New(rand.NewPCG(7, 7)), 80)
	done := make(chan error)
	go func() {
		var errs []error
		for range 10 {
			_, err := w.rebuild()
			errs = append(errs, err)
		}
		done <- errors.Join(errs...)
	}()
	for i := range events {
		w.mustFold("months", events[i])
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.wantMonths(full)
}

// A value object that has emitted no event makes no view.
func TestRebuildSkipsTheSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.days.Update(t.Context(), "2026-12-24", func(d Day) (Day, bool) { return Day{Full: true}, true }); err != nil {
		t.Fatal(err)
	}
	if n := w.mustRebuild(); n != 1 {
		t.Errorf("got %d value objects, want 1", n)
	}
	w.wantMonth("2026-12")
}

func TestRebuildOfNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.months.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.mustRebuild(); n != 0 {
		t.Errorf("got %d value objects, want none", n)
	}
}

// Whatever call fails, the error is returned, and a repeat completes the work.
func TestRebuildAfterACrashAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	events, full := w.history(rand.New(rand.NewPCG(9, 9)), 12)
	w.mustFold("months", events...)
	for n := int64(1); ; n++ {
		if err := w.months.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		dying, fuse := storagetest.Crash(w.Store, n, storagetest.AfterEffect)
		c, err := channel.New(dying, w.Channels.Routes(), "/test")
		if err != nil {
			t.Fatal(err)
		}
		_, err = views.Rebuild(t.Context(), views.New(c, "months", views.Config[Month]{}), w.days,
			func(date string, _ Day) string { return date[:7] }, Month.restore)
		if fuse.Fired() && !errors.Is(err, storage.ErrUnavailable) {
			t.Fatalf("crash in call %d: got error %v", n, err)
		}
		w.mustRebuild()
		w.wantMonths(full)
		if !fuse.Fired() {
			break
		}
	}
}

// Two calls of Clear at the same time don't disturb each other.
func TestClearTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustFold("months", w.toggle("2026-12-24", "2027-01-01")...)
	inner := w.Store
	cleared := false
	s := storagetest.Intercept(inner, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "delete blob" && !cleared {
			cleared = true
			if err := w.months.Clear(t.Context()); err != nil {
				t.Error(err)
			}
		}
		return do()
	})
	c, err := channel.New(s, w.Channels.Routes(), "/test")
	if err != nil {
		t.Fatal(err)
	}
	if err := views.New(c, "months", views.Config[Month]{}).Clear(t.Context()); err != nil {
		t.Errorf("got error %v", err)
	}
	w.wantMonth("2026-12")
	w.wantMonth("2027-01")
}

// A deleted document is one without events, also in memory, and others stay.
func TestDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustFold("totals", added("1", "ada", 5), added("2", "bob", 7))
	w.wantTotal("ada", Total{Sum: 5, Count: 1})
	for range 2 {
		if err := w.Totals.Delete(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
		if got, err := w.Totals.Get(t.Context(), "ada"); err != nil || got != (Total{}) {
			t.Errorf("deleted: got %+v (%v), want the initial view", got, err)
		}
	}
	w.wantTotal("bob", Total{Sum: 7, Count: 1})
	w.mustFold("totals", added("3", "ada", 2))
	w.wantTotal("ada", Total{Sum: 2, Count: 1})
	w.calls.failWith(storage.ErrUnavailable)
	if err := w.Totals.Delete(t.Context(), "ada"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("got error %v, want %v", err, storage.ErrUnavailable)
	}
}

func TestClearFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustFold("months", w.toggle("2026-12-24")...)
	w.calls.failWith(storage.ErrUnavailable)
	if err := w.months.Clear(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("clear: got error %v, want %v", err, storage.ErrUnavailable)
	}
	if _, err := w.rebuild(); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("rebuild: got error %v, want %v", err, storage.ErrUnavailable)
	}
}
