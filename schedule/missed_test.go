package schedule_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/storage"
)

// inTime runs a test in virtual time, which begins at midnight UTC of 2000-01-01.
func inTime(t *testing.T, test func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newLab(t, worldtest.OpenStore(t, worldtest.Virtual))) })
}

// Law 2: due times that were missed while no worker ran come once for all, each within a bound, or not at all. A due
// time that is late by less than the grace is not missed.
func TestMissedDueTimes(t *testing.T) {
	t.Parallel()
	night, hours := schedule.Cron("0 3 * * *", "UTC"), schedule.Interval(time.Hour)
	for _, c := range []struct {
		name  string
		spec  schedule.Spec
		cfg   schedule.Config
		down  string // on the first day
		day   int
		up    string
		until string // on that day
		want  string
	}{
		{"nobody missed any", night, schedule.Config{}, "12:00:00", 1, "01:00:00", "12:00:00", "01 03:00, 02 03:00"},
		{"one of one", night, schedule.Config{}, "02:00:00", 0, "12:00:00", "13:00:00", "01 03:00 missed"},
		{"one of three", night, schedule.Config{}, "02:00:00", 2, "12:00:00", "13:00:00", "03 03:00 from 01 03:00 missed"},
		{"one, and the next one stands for it", night, schedule.Config{}, "02:00:00", 1, "03:00:30", "12:00:00", "02 03:00 from 01 03:00"},
		{"one, and the next one is still to come", night, schedule.Config{}, "02:00:00", 1, "02:59:30", "12:00:00", "01 03:00 missed, 02 03:00"},
		{"none of three", night, schedule.Config{Missed: schedule.None}, "02:00:00", 2, "12:00:00", "13:00:00", ""},
		{"none, but for what is due now", night, schedule.Config{Missed: schedule.None}, "02:00:00", 1, "03:00:30", "12:00:00", "02 03:00"},
		{"all", night, schedule.Config{Missed: schedule.All, Within: 72 * time.Hour}, "02:00:00", 2, "12:00:00", "13:00:00", "01 03:00 missed, 02 03:00 missed, 03 03:00 missed"},
		{"all within a day", night, schedule.Config{Missed: schedule.All}, "02:00:00", 2, "12:00:00", "13:00:00", "03 03:00 missed"},
		{"all within a day and an hour", night, schedule.Config{Missed: schedule.All, Within: 34 * time.Hour}, "02:00:00", 2, "12:00:00", "13:00:00", "02 03:00 missed, 03 03:00 missed"},
		{"all, with the one that is due now", hours, schedule.Config{Missed: schedule.All}, "00:30:00", 0, "03:00:10", "03:30:00", "01 01:00 missed, 01 02:00 missed, 01 03:00"},
		{"within the grace", night, schedule.Config{Missed: schedule.None, Grace: time.Hour}, "02:00:00", 0, "03:59:59", "12:00:00", "01 03:00"},
		{"past the grace", night, schedule.Config{Missed: schedule.None, Grace: time.Hour}, "02:00:00", 0, "04:00:01", "12:00:00", ""},
		{"several within the grace", hours, schedule.Config{Grace: 3 * time.Hour}, "00:30:00", 0, "03:30:00", "03:40:00", "01 01:00, 01 02:00, 01 03:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(t *testing.T, l *lab) {
				p := plan{"it", c.spec, c.cfg, nil}
				r := l.start("v1", p)
				l.until(0, c.down)
				r.stop()
				l.until(c.day, c.up)
				l.start("v1", p)
				l.until(c.day, c.until)
				l.wantDues("it", c.want)
				l.wantNoPoison()
			})
		})
	}
}

// The due times that were left out stand among the runs, as one.
func TestMissedDueTimesAreNoted(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		p := plan{"it", schedule.Interval(time.Hour), schedule.Config{Missed: schedule.None}, nil}
		r := l.start("v1", p)
		l.until(0, "01:30:00")
		r.stop()
		l.until(0, "05:30:00")
		l.start("v1", p)
		l.until(0, "06:30:00")
		l.wantDues("it", "01 01:00, 01 06:00")
		runs := l.info("it").Runs
		if len(runs) != 3 || runs[1].Skipped == "" || runs[1].From.Hour() != 2 || runs[1].Due.Hour() != 5 {
			t.Errorf("got runs %+v, want the second one left out, from 02:00 to 05:00", runs)
		}
	})
}

// A backlog of a thousand due times is made up for, each once, and the schedule goes on.
func TestManyMissedDueTimes(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		p := plan{"it", schedule.Interval(time.Minute), schedule.Config{Missed: schedule.All}, nil}
		r := l.start("v1", p)
		l.sleep(30 * time.Second)
		r.stop()
		l.until(0, "17:00:30")
		l.start("v1", p)
		l.sleep(2 * time.Minute)
		l.wantOnce("it", p.spec, l.began, time.Now())
		for row, err := range l.store.Table("schedules-applied").Query(t.Context(), "it", storage.RowRange{}) {
			t.Fatalf("row %+v (%v): the document itself knows the wakes that it has had", row, err)
		}
	})
}

// After three months, the message that was to wake the schedule is still taken, and so is its command.
func TestMissedForMonths(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		p := plan{"it", schedule.Cron("0 3 * * *", "UTC"), schedule.Config{}, nil}
		r := l.start("v1", p)
		l.until(0, "02:00:00")
		r.stop()
		l.until(90, "12:00:00")
		l.start("v1", p)
		l.until(91, "12:00:00")
		l.wantDues("it", "31 03:00 from 01 03:00 missed, 01 03:00")
		l.wantNoPoison()
	})
}

// A command that is weeks late has an ID of the time when it is sent. One of an ID as old as its due time might be
// refused, because nobody can tell whether it came before.
func TestTheIDOfALateCommand(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		p := plan{"it", schedule.Cron("0 3 1 * *", "UTC"), schedule.Config{}, nil}
		r := l.start("v1", p)
		l.until(0, "02:00:00")
		r.stop()
		l.until(50, "12:00:00")
		l.start("v1", p)
		l.sleep(time.Minute)
		l.wantDues("it", "01 03:00 from 01 03:00 missed")
		x := l.info("it").Runs[0]
		if at, timed := channel.IDTime(x.Command); !timed || !at.Equal(x.Sent) {
			t.Errorf("the ID carries %v, want %v", at, x.Sent)
		}
	})
}
