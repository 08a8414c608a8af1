package inbox_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/inbox"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const visibility = time.Minute

// openStore opens a store that lives in virtual time.
func openStore(t *testing.T) *storage.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db")+"?wake=off&sync=normal")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// polled hides the store's abilities besides polling, and counts its calls.
func polled(t *testing.T, poll time.Duration) (*storage.Store, *storagetest.Calls) {
	t.Helper()
	calls := new(storagetest.Calls)
	s := storagetest.WithProps(storagetest.Plain(openStore(t)), func(p *storage.Props) { p.PollInterval = poll })
	return storagetest.Intercept(s, calls.Hook), calls
}

func send(t *testing.T, s *storage.Store, body string) {
	t.Helper()
	if err := s.Queue("queue").Send(t.Context(), []storage.Message{{Body: []byte(body)}}); err != nil {
		t.Error(err)
	}
}

// receiveAll receives in the background until the test ends, and tells when each message came.
func receiveAll(t *testing.T, s *storage.Store, cfg inbox.Config) <-chan time.Time {
	in := inbox.Open(s, "queue", cfg)
	ctx, cancel := context.WithCancel(t.Context())
	came, ended := make(chan time.Time, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		defer in.Close()
		for ctx.Err() == nil {
			batch, err := in.Receive(ctx, 10, visibility)
			if err != nil {
				continue // the next look waits
			}
			for _, d := range batch.Deliveries {
				came <- time.Now()
				if err := s.Queue("queue").Delete(context.WithoutCancel(ctx), []storage.Receipt{d.Receipt}); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return came
}

// Without rings the time between two looks doubles from 20 ms up to the poll interval, and is 20 ms again after a
// message.
func TestPolling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, calls := polled(t, 30*time.Second)
		came := receiveAll(t, s, inbox.Config{})
		time.Sleep(time.Second)
		if n := calls.Count("receive"); n < 5 || n > 8 {
			t.Errorf("%d looks in the first second; want some 6", n)
		}
		time.Sleep(time.Hour)
		before := calls.Count("receive")
		time.Sleep(time.Hour)
		if n := calls.Count("receive") - before; n < 100 || n > 160 {
			t.Errorf("%d looks in an idle hour; want some 120", n)
		}
		send(t, s, "late")
		sent := time.Now()
		if waited := (<-came).Sub(sent); waited > 36*time.Second {
			t.Errorf("the message waited %v; want less than the poll interval", waited)
		}
		send(t, s, "soon")
		sent = time.Now()
		if waited := (<-came).Sub(sent); waited > time.Second {
			t.Errorf("the message after it waited %v; want a short time", waited)
		}
	})
}

// Config.Poll bounds the interval instead of the store.
func TestPollOfConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, calls := polled(t, 30*time.Second)
		receiveAll(t, s, inbox.Config{Poll: 2 * time.Second})
		time.Sleep(time.Minute)
		before := calls.Count("receive")
		time.Sleep(time.Hour)
		if n := calls.Count("receive") - before; n < 1700 || n > 2300 {
			t.Errorf("%d looks in an idle hour; want some 1,800", n)
		}
	})
}

// An interval that is too short, or negative, doesn't make a busy loop.
func TestPollTooShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, poll := range []time.Duration{-time.Second, time.Nanosecond} {
			s, calls := polled(t, 30*time.Second)
			receiveAll(t, s, inbox.Config{Poll: poll})
			time.Sleep(time.Minute)
			if n := calls.Count("receive"); n > 4000 {
				t.Errorf("Poll %v: %d looks in a minute; want some 3,000", poll, n)
			}
		}
	})
}

// A message that is rung for comes at once, however long no message came.
func TestRing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, calls := polled(t, 30*time.Second)
		rings := make(chan struct{}, 1)
		came := receiveAll(t, storagetest.WithRings(s, rings), inbox.Config{})
		for range 3 {
			time.Sleep(10*time.Minute + time.Second)
			send(t, s, "rung for")
			sent := time.Now()
			rings <- struct{}{}
			if waited := (<-came).Sub(sent); waited > 0 {
				t.Errorf("waited %v after a ring", waited)
			}
		}
		synctest.Wait()
		before := calls.Count("receive")
		time.Sleep(20 * time.Second)
		if n := calls.Count("receive") - before; n > 1 {
			t.Errorf("%d looks in 20 seconds after a message that was rung for; want one at most", n)
		}
	})
}

