package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/schedule"
)

// Law 4: a changed spec takes effect at once, without a double and without a gap.
func TestAChangedSpec(t *testing.T) {
	t.Parallel()
	cron := func(s string) schedule.Spec { return schedule.Cron(s, "UTC") }
	for _, c := range []struct {
		name        string
		before      schedule.Spec
		after       schedule.Spec
		down, up    string // of the worker that is replaced, and of the other one
		until, want string
	}{
		{"more often", cron("0 * * * *"), cron("*/30 * * * *"), "01:59:00", "02:00:00", "03:10:00", "01 01:00, 01 02:00, 01 02:30, 01 03:00"},
		{"more often, right after a due time", cron("0 * * * *"), cron("*/30 * * * *"), "02:00:01", "02:00:02", "03:10:00", "01 01:00, 01 02:00, 01 02:30, 01 03:00"},
		{"less often", cron("*/30 * * * *"), cron("0 * * * *"), "01:40:00", "01:40:10", "03:10:00", "01 00:30, 01 01:00, 01 01:30, 01 02:00, 01 03:00"},
		{"to a time that has passed today", cron("0 1 * * *"), cron("30 1 * * *"), "01:50:00", "01:50:10", "23:00:00", "01 01:00"},
		{"to an earlier time, before either", cron("0 2 * * *"), cron("0 1 * * *"), "00:50:00", "00:50:10", "23:00:00", "01 01:00"},
		{"to a later time, between the two", cron("0 1 * * *"), cron("0 2 * * *"), "01:30:00", "01:30:10", "23:00:00", "01 01:00, 01 02:00"},
		{"what was missed by the old one", cron("0 1 * * *"), cron("0 5 * * *"), "00:30:00", "03:00:00", "23:00:00", "01 01:00 missed, 01 05:00"},
		{"what was missed once for both", cron("0 * * * *"), cron("0 12 * * *"), "00:30:00", "05:30:00", "23:00:00", "01 05:00 from 01 01:00 missed, 01 12:00"},
		{"an interval", schedule.Interval(time.Hour), schedule.Interval(90 * time.Minute), "01:10:00", "01:10:01", "05:00:00", "01 01:00, 01 01:30, 01 03:00, 01 04:30"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(t *testing.T, l *lab) {
				r := l.start("v1", plan{"it", c.before, schedule.Config{}, nil})
				l.until(0, c.down)
				r.stop()
				l.until(0, c.up)
				l.start("v2", plan{"it", c.after, schedule.Config{}, nil})
				l.until(0, c.until)
				l.wantDues("it", c.want)
				if what := l.info("it").Changes[0].What; !strings.Contains(what, fmt.Sprintf("%v, in place of %v", c.after, c.before)) {
					t.Errorf("the last change: got %q", what)
				}
			})
		})
	}
}

// A change comes while the wake of a due time is in the hand of a worker that died. That due time comes once, by the
// old spec.
func TestAChangeAtADueTime(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		r := l.start("v1", plan{"it", schedule.Cron("0 * * * *", "UTC"), schedule.Config{}, nil})
		l.until(0, "01:30:00")
		r.stop()
		l.until(0, "02:00:00")
		if ds := ok(l.store.Queue("schedules").Receive(t.Context(), 32, time.Minute))(t); len(ds) != 1 {
			t.Fatalf("got %d messages, want the wake", len(ds))
		}
		l.start("v2", plan{"it", schedule.Cron("30 * * * *", "UTC"), schedule.Config{}, nil})
		l.sleep(30 * time.Second)
		l.wantDues("it", "01 01:00, 01 02:00")
		l.until(0, "03:10:00")
		l.wantDues("it", "01 01:00, 01 02:00, 01 02:30")
	})
}

// Two versions run side by side. Each due time of the version that counts comes once, whichever version takes it.
func TestARollingDeploy(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		before := plan{"it", schedule.Cron("0 * * * *", "UTC"), schedule.Config{}, nil}
		after := plan{"it", schedule.Cron("30 * * * *", "UTC"), schedule.Config{}, nil}
		var old []*replica
		for range 3 {
			old = append(old, l.start("v1", before))
		}
		l.until(0, "02:10:00")
		for i := range old {
			l.start("v2", after)
			l.sleep(time.Hour)
			if i == 1 { // it crashes, and comes back while the other version is there
				old[2].kill()
				old[2] = l.start("v1", before)
				l.sleep(5 * time.Minute)
			}
			old[i].stop()
		}
		l.until(0, "08:00:00")
		l.wantDues("it", "01 01:00, 01 02:00, 01 02:30, 01 03:30, 01 04:30, 01 05:30, 01 06:30, 01 07:30")
	})
}

