// Command locks shows three kinds of lock, each on a page of its own.
//
// A leader is one of many processes, and prints its term each second.
//
//		go run ./examples/locks leader   # in three terminals
//
//	  - Press Ctrl-C in the terminal of another process, and start it again: the leader stays, and so does its term.
//	  - Press Ctrl-C in the leader's terminal: another process leads at once, in the next term.
//	  - Kill the leader with kill -9 and the number that it prints: another leads 2.5 to 4.5 seconds later.
//
// An export is written under a lease, by one process at a time. Its document refuses the writes of earlier holders.
//
//		go run ./examples/locks export   # in two terminals
//
//	  - Press Ctrl-Z in the terminal of the process that writes, as if its machine stood still: 2.5 to 4.5 seconds later
//	    the other process holds the lease, and writes.
//	  - Type fg in the first terminal: the next write of that process is refused.
//
// A quorum holds a lock in three files, each in a folder of its own, as if on a machine of its own.
//
//	go run ./examples/locks quorum
//	mv data/b data/b-away            # in another terminal: the lock is still held
//	mv data/c data/c-away            # the lock is lost
//
// Move the folders back before the next run. Stores that come back empty have forgotten the lock.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "locks:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	verb, urls := strings.Join(args[:min(1, len(args))], ""), ""
	switch verb {
	case "leader", "export":
		urls = "sqlite:data/locks.db"
	case "quorum":
		urls = "sqlite:data/a/locks.db,sqlite:data/b/locks.db,sqlite:data/c/locks.db"
	default:
		return errors.New("want one of: locks leader, locks export, locks quorum")
	}
	flags := flag.NewFlagSet("locks "+verb, flag.ExitOnError)
	flags.StringVar(&urls, "store", urls, "the `URL` of the store; for quorum several, separated by commas")
	// The shortest there is, so that nobody waits for long. A program takes the default.
	ttl := flags.Duration("ttl", 3*time.Second, "how long a lock lasts without a renewal")
	_ = flags.Parse(args[1:]) // an error ends the process

	var stores []*storage.Store
	for _, url := range strings.Split(urls, ",") {
		s, err := storage.Drivers{sqlite.Driver, azure.Driver}.Open(ctx, url, storage.OpenConfig{})
		switch {
		case err == nil:
			defer func() { _ = s.Close() }() // a file that was taken away can't be closed well
		case verb == "quorum":
			fmt.Fprintln(os.Stderr, "locks:", err) // the others may do
		default:
			return err
		}
		stores = append(stores, s)
	}
	switch verb {
	case "leader":
		return lead(ctx, stores[0], *ttl)
	case "export":
		return export(ctx, stores[0], *ttl)
	default:
		return hold(ctx, stores, *ttl)
	}
}
