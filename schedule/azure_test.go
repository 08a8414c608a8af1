package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/worker"
)

// On Azure two workers take each due time once, and an operator pauses the schedule.
func TestOnAzure(t *testing.T) {
	t.Parallel()
	s, err := azure.Open(t.Context(), azuretest.Start(t).Account(t).ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	l := newLab(t, s)
	p := plan{"it", schedule.Interval(time.Second), schedule.Config{Missed: schedule.All, Overlap: schedule.Queue, Longest: time.Hour}, nil}
	l.work = takes(0)
	for range 2 {
		w := worldtest.NewBare(t, s, handlers.Config{}, schedule.Route(), channel.Command[Job]("jobs"))
		l.register(w.Registry, "v1", []plan{p})
		soon := worker.QueueConfig{PollInterval: 100 * time.Millisecond}
		w.Start(worker.Config{Queues: map[string]worker.QueueConfig{"jobs": soon, "schedules": soon}})
	}
	worldtest.Eventually(t, func() error {
		if n := len(l.jobs("it")); n < 5 {
			return fmt.Errorf("got %d jobs", n)
		}
		return nil
	})
	ok(schedule.At(s, "it").Pause(t.Context(), ada))(t)
	worldtest.Eventually(t, func() error {
		if x := l.info("it"); x.State != schedule.Paused || x.Active != nil {
			return fmt.Errorf("got %+v", x)
		}
		return nil
	})
	all := l.jobs("it")
	l.wantOnce("it", p.spec, all[0].Due.Add(-time.Second), all[len(all)-1].Due)
	l.wantNoPoison()
}
