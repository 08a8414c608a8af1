package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// A worker counts what it does, by queue and by kind, also across two runs. An older kind counts as what it becomes.
func TestCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := make(chan struct{})
		l := newLab(t, storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual)), func(ctx context.Context, j job) error {
			time.Sleep(20 * time.Millisecond)
			attempt, _ := handlers.Attempt(ctx)
			switch {
			case j.Name == "bad", j.Name == "late" && attempt == 1:
				return errors.New("no")
			case j.Name == "waits":
				<-begin
			}
			return nil
		})
		handlers.Upgrade(l.Registry, func(o oldJob) job { return job{Name: o.Name} })
		w, err := worker.New(l.Registry, worker.Config{MaxAttempts: 3, Logger: slog.New(slog.DiscardHandler), Name: "one"})
		if err != nil {
			t.Fatal(err)
		}
		worldtest.Want(t, "the name", w.Name(), "one")
		run := func() (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- w.Run(ctx) }()
			return func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		}
		stop := run()
		l.sendJobs(t, job{Name: "good"}, job{Name: "bad"}, job{Name: "late"}, job{Name: "waits"})
		l.sendRaw(t, raw("a", "test.job.v0", oldJob{"good"}))
		l.sendRaw(t, raw("b", "test.strange.v1", 1))
		l.sendRaw(t, "no envelope")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		before := w.Counts()["jobs"]
		if p99 := before.Times.Quantile(0.99); before.InHand != 1 || before.Done != 3 || p99 < 20*time.Millisecond || p99 > 25*time.Millisecond {
			t.Errorf("while one message is in hand: got %d in hand, %d done, and a p99 of %v", before.InHand, before.Done, p99)
		}
		close(begin)
		l.empty(t, time.Minute)
		stop()
		stop = run()
		l.sendJobs(t, job{Name: "good"})
		l.empty(t, time.Second)
		stop()
		c := w.Counts()["jobs"]
		worldtest.Want(t, "done", c.Done, w.Handled("jobs"))
		if c.HandedBack == 0 { // the unknown kind
			t.Error("nothing was handed back")
		}
		c.HandedBack, c.Times = 0, worker.Times{}
		want := worker.Counts{Done: 5, Retried: 3, Poisoned: 3, Kinds: map[channel.Kind]worker.KindCounts{"test.job.v1": {Done: 5, Failed: 4}}}
		wantCounts(t, "in all", c, want)
		since := w.Counts()["jobs"].Since(before)
		since.HandedBack, since.Times, since.Poisoned = 0, worker.Times{}, 0
		wantCounts(t, "since", since, worker.Counts{Done: 2, Kinds: map[channel.Kind]worker.KindCounts{"test.job.v1": {Done: 2}}})
	})
}

func wantCounts(t *testing.T, what string, got, want worker.Counts) {
	t.Helper()
	kind := channel.Kind("test.job.v1")
	if len(got.Kinds) != 1 || got.Kinds[kind] != want.Kinds[kind] {
		t.Errorf("%s: got the kinds %v, want %v", what, got.Kinds, want.Kinds)
	}
	if got.Done != want.Done || got.Retried != want.Retried || got.Poisoned != want.Poisoned || got.Cancelled != want.Cancelled || got.HandedBack != want.HandedBack || got.InHand != want.InHand {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}
