package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/storage"
)

// export writes the nightly export, a part each second, when it gets the lease.
func export(ctx context.Context, store *storage.Store, ttl time.Duration) error {
	const name, parts = "nightly-export", 60
	me := fmt.Sprint("process ", os.Getpid())
	fmt.Printf("This is %s. It waits for the lease.\n", me)
	return lease.Do(ctx, store, name, lease.Config{TTL: ttl, Holder: me}, func(held context.Context, l *lease.Lease) error {
		documents := l.Blobs(store.Blobs("exports"))
		second := time.NewTicker(time.Second)
		defer second.Stop()
		for part := 1; part <= parts; part++ {
			// Most programs write with held, which ends with the lease. But a process may stand still between its last
			// look at held and its write. So this write doesn't look: the fence alone refuses it.
			_, err := documents.Put(ctx, "newest", fmt.Appendf(nil, "%d of %d parts, by %s", part, parts, me), storage.Condition{})
			switch {
			case errors.Is(err, lease.ErrFenced):
				fmt.Printf("The write of part %d was refused, because fence %d is old. The lease: %v\n", part, l.Fence(), context.Cause(held))
				return nil
			case err != nil:
				return err
			}
			fmt.Printf("Part %d is written, with fence %d.\n", part, l.Fence())
			select {
			case <-second.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
}
