package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/worker"
)

// codeError is an error as people write them: all its methods read its field.
type codeError struct{ code int }

func (e *codeError) Error() string        { return fmt.Sprint("code ", e.code) }
func (e *codeError) String() string       { return e.Error() }
func (e *codeError) LogValue() slog.Value { return slog.IntValue(e.code) }

// bomb is an error none of whose methods returns.
type bomb struct{ explode func() }

func (b bomb) Error() string        { b.explode(); return "" }
func (b bomb) Unwrap() error        { b.explode(); return nil }
func (b bomb) Is(error) bool        { b.explode(); return false }
func (b bomb) As(any) bool          { b.explode(); return false }
func (b bomb) LogValue() slog.Value { b.explode(); return slog.Value{} }

// Fuse is a part of a message or a value that can't be encoded, or of a message that can't be decoded.
type Fuse string

func (f Fuse) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%q", string(f)), light(string(f))
}

// light does what a name says.
func light(name string) error {
	switch name {
	case "typed nil":
		var e *codeError
		return e
	case "wrapped nil":
		return fmt.Errorf("read: %w", (*os.PathError)(nil))
	case "joined nil":
		return errors.Join(io.EOF, (*os.PathError)(nil))
	case "nil verdict":
		var e *handlers.PoisonError
		return e
	case "retry for nil":
		return handlers.Retry(0, (*codeError)(nil))
	case "bomb":
		return bomb{func() { panic("bomb") }}
	case "quiet bomb":
		return bomb{runtime.Goexit}
	case "wrapped bomb":
		return fmt.Errorf("%w", errors.Join(io.EOF, bomb{func() { panic("bomb") }}))
	case "panic":
		panic("boom")
	case "panic with nil":
		panic((*codeError)(nil))
	case "panic with a quiet bomb":
		panic(bomb{runtime.Goexit})
	case "goexit":
		runtime.Goexit()
	}
	return nil
}

func misdeeds() []string {
	return []string{"typed nil", "wrapped nil", "joined nil", "nil verdict", "retry for nil", "bomb", "quiet bomb", "wrapped bomb",
		"panic", "panic with nil", "panic with a quiet bomb", "goexit"}
}

// wantHostile checks that a queue's poison queue holds each hostile message after two attempts.
func (w *world) wantHostile(t *testing.T, queue string) {
	t.Helper()
	got := map[string]bool{}
	for _, p := range w.Poisoned(queue) {
		got[p.ID] = true
		if p.Reason != handlers.ReasonAttempts || p.Attempts != 2 || p.Error == "" {
			t.Errorf("%s: got reason %q after %d attempts, error %q; want 2 failed attempts", p.ID, p.Reason, p.Attempts, p.Error)
		}
		if strings.Contains(p.ID, "goexit") && !strings.Contains(p.Error, "runtime.Goexit") {
			t.Errorf("%s: got error %q; want one that says what the handler did", p.ID, p.Error)
		}
	}
	for _, name := range misdeeds() {
		if !got[strings.ReplaceAll(name, " ", "-")] {
			t.Errorf("%s: not in the poison queue of %s", name, queue)
		}
	}
	worldtest.Want(t, "poisoned in "+queue, len(got), len(misdeeds()))
}

func jobsOf(names []string) []job {
	var jobs []job
	for _, name := range names {
		jobs = append(jobs, job{ID: strings.ReplaceAll(name, " ", "-"), Name: name})
	}
	return jobs
}

// Whatever a reaction does or returns is a failed attempt of its message alone. There are more such messages than
// goroutines.
func TestMisdeedsOfReactions(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s, func(_ context.Context, j job) error { return light(j.Name) })
		stop := l.Start(worker.Config{MaxAttempts: 2, Concurrency: 2, Logger: slog.New(slog.NewJSONHandler(io.Discard, nil))})
		l.sendJobs(t, jobsOf(misdeeds())...)
		l.sendJobs(t, job{Name: "fine"}, job{Name: "fine"})
		l.empty(t, time.Second)
		l.wantHostile(t, "jobs")
		worldtest.Want(t, "calls", len(l.called()), 2*len(misdeeds())+2)
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

