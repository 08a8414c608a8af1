package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/limiters"
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
		"counts": {Concurrency: 4, MaxInHand: 100, Limiter: limiters.Workers(1)},
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

// Throttle is a turn whose limits an operator sets while the worker runs. Each queue of each worker opens it, and all
// of them share its limits.
type Throttle struct {
	mu      sync.Mutex
	limits  worker.Limits
	changed chan struct{}
}

// Set puts limits in force, and closes the channel that Now gave out.
func (t *Throttle) Set(l worker.Limits) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limits = l
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *Throttle) Now() (worker.Limits, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.limits, t.changed
}

// Leave has nothing to give back.
func (t *Throttle) Leave(context.Context) error { return nil }

func (t *Throttle) Open(context.Context, worker.Consumer) (worker.Limiter, error) { return t, nil }

// A queue is paused at first, and then consumed by one handler at a time.
func ExampleTurn() {
	dir, _ := os.MkdirTemp("", "shop")
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	store, _ := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	defer store.Close()
	routes, _ := channel.NewRoutes(channel.Command[Mail]("mails"))
	channels, _ := channel.New(store, routes, "/shop")

	h := handlers.NewRegistry(channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	sent := make(chan string)
	handlers.React(h, "mails", func(_ context.Context, m Mail) error { sent <- m.To; return nil })
	throttle := &Throttle{limits: worker.Limits{Pause: true}, changed: make(chan struct{})}
	w, _ := worker.New(h, worker.Config{Queues: map[string]worker.QueueConfig{"mails": {Limiter: throttle.Open}}})
	stopped := make(chan error)
	go func() { stopped <- w.Run(ctx) }()

	mails, _ := channel.NewSender[Mail](channels)
	_ = mails.Send(ctx, Mail{To: "ada@example.org"})
	throttle.Set(worker.Limits{Concurrency: 1})
	fmt.Println(<-sent)
	cancel()
	fmt.Println(<-stopped)
	// Output:
	// ada@example.org
	// <nil>
}
