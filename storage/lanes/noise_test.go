package lanes_test

import (
	"context"
	"errors"
	"fmt"
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

// learn lets another process see that the noisy tenant of s stays noisy.
func learn(t *testing.T, s, other *shop) {
	t.Helper()
	other.send(t.Context(), "quiet", "first look", 1)
	s.send(t.Context(), "noisy", "again", 2000)
	stop := s.work(worker.Config{Concurrency: 4}, brief(100*time.Millisecond))
	time.Sleep(25 * time.Second) // within which there is another beat
	other.send(t.Context(), "quiet", "look", 1)
	synctest.Wait() // it has read the document
	stop()
}

// Another process that sends puts a noisy tenant aside as soon as it sees that the tenant is noisy now. It doesn't
// believe what it reads first, which may be of long ago.
func TestSendersLearnWhoIsNoisy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := flooded(t, 100, channel.Lanes(purchases, 8))
		before := s.left("purchases-slow")
		other := newShop(t, s.store, channel.Lanes(purchases, 8))
		other.send(t.Context(), "noisy", "first", 5)
		if n := s.left("purchases-slow") - before; n != 0 {
			t.Errorf("%d of 5 messages are in the slow lane, because of what was written before this process came", n)
		}
		learn(t, s, other)
		before = s.left("purchases-slow")
		other.send(t.Context(), "noisy", "more", 50)
		if n := s.left("purchases-slow") - before; n != 50 {
			t.Errorf("%d of 50 new messages of a noisy tenant are in the slow lane", n)
		}
		other.send(t.Context(), "quiet", "other", 5)
		if n := s.left("purchases-slow") - before; n != 50 {
			t.Errorf("messages of a quiet tenant are in the slow lane")
		}
	})
}

// Law: noisy tenants take turns. A tenant that is noisy because of its first batch doesn't stand behind a flood with
// the second one.
func TestABatchBesideAFloodTakesTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, openStore(t), channel.Lanes(purchases, 8))
		s.send(t.Context(), "flood", "flood", 4000)
		stop := s.work(worker.Config{}, brief(90*time.Millisecond)) // 355 a second
		defer stop()
		for _, batch := range []string{"first", "second"} {
			began := time.Now()
			s.send(t.Context(), "batch", batch, 200)
			s.until(func() bool { return s.count(batch) == 200 })
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("the %s batch took %v beside a flood, and takes a second alone", batch, took)
			}
			time.Sleep(time.Second)
		}
		if n := s.count("flood"); n < 100 || n > 3000 {
			t.Errorf("%d messages of the flood were handled meanwhile; want it to go on", n)
		}
	})
}

// A tenant that is quiet for a minute is no longer noisy.
func TestAQuietMinuteEndsTheNoise(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := flooded(t, 100, channel.Lanes(purchases, 8))
		stop := s.work(worker.Config{Concurrency: 4}, brief(time.Millisecond))
		defer stop()
		s.until(func() bool { return s.left("purchases-slow") <= 0 })
		stop()
		time.Sleep(70 * time.Second)
		s.send(t.Context(), "noisy", "later", 5)
		if n := s.left("purchases-slow"); n > 0 {
			t.Errorf("%d messages of a tenant that was quiet for a minute are in the slow lane", n)
		}
	})
}

// A tenant that sends much, but no more than is handled, is not put aside.
func TestWithoutABacklogNobodyIsNoisy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, openStore(t), channel.Lanes(purchases, 8))
		stop := s.work(worker.Config{Concurrency: 4}, brief(10*time.Millisecond))
		defer stop()
		for i := range 1500 { // 100 a second, of 400
			s.send(t.Context(), "busy", fmt.Sprint("m", i), 1)
			time.Sleep(10 * time.Millisecond)
		}
		if s.moved() > 0 {
			t.Error("a tenant is noisy, although nobody waits for it")
		}
	})
}

// While the document can't be read, what was known stays, and messages are sent and received.
func TestWithoutTheDocumentTheLastAnswerStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := flooded(t, 100, channel.Lanes(purchases, 8))
		var away atomic.Bool
		cut := storagetest.Intercept(s.store, func(_ context.Context, op storagetest.Op, do func() error) error {
			if away.Load() && op.Name == "get blob" {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		other := newShop(t, cut, channel.Lanes(purchases, 8))
		learn(t, s, other)
		away.Store(true)
		before := s.left("purchases-slow")
		time.Sleep(20 * time.Second)
		other.send(t.Context(), "noisy", "two", 1)
		if n := s.left("purchases-slow") - before; n != 1 {
			t.Errorf("%d messages came into the slow lane; want the one that was sent", n)
		}
	})
}

