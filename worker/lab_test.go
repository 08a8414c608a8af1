package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// inBubble runs a test in virtual time. When it ends, all that the worker started must have ended too.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// onEachStore runs a test in virtual time, on a store whose Commit is atomic and on one that commits step by step.
func onEachStore(t *testing.T, test func(t *testing.T, s *storage.Store)) {
	t.Helper()
	t.Parallel()
	t.Run("atomic", func(t *testing.T) { inBubble(t, func(t *testing.T) { test(t, openStore(t)) }) })
	t.Run("plain", func(t *testing.T) { inBubble(t, func(t *testing.T) { test(t, storagetest.Plain(openStore(t))) }) })
}

// openStore opens a store that lives in virtual time.
func openStore(t testing.TB) *storage.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db")+"?wake=off&sync=normal")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// patient makes idle workers look seldom, so that long virtual times cost little real time.
func patient(s *storage.Store, poll time.Duration) *storage.Store {
	return storagetest.WithProps(s, func(p *storage.Props) { p.PollInterval = poll })
}

// job is a message for a reaction.
type job struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	Body string `json:"body,omitempty"`
}

func (job) Kind() channel.Kind  { return "test.job.v1" }
func (j job) MessageID() string { return j.ID }

// lab is a world with one reaction to jobs.
type lab struct {
	world
	jobs   *channel.Sender[job]
	poison *poison.Queue

	mu    sync.Mutex
	calls []call // under mu
}

// call is one run of the handler.
type call struct {
	job      job
	envelope channel.Envelope
	at       time.Time
}

func newLab(t testing.TB, store *storage.Store, handle func(ctx context.Context, j job) error) *lab {
	t.Helper()
	routes, err := channel.NewRoutes(channel.Command[job]("jobs"))
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{}
	l.store = store
	if l.channels, err = channel.New(store, routes, "/test"); err != nil {
		t.Fatal(err)
	}
	if l.jobs, err = channel.NewSender[job](l.channels); err != nil {
		t.Fatal(err)
	}
	l.poison = poison.At(l.channels, "jobs")
	l.registry = handlers.NewRegistry(l.channels, handlers.Config{Logger: slog.New(slog.DiscardHandler), Timeout: 24 * time.Hour})
	handlers.React(l.registry, "jobs", func(ctx context.Context, j job) error {
		e, _, _ := channel.Handled(ctx)
		l.mu.Lock()
		l.calls = append(l.calls, call{j, e, time.Now()})
		l.mu.Unlock()
		return handle(ctx, j)
	})
	return l
}

func (l *lab) called() []call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]call(nil), l.calls...)
}

func (l *lab) sendJobs(t testing.TB, jobs ...job) {
	t.Helper()
	if err := l.jobs.Send(t.Context(), jobs...); err != nil {
		t.Fatal(err)
	}
}

// sendRaw puts any bytes into the queue of jobs.
func (l *lab) sendRaw(t testing.TB, body string) {
	t.Helper()
	if err := l.store.Queue("jobs").Send(t.Context(), []storage.Message{{Body: []byte(body)}}); err != nil {
		t.Fatal(err)
	}
}

// poisoned lists the poison queue of a queue.
func (w *world) poisoned(t testing.TB, queue string) []poison.Entry {
	t.Helper()
	var all []poison.Entry
	for p, err := range poison.At(w.channels, queue).List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func (l *lab) onePoisoned(t testing.TB) poison.Entry {
	t.Helper()
	all := l.poisoned(t, "jobs")
	if len(all) != 1 {
		t.Fatalf("poison queue: got %d messages, want 1", len(all))
	}
	return all[0]
}

func stats(t testing.TB, s *storage.Store, queue string) storage.Stats {
	t.Helper()
	st, err := s.Queue(queue).Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// empty lets virtual time pass until no queue holds a message. It looks after every step.
func (w *world) empty(t testing.TB, step time.Duration) {
	t.Helper()
	for range 2000 {
		n := int64(0)
		for _, q := range w.channels.Routes().Queues() {
			s := stats(t, w.store, q)
			n += s.Ready + s.InFlight + s.Delayed
		}
		if n == 0 {
			synctest.Wait()
			return
		}
		time.Sleep(step)
	}
	t.Fatal("the queues don't get empty")
}

// claims counts the claim-checked bodies that lie in the store.
func claims(t testing.TB, s *storage.Store) int {
	t.Helper()
	n := 0
	for _, err := range s.Blobs("claims").List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func wantInt(t testing.TB, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %d, want %d", what, got, want)
	}
}

// raw makes a message as another program may send it.
func raw(id string, kind channel.Kind, data any) string {
	d, _ := json.Marshal(data)
	return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/else","type":%q,"data":%s}`, id, kind, d)
}
