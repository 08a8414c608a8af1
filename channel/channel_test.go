package channel_test

import (
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
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

func newChannels(t testing.TB, s *storage.Store) *channel.Channels {
	t.Helper()
	c, err := channel.New(s, testRoutes(t), "/web")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// receivedOne takes the only message of a queue.
func receivedOne(t testing.TB, s *storage.Store, queue string) channel.Envelope {
	t.Helper()
	all := worldtest.Take(t, s, queue)
	if len(all) != 1 {
		t.Fatalf("got %d messages in queue %s, want 1", len(all), queue)
	}
	return all[0]
}
