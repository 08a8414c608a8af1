package worldtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// A worker handles commands from the queue to the view.
func TestRunUntilIdle(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := worldtest.New(t, s, worldtest.Config{})
		w.Decide()
		w.Project()
		audited := 0
		handlers.React(w.Registry, worldtest.Audits, func(context.Context, worldtest.Added) error { audited++; return nil })
		handlers.React(w.Registry, worldtest.Audits, func(context.Context, worldtest.Refused) error { audited++; return nil })
		worldtest.Send(w, worldtest.Add{To: "ada", Amount: 5}, worldtest.Add{To: "bob", Amount: 1})
		w.RunUntilIdle(worker.Config{Concurrency: 1})
		worldtest.Send(w, worldtest.Add{To: "ada", Amount: -9}, worldtest.Add{To: "ada", Amount: -2, Key: "rent"})
		w.RunUntilIdle(worker.Config{Concurrency: 1})
		worldtest.Want(t, "ada's balance", w.Balance("ada"), 3)
		worldtest.Want(t, "ada's total", w.Total("ada"), worldtest.Total{Sum: 3, Count: 2})
		worldtest.Want(t, "bob's total", w.Total("bob"), worldtest.Total{Sum: 1, Count: 1})
		worldtest.Want(t, "events that were audited", audited, 4)
	})
}

// A message without a handler stays in its queue until a test takes it.
func TestQueues(t *testing.T) {
	t.Parallel()
	w := worldtest.New(t, worldtest.OpenStore(t, worldtest.Virtual), worldtest.Config{Groups: []string{worldtest.Totals, "others"}})
	w.Decide()
	worldtest.Send(w, worldtest.Add{To: "ada", Amount: 5}, worldtest.Add{To: "ada", Amount: 2}, worldtest.Add{To: "bob", Amount: -1})
	worldtest.Want(t, "commands before", worldtest.Queued(t, w.Store, worldtest.Accounts), 3)
	stop := w.Start(worker.Config{})
	worldtest.Eventually(t, func() error {
		if n := worldtest.Queued(t, w.Store, worldtest.Accounts); n > 0 {
			return fmt.Errorf("%d commands are left", n)
		}
		return nil
	})
	worldtest.WantErr(t, stop(), nil)
	for queue, want := range map[string][]string{
		worldtest.Totals: {`"amount":2`, `"amount":5`},
		"others":         {`"amount":2`, `"amount":5`},
		worldtest.Audits: {`{"to":"bob"}`},
	} {
		worldtest.Want(t, queue+" before", worldtest.Queued(t, w.Store, queue), len(want))
		got := worldtest.Bodies(worldtest.Take(t, w.Store, queue))
		if !slices.EqualFunc(got, want, strings.Contains) {
			t.Errorf("%s: got %q, want bodies with %q", queue, got, want)
		}
		worldtest.Want(t, queue+" after", worldtest.Queued(t, w.Store, queue), 0)
	}
}

// A second stop returns the same error as the first.
func TestStart(t *testing.T) {
	t.Parallel()
	w := worldtest.New(t, worldtest.OpenStore(t, worldtest.Virtual), worldtest.Config{})
	w.Decide()
	stop := w.Start(worker.Config{})
	for range 2 {
		worldtest.WantErr(t, stop(), nil)
	}
}

// A message that fails for good is poisoned, and is logged once. A world without the domain runs it like any other.
func TestPoisoned(t *testing.T) {
	t.Parallel()
	log := worldtest.NewLog()
	w := worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{}, channel.Command[worldtest.Add]("adds"))
	handlers.React(w.Registry, "adds", func(context.Context, worldtest.Add) error { return handlers.Poison("no account", nil) })
	worldtest.Send(w, worldtest.Add{Key: "a", Note: strings.Repeat("x", 100_000)})
	worldtest.Want(t, "bodies beside the queue", len(worldtest.Claims(t, w.Store)), 1)
	w.RunUntilIdle(worker.Config{Logger: slog.New(log)})
	if all := w.Poisoned("adds"); len(all) != 1 || all[0].ID != "a" || all[0].Reason != "no account" {
		t.Errorf("got poisoned %+v, want a, for no account", all)
	}
	worldtest.Want(t, "lines", log.Count("ERROR message is in the poison queue", "id=a"), 1)
}

func TestLog(t *testing.T) {
	t.Parallel()
	log := worldtest.NewLog()
	logger := slog.New(log).With("queue", "adds")
	logger.Info("begins", "n", 1)
	slog.New(log).Warn("ends", "queue", "adds")
	worldtest.Want(t, "the log", log.String(), "INFO begins queue=adds n=1\nWARN ends queue=adds")
	for want, parts := range map[int][]string{2: {"queue=adds"}, 1: {"WARN", "adds"}, 0: {"INFO", "ends"}} {
		worldtest.Want(t, fmt.Sprintf("lines with %q", parts), log.Count(parts...), want)
	}
}

func TestIDAt(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)
	id := worldtest.IDAt(at, 7)
	got, ok := channel.IDTime(id)
	if !ok || !got.Equal(at) {
		t.Errorf("got the time %v (%v) of %s, want %v", got, ok, id, at)
	}
	if id != worldtest.IDAt(at, 7) || id == worldtest.IDAt(at, 8) {
		t.Errorf("got %s, want the same for the same number only", id)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, over := time.Now(), errors.New("over")
		worldtest.WantErr(t, worldtest.Pause(t.Context(), time.Minute), nil)
		worldtest.Want(t, "the pause", time.Since(began), time.Minute)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(over)
		worldtest.WantErr(t, worldtest.Pause(ctx, time.Minute), over)
		worldtest.WantErr(t, worldtest.Pause(ctx, 0), nil)
	})
}

// complaints is a test that records failures and doesn't fail.
type complaints struct {
	testing.TB
	n int
}

func (c *complaints) Helper()               {}
func (c *complaints) Errorf(string, ...any) { c.n++ }

// Each check that tests rely on fails when it should.
func TestWants(t *testing.T) {
	t.Parallel()
	c := &complaints{TB: t}
	worldtest.Want(c, "equal", 1, 1)
	worldtest.WantErr(c, nil, nil)
	worldtest.WantErr(c, fmt.Errorf("get: %w", storage.ErrNotFound), storage.ErrNotFound)
	if c.n != 0 {
		t.Errorf("got %d complaints, want none", c.n)
	}
	worldtest.Want(c, "different", 1, 2)
	worldtest.WantErr(c, nil, storage.ErrNotFound)
	worldtest.WantErr(c, storage.ErrNotFound, nil)
	if c.n != 3 {
		t.Errorf("got %d complaints, want 3", c.n)
	}
}
