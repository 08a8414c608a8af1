package sqlite

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// together makes calls wait for the writer, so that they share a transaction.
func together(t *testing.T, s *store, calls ...func()) {
	t.Helper()
	start := make(chan struct{})
	go s.write(&engine.Op{Ctx: t.Context()}, func(*tx) error { <-start; return nil })
	synctest.Wait()
	for _, call := range calls {
		go call()
		synctest.Wait()
	}
	close(start)
	synctest.Wait()
}

// A message that is sent while a caller waits for it is claimed as it is written, whichever came first. A caller gets
// no more messages than it asked for.
func TestHandOver(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		q := s.Queue("queue")
		body := []byte("one")
		send := func(delay time.Duration) func() {
			return func() {
				if err := q.Send(t.Context(), []storage.Message{{Body: body, Delay: delay}}); err != nil {
					t.Error(err)
				}
			}
		}
		var got []storage.Delivery
		take := func() { got = receive(t, s, "queue", 2) }
		together(t, s, send(time.Hour), send(0), take, send(0), send(0))
		copy(body, "xxx") // the sender may use it again
		if len(got) != 2 {
			t.Fatalf("got %d messages, want 2", len(got))
		}
		var receipts []storage.Receipt
		for _, d := range got {
			if string(d.Body) != "one" || d.Deliveries != 1 || d.SentAt.IsZero() {
				t.Errorf("got %q, delivered %d times, sent at %v", d.Body, d.Deliveries, d.SentAt)
			}
			receipts = append(receipts, d.Receipt)
		}
		if n := len(receive(t, s, "queue", 10)); n != 1 {
			t.Errorf("got %d messages besides, want the one beyond what was asked for", n)
		}
		if err := q.Delete(t.Context(), receipts); err != nil {
			t.Error(err)
		}
		if st, err := q.Stats(t.Context()); err != nil || st.InFlight != 1 || st.Delayed != 1 {
			t.Errorf("got %+v, %v; want one in flight and one delayed", st, err)
		}
	})
}

// A message that is handed over to a receive comes back like any other when its delivery isn't ended.
func TestHandOverComesBack(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		send := func() {
			if err := s.Queue("queue").Send(t.Context(), []storage.Message{{Body: []byte("one")}}); err != nil {
				t.Error(err)
			}
		}
		var got []storage.Delivery
		together(t, s, func() {
			var err error
			if got, err = s.Queue("queue").Receive(t.Context(), 1, time.Minute); err != nil {
				t.Error(err)
			}
		}, send)
		if len(got) != 1 {
			t.Fatalf("got %d messages, want 1", len(got))
		}
		time.Sleep(time.Minute - time.Millisecond)
		if n := len(receive(t, s, "queue", 1)); n != 0 {
			t.Fatalf("got %d messages before the visibility ended", n)
		}
		time.Sleep(time.Millisecond)
		again := receive(t, s, "queue", 1)
		if len(again) != 1 || again[0].Deliveries != 2 {
			t.Fatalf("got %+v, want the message once more", again)
		}
		if err := s.Queue("queue").Delete(t.Context(), []storage.Receipt{got[0].Receipt}); !errors.Is(err, storage.ErrReceiptStale) {
			t.Errorf("got %v, want %v", err, storage.ErrReceiptStale)
		}
	})
}

// A receive whose caller has left gets nothing, because the message would be hidden for nothing.
func TestHandOverToNobody(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		ctx, cancel := context.WithCancel(t.Context())
		together(t, s, func() {
			if got, err := s.Queue("queue").Receive(ctx, 1, time.Minute); !errors.Is(err, context.Canceled) {
				t.Errorf("got %d messages, %v", len(got), err)
			}
		}, cancel, func() {
			if err := s.Queue("queue").Send(t.Context(), []storage.Message{{Body: []byte("one")}}); err != nil {
				t.Error(err)
			}
		})
		if n := len(receive(t, s, "queue", 1)); n != 1 {
			t.Errorf("got %d messages, want 1", n)
		}
	})
}
