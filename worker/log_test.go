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
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/worker"
)

// textLog is a log as it is read.
type textLog struct{ records }

func (l *textLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// leveled is records with their levels before them, and with the logger's own attributes.
type leveled struct {
	*textLog
	attrs string
}

func newLeveled() *leveled { return &leveled{textLog: &textLog{}} }

func (l *leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *l
	for _, a := range attrs {
		with.attrs += fmt.Sprintf(" %s=%v", a.Key, a.Value)
	}
	return &with
}

func (l *leveled) Handle(ctx context.Context, x slog.Record) error {
	x.Message = x.Level.String() + " " + x.Message + l.attrs
	return l.textLog.Handle(ctx, x)
}

// lines counts the lines that hold all these parts.
func (l *leveled) lines(parts ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
line:
	for _, s := range l.all {
		for _, part := range parts {
			if !strings.Contains(s, part) {
				continue line
			}
		}
		n++
	}
	return n
}

// A failed attempt is one line, whether a handler failed or a step before or after it. The line names the message and
// never holds its body. The line after it says that the message was handled.
func TestLogOfFailedAttempts(t *testing.T) {
	type value struct {
		F float64 `json:"f"`
	}
	for name, decide := range map[string]func(v value, c add, fail bool) (value, []channel.Message, error){
		"error": func(v value, _ add, fail bool) (value, []channel.Message, error) {
			if fail {
				return v, nil, errors.New("the cause")
			}
			return v, nil, nil
		},
		"value": func(v value, _ add, fail bool) (value, []channel.Message, error) {
			if fail {
				v.F = math.NaN()
			}
			return v, nil, nil
		},
		"event": func(v value, _ add, fail bool) (value, []channel.Message, error) {
			if fail {
				return v, []channel.Message{fused{"panic"}}, nil
			}
			return v, nil, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEachStore(t, func(t *testing.T, s *storage.Store) {
				w, log := newFused(t, s), newLeveled()
				c := values.New(w.channels, "values", values.Config[value]{})
				n := 0
				handlers.Decide(w.registry, c, func(add) string { return "one" }, func(v value, c add) (value, []channel.Message, error) {
					n++
					return decide(v, c, n <= 2)
				}, fused{})
				w.start(t, worker.Config{Logger: slog.New(log)})
				if err := w.send.Send(t.Context(), add{ID: "a", Account: "s3cr3t"}); err != nil {
					t.Fatal(err)
				}
				w.empty(t, time.Second)
				for attempt := 1; attempt <= 2; attempt++ {
					wantInt(t, "lines of an attempt", log.lines("handler failed", "queue=commands", "id=a", "kind=test.add.v1", "handler=decide values", fmt.Sprint("attempt=", attempt), "error="), 1)
				}
				wantInt(t, "lines of attempts", log.lines("handler failed"), 2)
				wantInt(t, "lines of the end", log.lines("INFO handled after failed attempts", "id=a", "failed=2"), 1)
				wantInt(t, "lines with the body", log.lines("s3cr3t"), 0)
				if t.Failed() {
					t.Log(log)
				}
			})
		})
	}
}

// An event without a route, emitted by a fold, is logged too.
func TestLogOfEventWithoutRoute(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *storage.Store) {
		w, log := newFused(t, s), newLeveled()
		handlers.Fold(w.registry, "book", "commands", w.accounts, func(c add) string { return c.Account },
			func(a account, _ *channel.Envelope, _ add) (account, []channel.Message, error) {
				return a, []channel.Message{other{}}, nil
			})
		w.start(t, worker.Config{MaxAttempts: 2, Logger: slog.New(log)})
		if err := w.send.Send(t.Context(), add{ID: "a", Account: "a"}); err != nil {
			t.Fatal(err)
		}
		w.empty(t, time.Second)
		wantInt(t, "lines of attempts", log.lines("WARN handler failed", "id=a", "no route for kind test.other.v1"), 2)
		wantInt(t, "lines of the end", log.lines("ERROR message is in the poison queue", "id=a", "no route"), 1)
	})
}

// A store that refuses to write documents is logged once when that begins, seldom while it goes on, and once when it is
// over.
func TestLogOfStoreThatRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, log := openStore(t), newLeveled()
		link := storagetest.NewLink(storagetest.Plain(s))
		w := newFused(t, link.Store)
		handlers.Decide(w.registry, w.accounts, func(c add) string { return c.Account },
			func(a account, c add) (account, []channel.Message, error) { a.Sum += c.N; return a, nil, nil })
		link.Cut("put blob")
		w.start(t, worker.Config{Logger: slog.New(log)})
		if err := w.send.Send(t.Context(), add{ID: "a", Account: "a"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if n := log.lines("WARN the store fails", "queue=commands", "id=a", "handler=decide accounts", "error="); n < 5 || n > 10 {
			t.Errorf("lines in an hour: got %d, want one at once and few after it", n)
		}
		wantInt(t, "lines of the beginning", log.lines("the store fails", "handed_back=1 "), 1)
		link.Restore()
		w.empty(t, time.Second)
		wantInt(t, "lines of the end", log.lines("INFO the store works again", "queue=commands", "handed_back="), 1)
		if t.Failed() {
			t.Log(log)
		}
	})
}