// A consumer that can't look when it is rung for need not wait when it can.
func TestRingStaysDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := polled(t, 30*time.Second)
		rings := make(chan struct{}, 1)
		in := inbox.Open(storagetest.WithRings(s, rings), "queue", inbox.Config{})
		defer in.Close()
		for range 20 { // until the looks are rare
			if _, due := in.Wait(t.Context(), 1, visibility); !due {
				t.Fatal("not due")
			}
			if _, err := in.Look(t.Context(), 1, visibility); err != nil {
				t.Fatal(err)
			}
		}
		rings <- struct{}{}
		rung := time.Now()
		for i := range 3 {
			if _, due := in.Wait(t.Context(), 1, visibility); !due || time.Since(rung) > 0 {
				t.Errorf("wait %d: due %v, %v after the ring; want at once", i, due, time.Since(rung))
			}
		}
	})
}

// After a message that came without a ring the looks are frequent, because more may come, and then as rare as before.
func TestLostRing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, calls := polled(t, 30*time.Second)
		rings := make(chan struct{}, 1)
		came := receiveAll(t, storagetest.WithRings(s, rings), inbox.Config{})
		looks := func(during time.Duration) int {
			synctest.Wait()
			before := calls.Count("receive")
			time.Sleep(during)
			synctest.Wait()
			return calls.Count("receive") - before
		}
		time.Sleep(10 * time.Minute)
		for _, lost := range []bool{true, false, true} {
			send(t, s, "first")
			if !lost {
				rings <- struct{}{}
			}
			<-came
			if n := looks(time.Second); n >= 4 != lost {
				t.Errorf("ring lost: %v; %d looks in the second after the message", lost, n)
			}
			if lost {
				send(t, s, "second")
				sent := time.Now()
				if waited := (<-came).Sub(sent); waited > 2*time.Second {
					t.Errorf("the message after one whose ring was lost waited %v; want less than 2 seconds", waited)
				}
			}
			time.Sleep(time.Minute)
			if n := looks(time.Hour); n < 110 || n > 150 {
				t.Errorf("ring lost: %v; %d looks in an idle hour after that; want some 125", lost, n)
			}
		}
	})
}

// More messages than one look brings are taken at once after one ring, and the looks stay rare after them.
func TestRingForMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, calls := polled(t, 30*time.Second)
		rings := make(chan struct{}, 1)
		came := receiveAll(t, storagetest.WithRings(s, rings), inbox.Config{})
		time.Sleep(10*time.Minute + time.Second)
		before := calls.Count("receive")
		const messages = 25 // three looks
		for range messages {
			send(t, s, "rung for")
		}
		sent := time.Now()
		rings <- struct{}{}
		for range messages {
			if waited := (<-came).Sub(sent); waited > 0 {
				t.Errorf("a message waited %v after a ring", waited)
			}
		}
		time.Sleep(20 * time.Second)
		if n := calls.Count("receive") - before; n < 3 || n > 4 {
			t.Errorf("%d looks; want three, and one at most after them", n)
		}
	})
}

// A message sent through the same store is handed over, without a look.
func TestHandedOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		in := inbox.Open(s, "queue", inbox.Config{})
		defer in.Close()
		if batch, err := in.Look(t.Context(), 10, visibility); err != nil || len(batch.Deliveries) > 0 {
			t.Fatalf("got %v, %v; want nothing", batch, err)
		}
		began := time.Now()
		go func() {
			time.Sleep(time.Millisecond)
			send(t, s, "handed over")
		}()
		for {
			batch, due := in.Wait(t.Context(), 1, visibility)
			if due { // the ring at the beginning, or a poll
				if batch, err := in.Look(t.Context(), 1, visibility); err != nil || len(batch.Deliveries) > 0 {
					t.Fatalf("got %v, %v; want nothing by a look", batch, err)
				}
				continue
			}
			if len(batch.Deliveries) != 1 || string(batch.Deliveries[0].Body) != "handed over" || !batch.Full {
				t.Fatalf("got %+v; want the message, and that one was all that was asked for", batch)
			}
			if batch.Since.Before(began) || batch.Since.After(time.Now()) {
				t.Errorf("ours since %v; want between %v and now", batch.Since, began)
			}
			return
		}
	})
}

// A message that is handed over and gets lost on the way doesn't end the waiting.
func TestHandedOverAndLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lose atomic.Bool
		s := storagetest.Intercept(openStore(t), func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "receive" && lose.CompareAndSwap(true, false) {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		in := inbox.Open(s, "queue", inbox.Config{})
		defer in.Close()
		for range 2 { // the second look comes with the ring at the beginning
			if _, due := in.Wait(t.Context(), 1, visibility); !due {
				t.Fatal("not due")
			}
			if _, err := in.Look(t.Context(), 1, visibility); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		time.AfterFunc(time.Millisecond, func() {
			lose.Store(true)
			send(t, s, "lost until its visibility ends")
		})
		for {
			batch, err := in.Receive(t.Context(), 1, visibility)
			if err != nil {
				continue
			}
			if took := time.Since(began); len(batch.Deliveries) != 1 || batch.Deliveries[0].Deliveries != 2 || took < visibility {
				t.Errorf("got %+v after %v; want the message for the second time, after %v", batch, took, visibility)
			}
			return
		}
	})
}

