package channel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// The web tier sends a command. On the wire it is a CloudEvents event, which other programs can read, too.
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
	ctx = channel.WithTrace(ctx, channel.Trace{Tenant: "north"})
	if err := payments.Send(ctx, Payment{Key: "payment-17", Table: "4"}); err != nil {
		log.Fatal(err)
	}

	deliveries, err := store.Queue("payments").Receive(ctx, 1, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	var event struct {
		ID, Type, Source, Subject, TenantID string
		Data                                json.RawMessage
	}
	if err := json.Unmarshal(deliveries[0].Body, &event); err != nil {
		log.Fatal(err)
	}
	fmt.Println(event.ID, event.Type, event.Source, event.Subject, event.TenantID, string(event.Data))
	// Output: payment-17 test.payment.v1 /web 4 north {"key":"payment-17","table":"4"}
}
