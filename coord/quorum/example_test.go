package quorum_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// The lock of a nightly export is on three disks. One of them dies: the lock goes on working.
func Example() {
	dir, err := os.MkdirTemp("", "quorum")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	var stores []*storage.Store
	for i := range 3 {
		s, err := sqlite.Open(ctx, filepath.Join(dir, fmt.Sprintf("disk%d.db", i)))
		if err != nil {
			log.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		stores = append(stores, s)
	}
	export := func(ctx context.Context, fence int64) error {
		fmt.Println("exporting with fence", fence)
		return ctx.Err()
	}
	if err := quorum.Do(ctx, stores, "nightly-export", quorum.Config{}, export); err != nil {
		log.Fatal(err)
	}
	_ = stores[2].Close()
	if err := quorum.Do(ctx, stores, "nightly-export", quorum.Config{}, export); err != nil {
		log.Fatal(err)
	}
	// Output:
	// exporting with fence 1
	// exporting with fence 2
}
