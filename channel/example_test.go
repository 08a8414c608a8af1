package channel_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/post"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// The web tier sends a command. A worker finds it in its queue, and the worker's own message continues the chain.
func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "channel")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	store, err := sqlite.Open(ctx, filepath.Join(folder, "example.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	routes, err := channel.NewRoutes(
		channel.Command[Payment]("payments"),
		channel.Event[Served]("kitchen", "floor"),
	)
	if err != nil {
		log.Fatal(err)
	}
	channels, err := channel.New(store, routes, "/web")
	if err != nil {
		log.Fatal(err)
	}
	payments, err := channel.NewSender[Payment](channels)
	if err != nil {
		log.Fatal(err) // no route
	}
	if err := payments.Send(ctx, Payment{Key: "payment-17", Table: "4"}); err != nil {
		log.Fatal(err)
	}

	deliveries, err := store.Queue("payments").Receive(ctx, 1, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	e, err := post.Decode(deliveries[0].Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.ID, e.Kind, e.Subject, string(e.Data))

	served, err := channel.NewSender[Served](channels)
	if err != nil {
		log.Fatal(err)
	}
	if err := served.Send(post.WithHandling(ctx, &e, "payments"), Served{Table: 4}); err != nil {
		log.Fatal(err)
	}
	deliveries, err = store.Queue("kitchen").Receive(ctx, 1, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	event, err := post.Decode(deliveries[0].Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(event.Kind, "because of", event.Causation, "in the chain of", event.Correlation)
	// Output:
	// payment-17 test.payment.v1 4 {"key":"payment-17","table":"4"}
	// test.served.v1 because of payment-17 in the chain of payment-17
}