// The same holds for a function that decides, for the events that it returns and for its key. The other commands of the
// document are decided.
func TestHostileDecisions(t *testing.T) {
	for name, decide := range map[string]func(a Account, c Add) (Account, []channel.Message, error){
		"decide": func(a Account, c Add) (Account, []channel.Message, error) {
			a.Balance += c.Amount
			return a, nil, light(c.Note)
		},
		"event": func(a Account, c Add) (Account, []channel.Message, error) {
			a.Balance += c.Amount
			return a, []channel.Message{fused{Fuse(c.Note)}}, nil
		},
		"kind": func(a Account, c Add) (Account, []channel.Message, error) {
			a.Balance += c.Amount
			if c.Note != "" {
				return a, []channel.Message{unkind(c.Note)}, nil
			}
			return a, nil, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				w := newFused(t, s)
				handlers.Decide(w.Registry, w.Accounts, Add.Subject, decide, fused{}, unkind(""))
				w.runHostile(t)
			})
		})
	}
	t.Run("key", func(t *testing.T) {
		t.Parallel()
		worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
			w := newFused(t, s)
			handlers.Decide(w.Registry, w.Accounts, func(c Add) string {
				if err := light(c.Note); err != nil {
					panic(err)
				}
				return c.To
			}, func(a Account, c Add) (Account, []channel.Message, error) { a.Balance += c.Amount; return a, nil, nil })
			w.runHostile(t)
		})
	})
	t.Run("large", func(t *testing.T) { // their keys are asked for when the bodies have been fetched
		t.Parallel()
		worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
			w := newFused(t, s)
			w.pad = strings.Repeat("x", 100<<10)
			handlers.Decide(w.Registry, w.Accounts, func(c Add) string {
				if err := light(strings.TrimSuffix(c.Note, w.pad)); err != nil {
					panic(err)
				}
				return c.To
			}, func(a Account, c Add) (Account, []channel.Message, error) { a.Balance += c.Amount; return a, nil, nil })
			w.runHostile(t)
		})
	})
}

type fused struct {
	F Fuse `json:"f"`
}

func (fused) Kind() channel.Kind { return "test.fused.v1" }

// unkind is an event whose Kind doesn't return.
type unkind string

func (u unkind) Kind() channel.Kind {
	if err := light(string(u)); err != nil {
		panic(err)
	}
	return "test.unkind.v1"
}

type fusedWorld struct {
	world
	pad string
}

func newFused(t *testing.T, s *storage.Store) *fusedWorld {
	t.Helper()
	w := &fusedWorld{}
	w.World = worldtest.NewBare(t, s, handlers.Config{}, channel.Command[Add]("accounts"), channel.Event[fused](), channel.Event[unkind]())
	w.Accounts = values.New(w.Channels, "accounts", values.Config[Account]{})
	return w
}

func (w *fusedWorld) runHostile(t *testing.T) {
	t.Helper()
	for i, name := range misdeeds() {
		c := []Add{{To: "a", Amount: 1}, {Key: strings.ReplaceAll(name, " ", "-"), To: "a", Amount: 1000, Note: name + w.pad}}
		worldtest.Send(w.World, c[i%2], c[1-i%2])
	}
	stop := w.Start(worker.Config{MaxAttempts: 2, Concurrency: 2})
	w.empty(t, time.Second)
	w.wantHostile(t, "accounts")
	d, err := w.Accounts.Get(t.Context(), "a", "")
	if err != nil || d.Value.Balance != len(misdeeds()) {
		t.Errorf("got %+v, %v; want the sum of the others, %d", d.Value, err, len(misdeeds()))
	}
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// A value that can't be made or encoded fails its own document's messages and no others.
func TestHostileValues(t *testing.T) {
	type value struct {
		F Fuse `json:"f"`
		N int  `json:"n"`
	}
	for name, initial := range map[string]func(key string) value{
		"initial": func(key string) value {
			if err := light(strings.ReplaceAll(key, "-", " ")); err != nil {
				panic(err)
			}
			return value{}
		},
		"encoding": func(key string) value { return value{F: Fuse(strings.ReplaceAll(key, "-", " "))} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				w := newFused(t, s)
				c := values.New(w.Channels, "values", values.Config[value]{Initial: initial})
				handlers.Decide(w.Registry, c, Add.Subject,
					func(v value, _ Add) (value, []channel.Message, error) { v.N++; return v, nil, nil })
				for _, name := range misdeeds() {
					id := strings.ReplaceAll(name, " ", "-")
					worldtest.Send(w.World, Add{Key: id, To: id}, Add{To: "fine"})
				}
				w.Start(worker.Config{MaxAttempts: 2, Concurrency: 2})
				w.empty(t, time.Second)
				w.wantHostile(t, "accounts")
				if d, err := c.Get(t.Context(), "fine", ""); err != nil || d.Value.N != len(misdeeds()) {
					t.Errorf("got %+v, %v; want %d", d.Value, err, len(misdeeds()))
				}
			})
		})
	}
}

// oldJob is what job was.
type oldJob struct {
	Name string `json:"name"`
}

func (oldJob) Kind() channel.Kind { return "test.job.v0" }

// The same holds for an upgrade and for a type's own decoding.
func TestHostileUpgrades(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s, func(context.Context, job) error { return nil })
		handlers.Upgrade(l.Registry, func(o oldJob) job {
			if err := light(o.Name); err != nil {
				panic(err)
			}
			return job{Name: o.Name}
		})
		for _, name := range misdeeds() {
			l.sendRaw(t, raw(strings.ReplaceAll(name, " ", "-"), "test.job.v0", oldJob{Name: name}))
		}
		l.sendRaw(t, raw("fine", "test.job.v0", oldJob{Name: "fine"}))
		l.Start(worker.Config{MaxAttempts: 2, Concurrency: 2})
		l.empty(t, time.Second)
		l.wantHostile(t, "jobs")
		worldtest.Want(t, "handled", len(l.called()), 1)
	})
}

