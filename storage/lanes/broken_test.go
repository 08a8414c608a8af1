package lanes_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// A lane whose calls fail holds up no other one. It is asked again, and brings its messages when it works. The log
// tells of it, once a minute.
func TestLawALaneThatFailsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(*storage.Store) *storage.Store{
		"rings": func(s *storage.Store) *storage.Store { return s },
		"polled": func(s *storage.Store) *storage.Store {
			return storagetest.WithProps(storagetest.Plain(s), func(p *storage.Props) { p.PollInterval = 250 * time.Millisecond })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var broken atomic.Bool
				broken.Store(true)
				store := storagetest.Intercept(wrap(openStore(t)), func(_ context.Context, op storagetest.Op, do func() error) error {
					if broken.Load() && op.Name == "receive" && op.Resource == "queue purchases-lane-1" {
						return op.Fail(storage.ErrThrottled)
					}
					return do()
				})
				s := newShop(t, store, channel.Lanes(purchases, 4))
				other := newShop(t, openStore(t), channel.Lanes(purchases, 4))
				in := func(lane string) string { // a tenant that has this lane
					before := other.left(lane)
					for i := range 1000 {
						if other.send(t.Context(), fmt.Sprint("tenant-", i), "m", 1); other.left(lane) > before {
							return fmt.Sprint("tenant-", i)
						}
					}
					t.Fatal("no tenant has lane", lane)
					return ""
				}
				bad, good := in("purchases-lane-1"), in("purchases-lane-2")
				log := worldtest.NewLog()
				stop := s.work(worker.Config{Logger: slog.New(log)}, brief(0))
				defer stop()
				for i := range 60 {
					s.send(t.Context(), bad, fmt.Sprint("bad/", i), 1)
					time.Sleep(2500 * time.Millisecond)
					sent := time.Now()
					s.send(t.Context(), good, fmt.Sprint("good/", i), 1)
					s.until(func() bool { return s.count(fmt.Sprintf("good/%d/", i)) == 1 })
					if took := time.Since(sent); took > 500*time.Millisecond {
						t.Errorf("message %d of another lane took %v", i, took)
					}
				}
				worldtest.Want(t, "messages that a lane that fails has brought", s.count("bad"), 0)
				if n := log.Count("can't receive a part of the queue; the rest goes on", "lane purchases-lane-1"); n < 1 || n > 4 {
					t.Errorf("%d lines in two and a half minutes tell that a lane fails; want one a minute", n)
				}
				worldtest.Want(t, "lines that tell that nothing can be received", log.Count("can't receive; will go on trying"), 0)
				broken.Store(false)
				time.Sleep(12 * time.Second)
				worldtest.Want(t, "messages of the lane once it works", s.count("bad"), 60)
				time.Sleep(3 * time.Minute)
				s.send(t.Context(), good, "last", 1)
				time.Sleep(time.Second)
				worldtest.Want(t, "lines that tell that it works again", log.Count("can receive all of the queue again"), 1)
			})
		})
	}
}

// A caller that gives up while lanes are asked breaks no lane. The next caller gets the messages at once.
func TestLawACallerThatGivesUpBreaksNoLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, hangs := make(chan struct{}), true
		store := storagetest.Intercept(openStore(t), func(ctx context.Context, op storagetest.Op, do func() error) error {
			if hangs && op.Name == "receive" && op.Resource == "queue purchases-lane-1" {
				close(asked)
				<-ctx.Done()
				return op.Fail(context.Cause(ctx))
			}
			return do()
		})
		s := newShop(t, store, channel.Lanes(purchases, 4))
		for i := range 100 {
			s.send(t.Context(), fmt.Sprint("tenant-", i), "m", 1)
		}
		q := s.channels.Store().Queue(purchases)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-asked; synctest.Wait(); cancel() }() // the other lanes have answered
		before, err := q.Receive(ctx, 32, time.Minute)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v; want the caller's own", err)
		}
		hangs = false
		got := len(before)
		for more := true; more; {
			ds, err := q.Receive(t.Context(), 32, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			got, more = got+len(ds), len(ds) > 0
		}
		worldtest.Want(t, "messages of all lanes", got, 100)
	})
}

// When no lane answers, the store fails, and the worker waits as without lanes. It goes on when the store does.
func TestLawWhenAllLanesFailTheStoreFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		var tries atomic.Int64
		store := storagetest.Intercept(openStore(t), func(_ context.Context, op storagetest.Op, do func() error) error {
			if away.Load() && op.Name == "receive" {
				tries.Add(1)
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		s := newShop(t, store, channel.Lanes(purchases, 4))
		log := worldtest.NewLog()
		stop := s.work(worker.Config{Logger: slog.New(log)}, brief(0))
		defer stop()
		s.send(t.Context(), "north", "before", 1)
		s.wait(1)
		away.Store(true)
		for i := range 60 {
			s.send(t.Context(), fmt.Sprint("tenant-", i), fmt.Sprint("during/", i), 1)
			time.Sleep(5 * time.Second)
		}
		if n := tries.Load(); n > 800 { // each 10 seconds up to 20 lanes, and a few before
			t.Errorf("%d calls in five minutes of outage", n)
		}
		worldtest.Want(t, "lines that tell that the store fails", log.Count("can't receive; will go on trying"), 1)
		away.Store(false)
		time.Sleep(15 * time.Second)
		worldtest.Want(t, "messages after the outage", s.count("during"), 60)
	})
}
