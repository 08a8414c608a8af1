package worker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// hurried is a store that hides messages for half a second at most, because no test waits for a week.
type hurried struct{ driver.Store }

func (s hurried) Queue(name string) driver.Queue { return hurriedQueue{s.Store.Queue(name)} }

type hurriedQueue struct{ driver.Queue }

const hurry = 500 * time.Millisecond

func (q hurriedQueue) Send(ctx context.Context, messages []driver.Message) error {
	for i := range messages {
		messages[i].Delay = min(messages[i].Delay, hurry)
	}
	return q.Queue.Send(ctx, messages)
}

func (q hurriedQueue) Rewrite(ctx context.Context, r driver.Receipt, body []byte, delay time.Duration) error {
	return q.Queue.Rewrite(ctx, r, body, min(delay, hurry))
}

// The service hides a message for as long as this module asks. A message that is due later comes, is handed back, and
// can be cancelled meanwhile.
func TestLongDelaysOnAzure(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	s, err := azure.Open(t.Context(), azuretest.Start(t).Account(t).ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	edges := newLab(t, s, nothing)
	for _, d := range []time.Duration{storage.MaxDelay, storage.MaxDelay + 1, storage.MaxDelay + 30*time.Second} {
		edges.sendJobsAfter(t, d, job{ID: d.String()})
		if err := s.Queue("edges").Send(t.Context(), []storage.Message{{Delay: min(d, storage.MaxDelay)}}); err != nil {
			t.Error(err)
		}
	}

	var calls storagetest.Calls
	var mu sync.Mutex
	var handled []string
	l := newLab(t, storagetest.Intercept(storage.New(hurried{s.Driver()}), calls.Hook), func(_ context.Context, j job) error {
		mu.Lock()
		defer mu.Unlock()
		handled = append(handled, j.ID)
		return nil
	})
	metrics := prometheus.NewRegistry()
	l.Start(worker.Config{Metrics: metrics, MaxDeliveries: 2, Queues: map[string]worker.QueueConfig{"jobs": {PollInterval: 100 * time.Millisecond}}})
	l.sendJobsAfter(t, 8*day, job{ID: "cancelled"}, job{ID: "kept"})
	l.sendJobsAfter(t, 2*time.Second, job{ID: "soon"})
	eventually := func(what string, ok func() bool) {
		t.Helper()
		worldtest.Eventually(t, func() error {
			if !ok() {
				return fmt.Errorf("not yet: %s", what)
			}
			return nil
		})
	}
	eventually("many hops", func() bool { return calls.Count("rewrite") >= 8 })
	worldtest.WantErr(t, l.cancel(t, "cancelled"), nil)
	eventually("the tombstone is found", func() bool { return gathered(t, metrics)["millrace_deliveries_total cancelled jobs"] == 1 })
	hops := calls.Count("rewrite")
	eventually("more hops of the other", func() bool { return calls.Count("rewrite") >= hops+3 })
	eventually("the one that is due", func() bool { return len(l.called()) > 0 })
	mu.Lock()
	defer mu.Unlock()
	worldtest.Want(t, "handled", fmt.Sprint(handled), "[soon]")
	worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 0)
}
