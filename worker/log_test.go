package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/worker"
)

// A failed attempt is one line, whether a handler failed or a step before or after it. The line names the message and
// never holds its body. The line after it says that the message was handled.
func TestLogOfFailedAttempts(t *testing.T) {
	type value struct {
		F float64 `json:"f"`
	}
	for name, decide := range map[string]func(v value, c Add, fail bool) (value, []channel.Message, error){
		"error": func(v value, _ Add, fail bool) (value, []channel.Message, error) {
			if fail {
				return v, nil, errors.New("the cause")
			}
			return v, nil, nil
		},
		"value": func(v value, _ Add, fail bool) (value, []channel.Message, error) {
			if fail {
				v.F = math.NaN()
			}
			return v, nil, nil
		},
		"event": func(v value, _ Add, fail bool) (value, []channel.Message, error) {
			if fail {
				return v, []channel.Message{fused{"panic"}}, nil
			}
			return v, nil, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				w, log := newFused(t, s), worldtest.NewLog()
				c := values.New(w.Channels, "values", values.Config[value]{})
				n := 0
				handlers.Decide(w.Registry, c, func(Add) string { return "one" }, func(v value, c Add) (value, []channel.Message, error) {
					n++
					return decide(v, c, n <= 2)
				}, fused{})
				w.Start(worker.Config{Logger: slog.New(log)})
				worldtest.Send(w.World, Add{Key: "a", To: "s3cr3t"})
				w.empty(t, time.Second)
				for attempt := 1; attempt <= 2; attempt++ {
					worldtest.Want(t, "lines of an attempt", log.Count("handler failed", "queue=accounts", "id=a", "kind=test.add.v1", "handler=decide values", fmt.Sprint("attempt=", attempt), "error="), 1)
				}
				worldtest.Want(t, "lines of attempts", log.Count("handler failed"), 2)
				worldtest.Want(t, "lines of the end", log.Count("INFO handled after failed attempts", "id=a", "failed=2"), 1)
				worldtest.Want(t, "lines with the body", log.Count("s3cr3t"), 0)
				if t.Failed() {
					t.Log(log)
				}
			})
		})
	}
}

// An event without a route, emitted by a fold, is logged too.
func TestLogOfEventWithoutRoute(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w, log := newFused(t, s), worldtest.NewLog()
		handling.Fold(w.Registry.Inside(), handling.As{}, "book", "accounts", w.Accounts,
			func(_ *channel.Envelope, m Add) (string, bool) { return m.To, true },
			func(a Account, _ *channel.Envelope, _ Add) (Account, []channel.Message, error) {
				return a, []channel.Message{other{}}, nil
			})
		w.Start(worker.Config{MaxAttempts: 2, Logger: slog.New(log)})
		worldtest.Send(w.World, Add{Key: "a", To: "a"})
		w.empty(t, time.Second)
		worldtest.Want(t, "lines of attempts", log.Count("WARN handler failed", "id=a", "no route for kind test.other.v1"), 2)
		worldtest.Want(t, "lines of the end", log.Count("ERROR message is in the poison queue", "id=a", "no route"), 1)
	})
}

// A store that refuses to write documents is logged once when that begins, seldom while it goes on, and once when it is
// over.
func TestLogOfStoreThatRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, log := worldtest.OpenStore(t, worldtest.Virtual), worldtest.NewLog()
		link := storagetest.NewLink(storagetest.Plain(s))
		w := newFused(t, link.Store)
		handlers.Decide(w.Registry, w.Accounts, Add.Subject,
			func(a Account, c Add) (Account, []channel.Message, error) { a.Balance += c.Amount; return a, nil, nil })
		link.Cut("put blob")
		w.Start(worker.Config{Logger: slog.New(log)})
		worldtest.Send(w.World, Add{Key: "a", To: "a"})
		time.Sleep(time.Hour)
		if n := log.Count("WARN the store fails", "queue=accounts", "id=a", "handler=decide accounts", "error="); n < 5 || n > 10 {
			t.Errorf("lines in an hour: got %d, want one at once and few after it", n)
		}
		worldtest.Want(t, "lines of the beginning", log.Count("the store fails", "handed_back=1 "), 1)
		link.Restore()
		w.empty(t, time.Second)
		worldtest.Want(t, "lines of the end", log.Count("INFO the store works again", "queue=accounts", "handed_back="), 1)
		if t.Failed() {
			t.Log(log)
		}
	})
}

