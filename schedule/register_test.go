package schedule_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

func nothing[M channel.Message](context.Context, M) error { return nil }

// counted returns the metric of ticks with a result.
func counted(t testing.TB, r *prometheus.Registry, result string) (n int) {
	t.Helper()
	families := ok(r.Gather())(t)
	for _, f := range families {
		if f.GetName() != "millrace_schedule_ticks_total" {
			continue
		}
		for _, m := range f.Metric {
			for _, label := range m.Label {
				if label.GetName() == "result" && label.GetValue() == result {
					n += int(m.Counter.GetValue())
				}
			}
		}
	}
	return n
}

// Event is no command.
type Event struct{ N int }

// Kind is the name on the wire.
func (Event) Kind() channel.Kind { return "test.event.v1" }

// A registration that can't work is a fault of the registry, with the schedule's name and what to do.
func TestRegistrationsReportAllFaults(t *testing.T) {
	t.Parallel()
	spec := schedule.Interval(time.Hour)
	for name, c := range map[string]struct {
		register func(h *handlers.Registry)
		want     []string
	}{
		"spec": {func(h *handlers.Registry) {
			schedule.Every(h, "it", schedule.Cron("0 0 30 2 *", "UTC"), jobOf, schedule.Config{})
		}, []string{`schedule "it": `, "never due"}},
		"no spec": {func(h *handlers.Registry) { schedule.Every(h, "it", schedule.Spec{}, jobOf, schedule.Config{}) }, []string{"use schedule.Cron"}},
		"nil":     {func(h *handlers.Registry) { schedule.Every[Job](h, "it", spec, nil, schedule.Config{}) }, []string{"is nil"}},
		"no route": {func(h *handlers.Registry) {
			schedule.Every(h, "it", spec, func(schedule.Tick) *Sheet { return nil }, schedule.Config{})
		}, []string{"no route for command test.sheet.v1"}},
		"an event": {func(h *handlers.Registry) {
			schedule.Every(h, "it", spec, func(schedule.Tick) Event { return Event{} }, schedule.Config{})
		}, []string{"no route for command test.event.v1"}},
		"no name": {func(h *handlers.Registry) { schedule.Every(h, "", spec, jobOf, schedule.Config{}) }, []string{"key"}},
		"a long name": {func(h *handlers.Registry) {
			schedule.Every(h, strings.Repeat("x", 101), spec, jobOf, schedule.Config{})
		}, []string{"at most 100"}},
		"twice": {func(h *handlers.Registry) {
			schedule.Every(h, "it", spec, jobOf, schedule.Config{})
			schedule.Every(h, "it", spec, jobOf, schedule.Config{})
		}, []string{"registered twice"}},
		"several faults": {func(h *handlers.Registry) {
			schedule.Every[Job](h, "it", schedule.Interval(1), nil, schedule.Config{Grace: -1, Within: 1, Longest: 1 << 62, Missed: 7, Overlap: -1})
		},
			[]string{"Grace is -1ns", "Within is 1ns", "Longest is", "Missed is 7; want One, All or None", "Overlap is -1; want Allow, Skip or Queue", "whole seconds", "is nil"}},
	} {
		w := worldtest.NewBare(t, worldtest.OpenStore(t, ""), handlers.Config{}, schedule.Route(), channel.Command[Job]("jobs"), channel.Event[Event]("events"))
		c.register(w.Registry)
		err := w.Registry.Err()
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got error %v, want one with %q", name, err, want)
			}
		}
	}
	w := worldtest.NewBare(t, worldtest.OpenStore(t, ""), handlers.Config{}, channel.Command[Job]("jobs"))
	schedule.Every(w.Registry, "it", spec, jobOf, schedule.Config{})
	if err := w.Registry.Err(); err == nil || !strings.Contains(err.Error(), "add schedule.Route() to them") {
		t.Errorf("without the route: got error %v", err)
	}
}

