package operator

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/worker"
)

// newTimekeeper is the store of a stranger's program whose wishes come each night, in virtual time.
func newTimekeeper(t *testing.T) (x *stranger, start func() (stop func() error)) {
	t.Helper()
	x = &stranger{World: worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{}, schedule.Route(), channel.Command[wish]("wishes"))}
	schedule.Every(x.Registry, "nightly", schedule.Cron("15 3 * * *", "Europe/Berlin"), func(t schedule.Tick) wish {
		return wish{For: t.Due.Format(time.DateOnly)}
	}, schedule.Config{})
	handlers.React(x.Registry, "wishes", func(context.Context, wish) error { return nil })
	seldom := worker.QueueConfig{PollInterval: 24 * time.Hour}
	return x, func() func() error {
		return x.Start(worker.Config{Queues: map[string]worker.QueueConfig{"schedules": seldom, "wishes": seldom}})
	}
}

// An operator lists, shows, pauses, resumes, runs and backfills the schedules of a program whose code is elsewhere.
func TestSchedules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, start := newTimekeeper(t)
		contains(t, "list", x.want(t, 0, "", "schedules", "list"), "No schedules.")
		contains(t, "show", x.want(t, 3, "", "schedules", "show", "-reveal", "-why=x", "nightly"), `no schedule "nightly": no worker has ever registered it`)
		contains(t, "pause", x.want(t, 3, "", "schedules", "pause", "nightly"), `no schedule "nightly"`)
		stop := start()
		_ = worldtest.Pause(t.Context(), 36*time.Hour)

		contains(t, "list", x.want(t, 0, "", "schedules", "list"), "NAME STATE SPEC NEXT LAST PROGRAM nightly working 15 3 * * * Europe/Berlin 2000-01-03 03:15:00 +0100 sent 9h45m ago /test")
		line := oneLine[acts.Schedule](t, x.want(t, 0, "", "schedules", "list", "-json"))
		if *line.State != schedule.Working || line.Next.Hour() != 3 || line.Last == nil || line.Last.Result != "sent" || line.Missed != "one" || line.Overlap != "allow" || line.Queue != "schedules" {
			t.Errorf("list -json: got %+v", line)
		}
		contains(t, "list -prefix", x.want(t, 0, "", "schedules", "list", "-prefix", "x"), "No schedules.")

		const november = " 1999-11-01T00:00:00Z 1999-11-30T00:00:00Z"
		for _, c := range []struct{ args, want string }{
			{"pause nightly", `Schedule "nightly": paused.`},
			{"pause nightly", `Schedule "nightly": unchanged: it was paused already.`},
			{"pause nightly -json", "unchanged"},
			{"run nightly", `Schedule "nightly": run.`},
			{"run nightly -json", "run"},
			{"resume nightly", `Schedule "nightly": resumed.`},
			{"resume nightly -json", "unchanged"},
			{"pause nightly -json", "paused"},
			{"resume nightly -json", "resumed"},
			{"backfill nightly" + november, "backfill of 29 due times, 1999-11-01T00:00:00Z to 1999-11-30T00:00:00Z."},
			{"backfill nightly -json" + november, "backfill"},
		} {
			out := x.want(t, 0, "", append(append([]string{"schedules"}, strings.Fields(c.args)...), "-by=ada", "-why=no paper")...)
			if !strings.Contains(c.args, "-json") {
				contains(t, c.args, out, c.want)
				continue
			}
			if got := oneLine[acts.ScheduleOrdered](t, out); got.Name != "nightly" || got.Result != c.want || got.ID == "" || !strings.HasPrefix(got.What, c.want) {
				t.Errorf("%s: got %+v, want the result %s", c.args, got, c.want)
			}
		}
		_ = worldtest.Pause(t.Context(), time.Minute)
		shown := oneLine[acts.ScheduleShown](t, x.want(t, 0, "", "schedules", "show", "-reveal", "-why=x", "nightly", "-json"))
		if len(shown.Following) != 5 || len(shown.Runs) != 20 || shown.Changes[0].By != "ada" || shown.Changes[0].Why != "no paper" {
			t.Errorf("show -json: got %+v", shown)
		}
		contains(t, "show", x.want(t, 0, "", "schedules", "show", "-reveal", "-why=x", "nightly"), "Next: 2000-01-03 03:15:00 +0100, 2000-01-04 03:15:00 +0100", "DUE FROM CAUSE RUN COMMAND", "– backfill sent ", "WHEN WHAT BY WHY", "backfill of 29 due times", "ada no paper")
		contains(t, "backwards", x.want(t, 2, "", "schedules", "backfill", "nightly", "1999-11-30T00:00:00Z", "1999-11-01T00:00:00Z"), "schedules backfill: TO is before FROM")
		contains(t, "no time", x.want(t, 2, "", "schedules", "backfill", "nightly", "soon", "1999-11-01T00:00:00Z"), "schedules backfill: FROM: want a time such as")
		if _, out, _ := x.do(t, "", "__complete", "schedules", "pause", "n"); !strings.HasPrefix(out, "nightly\n") {
			t.Errorf("completion: got %q", out)
		}
		contains(t, "too many", x.want(t, 1, "", "schedules", "backfill", "nightly", "1990-01-01T00:00:00Z", "1999-11-30T00:00:00Z"), "more than 1000 due times")

		worldtest.WantErr(t, stop(), nil)
		contains(t, "without a worker", x.want(t, 0, "", "schedules", "run", "nightly"), `Schedule "nightly" is asked for it. No worker has carried it out within 5s`)
		contains(t, "a pause without a worker", x.want(t, 0, "", "schedules", "pause", "nightly"), `Schedule "nightly": paused.`)
		start()
		_ = worldtest.Pause(t.Context(), time.Second)
		contains(t, "paused", x.want(t, 0, "", "schedules", "list"), "nightly paused 15 3 * * * Europe/Berlin –")
	})
}

