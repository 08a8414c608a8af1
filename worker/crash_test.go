package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
	"github.com/millrace-go/millrace/worker"
)

// pathWorld is one process on the whole path of a command: a decision, a view, a reaction, and a reaction that is
// registered by ReactOnce. All names end in a number, so that many trials share a store.
type pathWorld struct {
	world
	names   map[string]string
	effects *effects
}

// effects are the effects of the reactions of all processes of a trial.
type effects struct{ reacted, once atomic.Int64 }

func newPathWorld(t *testing.T, s *storage.Store, trial int64, e *effects) *pathWorld {
	t.Helper()
	w := &pathWorld{names: map[string]string{}, effects: e}
	for _, n := range []string{"accounts", "totals", "audits", "mails"} {
		w.names[n] = fmt.Sprintf("%s-%d", n, trial)
	}
	w.World = worldtest.NewBare(t, s, handlers.Config{},
		channel.Command[Add](w.names["accounts"]), channel.Event[Added](w.names["totals"], w.names["audits"], w.names["mails"]))
	w.Accounts = values.New(w.Channels, w.names["accounts"], values.Config[Account]{})
	w.Totals = views.New(w.Channels, w.names["totals"], views.Config[Total]{})
	handlers.Decide(w.Registry, w.Accounts, Add.Subject, Account.Add, Added{})
	w.Project()
	handlers.React(w.Registry, w.names["audits"], func(context.Context, Added) error { e.reacted.Add(1); return nil })
	handlers.ReactOnce(w.Registry, w.names["mails"], func(context.Context, Added) error { e.once.Add(1); return nil })
	return w
}

// noted tells whether the guarded reaction's note says that it is done.
func (w *pathWorld) noted(t *testing.T) bool {
	t.Helper()
	done := false
	for row, err := range w.Store.Table("once").Query(t.Context(), w.names["mails"], storage.RowRange{}) {
		if err != nil {
			t.Fatal(err)
		}
		done = done || strings.Contains(string(row.Data), `"done":true`)
	}
	return done
}

func (w *pathWorld) left(t *testing.T) (n int) {
	t.Helper()
	for _, q := range w.Channels.Routes().Queues() {
		n += worldtest.Queued(t, w.Store, q)
	}
	return n
}

// A worker dies in its nth storage call, for every n, before or after the call's effect, while one command goes through
// decision, events, view and reactions. Another worker finishes. Then the command is decided once, the view is right,
// every effect happened, and nothing is left behind.
func TestCrashAfterEveryCall(t *testing.T) {
	t.Parallel()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		for _, large := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/large=%v", moment, large), func(t *testing.T) {
				t.Parallel()
				worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
					s = patient(s, 3*time.Second)
					for n := int64(1); ; n += worldtest.Stride {
						if !crashTrial(t, s, n, moment, large) {
							if n < 20 {
								t.Errorf("the whole path took %d calls only", n)
							}
							return
						}
						if n > 300 || t.Failed() {
							t.Fatalf("stopped at call %d", n)
						}
					}
				})
			})
		}
	}
}

// crashTrial reports whether the first worker came as far as its nth call.
func crashTrial(t *testing.T, s *storage.Store, n int64, moment storagetest.Moment, large bool) bool {
	var e effects
	healthy := newPathWorld(t, s, n, &e)
	command := Add{Key: worldtest.IDAt(time.Now(), int(n)), To: "a", Amount: 7}
	if large {
		command.Note = strings.Repeat("n", 60_000)
	}
	worldtest.Send(healthy.World, command)
	worldtest.Send(healthy.World, command) // a double click
	cfg := worker.Config{Visibility: 3 * time.Second, DrainTimeout: time.Second}

	dying, fuse := storagetest.Crash(s, n, moment)
	stop := newPathWorld(t, dying, n, &e).Start(cfg)
	for !fuse.Fired() && healthy.left(t) > 0 {
		time.Sleep(5 * time.Millisecond)
	}
	fired := fuse.Fired()
	time.Sleep(10 * time.Millisecond)
	stop() // with or without an error
	gap := e.once.Load() > 0 && !healthy.noted(t)

	stop = healthy.Start(cfg)
	for began := time.Now(); healthy.left(t) > 0; time.Sleep(time.Second) {
		if time.Since(began) > 5*time.Minute {
			t.Fatalf("call %d: the queues don't get empty", n)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	object, err := healthy.Accounts.Get(t.Context(), "a", "")
	if err != nil || object.Value != (Account{Balance: 7, Count: 1}) || object.Version != 1 || object.Emitted != 1 {
		t.Errorf("call %d: value object: got %+v, %v; want one decision", n, object, err)
	}
	view, version, err := healthy.Totals.GetFresh(t.Context(), "a")
	if err != nil || view != (Total{Sum: 7, Count: 1}) || version != 1 {
		t.Errorf("call %d: view: got %+v, version %d, %v; want one event", n, view, version, err)
	}
	if e.reacted.Load() < 1 {
		t.Errorf("call %d: the reaction never happened", n)
	}
	if got := e.once.Load(); got != 1 && !(gap && got == 2) { // the gap that ReactOnce documents
		t.Errorf("call %d: the guarded reaction happened %d times", n, got)
	}
	for _, q := range healthy.Channels.Routes().Queues() {
		for _, p := range healthy.Poisoned(q) {
			t.Errorf("call %d: poisoned: %s: %s", n, p.Reason, p.Error)
		}
	}
	return fired
}
