package limiters_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/limiters"
)

type Mail struct{ To string }

func (Mail) Kind() channel.Kind { return "shop.mail.v1" }

// Mails that come while their queue is paused are sent when an operator resumes it.
func ExamplePauses() {
	dir, _ := os.MkdirTemp("", "shop")
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	store, _ := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	defer store.Close()
	routes, _ := channel.NewRoutes(channel.Command[Mail]("mails"))
	channels, _ := channel.New(store, routes, "/shop")
	operator, _ := pause.New(store, pause.Config{})
	_ = operator.Pause(ctx, []string{"mails"}, 0, pause.Note{By: "ada", Why: "the mail server is down"})

	h := handlers.NewRegistry(channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	sent := make(chan string, 1)
	handlers.React(h, "mails", func(_ context.Context, m Mail) error { sent <- m.To; return nil })
	w, _ := worker.New(h, worker.Config{Queues: map[string]worker.QueueConfig{
		"mails": {Limiter: limiters.Pauses(limiters.PausesConfig{})},
	}})
	stopped := make(chan error)
	go func() { stopped <- w.Run(ctx) }()

	_ = channels.Send(ctx, Mail{To: "bob"})
	fmt.Println("sent in the pause:", len(sent))
	_ = operator.Resume(ctx, "mails")
	fmt.Println("sent after it:", <-sent)
	cancel()
	fmt.Println(<-stopped)
	// Output:
	// sent in the pause: 0
	// sent after it: bob
	// <nil>
}