// Of two documents one can't be written for a while, and the other can. That is logged once when it begins, seldom
// while it goes on, and once when it is over.
func TestLogOfOneDocumentThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, log := worldtest.OpenStore(t, worldtest.Virtual), worldtest.NewLog()
		var down atomic.Bool
		w := newFused(t, storagetest.Intercept(storagetest.Plain(s), func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "put blob" && strings.HasSuffix(op.Resource, "/bad") && down.Load() {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}))
		handlers.Decide(w.Registry, w.Accounts, Add.Subject,
			func(a Account, c Add) (Account, []channel.Message, error) { a.Balance += c.Amount; return a, nil, nil })
		down.Store(true)
		w.Start(worker.Config{Logger: slog.New(log)})
		worldtest.Send(w.World, Add{To: "bad", Amount: 1})
		for range 300 {
			worldtest.Send(w.World, Add{To: "good", Amount: 1})
			time.Sleep(2 * time.Second)
		}
		worldtest.Want(t, "lines of the beginning", log.Count("the store fails", "handed_back=1 "), 1)
		if n := log.Count("the store fails"); n < 5 || n > 20 {
			t.Errorf("lines in ten minutes: got %d, want few", n)
		}
		worldtest.Want(t, "lines of an end before it is over", log.Count("the store works again"), 0)
		down.Store(false)
		w.empty(t, time.Second)
		worldtest.Want(t, "lines of the end", log.Count("INFO the store works again", "queue=accounts"), 1)
	})
}

// Later is not an error. It is logged once, and as a warning, more and more seldom, when the message waits for long.
func TestLogOfLater(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log := worldtest.NewLog()
		n := 0
		l := newLab(t, patient(worldtest.OpenStore(t, worldtest.Virtual), time.Second), func(context.Context, job) error {
			if n++; n <= 40 {
				return handlers.Later(time.Minute, "no paper")
			}
			return nil
		})
		l.Start(worker.Config{Logger: slog.New(log)})
		l.sendJobs(t, job{ID: "a"})
		l.empty(t, time.Minute)
		worldtest.Want(t, "lines", log.Count("handed back", "id=a", "reason=no paper"), 40)
		worldtest.Want(t, "info", log.Count("INFO message handed back", "hand_backs=1 "), 1)
		for _, n := range []int{8, 16, 32} {
			worldtest.Want(t, "warnings", log.Count("WARN message handed back", fmt.Sprintf("hand_backs=%d ", n)), 1)
		}
		worldtest.Want(t, "all warnings", log.Count("WARN"), 3)
		worldtest.Want(t, "all at the info level", log.Count("INFO message handed back"), 1)
		worldtest.Want(t, "errors", log.Count("error="), 0)
	})
}

// A panic's stack is logged once for a message. It begins at the line that panicked and ends where the registry called
// the user's code.
func TestLogOfPanics(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w, log := newFused(t, s), worldtest.NewLog()
		handlers.Decide(w.Registry, w.Accounts, Add.Subject, func(a Account, _ Add) (Account, []channel.Message, error) {
			return *(*Account)(nil), nil, nil
		})
		w.Start(worker.Config{MaxAttempts: 4, Logger: slog.New(log)})
		worldtest.Send(w.World, Add{Key: "a", To: "a"}, Add{Key: "b", To: "b"})
		w.empty(t, time.Second)
		worldtest.Want(t, "lines", log.Count("ERROR handler failed", "nil pointer dereference"), 6+2) // the last attempt is one, too
		for _, id := range []string{"id=a", "id=b"} {
			worldtest.Want(t, "lines with a stack", log.Count("stack=github.com/millrace-go/millrace/worker_test.TestLogOfPanics", id), 1)
		}
		for _, part := range []string{"runtime/debug", "panic.go", "callUser", "values.(*", "worker.(*consumer)", "handlers.Decide"} {
			worldtest.Want(t, "stacks with "+part, log.Count("stack=", part), 0)
		}
		if t.Failed() {
			t.Log(log)
		}
	})
}

// A handler that a stop cuts off is no warning.
func TestLogOfCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log := worldtest.NewLog()
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), func(ctx context.Context, _ job) error { <-ctx.Done(); return ctx.Err() })
		stop := l.Start(worker.Config{DrainTimeout: time.Second, Logger: slog.New(log)})
		l.sendJobs(t, job{ID: "a"})
		time.Sleep(time.Second)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		worldtest.Want(t, "lines", log.Count("INFO handler was cut off", "id=a", "cause=worker: stopping"), 1)
		worldtest.Want(t, "warnings", log.Count("WARN")+log.Count("ERROR"), 0)
		worldtest.Want(t, "errors that are none", log.Count("error=<nil>"), 0)
		worldtest.Want(t, "lines of the stop", log.Count("worker stopped"), 1)
	})
}

// The log names the kinds at the start, and a queue without a handler.
func TestLogOfStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log := worldtest.NewLog()
		w := newBare(t, worldtest.OpenStore(t, worldtest.Virtual),
			channel.Command[job]("jobs"), channel.Command[other]("jobs"), channel.Event[fused]("jobs", "elsewhere"))
		handlers.React(w.Registry, "jobs", func(context.Context, job) error { return nil })
		handlers.React(w.Registry, "jobs", func(context.Context, other) error { return nil })
		stop := w.Start(worker.Config{Logger: slog.New(log)})
		time.Sleep(time.Second)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		worldtest.Want(t, "kinds", log.Count("worker consumes", "kinds=test.job.v1 → react jobs, test.other.v1 → react jobs"), 1)
		worldtest.Want(t, "queues without a handler", log.Count("no handler here", "queue=elsewhere"), 1)
		worldtest.Want(t, "all of them", log.Count("no handler here"), 1)
	})
}