// A definition that was replaced comes back ten minutes later at the earliest, so restarts make no ping-pong. The one
// that was registered last counts then.
func TestAReplacedDefinitionSettles(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		v1 := plan{"it", schedule.Cron("0 * * * *", "UTC"), schedule.Config{}, nil}
		v2 := plan{"it", schedule.Cron("30 * * * *", "UTC"), schedule.Config{}, nil}
		spec := func() string { l.sleep(time.Second); return l.info("it").Spec.String() }
		want := func(p plan) {
			t.Helper()
			if got := spec(); got != p.spec.String() {
				t.Errorf("at %v: got %s, want %v", time.Now().Format(time.TimeOnly), got, p.spec)
			}
		}
		l.start("v1", v1)
		want(v1)
		l.start("v2", v2)
		want(v2)
		for range 5 {
			l.sleep(time.Minute)
			for _, p := range []plan{v1, v2} {
				r := l.start("again", p)
				want(v2)
				r.stop()
			}
		}
		l.sleep(15 * time.Minute)
		want(v2) // the last that was registered
		l.start("v1", v1)
		want(v1) // a roll-back, long after
		l.start("v2", v2)
		want(v1)
		l.sleep(10 * time.Minute)
		want(v2)
		n := 0
		for _, c := range l.info("it").Changes {
			if strings.HasPrefix(c.What, "registered: ") {
				n++
			}
		}
		if n != 4 {
			t.Errorf("got %d changes of the definition, want 4: %+v", n, l.info("it").Changes)
		}
	})
}

// A schedule that no worker has any more stops after an hour, and is shown as orphaned. When a worker registers it
// again, it goes on, and what was due meanwhile counts as missed.
func TestAnOrphan(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		it := plan{"it", schedule.Cron("0 3 * * *", "UTC"), schedule.Config{}, nil}
		other := plan{"other", schedule.Cron("0 4 * * *", "UTC"), schedule.Config{}, nil}
		r := l.start("v1", it, other)
		l.until(1, "01:00:00")
		r.stop()
		r = l.start("v2", other)
		l.until(1, "03:50:00")
		if got := l.info("it").State; got != schedule.Overdue {
			t.Errorf("after less than an hour: got state %s", got)
		}
		l.until(2, "12:00:00")
		x := l.info("it")
		if x.State != schedule.Orphaned || x.Orphaned == nil || !x.Next.IsZero() {
			t.Errorf("got %+v, want an orphan", x)
		}
		if late := x.Orphaned.At.Sub(x.Runs[0].Due.AddDate(0, 0, 1)); late < 50*time.Minute || late > 70*time.Minute {
			t.Errorf("it stopped %v after it was due, want about an hour", late)
		}
		l.wantDues("it", "01 03:00")
		l.wantDues("other", "01 04:00, 02 04:00, 03 04:00")
		r.stop()
		l.start("v3", it, other)
		l.until(3, "12:00:00")
		l.wantDues("it", "01 03:00, 03 03:00 from 02 03:00 missed, 04 03:00")
		if got := l.info("it").State; got != schedule.Working {
			t.Errorf("registered again: got state %s", got)
		}
		l.wantNoPoison()
	})
}

// While one version has a schedule and the other hasn't, the one that has it gets each due time. The time until it
// comes to such a worker makes no due time a missed one.
func TestANewScheduleBesideOldWorkers(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		other := plan{"other", schedule.Cron("0 4 * * *", "UTC"), schedule.Config{}, nil}
		it := plan{"it", schedule.Interval(time.Hour), schedule.Config{Missed: schedule.None, Grace: time.Second}, nil}
		for range 3 {
			l.start("v1", other)
		}
		l.start("v2", other, it)
		l.until(2, "00:30:00")
		l.wantOnce("it", it.spec, l.began, time.Now())
		for _, j := range l.jobs("it") {
			if j.Cause != schedule.Scheduled || !j.From.Equal(j.Due) {
				t.Errorf("got %+v, want it in time", j)
			}
		}
		l.wantNoPoison()
	})
}

// A registration that comes after a newer one, because the worker that had it died, changes nothing.
func TestARegistrationThatComesLate(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		v1 := plan{"it", schedule.Cron("0 * * * *", "UTC"), schedule.Config{}, nil}
		v2 := plan{"it", schedule.Cron("30 * * * *", "UTC"), schedule.Config{}, nil}
		l.start("v1", v1).stop()
		w := worldtest.NewBare(t, l.store, handlers.Config{}, schedule.Route(), channel.Command[Job]("jobs"))
		l.register(w.Registry, "v1", []plan{v1})
		worldtest.WantErr(t, w.Registry.Inside().Hooks.CheckStart(t.Context()), nil)
		if ds := ok(l.store.Queue("schedules").Receive(t.Context(), 32, time.Minute))(t); len(ds) == 0 {
			t.Fatal("no registration is in the queue")
		}
		l.sleep(time.Second)
		l.start("v2", v2)
		l.until(0, "03:10:00")
		l.wantDues("it", "01 00:30, 01 01:30, 01 02:30")
	})
}
