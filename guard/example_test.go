package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
)

type Order struct{ Item string }

func (Order) Kind() channel.Kind { return "shop.order.v1" }

// Each order is a call of the bank. While the bank is away, the queue is paused.
func Example() {
	dir, _ := os.MkdirTemp("", "shop")
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	store, _ := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	defer store.Close()
	routes, _ := channel.NewRoutes(channel.Command[Order]("orders"))
	channels, _ := channel.New(store, routes, "/shop")
	bank := guard.New("bank", guard.Config{Fault: guard.HTTP, Repeatable: true})

	h := handlers.NewRegistry(channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	charged := make(chan string, 1)
	handlers.ReactOnce(h, "orders", guard.Around(bank, func(_ context.Context, o Order) error { charged <- o.Item; return nil }))
	w, _ := worker.New(h, worker.Config{Queues: map[string]worker.QueueConfig{"orders": {Limiter: bank.Limiter}}})
	stopped := make(chan error)
	go func() { stopped <- w.Run(ctx) }()

	orders, _ := channel.NewSender[Order](channels)
	_ = orders.Send(ctx, Order{Item: "teapot"})
	fmt.Println(<-charged)
	cancel()
	fmt.Println(<-stopped)
	// Output:
	// teapot
	// <nil>
}

// Outside of a handler, a breaker that is open is an error at once.
func ExampleGuard_Do() {
	crm := guard.New("crm", guard.Config{Logger: slog.New(slog.DiscardHandler)})
	calls := 0
	for range 100 {
		err := crm.Do(context.Background(), func(context.Context) error {
			calls++
			return errors.New("down")
		})
		if errors.Is(err, guard.ErrOpen) {
			fmt.Println("open after", calls, "calls")
			break
		}
	}
	// Output: open after 20 calls
}
