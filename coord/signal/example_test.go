package signal_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// A process waits for the first of several signals. Others send them.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "signal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "store.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	ok, err := signal.One(ctx, store, "orders.eu.paid", nil)
	fmt.Println("before the wait:", ok, err)

	l, err := signal.Listen(ctx, store, "orders.*.paid", "stop")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	n, err := signal.Broadcast(ctx, store, "orders.eu.paid", []byte("1042-7"))
	fmt.Println("taken by:", n, err)

	s, err := l.Any(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", s.Name, s.Data)
	// Output:
	// before the wait: false <nil>
	// taken by: 1 <nil>
	// orders.eu.paid: 1042-7
}

// A process waits until each of two others has finished, for a minute at most.
func ExampleListener_All() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "signal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "store.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	l, err := signal.Listen(ctx, store, "import.finished", "mails.finished")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	for _, job := range []string{"mails", "import"} {
		go signal.Broadcast(ctx, store, job+".finished", []byte("all well"))
	}
	all, err := l.All(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range all {
		fmt.Printf("%s: %s\n", s.Name, s.Data)
	}
	// Output:
	// import.finished: all well
	// mails.finished: all well
}
