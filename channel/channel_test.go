package channel_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/post"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// Order is a command that lets the channel choose its ID.
type Order struct {
	Table int    `json:"table"`
	Dish  string `json:"dish,omitempty"`
}

// Payment is a command that chooses its own ID and subject.
type Payment struct {
	Key   string `json:"key"`
	Table string `json:"table"`
	Note  string `json:"note,omitempty"`
}

// Served is an event.
type Served struct {
	Table int    `json:"table"`
	Menu  string `json:"menu,omitempty"`
}

// Unheard is an event without a subscriber.
type Unheard struct{}

// Broken can't be encoded.
type Broken struct {
	C any
}

func (Order) Kind() channel.Kind   { return "test.order.v1" }
func (Payment) Kind() channel.Kind { return "test.payment.v1" }
func (Served) Kind() channel.Kind  { return "test.served.v1" }
func (Unheard) Kind() channel.Kind { return "test.unheard.v1" }
func (Broken) Kind() channel.Kind  { return "test.broken.v1" }

func (p Payment) MessageID() string { return p.Key }
func (p Payment) Subject() string   { return p.Table }

func testRoutes(t testing.TB) *channel.Routes {
	t.Helper()
	routes, err := channel.NewRoutes(
		channel.Command[Order]("orders"),
		channel.Command[Payment]("payments"),
		channel.Command[Broken]("orders"),
		channel.Event[Served]("kitchen", "floor"),
		channel.Event[Unheard](),
	)
	if err != nil {
		t.Fatal(err)
	}
	return routes
}

const timedID = "0190b6a2-7b1c-7def-8123-456789abcdef"

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func mustEncode(t testing.TB, e channel.Envelope) []byte {
	t.Helper()
	b, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// openStore opens a new store, which is closed when the test ends.
func openStore(t testing.TB) *storage.Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "test.db"))
}

func openAt(t testing.TB, path string) *storage.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), path+"?wake=off")
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

func newChannels(t testing.TB, s *storage.Store) *channel.Channels {
	t.Helper()
	c, err := channel.New(s, testRoutes(t), "/web")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func senderOf[M channel.Message](t testing.TB, c *channel.Channels) *channel.Sender[M] {
	t.Helper()
	s, err := channel.NewSender[M](c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// received takes all ready messages of a queue and decodes their envelopes.
func received(t testing.TB, s *storage.Store, queue string) []channel.Envelope {
	t.Helper()
	var all []channel.Envelope
	for {
		ds, err := s.Queue(queue).Receive(t.Context(), 32, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if len(ds) == 0 {
			return all
		}
		for _, d := range ds {
			e, err := post.Decode(d.Body)
			if err != nil {
				t.Fatalf("decode %s: %v", d.Body, err)
			}
			all = append(all, e)
		}
	}
}

func receivedOne(t testing.TB, s *storage.Store, queue string) channel.Envelope {
	t.Helper()
	all := received(t, s, queue)
	if len(all) != 1 {
		t.Fatalf("got %d messages in queue %s, want 1", len(all), queue)
	}
	return all[0]
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

// waiting counts the messages of a queue.
func waiting(t testing.TB, s *storage.Store, queue string) int64 {
	t.Helper()
	st, err := s.Queue(queue).Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st.Ready + st.Delayed + st.InFlight
}
