package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// awaitedFor is the visibility of messages that are handed over in these tests.
const awaitedFor = 12 * time.Second

// comesBack makes trouble while a message is handed over, so that its store takes the message back. It demands that the
// message is handled once, after its visibility has ended.
func comesBack(t *testing.T, s *storage.Store, trouble *atomic.Bool) {
	t.Helper()
	l := newLab(t, s, func(context.Context, job) error { return nil })
	stop := l.Start(worker.Config{Visibility: awaitedFor})
	l.sendJobs(t, job{Name: "before"}) // so that the worker awaits
	l.empty(t, 20*time.Millisecond)
	trouble.Store(true)
	sent := time.Now()
	l.sendJobs(t, job{Name: "troubled"})
	l.empty(t, 20*time.Millisecond)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	calls := l.called()
	if len(calls) != 2 || calls[1].job.Name != "troubled" || calls[1].at.Sub(sent) < awaitedFor {
		t.Errorf("got %+v; want the troubled one once, after its visibility has ended", calls)
	}
	if trouble.Load() {
		t.Error("nothing was handed over")
	}
}

// A message that is handed over as it is sent is ours from that moment, not from the moment we get it. A message that
// comes too late is left to the next worker that receives it.
func TestHandedOverTooLate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var slow atomic.Bool
		comesBack(t, storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
			err := do()
			if op.Name == "receive" && slow.CompareAndSwap(true, false) {
				time.Sleep(awaitedFor - awaitedFor/12)
			}
			return err
		}), &slow)
	})
}

// slow is a message that takes its time to be decoded.
type slow struct{}

func (slow) Kind() channel.Kind { return "test.slow.v1" }

func (slow) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

func (*slow) UnmarshalJSON([]byte) error { time.Sleep(time.Millisecond); return nil }

// The first of many messages that are handed over doesn't wait until all are decoded.
func TestHandedOverOneByOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 100
		l := newBare(t, worldtest.OpenStore(t, worldtest.Virtual), channel.Command[slow]("slow"))
		handled := make(chan time.Time, n)
		handlers.React(l.Registry, "slow", func(context.Context, slow) error { handled <- time.Now(); return nil })
		l.Start(worker.Config{Concurrency: n})
		synctest.Wait() // the worker awaits
		sent := time.Now()
		worldtest.Send(l.World, make([]slow, n)...)
		if took := (<-handled).Sub(sent); took > 3*time.Millisecond {
			t.Errorf("the first was handled after %v, when some %v are enough", took, time.Millisecond)
		}
	})
}