// Two programs on one store have a queue each, and neither sees the other's schedules.
func TestTwoProgramsOnOneStore(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		for _, queue := range []string{"shop-schedules", "bank-schedules"} {
			w := worldtest.NewBare(t, l.store, handlers.Config{Logger: slog.New(l.log)}, schedule.RouteTo(queue), channel.Command[Job]("jobs"))
			l.register(w.Registry, queue, []plan{{queue, schedule.Interval(time.Hour), schedule.Config{}, nil}})
			w.Start(worker.Config{Queues: map[string]worker.QueueConfig{queue: {PollInterval: 24 * time.Hour}, "jobs": {PollInterval: 24 * time.Hour}}})
		}
		l.until(0, "01:30:00")
		for _, queue := range []string{"shop-schedules", "bank-schedules"} {
			worldtest.Want(t, "queue", l.info(queue).Queue, queue)
			ok(schedule.At(l.store, queue).Pause(t.Context(), ada))(t)
			l.sleep(time.Second)
			worldtest.Want(t, "state", l.info(queue).State, schedule.Paused)
			l.wantDues(queue, "01 01:00")
		}
	})
}

// The ID of a command follows from the schedule and its due time alone: a store that has lost the schedule's document
// sends no second command that counts.
func TestIDsFollowFromDueTimes(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		p := plan{"it", schedule.Interval(time.Hour), schedule.Config{Missed: schedule.All}, nil}
		l.start("v1", p)
		l.until(0, "02:30:00")
		seen := map[string]time.Time{}
		for _, r := range l.info("it").Runs {
			seen[r.Command] = r.Due
			if at, timed := channel.IDTime(r.Command); !timed || !at.Equal(r.Due) {
				t.Errorf("ID %s carries %v, want %v", r.Command, at, r.Due)
			}
		}
		other := newLab(t, worldtest.OpenStore(t, worldtest.Virtual))
		other.start("v1", p, plan{"other", p.spec, p.cfg, nil})
		l.until(0, "03:30:00")
		for _, r := range append(other.info("it").Runs, l.info("it").Runs[0]) {
			seen[r.Command] = r.Due
		}
		if len(seen) != 3 {
			t.Errorf("got IDs %v, want three: those of two stores are the same", seen)
		}
		for _, r := range other.info("other").Runs {
			if _, same := seen[r.Command]; same {
				t.Errorf("another schedule has ID %s, too", r.Command)
			}
		}
	})
}

// A command that chooses its ID has it.
func TestCommandsMayChooseTheirIDs(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		w := worldtest.NewBare(t, l.store, handlers.Config{Logger: slog.New(l.log)}, schedule.Route(), channel.Command[worldtest.Add]("accounts"))
		schedule.Every(w.Registry, "it", schedule.Interval(time.Hour), func(t schedule.Tick) worldtest.Add {
			return worldtest.Add{Key: "report-" + t.Due.Format("15"), To: "ada"}
		}, schedule.Config{})
		w.Start(worker.Config{Consume: []string{"schedules"}, Queues: map[string]worker.QueueConfig{"schedules": {PollInterval: 24 * time.Hour}}})
		l.until(0, "02:30:00")
		var got []string
		for _, e := range worldtest.Take(t, l.store, "accounts") {
			got = append(got, e.ID+" for "+e.Subject)
		}
		if strings.Join(got, ", ") != "report-01 for ada, report-02 for ada" {
			t.Errorf("got %q", got)
		}
	})
}

// A worker that starts sends another wake, because the one that counts may be lost in a poison queue.
func TestAStartRepairsALostWake(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		p := plan{"it", schedule.Interval(time.Hour), schedule.Config{}, nil}
		r := l.start("v1", p)
		l.until(0, "01:30:00")
		r.stop()
		l.until(0, "02:00:30")
		for _, e := range worldtest.Take(t, l.store, "schedules") {
			t.Logf("lost: %s", e.Data)
		}
		l.start("v1", p)
		l.until(0, "02:30:00")
		l.wantDues("it", "01 01:00, 01 02:00")
		l.start("v1", p)
		l.until(0, "03:30:00")
		l.wantDues("it", "01 01:00, 01 02:00, 01 03:00")
	})
}

// Several replicas that start at once register a schedule once, and wake it once.
func TestReplicasStartTogether(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		p := plan{"it", schedule.Interval(time.Hour), schedule.Config{}, nil}
		for range 10 {
			l.start("v1", p)
		}
		l.sleep(time.Minute)
		if x := l.info("it"); len(x.Changes) != 1 {
			t.Errorf("got changes %+v, want one", x.Changes)
		}
		worldtest.Want(t, "messages that wait", worldtest.Queued(t, l.store, "schedules"), 1)
		l.until(0, "01:30:00")
		l.wantDues("it", "01 01:00")
	})
}

