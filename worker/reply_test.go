package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// asked and answered are a command and its answer.
type (
	asked    struct{ Text string }
	answered struct{ Text string }
)

func (asked) Kind() channel.Kind    { return "test.asked.v1" }
func (answered) Kind() channel.Kind { return "test.answered.v1" }

// newReplies is a process that answers the messages of a queue.
func newReplies(t *testing.T, s *storage.Store, n int64) *world {
	t.Helper()
	ask, answer := fmt.Sprintf("ask-%d", n), fmt.Sprintf("answer-%d", n)
	w := newBare(t, s, channel.Command[asked](ask), channel.Event[answered](answer))
	handlers.Reply(w.Registry, ask, func(_ context.Context, m asked) ([]channel.Message, error) {
		w.reacted.Add(1)
		return []channel.Message{answered(m)}, nil
	}, answered{})
	return w
}

// Wherever a worker dies in its calls, the message is answered, each answer is the same message, and nothing is left.
func TestReplySurvivesACrashInEveryCall(t *testing.T) {
	t.Parallel()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		t.Run(moment.String(), func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				s = patient(s, 3*time.Second)
				for n := int64(1); crashReply(t, s, n, moment); n += worldtest.Stride {
					if n > 100 || t.Failed() {
						t.Fatalf("stopped at call %d", n)
					}
				}
			})
		})
	}
}

// crashReply reports whether the first worker came as far as its nth call.
func crashReply(t *testing.T, s *storage.Store, n int64, moment storagetest.Moment) bool {
	cfg := worker.Config{Visibility: 3 * time.Second, DrainTimeout: time.Second}
	healthy := newReplies(t, s, n)
	ask := fmt.Sprintf("ask-%d", n)
	worldtest.Send(healthy.World, asked{strings.Repeat("large", 20_000)})
	dying, fuse := storagetest.Crash(s, n, moment)
	stop := newReplies(t, dying, n).Start(cfg)
	for !fuse.Fired() && worldtest.Queued(t, s, ask) > 0 {
		time.Sleep(5 * time.Millisecond)
	}
	fired := fuse.Fired()
	stop() // with or without an error
	stop = healthy.Start(cfg)
	for began := time.Now(); worldtest.Queued(t, s, ask) > 0; time.Sleep(time.Second) {
		if time.Since(began) > 5*time.Minute {
			t.Fatalf("call %d: the queue doesn't get empty", n)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, e := range worldtest.Take(t, s, fmt.Sprintf("answer-%d", n)) {
		ids[e.ID] = true
	}
	worldtest.Want(t, fmt.Sprintf("call %d: distinct answers", n), len(ids), 1)
	worldtest.Want(t, fmt.Sprintf("call %d: poisoned", n), len(healthy.Poisoned(ask)), 0)
	return fired
}

// A message that is answered is handled and deleted, with its body, in the commit that sends the answer.
func TestReplyIsDone(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := newReplies(t, s, 1)
		wk, err := worker.New(w.Registry, worker.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			worldtest.Send(w.World, asked{strings.Repeat(fmt.Sprint(i), 100_000)})
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- wk.Run(ctx) }()
		for wk.Handled("ask-1") < 3 {
			time.Sleep(time.Second)
		}
		stop()
		worldtest.WantErr(t, <-ended, nil)
		worldtest.Want(t, "reactions", int(w.reacted.Load()), 3)
		worldtest.Want(t, "done", wk.Counts()["ask-1"].Done, 3)
		worldtest.Want(t, "messages left", worldtest.Queued(t, s, "ask-1"), 0)
		worldtest.Want(t, "bodies left: those of the answers", len(worldtest.Claims(t, s)), 3)
	})
}
