package limiters_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/limiters"
)

type Order struct{ Item string }

func (Order) Kind() channel.Kind { return "shop.order.v1" }

// Orders are taken from the beginning, and processed from the opening of the gate on.
func ExampleGate() {
	dir, _ := os.MkdirTemp("", "shop")
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	store, _ := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	defer store.Close()
	routes, _ := channel.NewRoutes(channel.Command[Order]("orders"))
	channels, _ := channel.New(store, routes, "/shop")

	h := handlers.NewRegistry(channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	processed := make(chan string, 1)
	handlers.React(h, "orders", func(_ context.Context, o Order) error { processed <- o.Item; return nil })
	w, _ := worker.New(h, worker.Config{Queues: map[string]worker.QueueConfig{
		"orders": {Limiter: limiters.Gate("start-order-processing")},
	}})
	stopped := make(chan error)
	go func() { stopped <- w.Run(ctx) }()

	orders, _ := channel.NewSender[Order](channels)
	_ = orders.Send(ctx, Order{Item: "teapot"})
	_ = gate.At(store, "start-order-processing").Open(ctx, gate.Note{By: "ada", Why: "results are in"})
	fmt.Println(<-processed)
	cancel()
	fmt.Println(<-stopped)
	// Output:
	// teapot
	// <nil>
}
