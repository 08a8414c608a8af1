package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/worker"
)

// Add, Added and Refused are messages, and Account is a value object with the pure method Account.Add.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	dir, err := os.MkdirTemp("", "handlers")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "bank.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	routes, err1 := channel.NewRoutes(channel.Command[Add]("accounts"), channel.Event[Added]("mails"), channel.Event[Refused]("mails"))
	channels, err2 := channel.New(store, routes, "/bank")
	logged := func(next handlers.Next) handlers.Next {
		return func(ctx context.Context, d *handlers.Delivery) error {
			err := next(ctx, d)
			fmt.Println(d.Handler.Name(), err)
			if d.Queue == "mails" {
				stop() // the example ends here
			}
			return err
		}
	}
	h := handlers.NewRegistry(channels, handlers.Config{Middleware: []handlers.Middleware{logged}})
	accounts := values.New(channels, "accounts", values.Config[Account]{})
	handlers.Decide(h, accounts, func(m Add) string { return m.To }, Account.Add, Added{}, Refused{})
	handlers.React(h, "mails", func(_ context.Context, m Added) error {
		return handlers.Poison("no address", fmt.Errorf("who is %s?", m.To))
	})
	w, err3 := worker.New(h, worker.Config{Logger: slog.New(slog.DiscardHandler)}) // reports every fault of the registry
	if err := errors.Join(err1, err2, err3); err != nil {
		log.Fatal(err)
	}
	if err := channels.Send(ctx, Add{To: "ada", Amount: 5}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(w.Run(ctx)) // until the middleware ends its context
	// Unordered output:
	// decide accounts <nil>
	// react mails poison: no address: who is ada?
	// <nil>
}

// A mail that can't be sent is given up: after three attempts here, or after those that its queue gives. Then the
// account is told, whatever the reason.
func ExampleOnPoison() {
	register := func(r *handlers.Registry, send func(context.Context, Mail) error) {
		handlers.React(r, "mails", func(ctx context.Context, m Mail) error {
			err := send(ctx, m)
			if n, _ := handlers.Attempt(ctx); err != nil && n >= 3 {
				return handlers.Poison("no answer", err)
			}
			return err
		})
		handlers.OnPoison(r, func(m Mail, why handlers.Poisoned) []channel.Message {
			return []channel.Message{Refused{To: m.To}, channel.After(24*time.Hour, Mail{To: why.Queue + "@example.org"})}
		}, Refused{}, Mail{})
	}
	_ = register // called by the program's worker
}
