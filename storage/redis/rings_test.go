package redis_test

import (
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// A process that rings and ends at once has rung.
func TestCloseWaitsForRings(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t, redistest.Config{}).URL(redistest.Fresh()) + "&bell=yes"
	hears := openStore(t, url)
	heard := make(chan struct{}, 1000)
	sub := hears.Listen("mails")
	defer sub.Close()
	go func() {
		for {
			select {
			case <-sub.Rings():
				heard <- struct{}{}
			case <-t.Context().Done():
				return
			}
		}
	}()
	eventually(t, "the subscription is there", func() bool {
		hears.Ring("mails")
		return len(heard) >= 3 // one at the beginning, and one when the server has confirmed it
	})
	for i := range 50 {
		s, err := redis.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		for len(heard) > 0 {
			<-heard
		}
		s.Ring("mails")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-heard:
		case <-time.After(20 * time.Second):
			t.Fatalf("store %d: no ring after Ring and Close", i)
		}
	}
}