// Of two documents one can't be written for a while, and the other can. That is logged once when it begins, seldom
// while it goes on, and once when it is over.
func TestLogOfOneDocumentThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, log := openStore(t), newLeveled()
		var down atomic.Bool
		w := newFused(t, storagetest.Intercept(storagetest.Plain(s), func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "put blob" && strings.HasSuffix(op.Resource, "/bad") && down.Load() {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}))
		handlers.Decide(w.registry, w.accounts, func(c add) string { return c.Account },
			func(a account, c add) (account, []channel.Message, error) { a.Sum += c.N; return a, nil, nil })
		down.Store(true)
		w.start(t, worker.Config{Logger: slog.New(log)})
		if err := w.send.Send(t.Context(), add{Account: "bad", N: 1}); err != nil {
			t.Fatal(err)
		}
		for range 300 {
			if err := w.send.Send(t.Context(), add{Account: "good", N: 1}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		wantInt(t, "lines of the beginning", log.lines("the store fails", "handed_back=1 "), 1)
		if n := log.lines("the store fails"); n < 5 || n > 20 {
			t.Errorf("lines in ten minutes: got %d, want few", n)
		}
		wantInt(t, "lines of an end before it is over", log.lines("the store works again"), 0)
		down.Store(false)
		w.empty(t, time.Second)
		wantInt(t, "lines of the end", log.lines("INFO the store works again", "queue=commands"), 1)
	})
}

// Later is not an error. It is logged once, and as a warning, more and more seldom, when the message waits for long.
func TestLogOfLater(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log := newLeveled()
		n := 0
		l := newLab(t, patient(openStore(t), time.Second), func(context.Context, job) error {
			if n++; n <= 40 {
				return handlers.Later(time.Minute, "no paper")
			}
			return nil
		})
		l.start(t, worker.Config{Logger: slog.New(log)})
		l.sendJobs(t, job{ID: "a"})
		l.empty(t, time.Minute)
		wantInt(t, "lines", log.lines("handed back", "id=a", "reason=no paper"), 40)
		wantInt(t, "info", log.lines("INFO handed back", "hand_backs=1 "), 1)
		for _, n := range []int{8, 16, 32} {
			wantInt(t, "warnings", log.lines("WARN handed back", fmt.Sprintf("hand_backs=%d ", n)), 1)
		}
		wantInt(t, "all warnings", log.lines("WARN"), 3)
		wantInt(t, "all at the info level", log.lines("INFO handed back"), 1)
		wantInt(t, "errors", log.lines("error="), 0)
	})
}

// A panic's stack is logged once for a message. It begins at the line that panicked and ends where the registry called
// the user's code.
func TestLogOfPanics(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *storage.Store) {
		w, log := newFused(t, s), newLeveled()
		handlers.Decide(w.registry, w.accounts, func(c add) string { return c.Account }, func(a account, _ add) (account, []channel.Message, error) {
			return *(*account)(nil), nil, nil
		})
		w.start(t, worker.Config{MaxAttempts: 4, Logger: slog.New(log)})
		if err := w.send.Send(t.Context(), add{ID: "a", Account: "a"}, add{ID: "b", Account: "b"}); err != nil {
			t.Fatal(err)
		}
		w.empty(t, time.Second)
		wantInt(t, "lines", log.lines("ERROR handler failed", "nil pointer dereference"), 6+2) // the last attempt is one, too
		for _, id := range []string{"id=a", "id=b"} {
			wantInt(t, "lines with a stack", log.lines("stack=github.com/millrace-go/millrace/worker_test.TestLogOfPanics", id), 1)
		}
		for _, part := range []string{"runtime/debug", "panic.go", "callUser", "values.(*", "worker.(*consumer)", "handlers.Decide"} {
			wantInt(t, "stacks with "+part, log.lines("stack=", part), 0)
		}
		if t.Failed() {
			t.Log(log)
		}
	})
}

// A handler that a stop cuts off is no warning.
func TestLogOfCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log := newLeveled()
		l := newLab(t, openStore(t), func(ctx context.Context, _ job) error { <-ctx.Done(); return ctx.Err() })
		stop := l.start(t, worker.Config{DrainTimeout: time.Second, Logger: slog.New(log)})
		l.sendJobs(t, job{ID: "a"})
		time.Sleep(time.Second)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		wantInt(t, "lines", log.lines("INFO handler was cut off", "id=a", "cause=worker: stopping"), 1)
		wantInt(t, "warnings", log.lines("WARN")+log.lines("ERROR"), 0)
		wantInt(t, "errors that are none", log.lines("error=<nil>"), 0)
		wantInt(t, "lines of the stop", log.lines("worker stopped"), 1)
	})
}

// The log names the kinds at the start, and a queue without a handler.
func TestLogOfStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log := newLeveled()
		routes, err := channel.NewRoutes(channel.Command[job]("jobs"), channel.Command[other]("jobs"), channel.Event[fused]("jobs", "elsewhere"))
		if err != nil {
			t.Fatal(err)
		}
		w := &world{store: openStore(t)}
		if w.channels, err = channel.New(w.store, routes, "/test"); err != nil {
			t.Fatal(err)
		}
		w.registry = handlers.NewRegistry(w.channels, handlers.Config{})
		handlers.React(w.registry, "jobs", func(context.Context, job) error { return nil })
		handlers.React(w.registry, "jobs", func(context.Context, other) error { return nil })
		stop := w.start(t, worker.Config{Logger: slog.New(log)})
		time.Sleep(time.Second)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		wantInt(t, "kinds", log.lines("worker consumes", "kinds=test.job.v1 → react jobs, test.other.v1 → react jobs"), 1)
		wantInt(t, "queues without a handler", log.lines("no handler here", "queue=elsewhere"), 1)
		wantInt(t, "all of them", log.lines("no handler here"), 1)
	})
}
