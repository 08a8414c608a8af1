package millrace_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
	"github.com/millrace-go/millrace/worker"
)

// Example is the program in the README, between the marks, and so are the types below.
func Example() {
	dir, _ := os.MkdirTemp("", "millrace")
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	path := filepath.Join(dir, "shop.db")
	slog.SetDefault(slog.New(slog.DiscardHandler))
	// README begins
	store, _ := sqlite.Open(ctx, path) // one file; or azure.Open
	defer store.Close()
	routes, _ := channel.NewRoutes(
		channel.Command[Buy]("purchases"),
		channel.Event[Bought]("bestsellers", "mail"),
	)
	channels, _ := channel.New(store, routes, "/shop")
	stock := values.New(channels, "stock", values.Config[Stock]{Initial: func(string) Stock { return Stock{Left: 10} }})
	sold := views.New(channels, "bestsellers", views.Config[int]{})
	mailed := make(chan string)

	h := handlers.NewRegistry(channels, handlers.Config{})
	handlers.Decide(h, stock, func(c Buy) string { return c.Item }, Stock.Buy, Bought{})
	views.Project(h, sold, func(e Bought) string { return e.Item }, func(n int, e Bought) int { return n + e.N })
	handlers.ReactOnce(h, "mail", func(ctx context.Context, e Bought) error {
		mailed <- fmt.Sprintf("%d × %s is on its way", e.N, e.Item)
		return nil
	})

	w, _ := worker.New(h, worker.Config{})
	stopped := make(chan error)
	go func() { stopped <- w.Run(ctx) }()

	buy, _ := channel.NewSender[Buy](channels)   // a type without a route is an error here
	_ = buy.Send(ctx, Buy{Item: "teapot", N: 2}) // nil: durable; it will be decided exactly once
	// README ends
	fmt.Println(<-mailed)
	cancel()
	<-stopped
	// Output: 2 × teapot is on its way
}

// README begins
// Buy is a command: it goes to one queue.
type Buy struct {
	Item string
	N    int
}

// Kind is the stable name on the wire.
func (Buy) Kind() channel.Kind { return "shop.buy.v1" }

// Bought is an event: each subscriber has a queue of its own.
type Bought Buy

// Kind is the stable name on the wire.
func (Bought) Kind() channel.Kind { return "shop.bought.v1" }

// Stock is a value object: what is left of an item.
type Stock struct{ Left int }

// Buy decides. It is pure, so it can be repeated. A refusal would be an event, too.
func (s Stock) Buy(c Buy) (Stock, []channel.Message, error) {
	if c.N > s.Left {
		return s, nil, nil
	}
	return Stock{Left: s.Left - c.N}, []channel.Message{Bought(c)}, nil
}

// README ends
