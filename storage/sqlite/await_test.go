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

// sqliteFull is SQLite's code for a full disk.
const sqliteFull = 13

func awaiting(t *testing.T, s *store, max int) (ready <-chan struct{}, take func() []storage.Delivery) {
	t.Helper()
	ready, end := s.Listener().Listen("queue").Claim(max, time.Minute)
	return ready, func() []storage.Delivery {
		got, _ := end(t.Context())
		return got
	}
}

func sendOne(t *testing.T, s *store, delay time.Duration) {
	t.Helper()
	if err := s.Queue("queue").Send(t.Context(), []storage.Message{{Body: []byte("one"), Delay: delay}}); err != nil {
		t.Error(err)
	}
}

func isReady(ready <-chan struct{}) bool {
	select {
	case <-ready:
		return true
	default:
		return false
	}
}

// Nobody rings for a message that was handed over, until its visibility ends.
func TestAwaitIsQuiet(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		ring, stop := wake(s, "queue")
		defer stop()
		<-ring // at the beginning
		_, take := awaiting(t, s, 1)
		sendOne(t, s, 0)
		if n := len(take()); n != 1 {
			t.Fatalf("got %d messages, want 1", n)
		}
		time.Sleep(time.Minute - time.Millisecond)
		if isReady(ring) {
			t.Error("a ring for a message that was handed over")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !isReady(ring) {
			t.Error("no ring when the visibility ended")
		}
		if again := receive(t, s, "queue", 1); len(again) != 1 || again[0].Deliveries != 2 {
			t.Errorf("got %+v, want the message once more", again)
		}
	})
}

// A caller that has left gets nothing, because the message would be hidden for nothing. The next caller in turn gets
// it.
func TestAwaitLeft(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		_, leave := awaiting(t, s, 1)
		_, first := awaiting(t, s, 1)
		_, second := awaiting(t, s, 1)
		if n := len(leave()); n != 0 {
			t.Fatalf("got %d messages before any was sent", n)
		}
		together(t, s, func() { sendOne(t, s, 0) }, func() { sendOne(t, s, 0) }, func() { sendOne(t, s, 0) })
		if a, b := len(first()), len(second()); a != 1 || b != 1 {
			t.Errorf("got %d and %d messages, want one each", a, b)
		}
		if n := len(leave()); n != 0 {
			t.Errorf("got %d messages after leaving", n)
		}
		if n := len(receive(t, s, "queue", 10)); n != 1 {
			t.Errorf("%d messages are receivable besides, want 1", n)
		}
	})
}

// A transaction that fails hands nothing over. The ops that are then repeated each on its own do, once.
func TestAwaitRollback(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		full := &engine.Error{Code: sqliteFull, Message: "made up"}
		ready, take := awaiting(t, s, 10)
		fails := func() {
			if err := s.write(&engine.Op{Ctx: t.Context()}, func(*tx) error { return full }); !errors.Is(err, full) {
				t.Errorf("got %v, want %v", err, full)
			}
		}
		failsAfterSend := func() {
			err := s.write(&engine.Op{Ctx: t.Context()}, func(w *tx) error {
				if err := w.send([]storage.Send{{Queue: "queue", Message: storage.Message{Body: []byte("never")}}}); err != nil {
					return err
				}
				return full
			})
			if !errors.Is(err, full) {
				t.Errorf("got %v, want %v", err, full)
			}
		}
		failsAfterSend()
		if isReady(ready) {
			t.Fatal("ready after a rollback")
		}
		together(t, s, func() { sendOne(t, s, 0) }, fails)
		h := take()
		if len(h) != 1 || string(h[0].Body) != "one" {
			t.Fatalf("got %+v, want the message that was sent", h)
		}
		if err := s.Queue("queue").Delete(t.Context(), []storage.Receipt{h[0].Receipt}); err != nil {
			t.Error(err)
		}
		_, take = awaiting(t, s, 10)
		failsAfterSend()
		if h := take(); len(h) != 0 {
			t.Errorf("got %+v after a rollback", h)
		}
	})
}

