package worker_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// A message that is handed over as it is sent is ours from that moment, not from when we get it: what comes too late is left to
// whoever receives it next.
func TestHandedOverTooLate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const visibility = 12 * time.Second
		var slow atomic.Bool
		l := newLab(t, storagetest.Intercept(openStore(t), func(_ context.Context, op storagetest.Op, do func() error) error {
			err := do()
			if op.Name == "receive" && slow.CompareAndSwap(true, false) {
				time.Sleep(visibility - visibility/12)
			}
			return err
		}), func(context.Context, job) error { return nil })
		stop := l.start(t, worker.Config{Visibility: visibility})
		l.sendJobs(t, job{Name: "in time"})
		l.empty(t, 20*time.Millisecond)
		slow.Store(true)
		sent := time.Now()
		l.sendJobs(t, job{Name: "late"})
		l.empty(t, 20*time.Millisecond)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		calls := l.called()
		if len(calls) != 2 || calls[1].job.Name != "late" || calls[1].at.Sub(sent) < visibility {
			t.Errorf("got %+v; want the late one once, after its visibility has ended", calls)
		}
		if slow.Load() {
			t.Error("nothing was handed over")
		}
	})
}

// doubtful is a store that says once, when it is told to, that the commit of what was handed over is not known to have come to be.
type doubtful struct {
	storage.Store
	once *atomic.Bool
}

func (s doubtful) Queue(name string) storage.Queue { return doubtfulQueue{s.Store.Queue(name), s.once} }

type doubtfulQueue struct {
	storage.Queue
	once *atomic.Bool
}

func (q doubtfulQueue) Await(most int, visibility time.Duration) (<-chan struct{}, func(context.Context) storage.Handed) {
	ready, take := q.Queue.(storage.Awaiter).Await(most, visibility)
	return ready, func(ctx context.Context) storage.Handed {
		h := take(ctx)
		committed := h.Committed
		h.Committed = func() bool { return committed() && !q.once.Swap(false) }
		return h
	}
}

// What is told before it is committed is not handled without the commit.
func TestHandedOverOnlyWithCommit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const visibility = 12 * time.Second
		var once atomic.Bool
		l := newLab(t, doubtful{openStore(t), &once}, func(context.Context, job) error { return nil })
		stop := l.start(t, worker.Config{Visibility: visibility})
		l.sendJobs(t, job{Name: "sure"})
		l.empty(t, 20*time.Millisecond)
		once.Store(true)
		sent := time.Now()
		l.sendJobs(t, job{Name: "doubtful"})
		l.empty(t, 20*time.Millisecond)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		calls := l.called()
		if len(calls) != 2 || calls[1].job.Name != "doubtful" || calls[1].at.Sub(sent) < visibility {
			t.Errorf("got %+v; want the doubtful one once, after its visibility has ended", calls)
		}
		if once.Load() {
			t.Error("nothing was handed over")
		}
	})
}

// slow is a message that takes its time to be decoded.
type slow struct{}

func (slow) Kind() channel.Kind { return "test.slow.v1" }

func (slow) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

func (*slow) UnmarshalJSON([]byte) error { time.Sleep(time.Millisecond); return nil }

// The first of many that are handed over doesn't wait until all are decoded.
func TestHandedOverOneByOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 100
		routes, err := channel.NewRoutes(channel.Command[slow]("slow"))
		if err != nil {
			t.Fatal(err)
		}
		l := world{store: openStore(t)}
		if l.channels, err = channel.New(l.store, routes, "/test"); err != nil {
			t.Fatal(err)
		}
		sender, err := channel.SenderOf[slow](l.channels)
		if err != nil {
			t.Fatal(err)
		}
		handled := make(chan time.Time, n)
		l.registry = handlers.NewRegistry(l.channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
		handlers.React(l.registry, "slow", func(context.Context, slow) error { handled <- time.Now(); return nil })
		l.start(t, worker.Config{Concurrency: n})
		synctest.Wait() // it awaits
		sent := time.Now()
		if err := sender.Send(t.Context(), make([]slow, n)...); err != nil {
			t.Fatal(err)
		}
		if took := (<-handled).Sub(sent); took > 3*time.Millisecond {
			t.Errorf("the first was handled after %v, when some %v are enough", took, time.Millisecond)
		}
	})
}
