package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// inBubble runs a test in virtual time. When it ends, all that the worker started must have ended too.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
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
	l := &lab{}
	l.World = worldtest.NewBare(t, store, handlers.Config{Timeout: 24 * time.Hour}, channel.Command[job]("jobs"))
	l.poison = poison.At(l.Channels, "jobs")
	handlers.React(l.Registry, "jobs", func(ctx context.Context, j job) error {
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
	worldtest.Send(l.World, jobs...)
}

// sendRaw puts any bytes into the queue of jobs.
func (l *lab) sendRaw(t testing.TB, body string) {
	t.Helper()
	if err := l.Store.Queue("jobs").Send(t.Context(), []storage.Message{{Body: []byte(body)}}); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) onePoisoned(t testing.TB) poison.Entry {
	t.Helper()
	all := l.Poisoned("jobs")
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

// empty lets virtual time pass until no queue holds a message. It looks after every step, twice: a message may go from
// a queue that it hasn't looked at yet to one that it has.
func (w *world) empty(t testing.TB, step time.Duration) {
	t.Helper()
	left := func() (n int) {
		for _, q := range w.Channels.Routes().Queues() {
			n += worldtest.Queued(t, w.Store, q)
		}
		return n
	}
	for range 2000 {
		if left() == 0 {
			synctest.Wait()
			if left() == 0 {
				return
			}
		}
		time.Sleep(step)
	}
	t.Fatal("the queues don't get empty")
}

// raw makes a message as another program may send it.
func raw(id string, kind channel.Kind, data any) string {
	d, _ := json.Marshal(data)
	return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/else","type":%q,"data":%s}`, id, kind, d)
}
