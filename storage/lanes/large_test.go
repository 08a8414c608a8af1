package lanes_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// A parcel is a message of a noisy tenant, and may be large.
type parcel struct {
	ID  string `json:"id"`
	Pad string `json:"pad"`
}

func (parcel) Kind() channel.Kind  { return "parcel.v1" }
func (p parcel) MessageID() string { return p.ID }

// Nothing is lost or poisoned by a move that is cut between its halves, or whose answer is lost: neither a small
// message nor one so large that its body is a blob, which the copy that is handled first deletes.
func TestNothingIsLostOrPoisonedByAMoveThatIsCut(t *testing.T) {
	t.Parallel()
	for name, inner := range map[string]func(*storage.Store) *storage.Store{
		"atomic": func(s *storage.Store) *storage.Store { return s },
		"plain":  storagetest.Plain,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { movesThatAreCut(t, inner) })
		})
	}
}

const parcels = 200 // of which each second one is large

func movesThatAreCut(t *testing.T, inner func(*storage.Store) *storage.Store) {
	raw := openStore(t)
	var mu sync.Mutex
	working, begun, cut, handled := false, false, 0, map[string]bool{}
	small := storagetest.WithProps(inner(raw), func(p *storage.Props) { p.MaxMessage = 48 << 10 })
	cuts := func(op storagetest.Op) bool {
		mu.Lock()
		defer mu.Unlock()
		begun = begun || op.Name == "send" && op.Resource == "queue purchases-slow"
		if cut == 2 || !working || op.Name != "commit" && !(begun && op.Name == "delete" && op.Resource == "queue purchases") {
			return false
		}
		cut++
		return true
	}
	cutting := storagetest.Intercept(small, func(_ context.Context, op storagetest.Op, do func() error) error {
		if !cuts(op) {
			return do()
		}
		if op.Name == "commit" {
			_ = do() // its answer is lost
		}
		return op.Fail(storage.ErrUnavailable)
	})
	routes, err := channel.NewRoutes(channel.Command[parcel](purchases), channel.Lanes(purchases, 1))
	if err != nil {
		t.Fatal(err)
	}
	c, err := channel.New(cutting, routes, "/shop")
	if err != nil {
		t.Fatal(err)
	}
	ctx := channel.WithTrace(t.Context(), channel.Trace{Tenant: "noisy"})
	for i := range parcels {
		if err := c.Send(ctx, parcel{ID: fmt.Sprint("p-", i), Pad: strings.Repeat("x", i%2*60<<10)}); err != nil {
			t.Fatal(err)
		}
	}
	h := handlers.NewRegistry(c, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	handlers.React(h, purchases, func(_ context.Context, p parcel) error {
		time.Sleep(50 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		handled[p.ID] = true
		return nil
	})
	w, err := worker.New(h, worker.Config{Concurrency: 2, Visibility: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	working = true
	mu.Unlock()
	running, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()
	moved := false
	for range 1000 {
		time.Sleep(100 * time.Millisecond)
		st, err := raw.Queue("purchases-slow").Stats(t.Context())
		moved = moved || err == nil && st.Ready > 0
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(handled) != parcels || cut == 0 || !moved {
		t.Errorf("%d messages were handled, %d calls were cut, a message was moved: %v; want %d, 1 or 2, and true", len(handled), cut, moved, parcels)
	}
	for e, err := range poison.At(c, purchases).List(t.Context()) {
		t.Errorf("in the poison queue: %s, %v", e.ID, err)
		break
	}
}