// The same holds for a middleware.
func TestHostileMiddleware(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := newFused(t, s)
		w.Registry = handlers.NewRegistry(w.Channels, handlers.Config{Logger: slog.New(slog.DiscardHandler), Middleware: []handlers.Middleware{
			func(next handlers.Next) handlers.Next {
				return func(ctx context.Context, d *handlers.Delivery) error {
					if err := light(d.Message.(Add).Note); err != nil {
						return err
					}
					return next(ctx, d)
				}
			},
		}})
		handlers.Decide(w.Registry, w.Accounts, Add.Subject,
			func(a Account, c Add) (Account, []channel.Message, error) { a.Balance += c.Amount; return a, nil, nil })
		w.runHostile(t)
	})
}

// 256 commands are folded together, and one of them ends the goroutine. The others are decided, most of them in two
// writes.
func TestExitInALargeFold(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := newFused(t, s)
		exits := 0
		handlers.Decide(w.Registry, w.Accounts, Add.Subject,
			func(a Account, c Add) (Account, []channel.Message, error) {
				if c.Note == "goexit" {
					exits++
				}
				a.Balance += c.Amount
				return a, nil, light(c.Note)
			})
		cs := make([]Add, 256)
		for i := range cs {
			cs[i] = Add{To: "a", Amount: 1}
		}
		cs[100].Note = "goexit"
		worldtest.Send(w.World, cs...)
		w.Start(worker.Config{MaxAttempts: 3})
		w.empty(t, time.Second)
		d, err := w.Accounts.Get(t.Context(), "a", "")
		if err != nil || d.Value.Balance != 255 {
			t.Errorf("got %+v, %v; want 255", d.Value, err)
		}
		worldtest.Want(t, "poisoned", len(w.Poisoned("accounts")), 1)
		worldtest.Want(t, "calls of the one that exits", exits, 3)
	})
}

// A delay function that panics, or exits, is replaced by the default, and the log says so.
func TestMisdeedsOfRetryDelay(t *testing.T) {
	for name, delay := range map[string]func(failed int, id string) time.Duration{
		"panic": func(failed int, _ string) time.Duration { return []time.Duration{1e9, 2e9}[failed+1] },
		"exit":  func(int, string) time.Duration { runtime.Goexit(); return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				log := worldtest.NewLog()
				l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), func(context.Context, job) error { return errors.New("no") })
				l.Start(worker.Config{MaxAttempts: 3, RetryDelay: delay, Logger: slog.New(log)})
				l.sendJobs(t, job{ID: "a"})
				l.empty(t, time.Second)
				calls := l.called()
				if len(calls) != 3 || l.onePoisoned(t).Attempts != 3 {
					t.Fatalf("got %d calls, want 3", len(calls))
				}
				for i := 1; i < 3; i++ {
					if gap, want := calls[i].at.Sub(calls[i-1].at), worker.RetryDelay(i, "a"); gap < want || gap > want+2*time.Second {
						t.Errorf("delay after attempt %d: got %v, want %v or little more", i, gap, want)
					}
				}
				worldtest.Want(t, "lines", log.Count("RetryDelay fails"), 2)
			})
		})
	}
}

// RetryDelay is called for attempts only, because hand-backs have no bound.
func TestRetryDelayOfHandBacks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := 0
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), func(context.Context, job) error {
			if n++; n < 5 {
				return handlers.Later(0, "not yet")
			}
			return nil
		})
		asked := 0
		l.Start(worker.Config{UnknownFor: 10 * time.Minute, RetryDelay: func(int, string) time.Duration { asked++; return 0 }})
		l.sendJobs(t, job{})
		l.sendRaw(t, raw("new", "test.new.v9", 1))
		l.empty(t, time.Second)
		worldtest.Want(t, "asked", asked, 0)
	})
}

// A log handler that panics, as a test's does once the test is over, doesn't end the worker.
func TestHostileLogger(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, j job) error { return light(j.Name) })
		l.Start(worker.Config{MaxAttempts: 2, Logger: slog.New(panicking{})})
		l.sendJobs(t, job{Name: "panic"}, job{Name: "fine"})
		l.empty(t, time.Second)
		worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 1)
	})
}

type panicking struct{}

func (panicking) Enabled(context.Context, slog.Level) bool { return true }
func (p panicking) WithAttrs([]slog.Attr) slog.Handler     { return p }
func (p panicking) WithGroup(string) slog.Handler          { return p }
func (panicking) Handle(context.Context, slog.Record) error {
	panic("Log in goroutine after the test has completed")
}
