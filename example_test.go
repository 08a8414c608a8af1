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

// Example is the one in the README, between the two marks.
func Example() {
	dir, _ := os.MkdirTemp("", "millrace")
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	store, _ := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	defer store.Close()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	// README begins
	routes, _ := channel.NewRoutes(
		channel.Command[Buy]("purchases"),            // a command goes to one queue
		channel.Event[Bought]("bestsellers", "mail"), // an event to one per subscriber
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

	buy, _ := channel.SenderOf[Buy](channels)    // a type without a route is an error here
	_ = buy.Send(ctx, Buy{Item: "teapot", N: 2}) // nil: durable; it will be decided exactly once
	// README ends
	fmt.Println(<-mailed)
	cancel()
	<-stopped
	// Output: 2 × teapot is on its way
}

// Buy is a command, Bought an event, Stock the value object that decides.
type Buy struct {
	Item string
	N    int
}

// Kind is the stable name on the wire.
func (Buy) Kind() channel.Kind { return "shop.buy.v1" }

// Bought tells that something was bought.
type Bought struct {
	Item string
	N    int
}

// Kind is the stable name on the wire.
func (Bought) Kind() channel.Kind { return "shop.bought.v1" }

// Stock is what is left of an item.
type Stock struct{ Left int }

// Buy decides: pure, so that it can be repeated.
func (s Stock) Buy(c Buy) (Stock, []channel.Message, error) {
	if c.N > s.Left {
		return s, nil, nil // a refusal would be an event too
	}
	return Stock{Left: s.Left - c.N}, []channel.Message{Bought(c)}, nil
}
