package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/storage"
)

var ada = schedule.Note{By: "ada", Why: "the printer is on fire"}

// wantChange fails the test unless the newest change is the order's, with who and why.
func (l *lab) wantChange(name, id, what string) {
	l.t.Helper()
	c := l.info(name).Changes[0]
	if c.ID != id || c.By != ada.By || c.Why != ada.Why || c.What != what || c.At.After(time.Now()) || time.Since(c.At) > time.Minute {
		l.t.Errorf("the newest change: got %+v, want %q by %s, with ID %s", c, what, ada.By, id)
	}
}

// Law 6: a pause leaves out what is due, and says who wants it and why. Resume goes on with what is due after it.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		l.start("v1", plan{"it", schedule.Interval(time.Hour), schedule.Config{Missed: schedule.All}, nil})
		it := schedule.At(l.store, "it")
		l.until(0, "01:30:00")
		for range 2 {
			id := ok(it.Pause(t.Context(), ada))(t)
			l.sleep(time.Second)
			if l.info("it").State != schedule.Paused {
				t.Fatalf("got %+v, want it paused", l.info("it"))
			}
			if what := l.info("it").Changes[0].What; what == "paused" {
				l.wantChange("it", id, "paused")
			} else {
				l.wantChange("it", id, "unchanged: it was paused already")
			}
		}
		l.until(0, "04:30:00")
		if x := l.info("it"); x.Paused == nil || x.Paused.By != "ada" || !x.Next.IsZero() {
			t.Errorf("got %+v, want to know who has paused it", x)
		}
		id := ok(it.Resume(t.Context(), ada))(t)
		l.sleep(time.Second)
		l.wantChange("it", id, "resumed")
		id = ok(it.Resume(t.Context(), ada))(t)
		l.sleep(time.Second)
		l.wantChange("it", id, "unchanged: it was not paused")
		l.until(0, "06:30:00")
		l.wantDues("it", "01 01:00, 01 05:00, 01 06:00")
		if r := l.info("it").Runs[2]; r.Skipped != "the schedule was paused" || r.From.Hour() != 2 || r.Due.Hour() != 4 {
			t.Errorf("got run %+v, want what the pause has left out", r)
		}
	})
}

// A pause between two due times leaves out nothing, whatever wakes wait already.
func TestAShortPause(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		l.start("v1", plan{"it", schedule.Interval(time.Hour), schedule.Config{}, nil})
		it := schedule.At(l.store, "it")
		for range 3 {
			l.sleep(time.Minute)
			ok(it.Pause(t.Context(), ada))(t)
			l.sleep(time.Minute)
			ok(it.Resume(t.Context(), ada))(t)
		}
		l.until(0, "03:30:00")
		l.wantDues("it", "01 01:00, 01 02:00, 01 03:00")
		worldtest.Want(t, "wakes that wait", worldtest.Queued(t, l.store, "schedules"), 1)
	})
}

// Law 6: a pause counts from its order, and so does its end. No worker runs meanwhile. Nothing runs that was due before
// the order or in the pause, and what is due after its end runs.
func TestAPauseCountsFromItsOrder(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		p := plan{"it", schedule.Interval(time.Hour), schedule.Config{Missed: schedule.All}, nil}
		r := l.start("v1", p)
		l.until(0, "01:30:00")
		r.stop()
		it := schedule.At(l.store, "it")
		l.until(0, "02:30:00")
		id := ok(it.Pause(t.Context(), ada))(t)
		l.wantChange("it", id, "paused")
		worldtest.Want(t, "state", l.info("it").State, schedule.Paused)
		l.until(0, "04:30:00")
		r = l.start("v1", p)
		l.until(0, "04:40:00")
		l.wantDues("it", "01 01:00")
		r.stop()
		ok(it.Resume(t.Context(), ada))(t)
		l.until(0, "06:30:00")
		l.start("v1", p)
		l.until(0, "07:10:00")
		l.wantDues("it", "01 01:00, 01 05:00 missed, 01 06:00 missed, 01 07:00")
		if r := l.info("it").Runs[3]; r.Skipped != "the schedule was paused" || r.From.Hour() != 2 || r.Due.Hour() != 4 {
			t.Errorf("got run %+v, want what the pause has left out", r)
		}
	})
}

