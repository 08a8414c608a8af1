package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// open opens a store for an example.
func open() (s *storage.Store, remove func()) {
	dir, err := os.MkdirTemp("", "lease")
	if err != nil {
		log.Fatal(err)
	}
	s, err = sqlite.Open(context.Background(), filepath.Join(dir, "example.db"))
	if err != nil {
		log.Fatal(err)
	}
	return s, func() { _, _ = s.Close(), os.RemoveAll(dir) }
}

// The report is made by one process at a time.
func ExampleDo() {
	store, remove := open()
	defer remove()
	ctx := context.Background()
	for range 2 {
		err := lease.Do(ctx, store, "nightly-report", lease.Config{}, func(ctx context.Context, l *lease.Lease) error {
			fmt.Println("the report's holder number", l.Fence())
			return ctx.Err()
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// the report's holder number 1
	// the report's holder number 2
}

// Two processes never change the document at the same time, so no change is lost.
func ExampleUpdate() {
	store, remove := open()
	defer remove()
	ctx := context.Background()
	for _, line := range []string{"ada", "bob"} {
		err := lease.Update(ctx, store, "lists", "guests", lease.Config{}, func(_ context.Context, old []byte) ([]byte, error) {
			return append(old, line+"\n"...), nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	guests, err := lease.Read(ctx, store.Blobs("lists"), "guests")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s%s", guests.Content, guests.Lease)
	// Output:
	// ada
	// bob
	// update/lists/guests
}

// An old holder wakes up after a later one has written.
func ExampleLease_Blobs() {
	store, remove := open()
	defer remove()
	ctx := context.Background()
	reports := store.Blobs("reports")
	for _, holder := range []string{"first", "second"} {
		l, err := lease.Acquire(ctx, store, "nightly-report", lease.Config{Holder: holder})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := l.Blobs(reports).Put(l.Context(), "today", []byte("by the "+holder), storage.Condition{}); err != nil {
			log.Fatal(err)
		}
		if err := l.Release(ctx); err != nil {
			log.Fatal(err)
		}
	}
	_, err := lease.Fenced(reports, "nightly-report", 1).Put(ctx, "today", []byte("by the first, late"), storage.Condition{})
	fmt.Println(errors.Is(err, lease.ErrFenced))
	report, err := lease.Read(ctx, reports, "today")
	fmt.Println(string(report.Content), report.Fence, err)
	// Output:
	// true
	// by the second 2 <nil>
}

// An operator breaks a lease.
func ExampleBreak() {
	store, remove := open()
	defer remove()
	ctx := context.Background()
	l, err := lease.Acquire(ctx, store, "nightly-report", lease.Config{Holder: "host-7"})
	if err != nil {
		log.Fatal(err)
	}
	if err := lease.Break(ctx, store, "nightly-report", lease.Note{By: "ada", Why: "it hangs"}); err != nil {
		log.Fatal(err)
	}
	for info, err := range lease.List(ctx, store, nil) {
		fmt.Println(info.Name, info.Holder, info.Broken.By, info.Broken.Why, err)
	}
	fmt.Println(l.Release(ctx)) // the holder gives it back, so others need not wait
	// Output:
	// nightly-report host-7 ada it hangs <nil>
	// <nil>
}
