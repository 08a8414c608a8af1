package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/storage"
)

// hold holds a lock while a majority of the stores works.
func hold(ctx context.Context, stores []*storage.Store, ttl time.Duration) error {
	log := slog.New(slog.NewTextHandler(os.Stdout, nil)) // tells which store fails
	return quorum.Do(ctx, stores, "report", quorum.Config{TTL: ttl, Logger: log}, func(held context.Context, fence int64) error {
		second := time.NewTicker(time.Second)
		defer second.Stop()
		for {
			fmt.Printf("The lock is held, with fence %d.\n", fence) // the work
			select {
			case <-second.C:
			case <-held.Done():
				fmt.Printf("The lock is held no more: %v\n", context.Cause(held))
				return context.Cause(held)
			}
		}
	})
}