// A resume that waits for a worker ends the pause that it was for, and no later one.
func TestAPauseAfterAResumeThatWaits(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		p := plan{"it", schedule.Interval(time.Hour), schedule.Config{}, nil}
		r := l.start("v1", p)
		l.until(0, "01:30:00")
		it := schedule.At(l.store, "it")
		ok(it.Pause(t.Context(), ada))(t)
		r.stop()
		id := ok(it.Resume(t.Context(), ada))(t)
		ok(it.Pause(t.Context(), ada))(t)
		l.start("v1", p)
		l.sleep(time.Second)
		worldtest.Want(t, "state", l.info("it").State, schedule.Paused)
		l.wantChange("it", id, "unchanged: it was paused again since")
		ok(it.Resume(t.Context(), ada))(t)
		l.sleep(time.Second)
		worldtest.Want(t, "state after another resume", l.info("it").State, schedule.Working)
	})
}

// A run that an operator asks for in a pause makes nothing of the due times that the pause leaves out.
func TestARunInAPause(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		l.start("v1", plan{"it", schedule.Interval(time.Hour), schedule.Config{Missed: schedule.All}, nil})
		it := schedule.At(l.store, "it")
		l.until(0, "01:30:00")
		ok(it.Pause(t.Context(), ada))(t)
		l.until(0, "03:15:00")
		ok(it.Run(t.Context(), ada))(t)
		l.until(0, "03:30:00")
		ok(it.Resume(t.Context(), ada))(t)
		l.until(0, "04:30:00")
		l.wantDues("it", "01 01:00, 01 03:15 asked, 01 04:00")
	})
}

// A definition that changes during a pause, and a worker that starts, leave it paused.
func TestAPauseOutlivesAChange(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		r := l.start("v1", plan{"it", schedule.Interval(time.Hour), schedule.Config{}, nil})
		l.until(0, "01:30:00")
		ok(schedule.At(l.store, "it").Pause(t.Context(), ada))(t)
		l.sleep(time.Second)
		r.stop()
		l.until(0, "03:30:00")
		l.start("v2", plan{"it", schedule.Interval(30 * time.Minute), schedule.Config{}, nil})
		l.until(0, "05:15:00")
		ok(schedule.At(l.store, "it").Resume(t.Context(), ada))(t)
		l.until(0, "06:10:00")
		l.wantDues("it", "01 01:00, 01 05:30, 01 06:00")
	})
}

// A run that an operator asks for begins at once, paused or not, and changes no due time.
func TestRunNow(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		l.start("v1", plan{"it", schedule.Interval(time.Hour), schedule.Config{}, nil})
		it := schedule.At(l.store, "it")
		l.until(0, "01:20:00")
		id := ok(it.Run(t.Context(), ada))(t)
		l.sleep(time.Second)
		l.wantChange("it", id, "run")
		l.until(0, "02:10:00")
		ok(it.Pause(t.Context(), ada))(t)
		l.sleep(time.Second)
		ok(it.Run(t.Context(), ada))(t)
		l.sleep(time.Second)
		l.wantDues("it", "01 01:00, 01 01:20 asked, 01 02:00, 01 02:10:01 asked")
	})
}

