package lanes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage/lanes"
	"github.com/millrace-go/millrace/worker"
)

// swept returns a shop with one lane, in which messages of a quiet tenant wait between those of a noisy one. While a
// worker moves these, the others wait in the stash.
func swept(t *testing.T) *shop {
	t.Helper()
	s := flooded(t, 100, channel.Lanes(purchases, 1))
	other := newShop(t, s.store, channel.Lanes(purchases, 1)) // it doesn't believe yet that the tenant is noisy
	for i := range 15 {
		other.send(t.Context(), "noisy", fmt.Sprintf("more/%d", i), 20)
		other.send(t.Context(), "quiet", fmt.Sprintf("quiet/%d", i), 20)
	}
	later := channel.WithTrace(t.Context(), channel.Trace{Tenant: "quiet"})
	makes, err := channel.NewSender[buy](other.channels)
	if err != nil {
		t.Fatal(err)
	}
	if err := makes.SendAfter(later, time.Second, buy{ID: "quiet/delayed"}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	return s
}

// uncounted receives all that is left, and reports deliveries that ended without a report. It returns how many messages
// of the quiet tenant were handed back.
func (s *shop) uncounted() (back int) {
	s.t.Helper()
	for _, name := range (lanes.Queue{Lanes: 1}).Names(purchases) {
		for {
			ds, err := s.store.Queue(name).Receive(s.t.Context(), 100, time.Hour)
			if err != nil {
				s.t.Fatal(err)
			}
			if len(ds) == 0 {
				break
			}
			for _, d := range ds {
				var e struct {
					ID                        string
					Attempts, HandBacks, Hops int
				}
				if err := json.Unmarshal(d.Body, &e); err != nil {
					s.t.Fatal(err)
				}
				if n := d.Deliveries - 1 - e.Attempts - e.HandBacks - e.Hops; n > 0 {
					s.t.Fatalf("message %s has %d silent deliveries", e.ID, n)
				}
				if e.HandBacks+e.Hops > 0 && strings.HasPrefix(e.ID, "quiet") {
					back++
				}
			}
		}
	}
	return back
}

// Messages in the stash are handed back when a worker stops, and that is no silent delivery.
func TestLawAStashIsHandedBackWhenTheWorkerStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := swept(t)
		stop := s.work(worker.Config{Concurrency: 4}, brief(100*time.Millisecond))
		time.Sleep(500 * time.Millisecond)
		stop()
		if n := s.uncounted(); n < 50 {
			t.Fatalf("%d messages were handed back, so this test proves nothing", n)
		}
	})
}

// halt is a turn that can be paused.
type halt struct {
	mu      sync.Mutex
	paused  bool
	changed chan struct{}
}

func (h *halt) open(context.Context, worker.Consumer) (worker.Limiter, error) {
	h.changed = make(chan struct{})
	return h, nil
}

func (h *halt) Now() (worker.Limits, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return worker.Limits{Pause: h.paused}, h.changed
}

func (h *halt) Leave(context.Context) error { return nil }

func (h *halt) pause() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paused = true
	close(h.changed)
	h.changed = make(chan struct{})
}

// A paused worker hands back the messages in its stash before their visibility ends, and that is no silent delivery.
func TestLawAPausedWorkerHandsItsStashBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := swept(t)
		turn := new(halt)
		stop := s.work(worker.Config{Concurrency: 4, Queues: map[string]worker.QueueConfig{purchases: {Limiter: turn.open}}}, brief(100*time.Millisecond))
		defer stop()
		time.Sleep(500 * time.Millisecond)
		turn.pause()
		time.Sleep(16 * time.Second) // of 30
		if n := s.uncounted(); n < 50 {
			t.Fatalf("%d messages were handed back, so this test proves nothing", n)
		}
		if n := s.count("quiet"); n > 100 {
			t.Errorf("%d messages were handled by a paused worker", n)
		}
	})
}