// The end of the context ends the waiting at once, but no call of the store.
func TestEndOfContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		inner, _ := polled(t, time.Hour)
		s := storagetest.Intercept(inner, func(ctx context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "receive" && slow.Load() {
				time.Sleep(time.Second)
				if ctx.Err() != nil {
					t.Error("the call was cut off")
				}
			}
			return do()
		})
		in := inbox.Open(s, "queue", inbox.Config{})
		defer in.Close()
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Minute, func() { cancel(stop) })
		if _, err := in.Receive(ctx, 1, visibility); !errors.Is(err, stop) {
			t.Errorf("got %v, want %v", err, stop)
		}
		slow.Store(true)
		send(t, s, "one")
		ctx, cancel = context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(stop) })
		if batch, err := in.Look(ctx, 1, visibility); err != nil || len(batch.Deliveries) != 1 {
			t.Errorf("got %+v, %v; want the message", batch, err)
		}
	})
}

// A store that fails is asked again after 0.1 to 10 seconds, whatever rings. Each failure is an error.
func TestFailingStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner, calls := polled(t, time.Hour)
		link := storagetest.NewLink(inner)
		rings := make(chan struct{}, 1)
		in := inbox.Open(storagetest.WithRings(link.Store, rings), "queue", inbox.Config{})
		defer in.Close()
		link.Cut("receive")
		failed := 0
		for began := time.Now(); time.Since(began) < 10*time.Minute; failed++ {
			if failed > 1000 {
				t.Fatalf("%d tries in %v", failed, time.Since(began))
			}
			select {
			case rings <- struct{}{}:
			default:
			}
			if _, err := in.Receive(t.Context(), 1, visibility); !errors.Is(err, storage.ErrUnavailable) {
				t.Fatalf("got %v, want %v", err, storage.ErrUnavailable)
			}
		}
		if failed < 55 || failed > 90 {
			t.Errorf("%d tries in ten minutes; want some 65", failed)
		}
		link.Restore()
		send(t, link.Store, "one")
		if batch, err := in.Receive(t.Context(), 1, visibility); err != nil || len(batch.Deliveries) != 1 {
			t.Errorf("got %+v, %v; want the message", batch, err)
		}
		if n := calls.Count("receive"); n != 1 {
			t.Errorf("%d calls went through; want one", n)
		}
	})
}

// Bad arguments are an error, not a hang.
func TestBadArguments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		for name, receive := range map[string]func() (inbox.Batch, error){
			"no messages": func() (inbox.Batch, error) {
				return inbox.Open(s, "queue", inbox.Config{}).Receive(t.Context(), 0, visibility)
			},
			"no visibility": func() (inbox.Batch, error) { return inbox.Open(s, "queue", inbox.Config{}).Receive(t.Context(), 1, 0) },
			"bad name": func() (inbox.Batch, error) {
				return inbox.Open(s, "Q", inbox.Config{}).Receive(t.Context(), 1, visibility)
			},
		} {
			if _, err := receive(); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%s: got %v, want %v", name, err, storage.ErrInvalid)
			}
		}
	})
}

// SetPoll changes how often a store is looked at. A shorter interval counts from then on; a longer one after the next
// look.
func TestSetPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, calls := polled(t, time.Hour)
		in := inbox.Open(s, "queue", inbox.Config{})
		defer in.Close()
		look := func(d time.Duration) int {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			before := calls.Count("receive")
			if _, err := in.Receive(ctx, 1, visibility); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the end of the context", err)
			}
			return calls.Count("receive") - before
		}
		look(5 * time.Hour)
		in.SetPoll(10 * time.Second)
		if n := look(time.Hour); n < 355 || n > 470 {
			t.Errorf("looks in an hour, each 10 s: got %d", n)
		}
		in.SetPoll(1) // as short as can be
		if n := look(time.Minute); n < 2800 || n > 4000 {
			t.Errorf("looks in a minute, as often as can be: got %d", n)
		}
		in.SetPoll(0)
		look(5 * time.Hour)
		if n := look(10 * time.Hour); n > 14 {
			t.Errorf("looks in ten hours, by the store's own interval: got %d", n)
		}
	})
}