// Where runs must not overlap, a run that an operator asks for waits for the present one.
func TestRunNowWaits(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		l.work = takes(20 * time.Minute)
		l.start("v1", plan{"it", schedule.Interval(time.Hour), schedule.Config{Overlap: schedule.Skip}, nil})
		l.until(0, "01:10:00")
		for range 2 {
			ok(schedule.At(l.store, "it").Run(t.Context(), ada))(t)
		}
		l.until(0, "02:40:00")
		got := ""
		for _, j := range l.jobs("it") {
			got += j.at.UTC().Format("15:04 ") + string(j.Cause) + ", "
		}
		if want := "01:00 scheduled, 01:20 asked, 01:40 asked, 02:00 scheduled, "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// A backfill runs each due time of a range again, however far it lies back, and once.
func TestBackfill(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		p := plan{"it", schedule.Cron("0 3 * * *", "Europe/Berlin"), schedule.Config{}, nil}
		l.start("v1", p)
		l.until(2, "12:00:00")
		from := time.Date(1999, 3, 1, 0, 0, 0, 0, time.UTC)
		to := p.spec.Next(time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC))
		id := ok(schedule.At(l.store, "it").Backfill(t.Context(), from, to, ada))(t)
		l.sleep(time.Minute)
		l.wantChange("it", id, "backfill of 308 due times, 1999-03-01T00:00:00Z to 2000-01-02T02:00:00Z")
		filled, scheduled := map[time.Time]int{}, 0
		for _, j := range l.jobs("it") {
			if j.Cause == schedule.Backfilled {
				filled[j.Due.UTC()]++
			} else {
				scheduled++
			}
		}
		n := 0
		for at := p.spec.Next(from); !at.After(to); at = p.spec.Next(at) {
			if n++; filled[at.UTC()] != 1 {
				t.Errorf("%v came %d times", at, filled[at.UTC()])
			}
		}
		if len(filled) != n || n != 308 || scheduled != 3 {
			t.Errorf("got %d due times filled and %d scheduled, want %d and 3", len(filled), scheduled, n)
		}
		if x := l.info("it"); x.Filling != 0 || x.Waiting != 0 {
			t.Errorf("got %+v, want it over", x)
		}
		l.wantNoPoison()
	})
}

// Where runs must not overlap, a backfill runs one due time after another, and the clock's go before.
func TestABackfillGivesWay(t *testing.T) {
	t.Parallel()
	for _, o := range []schedule.Overlap{schedule.Skip, schedule.Queue} {
		inTime(t, func(t *testing.T, l *lab) {
			l.work = takes(25 * time.Minute)
			l.start("v1", plan{"it", schedule.Interval(time.Hour), schedule.Config{Overlap: o}, nil})
			l.until(0, "01:45:00")
			ok(schedule.At(l.store, "it").Backfill(t.Context(), l.began.Add(-4*time.Hour), l.began, ada))(t)
			l.until(0, "04:50:00")
			got := ""
			for at := l.began; at.Before(time.Now()); at = at.Add(time.Minute) {
				for _, j := range l.jobs("it") {
					if j.at.Truncate(time.Minute).Equal(at) {
						got += j.at.UTC().Format("15:04 ") + string(j.Cause) + " " + j.Due.UTC().Format("15:04") + ", "
					}
				}
			}
			want := "01:00 scheduled 01:00, 01:45 backfill 20:00, 02:10 scheduled 02:00, 02:35 backfill 21:00, 03:00 scheduled 03:00, " +
				"03:25 backfill 22:00, 03:50 backfill 23:00, 04:15 scheduled 04:00, 04:40 backfill 00:00, "
			if got != want {
				t.Errorf("%v: got\n%s\nwant\n%s", o, got, want)
			}
		})
	}
}