// A send doesn't wait for a document that can't be read, and the first send of a process doesn't either. The process
// uses what it knew.
func TestADocumentThatHangsHoldsUpNoSend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := flooded(t, 100, channel.Lanes(purchases, 8))
		var silent atomic.Bool
		var reads, under atomic.Int64
		cut := storagetest.Intercept(s.store, func(ctx context.Context, op storagetest.Op, do func() error) error {
			if op.Name != "get blob" || !silent.Load() {
				return do()
			}
			reads.Add(1)
			if under.Add(1) > 2 {
				t.Error("a sender reads twice at a time")
			}
			defer under.Add(-1)
			<-ctx.Done()
			return op.Fail(context.Cause(ctx))
		})
		first := newShop(t, cut, channel.Lanes(purchases, 8))
		other := newShop(t, cut, channel.Lanes(purchases, 8))
		learn(t, s, other)
		silent.Store(true)
		before := s.left("purchases-slow")
		time.Sleep(20 * time.Second)
		for range 20 {
			began := time.Now()
			first.send(t.Context(), "noisy", fmt.Sprint("first", began.UnixNano()), 1)
			other.send(t.Context(), "noisy", fmt.Sprint("other", began.UnixNano()), 1)
			if took := time.Since(began); took > 0 {
				t.Errorf("two sends took %v", took)
			}
			time.Sleep(time.Second)
		}
		if n := s.left("purchases-slow") - before; n != 20 {
			t.Errorf("%d messages came into the slow lane; want the 20 of the sender that knows", n)
		}
		if n := reads.Load(); n < 4 || n > 10 {
			t.Errorf("%d readings of two senders in 20 seconds; want one in 5 seconds of each", n)
		}
		time.Sleep(6 * time.Second)
		other.send(t.Context(), "noisy", "last", 1)
		synctest.Wait()
		worldtest.Want(t, "readings under way", under.Load(), 1)
		began := time.Now()
		if err := other.channels.Store().Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 0 || under.Load() > 0 {
			t.Errorf("Close took %v, and %d readings go on", took, under.Load())
		}
	})
}

// No document of another program, however malformed, stops anything, and the next noisy tenant is written all the same.
func TestAMalformedDocumentIsNoDocument(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty": "", "text": "hello", "null": "null", "list": "[]", "wrong types": `{"noisy":{"tenant":1}}`,
		"no key": `{"noisy":[{"tenant":"x","beat":1}]}`, "too long": `{"noisy":[],"x":"` + string(make([]byte, 20<<10)) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := openStore(t)
				if _, err := store.Blobs("lanes").Put(t.Context(), purchases, []byte(body), storage.Condition{}); err != nil {
					t.Fatal(err)
				}
				s := newShop(t, store, channel.Lanes(purchases, 8))
				s.send(t.Context(), "noisy", "m", 400)
				stop := s.work(worker.Config{Concurrency: 4}, brief(10*time.Millisecond))
				defer stop()
				s.wait(400)
				b, err := store.Blobs("lanes").Get(t.Context(), purchases, "")
				if err != nil || string(b.Body) == body {
					t.Errorf("the document is %q, %v; want a new one", b.Body, err)
				}
			})
		})
	}
}

// Routes with faults are refused, with what to do about them.
func TestFaultyRoutes(t *testing.T) {
	t.Parallel()
	long := "a-queue-with-a-name-of-over-forty-characters"
	for name, routes := range map[string][]channel.Route{
		"no lane":        {channel.Event[buy](purchases), channel.Lanes(purchases, 0)},
		"too many":       {channel.Event[buy](purchases), channel.Lanes(purchases, 17)},
		"no such queue":  {channel.Event[buy](purchases), channel.Lanes("purchase", 8)},
		"twice":          {channel.Event[buy](purchases), channel.Lanes(purchases, 8), channel.Lanes(purchases, 4)},
		"too long":       {channel.Event[buy](long), channel.Lanes(long, 8)},
		"name is in use": {channel.Event[buy](purchases, "purchases-slow"), channel.Lanes(purchases, 8)},
	} {
		if _, err := channel.NewRoutes(routes...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := channel.NewRoutes(channel.Priorities(purchases), channel.Event[buy](purchases), channel.Lanes(purchases, 16)); err != nil {
		t.Error(err)
	}
}

// A message that waits for its due time can be cancelled, in whatever lane it is.
func TestADelayedMessageCanBeCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, openStore(t), channel.Lanes(purchases, 8), channel.Priorities(purchases))
		send, err := channel.NewSender[buy](s.channels)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			ctx := channel.WithTrace(t.Context(), channel.Trace{Tenant: fmt.Sprint("tenant-", i)})
			if err := send.SendAfter(ctx, time.Hour, buy{ID: fmt.Sprint("m", i)}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 20 {
			if err := send.Cancel(t.Context(), fmt.Sprint("m", i)); err != nil {
				t.Errorf("cancel %d: %v", i, err)
			}
		}
		if err := send.Cancel(t.Context(), "m0"); !errors.Is(err, channel.ErrNotDelayed) {
			t.Errorf("the second cancellation: got %v", err)
		}
	})
}
