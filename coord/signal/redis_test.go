package signal_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// The master of a Redis store dies, and sentinels make its replica the master. A listener is told that its connection
// is lost, listens again, and hears by the new master. Signals go through the server that the store uses. A replica
// gets them from its master, so no listener needs two servers. No signal comes twice, whatever became of its answer.
func TestLawAtMostOnceAcrossAFailover(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, redistest.Config{})
	replica := redistest.Start(t, redistest.Config{ReplicaOf: master})
	sentinels := redistest.StartSentinels(t, 3, master, "mymaster")
	url := sentinels.URL(redistest.Fresh())
	open := func() *storage.Store {
		s, err := redis.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	hears, sends := open(), open()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	// The listener hears until "end", and listens again whenever its connection is lost.
	type heard struct {
		times map[string]int
		lost  int
		err   error
	}
	ready, done := make(chan struct{}), make(chan heard, 1)
	go func() {
		h := heard{times: map[string]int{}}
		defer func() { done <- h }()
		for first := true; ; first = false {
			l, err := signal.Listen(ctx, hears, "events.*")
			if err != nil {
				if h.err = ctx.Err(); h.err != nil {
					return
				}
				continue
			}
			if first {
				close(ready)
			}
			for err == nil {
				var s signal.Signal
				if s, err = l.Any(ctx); err == nil {
					if h.times[string(s.Data)]++; string(s.Data) == "end" {
						l.Close()
						return
					}
				}
			}
			l.Close()
			if !errors.Is(err, signal.ErrLost) {
				h.err = err
				return
			}
			h.lost++
		}
	}()
	<-ready
	number := 0
	one := func() bool {
		number++
		ok, err := signal.One(ctx, sends, "events.new", fmt.Append(nil, number))
		return ok && err == nil
	}
	if !one() {
		t.Fatal("the first signal wasn't taken")
	}
	before := number
	master.Kill(t)
	for !one() {
		if ctx.Err() != nil {
			t.Fatal("no signal was taken after the failover")
		}
	}
	after := number
	sentinels.Await(t, replica)
	for {
		if ok, err := signal.One(ctx, sends, "events.new", []byte("end")); ok && err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the last signal wasn't taken")
		}
	}
	h := <-done
	if h.err != nil {
		t.Fatal(h.err)
	}
	if h.lost == 0 {
		t.Error("the listener wasn't told that its connection was lost")
	}
	for what, n := range h.times {
		if n > 1 && what != "end" {
			t.Errorf("signal %s was heard %d times", what, n)
		}
	}
	for _, n := range []int{before, after} {
		if h.times[fmt.Sprint(n)] != 1 {
			t.Errorf("signal %d was taken and heard %d times", n, h.times[fmt.Sprint(n)])
		}
	}
}
