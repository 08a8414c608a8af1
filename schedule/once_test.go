package schedule_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/storage"
)

// Law 1: the document says which wake counts, so copies of one bring about nothing, also no further wakes.
func TestCopiesOfAWake(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, l *lab) {
		p := plan{"it", schedule.Interval(time.Hour), schedule.Config{}, nil}
		r := l.start("v1", p)
		l.sleep(time.Minute)
		r.stop()
		l.until(0, "01:00:10")
		c := ok(channel.New(l.store, ok(routes())(t), "/test"))(t)
		for _, e := range worldtest.Take(t, l.store, "schedules") {
			for range 5 {
				packed := ok(c.Outbox().Pack(t.Context(), e))(t)
				if err := c.Outbox().SendPacked(t.Context(), packed); err != nil {
					t.Fatal(err)
				}
			}
		}
		l.start("v1", p)
		l.until(0, "03:30:00")
		l.wantDues("it", "01 01:00, 01 02:00, 01 03:00")
		worldtest.Want(t, "wakes that wait", worldtest.Queued(t, l.store, "schedules"), 1)
	})
}

// Law 1: ten replicas are started, stopped and killed for a month, and each due time comes once.
func TestEachDueTimeOnce(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s)
		all := schedule.Config{Missed: schedule.All}
		plans := []plan{
			{"nightly", schedule.Cron("15 3 * * *", "Europe/Berlin"), all, nil},
			{"every three hours", schedule.Interval(3 * time.Hour), all, nil},
			{"office", schedule.Cron("*/20 9-10 * * MON-FRI", "America/New_York"), all, nil},
		}
		const replicas = 10
		r := rand.New(rand.NewPCG(1, 2))
		var running []*replica
		for range replicas {
			running = append(running, l.start("v1", plans...))
		}
		end := l.began.AddDate(0, 1, 0)
		for time.Now().Before(end) {
			l.sleep(time.Duration(r.Int64N(int64(24 * time.Hour))))
			if r.IntN(2) == 0 { // most often, the worker that has the wake dies with it
				l.sleep(time.Until(plans[r.IntN(len(plans))].spec.Next(time.Now())))
			}
			for n := r.IntN(replicas); n >= 0; n-- {
				i := r.IntN(replicas)
				if running[i] == nil {
					running[i] = l.start("v1", plans...)
				} else if r.IntN(4) == 0 {
					running[i].stop()
					running[i] = nil
				} else {
					running[i].kill()
					running[i] = nil
				}
			}
		}
		for i := range running {
			if running[i] == nil {
				running[i] = l.start("v1", plans...)
			}
		}
		l.sleep(10 * time.Minute)
		now := time.Now()
		for _, p := range plans {
			l.wantOnce(p.name, p.spec, l.began, now)
		}
		l.wantNoPoison()
	})
}
