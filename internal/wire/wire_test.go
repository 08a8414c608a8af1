package wire_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

const timedID = "0190b6a2-7b1c-7def-8123-456789abcdef"

// Order is a message for one queue.
type Order struct {
	Table int    `json:"table"`
	Dish  string `json:"dish,omitempty"`
}

// Served is a message for two queues.
type Served struct {
	Table int    `json:"table"`
	Menu  string `json:"menu,omitempty"`
}

// Empty is a message without a field.
type Empty struct{}

func (Order) Kind() wire.Kind  { return "test.order.v1" }
func (Served) Kind() wire.Kind { return "test.served.v1" }
func (Empty) Kind() wire.Kind  { return "test.empty.v1" }

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// openStore opens a new store, which is closed when the test ends.
func openStore(t testing.TB) *storage.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "test.db")+"?wake=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func newOutbox(s *storage.Store) *wire.Outbox {
	return wire.NewOutbox(s, func(k wire.Kind) ([]string, error) {
		switch k {
		case "test.order.v1":
			return []string{"orders"}, nil
		case "test.served.v1":
			return []string{"kitchen", "floor"}, nil
		}
		return nil, fmt.Errorf("no route for kind %s", k)
	})
}

// send packs a message and sends it.
func send(t testing.TB, o *wire.Outbox, m wire.Message) error {
	t.Helper()
	data, err := wire.EncodeBody(m)
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.Pack(t.Context(), wire.Envelope{ID: "1", Source: "/web", Kind: m.Kind(), Data: data})
	if err != nil {
		return err
	}
	return o.SendPacked(t.Context(), p)
}

// receivedOne takes the only message of a queue and decodes its envelope.
func receivedOne(t testing.TB, s *storage.Store, queue string) wire.Envelope {
	t.Helper()
	ds, err := s.Queue(queue).Receive(t.Context(), 32, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if len(ds) != 1 {
		t.Fatalf("got %d messages in queue %s, want 1", len(ds), queue)
	}
	e, err := wire.Decode(ds[0].Body)
	if err != nil {
		t.Fatalf("decode %s: %v", ds[0].Body, err)
	}
	return e
}

// claims lists the claim-checked bodies.
func claims(t testing.TB, s *storage.Store) []string {
	t.Helper()
	var keys []string
	for info, err := range s.Blobs("claims").List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}
