package leader_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

func ExampleRun() {
	dir, err := os.MkdirTemp("", "leader")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "app.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	reports := store.Blobs("reports")
	write := func(ctx context.Context, term leader.Term) error {
		_, err := term.Blobs(reports).Put(ctx, "newest", []byte("all is well"), storage.Condition{})
		return err // nil: the work is done for good, and Run returns
	}
	for _, node := range []string{"node-1", "node-2"} {
		if err := leader.Run(ctx, store, "reports", leader.Config{Holder: node}, write); err != nil {
			log.Fatal(err)
		}
		newest, err := lease.Read(ctx, reports, "newest")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s wrote %q in term %d\n", node, newest.Content, newest.Fence)
	}
	// Output:
	// node-1 wrote "all is well" in term 1
	// node-2 wrote "all is well" in term 2
}

func ExampleWatch() {
	dir, err := os.MkdirTemp("", "leader")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "app.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	over := make(chan error, 1)
	for who, err := range leader.Watch(ctx, store, "reports") {
		switch {
		case err != nil:
			log.Fatal(err)
		case who.Term == 0:
			fmt.Println("nobody has led yet")
			go func() {
				over <- leader.Run(ctx, store, "reports", leader.Config{Holder: "node-1"}, func(ctx context.Context, _ leader.Term) error {
					<-ctx.Done()
					return ctx.Err()
				})
			}()
			continue
		case who.Holder != "":
			fmt.Printf("%s leads with term %d\n", who.Holder, who.Term)
			stop() // this program's candidate hands over
			if err := <-over; err != nil {
				log.Fatal(err)
			}
		}
		break
	}
	who, err := leader.Current(context.Background(), store, "reports")
	fmt.Printf("now %q leads; the last term was %d; %v\n", who.Holder, who.Term, err)
	// Output:
	// nobody has led yet
	// node-1 leads with term 1
	// now "" leads; the last term was 1; <nil>
}
