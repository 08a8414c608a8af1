package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/storage"
)

// lead stands as a candidate until ctx ends, and prints each change of the leader.
func lead(ctx context.Context, store *storage.Store, ttl time.Duration) error {
	ctx, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop()
	watch.Go(func() {
		for who, err := range leader.Watch(ctx, store, "clock") {
			switch {
			case ctx.Err() != nil: // this process stops
			case err != nil:
				fmt.Println(err)
			case who.Holder != "":
				fmt.Printf("%s leads since %s, term %d\n", who.Holder, who.Since.Local().Format(time.TimeOnly), who.Term)
			}
		}
	})
	cfg := leader.Config{TTL: ttl, Holder: fmt.Sprint("process ", os.Getpid())}
	fmt.Printf("This is %s.\n", cfg.Holder)
	return leader.Run(ctx, store, "clock", cfg, func(ctx context.Context, term leader.Term) error {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			fmt.Printf("%s, term %d\n", time.Now().Format(time.TimeOnly), term.Number) // the work
			select {
			case <-tick.C:
			case <-ctx.Done():
				fmt.Printf("The end of term %d: %v\n", term.Number, context.Cause(ctx))
				return context.Cause(ctx)
			}
		}
	})
}
