package schedule_test

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/schedule"
)

// takes is work that takes so long, and then says that it is done.
func takes(d time.Duration) func(context.Context, Job) error {
	return func(ctx context.Context, j Job) error {
		if err := worldtest.Pause(ctx, d); err != nil {
			return err
		}
		return channel.Send(ctx, schedule.Done{Run: j.Run})
	}
}

// Law 5: while a run goes on, a due time is skipped, waits or runs all the same. A run goes on until Done says that it
// has ended, or for the longest time.
func TestOverlap(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	hang := func(context.Context, Job) error { return nil } // it never says that it is done
	minutes := func(o schedule.Overlap) schedule.Config {
		return schedule.Config{Overlap: o, Longest: 3 * time.Hour, Missed: schedule.None}
	}
	for _, c := range []struct {
		name  string
		cfg   schedule.Config
		work  func(context.Context, Job) error
		hours int
		want  string // the hours in which jobs began, and the due times that they were for
	}{
		{"skip", minutes(schedule.Skip), takes(90 * time.Minute), 6, "1 for 1, 3 for 3, 5 for 5"},
		{"skip, and the run is short", minutes(schedule.Skip), takes(time.Minute), 3, "1 for 1, 2 for 2, 3 for 3"},
		{"skip, and no Done comes", minutes(schedule.Skip), hang, 8, "1 for 1, 4 for 4, 7 for 7"},
		{"queue", minutes(schedule.Queue), takes(90 * time.Minute), 6, "1 for 1, 2 for 2, 4 for 3, 5 for 4"},
		{"queue, and no Done comes", minutes(schedule.Queue), hang, 8, "1 for 1, 4 for 2, 7 for 3"},
		{"allow", minutes(schedule.Allow), takes(90 * time.Minute), 3, "1 for 1, 2 for 2, 3 for 3"},
		{"allow, and no Done comes", minutes(schedule.Allow), hang, 3, "1 for 1, 2 for 2, 3 for 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(t *testing.T, l *lab) {
				l.work = c.work
				l.start("v1", plan{"it", schedule.Interval(time.Hour), c.cfg, nil})
				l.sleep(time.Duration(c.hours)*time.Hour + 30*time.Minute)
				got := ""
				for i, j := range l.jobs("it") {
					if i > 0 {
						got += ", "
					}
					got += j.at.UTC().Format("3") + " for " + j.Due.Format("3")
				}
				if got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
				l.wantNoPoison()
			})
		})
	}
}

// Ten due times wait. Those that come after them count as missed, and none of them is lost without a word.
func TestALongQueue(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		l.work = takes(5 * time.Minute)
		p := plan{"it", schedule.Interval(time.Minute), schedule.Config{Overlap: schedule.Queue}, nil}
		l.start("v1", p)
		l.sleep(3 * time.Hour)
		if n := l.info("it").Waiting; n != 10 {
			t.Errorf("%d due times wait, want 10", n)
		}
		// Each due time is in one command, alone or with those before it.
		covered := l.began
		for _, j := range l.jobs("it") {
			if !j.From.Equal(p.spec.Next(covered)) {
				t.Fatalf("after %v comes %v from %v", covered, j.Due, j.From)
			}
			covered = j.Due
		}
		if behind := time.Since(covered); behind > 70*time.Minute {
			t.Errorf("the last command is for %v, %v ago", covered, behind)
		}
	})
}

// A due time that waits for a run to end doesn't begin during a pause.
func TestAPauseHoldsUpTheQueue(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		l.work = takes(90 * time.Minute)
		l.start("v1", plan{"it", schedule.Interval(time.Hour), schedule.Config{Overlap: schedule.Queue}, nil})
		l.until(0, "02:10:00") // the run of 01:00 goes on, and that of 02:00 waits
		ok(schedule.At(l.store, "it").Pause(t.Context(), ada))(t)
		l.until(0, "04:10:00")
		l.wantDues("it", "01 01:00")
		ok(schedule.At(l.store, "it").Resume(t.Context(), ada))(t)
		l.sleep(time.Second)
		l.wantDues("it", "01 01:00, 01 02:00")
	})
}

// A run that waits for one that nobody ends begins when that is given up, and not only at the next due time.
func TestAWaitingRunBeginsWhenTheOtherIsGivenUp(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		l.start("v1", plan{"it", schedule.Cron("0 3 * * *", "UTC"), schedule.Config{Overlap: schedule.Queue, Longest: time.Hour}, nil})
		l.until(0, "03:10:00")
		ok(schedule.At(l.store, "it").Run(t.Context(), ada))(t)
		l.until(0, "03:50:00")
		l.wantDues("it", "01 03:00")
		l.until(0, "04:00:01")
		l.wantDues("it", "01 03:00, 01 03:10 asked")
	})
}