// An order that can't be carried out is refused where it is given, and says what to do.
func TestBadOrders(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		r := l.start("v1", plan{"it", schedule.Interval(time.Hour), schedule.Config{}, nil}, plan{"other", schedule.Interval(time.Hour), schedule.Config{}, nil})
		l.sleep(time.Minute)
		ctx, now := t.Context(), time.Now()
		it := schedule.At(l.store, "it")
		for name, c := range map[string]struct {
			give func() (string, error)
			want string
		}{
			"nobody":        {func() (string, error) { return it.Pause(ctx, schedule.Note{}) }, "say who wants it"},
			"a long name":   {func() (string, error) { return it.Pause(ctx, schedule.Note{By: strings.Repeat("x", 101)}) }, "at most 100 bytes"},
			"bad text":      {func() (string, error) { return it.Run(ctx, schedule.Note{By: "ada", Why: "a\x1bb"}) }, "control characters"},
			"unknown":       {func() (string, error) { return schedule.At(l.store, "nope").Run(ctx, ada) }, "no worker has ever registered it"},
			"no name":       {func() (string, error) { return schedule.At(l.store, "").Run(ctx, ada) }, "key"},
			"no range":      {func() (string, error) { return it.Backfill(ctx, time.Time{}, now, ada) }, "from a time to a later one"},
			"backwards":     {func() (string, error) { return it.Backfill(ctx, now, now.Add(-time.Hour), ada) }, "from a time to a later one"},
			"nothing there": {func() (string, error) { return it.Backfill(ctx, now, now, ada) }, "nothing is due then"},
			"to come":       {func() (string, error) { return it.Backfill(ctx, now.Add(-time.Hour), now.Add(time.Minute), ada) }, "is still to come"},
			"too many":      {func() (string, error) { return it.Backfill(ctx, now.AddDate(0, -2, 0), now, ada) }, "more than 1000 due times"},
		} {
			if id, err := c.give(); err == nil || id != "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got ID %q, error %v, want one with %q", name, id, err, c.want)
			}
		}
		if _, err := schedule.At(l.store, "nope").Info(ctx); !errors.Is(err, schedule.ErrUnknown) {
			t.Errorf("info of an unknown schedule: got error %v", err)
		}
		r.stop()
		l.start("v2", plan{"other", schedule.Interval(time.Hour), schedule.Config{}, nil})
		l.sleep(3 * time.Hour)
		if _, err := it.Run(ctx, ada); !errors.Is(err, schedule.ErrOrphaned) {
			t.Errorf("run of an orphan: got error %v", err)
		}
		if _, err := it.Pause(ctx, ada); err != nil {
			t.Errorf("pause of an orphan: %v", err)
		}
	})
}

// A listing tells of each schedule, and goes on after a document that can't be read.
func TestList(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		l.start("v1", plan{"a", schedule.Interval(time.Hour), schedule.Config{}, nil}, plan{"c", schedule.Cron("0 3 * * *", "Europe/Berlin"), schedule.Config{Overlap: schedule.Queue}, nil})
		l.sleep(time.Minute)
		ok(l.store.Blobs("schedules").Put(t.Context(), "b", []byte("junk"), storage.Condition{}))(t)
		var got []string
		for x, err := range schedule.List(t.Context(), l.store) {
			text := x.Name + " corrupt"
			if err == nil {
				text = strings.Join([]string{x.Name, x.Spec.String(), x.Missed, x.Overlap, x.Program, x.Queue, string(x.State), x.Next.Format(time.RFC3339)}, " ")
			}
			got = append(got, text)
		}
		want := "a every 1h one allow /test schedules working 2000-01-01T01:00:00Z; b corrupt; c 0 3 * * * Europe/Berlin one queue /test schedules working 2000-01-01T03:00:00+01:00"
		if strings.Join(got, "; ") != want {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "; "), want)
		}
	})
}

// While no worker runs, a schedule is overdue, and orders wait.
func TestOverdue(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		p := plan{"it", schedule.Interval(time.Hour), schedule.Config{}, nil}
		r := l.start("v1", p)
		l.until(0, "01:30:00")
		r.stop()
		l.until(0, "02:04:00")
		worldtest.Want(t, "state, four minutes late", l.info("it").State, schedule.Working)
		l.until(0, "02:06:00")
		worldtest.Want(t, "state, six minutes late", l.info("it").State, schedule.Overdue)
		id := ok(schedule.At(l.store, "it").Run(t.Context(), ada))(t)
		worldtest.Want(t, "state without a worker", l.info("it").State, schedule.Overdue)
		l.sleep(time.Hour)
		l.start("v1", p)
		l.sleep(time.Second)
		worldtest.Want(t, "state", l.info("it").State, schedule.Working)
		if c := l.info("it").Changes[0]; c.ID != id || c.What != "run" {
			t.Errorf("the newest change: got %+v, want the run", c)
		}
	})
}
