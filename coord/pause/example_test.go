package pause_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// A program pauses the queue of mails for half an hour, and shows that.
func Example() {
	dir, _ := os.MkdirTemp("", "shop")
	defer os.RemoveAll(dir)
	ctx := context.Background()
	store, _ := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	defer store.Close()

	pauses, _ := pause.New(store, pause.Config{})
	_ = pauses.Pause(ctx, []string{"mails"}, 30*time.Minute, pause.Note{By: "ada", Why: "the mail server is down"})
	all, _ := pauses.List(ctx)
	for queue, p := range all {
		fmt.Println(queue, "is paused by", p.By, "for", p.Until.Sub(p.Since), "because", p.Why)
	}
	_ = pauses.Resume(ctx, "mails")
	all, _ = pauses.List(ctx)
	fmt.Println(len(all), "queues are paused")
	// Output:
	// mails is paused by ada for 30m0s because the mail server is down
	// 0 queues are paused
}