// Doctor finds schedules that nobody runs, that can't be read, and whose last run has failed.
func TestDoctorFindsSchedules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, start := newTimekeeper(t)
		schedule.Every(x.Registry, "broken", schedule.Cron("0 2 * * *", "Europe/Berlin"), func(schedule.Tick) wish { panic("no paper") }, schedule.Config{})
		stop := start()
		_ = worldtest.Pause(t.Context(), 36*time.Hour)
		out := x.want(t, 4, "", "doctor")
		contains(t, "failed", out, "WRONG the last run of schedule broken, due at", "has failed", "schedules show broken tells why.")
		contains(t, "why", x.want(t, 0, "", "schedules", "show", "-reveal", "-why=x", "broken"), "scheduled failed: panic: no paper –")
		if list := x.want(t, 0, "", "schedules", "list") + x.want(t, 0, "", "schedules", "list", "-json"); strings.Contains(list+out, "no paper") {
			t.Errorf("the text of a failure may be personal: %s%s", list, out)
		}
		if strings.Contains(out, "overdue") {
			t.Errorf("got %s", out)
		}
		worldtest.WantErr(t, stop(), nil)
		_ = worldtest.Pause(t.Context(), 24*time.Hour)
		contains(t, "overdue", x.want(t, 4, "", "doctor"), "WRONG schedule nightly is overdue: it was due at 2000-01-03 03:15:00 +0100")

		other := &stranger{World: worldtest.NewBare(t, x.Store, handlers.Config{}, schedule.Route(), channel.Command[wish]("wishes"))}
		schedule.Every(other.Registry, "other", schedule.Interval(time.Hour), func(schedule.Tick) wish { return wish{} }, schedule.Config{})
		stop = other.Start(worker.Config{})
		_ = worldtest.Pause(t.Context(), 3*time.Hour)
		contains(t, "orphaned", x.want(t, 4, "", "doctor"), "WRONG schedule nightly has stopped: no worker has had it since", "If it is gone for good, pause it.")
		contains(t, "an orphan can't run", x.want(t, 1, "", "schedules", "run", "nightly"), "no worker has it any more")
		x.want(t, 0, "", "schedules", "pause", "nightly")
		if out := x.want(t, 4, "", "doctor"); strings.Contains(out, "nightly") {
			t.Errorf("an orphan that is paused: got %s", out)
		}
		worldtest.WantErr(t, stop(), nil)
		putBlob(t, x.Store, "schedules", "junk", "junk \x1b[31m")
		contains(t, "corrupt", x.want(t, 4, "", "doctor"), "WRONG schedule junk can't be read")
		contains(t, "list", x.want(t, 0, "", "schedules", "list"), "junk corrupt – – – –", "Note: schedule: list: values: schedules")
	})
}