// A schedule whose messages move to another queue goes on there, and each due time comes once.
func TestAQueueMoves(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		p := plan{"it", schedule.Interval(time.Hour), schedule.Config{}, nil}
		r := l.start("v1", p)
		l.until(0, "01:30:00")
		w := worldtest.NewBare(t, l.store, handlers.Config{Logger: slog.New(l.log)}, schedule.RouteTo("elsewhere"), channel.Command[Job]("jobs"))
		l.register(w.Registry, "v2", []plan{p})
		w.Start(worker.Config{Queues: map[string]worker.QueueConfig{"elsewhere": {PollInterval: 24 * time.Hour}, "jobs": {PollInterval: 24 * time.Hour}}})
		l.sleep(time.Minute)
		r.stop()
		l.until(0, "03:30:00")
		ok(schedule.At(l.store, "it").Run(t.Context(), ada))(t) // orders go there, too
		l.sleep(time.Second)
		l.wantDues("it", "01 01:00, 01 02:00, 01 03:00, 01 03:30 asked")
	})
}

// A definition of a newer version, which this one can't read, is left to others for an hour. It stops nothing else.
func TestADefinitionOfANewerVersion(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		it, other := plan{"it", schedule.Interval(time.Hour), schedule.Config{}, nil}, plan{"other", schedule.Interval(time.Hour), schedule.Config{}, nil}
		r := l.start("v1", it, other)
		l.until(0, "01:30:00")
		blob := ok(l.store.Blobs("schedules").Get(t.Context(), "it", ""))(t)
		newer := strings.Replace(string(blob.Body), `"overlap":"allow"`, `"overlap":"perhaps"`, 1)
		ok(l.store.Blobs("schedules").Put(t.Context(), "it", []byte(newer), storage.Condition{IfMatch: blob.ETag}))(t)
		r.stop()
		r = l.start("v1", other)
		ok(schedule.At(l.store, "it").Resume(t.Context(), ada))(t)
		l.until(0, "04:30:00")
		l.wantDues("it", "01 01:00")
		l.wantDues("other", "01 01:00, 01 02:00, 01 03:00, 01 04:00")
		if x := l.info("it"); x.State != schedule.Orphaned {
			t.Errorf("got %+v, want an orphan", x)
		}
		r.stop()
		c := ok(channel.New(l.store, ok(routes())(t), "/test"))(t)
		n := 0
		for e, err := range poison.At(c, "schedules").List(t.Context()) {
			if n++; err != nil || e.Reason != "a definition that can't be read" || !strings.Contains(e.Error, "Overlap is perhaps") {
				t.Errorf("got %+v, error %v, want the order that can't be carried out", e, err)
			}
		}
		worldtest.Want(t, "orders in the poison queue", n, 1)
		l.start("v1", it, other)
		l.until(0, "05:30:00")
		l.wantDues("it", "01 01:00, 01 05:00")
	})
}

// A worker that has a schedule, and can't read the definition of a newer version, leaves its due times to that version.
func TestAWorkerBesideANewerVersion(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		l.start("v1", plan{"it", schedule.Interval(time.Hour), schedule.Config{}, nil})
		replace := func(from, to string) {
			t.Helper()
			blob := ok(l.store.Blobs("schedules").Get(t.Context(), "it", ""))(t)
			body := strings.Replace(string(blob.Body), from, to, 1)
			ok(l.store.Blobs("schedules").Put(t.Context(), "it", []byte(body), storage.Condition{IfMatch: blob.ETag}))(t)
		}
		const own, newer = `"overlap":"allow"`, `"overlap":"perhaps"`
		l.until(0, "01:30:00")
		replace(own, newer)
		l.until(0, "02:10:00")
		l.wantDues("it", "01 01:00")
		replace(newer, own) // now it can read it, as the other version could all the time
		l.until(0, "03:30:00")
		l.wantDues("it", "01 01:00, 01 02:00, 01 03:00")
		l.wantNoPoison()
	})
}