// A transaction that fails as it commits hands nothing over. The await goes on waiting, and gets the message that is
// sent again.
func TestAwaitFailedCommit(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		synctest.Wait() // the test may use the connection as long as nobody writes
		if err := s.db.Conn().Exec("PRAGMA foreign_keys = ON", "CREATE TABLE parents (id INTEGER PRIMARY KEY)",
			"CREATE TABLE children (id REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)"); err != nil {
			t.Fatal(err)
		}
		ready, take := awaiting(t, s, 10)
		together(t, s, func() { sendOne(t, s, 0) }, func() {
			err := s.write(&engine.Op{Ctx: t.Context()}, func(w *tx) error { return w.c.Exec("INSERT INTO children VALUES (1)") })
			if e := new(Error); !errors.As(err, &e) || e.Code != 787 { // of a foreign key
				t.Errorf("got %v, want a commit that fails", err)
			}
		})
		if !isReady(ready) {
			t.Fatal("what was sent alone after the failure was not handed over")
		}
		if got := take(); len(got) != 1 || got[0].Deliveries != 1 {
			t.Errorf("got %+v, want the message for the first time", got)
		}
		if n := len(receive(t, s, "queue", 10)); n != 0 {
			t.Errorf("%d messages besides, want none", n)
		}
	})
}

// A claim is over with the commit, not before.
func TestAwaitIsDurable(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		for _, committed := range []bool{true, false} {
			w := wants{awaits: &s.awaits}
			ready, take := awaiting(t, s, 1)
			w.choose("queue", time.Now()).got = []storage.Delivery{{Body: []byte("one")}}
			if isReady(ready) {
				t.Error("ready before the transaction was done")
			}
			w.settle(committed)
			if isReady(ready) != committed {
				t.Errorf("ready: %v; want %v", isReady(ready), committed)
			}
			if n := len(take()); n == 1 != committed {
				t.Errorf("got %d messages of a transaction that was committed: %v", n, committed)
			}
		}
	})
}

// A caller that leaves while a transaction is open waits for it. It gets the messages that the transaction has
// claimed for it, or nothing when the transaction is undone. A caller that won't wait leaves the messages hidden
// until the visibility ends.
func TestAwaitLeavesDuringCommit(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		during := func(then error, call func()) {
			done := make(chan struct{})
			s.write(&engine.Op{Ctx: t.Context()}, func(w *tx) error {
				if err := w.send([]storage.Send{{Queue: "queue", Message: storage.Message{Body: []byte("one")}}}); err != nil {
					return err
				}
				go func() {
					defer close(done)
					call()
				}()
				time.Sleep(time.Second) // by then call is waiting
				return then
			})
			<-done
		}
		_, take := awaiting(t, s, 1)
		during(nil, func() {
			if n := len(take()); n != 1 {
				t.Errorf("got %d messages, want the one of the transaction", n)
			}
		})
		_, take = awaiting(t, s, 1)
		during(&engine.Error{Code: sqliteFull}, func() {
			if n := len(take()); n != 0 {
				t.Errorf("got %d messages of a transaction that was undone", n)
			}
		})
		_, end := s.Listener().Listen("queue").Claim(1, time.Minute)
		during(nil, func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if got, _ := end(ctx); len(got) != 0 {
				t.Errorf("got %d messages before they were committed", len(got))
			}
		})
		if n := len(receive(t, s, "queue", 10)); n != 0 {
			t.Errorf("got %d messages, want all of them hidden", n)
		}
		time.Sleep(time.Minute)
		if n := len(receive(t, s, "queue", 10)); n != 2 {
			t.Errorf("got %d messages when their visibility had ended, want 2", n)
		}
	})
}

// A store that is closed hands nothing over, and lets nobody wait.
func TestAwaitClosed(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		_, take := awaiting(t, s, 1)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if h := take(); len(h) != 0 {
			t.Errorf("a closed store handed over %+v", h)
		}
	})
}
