package limiters_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/throttle"
	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/limiters"
)

type hint struct{}

func (hint) Kind() channel.Kind { return "test.hint.v1" }

// A queue of hints may wait, and one of jobs may not. Nothing is lost, nothing is spent, and the store is not asked for
// hints meanwhile.
func TestLawAnOptionalQueueWaits(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var (
			level             throttle.Level
			calls             storagetest.Calls
			hints, jobs, lost atomic.Int64
			log               = worldtest.NewLog()
			done              = make(chan struct{})
		)
		w := worldtest.NewBare(t, storagetest.Intercept(s, calls.Hook), handlers.Config{Timeout: 24 * time.Hour},
			channel.Command[job]("jobs"), channel.Command[hint]("hints"))
		handlers.React(w.Registry, "jobs", func(context.Context, job) error { jobs.Add(1); return nil })
		handlers.React(w.Registry, "hints", func(ctx context.Context, _ hint) error {
			e, _, _ := channel.Handled(ctx)
			lost.Add(int64(e.Attempts))
			hints.Add(1)
			select {
			case <-done:
				return nil
			case <-ctx.Done():
				lost.Add(1)
				return ctx.Err()
			}
		})
		want := func(when string, d time.Duration, wantHints, wantJobs int64) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			worldtest.Want(t, "hints begun "+when, hints.Load(), wantHints)
			worldtest.Want(t, "jobs done "+when, jobs.Load(), wantJobs)
		}
		w.Start(worker.Config{Logger: slog.New(log), Queues: map[string]worker.QueueConfig{"hints": {Concurrency: 2, MaxInHand: 10, Limiter: limiters.Level(&level, 2)}}})
		worldtest.Send(w, make([]hint, 9)...)
		want("at level 0", time.Minute, 2, 0)
		set(t, &level, 1)
		done <- struct{}{}
		want("at level 1", time.Minute, 3, 0)

		set(t, &level, 3)
		time.Sleep(time.Second)
		done <- struct{}{} // handlers that run finish
		time.Sleep(time.Minute)
		synctest.Wait()
		asked := received(&calls)
		worldtest.Send(w, make([]job, 5)...)
		worldtest.Send(w, hint{})
		want("at level 3", 10*time.Minute, 3, 5)
		worldtest.Want(t, "requests for hints at level 3", received(&calls)-asked, 0)
		st, err := s.Queue("hints").Stats(t.Context())
		if err != nil || st.Ready != 7 || st.InFlight != 1 {
			t.Errorf("got %+v and %v, want 7 messages that wait and one that runs", st, err)
		}
		set(t, &level, 1)
		want("after it", time.Minute, 4, 5)
		close(done)
		want("at the end", time.Minute, 10, 5)
		worldtest.Want(t, "attempts and handlers that were cut off", lost.Load(), 0)
		worldtest.Want(t, "lines", log.Count("queue is optional at this level, and waits", "level=3"), 1)
	})
}

// received counts how often the store was asked for hints.
func received(calls *storagetest.Calls) (n int) {
	for _, op := range calls.Ops() {
		if op.Name == "receive" && op.Resource == "queue hints" {
			n++
		}
	}
	return n
}

func set(t *testing.T, l *throttle.Level, level int) {
	t.Helper()
	if err := l.Set(level); err != nil {
		t.Fatal(err)
	}
}

// A worker with a limiter that can't be right doesn't start.
func TestATurnThatCanNotBeRight(t *testing.T) {
	t.Parallel()
	for want, open := range map[string]worker.OpenLimiter{
		"there is no level":               limiters.Level(nil, 1),
		"waits from level 0; want 1 to 3": limiters.Level(new(throttle.Level), 0),
		"waits from level 4; want 1 to 3": limiters.Level(new(throttle.Level), 4),
	} {
		if _, err := open(t.Context(), worker.Consumer{Queue: "hints"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
