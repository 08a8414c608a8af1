package redis

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// The end of a subscription waits for the server, on the connection that also brings the answers of other processes.
// Neither may wait for the other one.
func TestReceiversLeaveWhileAnswersCome(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	url := server.URL(redistest.Fresh())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a, err := Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Subscribe(ctx, "stays", func([]byte, int) int { return 1 }); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for range 200 {
				if n, err := a.Publish(ctx, "stays", []byte("x"), false); n != 1 || err != nil {
					t.Errorf("%d took it: %v", n, err)
					return
				}
			}
		})
		all.Go(func() {
			for range 200 {
				r, err := a.Subscribe(ctx, fmt.Sprint("goes-", n), func([]byte, int) int { return 1 })
				if err != nil {
					t.Error(err)
					return
				}
				r.Close()
			}
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal("they wait for each other")
	}
}