// The run's end and its failure stand among the runs.
func TestRunsTellTheirEnds(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		l.work = func(ctx context.Context, j Job) error {
			d := schedule.Done{Run: j.Run}
			switch j.Due.Hour() {
			case 1:
				_ = worldtest.Pause(ctx, time.Minute)
			case 2:
				d.Failed = "the printer\nis on fire"
			default:
				return nil
			}
			if err := channel.Send(ctx, d); err != nil {
				return err
			}
			_ = worldtest.Pause(ctx, time.Minute)
			return channel.Send(ctx, schedule.Done{Run: j.Run, Failed: "the second Done has no effect"})
		}
		l.start("v1", plan{"it", schedule.Interval(time.Hour), schedule.Config{Overlap: schedule.Skip, Longest: 30 * time.Minute}, nil})
		l.until(0, "04:30:00")
		runs := l.info("it").Runs
		if len(runs) != 4 {
			t.Fatalf("got runs %+v, want 4", runs)
		}
		if r := runs[3]; r.Ended.Sub(r.Sent).Round(time.Second) != time.Minute || r.Failed != "" {
			t.Errorf("the first run: got %+v, want it to take a minute", r)
		}
		if r := runs[2]; r.Ended.IsZero() || r.Failed != "the printer is on fire" {
			t.Errorf("the second run: got %+v, want its failure", r)
		}
		if r := runs[1]; !r.Ended.IsZero() || r.Failed != "no Done came within 30m0s" {
			t.Errorf("the third run: got %+v, want it given up", r)
		}
	})
}

// Due times that are skipped one after another are noted as one.
func TestSkippedDueTimesAreNoted(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		l.work = takes(210 * time.Minute)
		l.start("v1", plan{"it", schedule.Interval(time.Hour), schedule.Config{Overlap: schedule.Skip}, nil})
		l.until(0, "05:30:00")
		runs := l.info("it").Runs
		if len(runs) != 3 || runs[1].Skipped != "the run before went on" || runs[1].From.Hour() != 2 || runs[1].Due.Hour() != 4 {
			t.Errorf("got runs %+v, want one that was skipped from 02:00 to 04:00", runs)
		}
	})
}

// A schedule whose runs may overlap from now on waits for no run any more.
func TestOverlapIsAllowedLater(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		r := l.start("v1", plan{"it", schedule.Interval(time.Hour), schedule.Config{Overlap: schedule.Queue}, nil})
		l.until(0, "02:30:00") // the run of 01:00 goes on, and that of 02:00 waits
		r.stop()
		l.start("v2", plan{"it", schedule.Interval(time.Hour), schedule.Config{}, nil})
		l.until(0, "02:31:00")
		l.wantDues("it", "01 01:00, 01 02:00")
		if x := l.info("it"); x.Active != nil || x.Waiting != 0 || x.Changes[0].What != "registered: every 1h, with another Config" {
			t.Errorf("got %+v, want no run that is waited for", x)
		}
	})
}

// A command that is given up ends its run by a compensation, and a Done of a run that nobody knows does nothing.
func TestDoneOfOthers(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		l.work = func(ctx context.Context, j Job) error {
			if j.Due.Hour() == 1 {
				return handlers.Poison("no paper", nil)
			}
			return channel.Send(ctx, schedule.Done{Run: j.Run}, schedule.Done{Run: "it/nobody"}, schedule.Done{Run: "nobody/" + j.Run})
		}
		l.onPoison = func(j Job, why handlers.Poisoned) []channel.Message {
			return []channel.Message{schedule.Done{Run: j.Run, Failed: why.Reason}}
		}
		l.start("v1", plan{"it", schedule.Interval(time.Hour), schedule.Config{Overlap: schedule.Skip}, nil})
		l.until(0, "03:30:00")
		l.wantDues("it", "01 01:00, 01 02:00, 01 03:00")
		if runs := l.info("it").Runs; len(runs) != 3 || runs[2].Failed != "no paper" {
			t.Errorf("got runs %+v, want the first one failed", runs)
		}
	})
}

// Law 5: a Done of another run, or of another schedule's, doesn't end the run that goes on.
func TestDoneOfAnotherRun(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		l.work = func(ctx context.Context, j Job) error {
			return channel.Send(ctx, schedule.Done{Run: "it/nobody"}, schedule.Done{Run: "other/" + j.Run})
		}
		l.start("v1", plan{"it", schedule.Interval(time.Hour), schedule.Config{Overlap: schedule.Skip}, nil})
		l.until(0, "03:30:00")
		l.wantDues("it", "01 01:00")
	})
}

// A Done that can't be right is refused where it is sent.
func TestBadDone(t *testing.T) {
	t.Parallel()
	for _, d := range []schedule.Done{{}, {Run: "it"}, {Run: "it/"}, {Run: "/x"}, {Run: "a\x1b/x"}} {
		if err := d.Check(); err == nil {
			t.Errorf("%+v: got no error", d)
		}
	}
	if err := (schedule.Done{Run: "a/b/c"}).Check(); err != nil {
		t.Error(err)
	}
}
