package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// Checks are made in their order, before anything is received, and the first that fails ends Run.
func TestChecksBeforeStart(t *testing.T) {
	t.Parallel()
	unfit := errors.New("the documents are of another plan")
	for name, test := range map[string]struct {
		check func(context.Context) error
		want  string // of the error
	}{
		"fails":       {func(context.Context) error { return unfit }, unfit.Error()},
		"unavailable": {func(context.Context) error { return storage.ErrUnavailable }, storage.ErrUnavailable.Error()},
		"panics":      {func(context.Context) error { panic("no plan") }, "panic: no plan"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldtest.OpenStore(t, ""))
			worldtest.Send(w.World, Add{To: "a", Amount: 1})
			var made []string
			w.Registry.Inside().Hooks.BeforeStart(func(context.Context) error { made = append(made, "first"); return nil })
			w.Registry.Inside().Hooks.BeforeStart(func(ctx context.Context) error { made = append(made, "second"); return test.check(ctx) })
			w.Registry.Inside().Hooks.BeforeStart(func(context.Context) error { made = append(made, "third"); return nil })
			wk, err := worker.New(w.Registry, worker.Config{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			if err := wk.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "worker: start: ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one of the start with %q", err, test.want)
			}
			if want := []string{"first", "second"}; !slices.Equal(made, want) {
				t.Errorf("got the checks %q, want %q", made, want)
			}
			worldtest.Want(t, "messages ready", stats(t, w.Store, "accounts").Ready, 1)

			test.check = func(context.Context) error { return nil }
			made = nil
			w.RunUntilIdle(worker.Config{})
			worldtest.Want(t, "balance", w.Balance("a"), 1)
			worldtest.Want(t, "checks of the next start", len(made), 3)
		})
	}
}

// A worker that is stopped during a check ends in order.
func TestStopDuringACheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldtest.OpenStore(t, worldtest.Virtual))
		w.Registry.Inside().Hooks.BeforeStart(func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		stop := w.Start(worker.Config{})
		synctest.Wait()
		worldtest.WantErr(t, stop(), nil)
	})
}
