package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/active"
)

type Mail struct{ To string }

func (Mail) Kind() channel.Kind { return "shop.mail.v1" }

type Count struct{ Item string }

func (Count) Kind() channel.Kind { return "shop.count.v1" }

// Mails wait for a server, so many of them may be under way. Counts are quick, and one worker at a time takes them.
func Example() {
	dir, _ := os.MkdirTemp("", "shop")
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	store, _ := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	defer store.Close()
	routes, _ := channel.NewRoutes(channel.Command[Mail]("mails"), channel.Command[Count]("counts"))
	channels, _ := channel.New(store, routes, "/shop")

	h := handlers.NewRegistry(channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	sent, counted := make(chan string, 1), make(chan string, 1)
	handlers.React(h, "mails", func(_ context.Context, m Mail) error { sent <- m.To; return nil })
	handlers.React(h, "counts", func(_ context.Context, c Count) error { counted <- c.Item; return nil })

	w, err := worker.New(h, worker.Config{Queues: map[string]worker.QueueConfig{
		"mails":  {Concurrency: 500},
		"counts": {Concurrency: 4, MaxInHand: 100, Turn: active.Workers(1)},
	}})
	fmt.Println(err) // else all that is wrong with the registry and the Config
	stopped := make(chan error)
	go func() { stopped <- w.Run(ctx) }()

	mails, _ := channel.NewSender[Mail](channels)
	_ = mails.Send(ctx, Mail{To: "ada@example.org"})
	counts, _ := channel.NewSender[Count](channels)
	_ = counts.Send(ctx, Count{Item: "teapot"})
	fmt.Println(<-sent, <-counted)
	cancel()
	fmt.Println(<-stopped)
	// Output:
	// <nil>
	// ada@example.org teapot
	// <nil>
}
