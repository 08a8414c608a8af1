package doorbell

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestOthersAreRung(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	ring := watch(t, a, b, "queue")
	q := b.Queue("queue")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	one := func() storage.Receipt {
		t.Helper()
		got, err := q.Receive(t.Context(), 1, time.Hour)
		must(err)
		if len(got) != 1 {
			t.Fatalf("received %d messages; want 1", len(got))
		}
		return got[0].Receipt
	}
	send(t, b, "queue") // nothing is known yet: the table is read, and then the ring goes out
	wantRing(t, ring, "the first send")
	send(t, b, "queue")
	wantRing(t, ring, "a send")
	_, err := b.Commit(t.Context(), storage.Work{Send: []storage.Send{{Queue: "queue"}}})
	must(err)
	wantRing(t, ring, "a commit")
	_, err = q.Extend(t.Context(), one(), 0)
	must(err)
	wantRing(t, ring, "handing back")
	must(q.Rewrite(t.Context(), one(), nil, 0))
	wantRing(t, ring, "a rewrite")
	must(q.Send(t.Context(), []storage.Message{{Delay: 500 * time.Millisecond}}))
	wantRing(t, ring, "a delayed send")
	if err := q.Delete(t.Context(), []storage.Receipt{one()}); err != nil {
		t.Fatal(err)
	}
	if got := a.Counts(); got.Accepted < 6 || got.Refused != 0 {
		t.Errorf("the listener counts %+v", got)
	}
	must(b.Close()) // the last ring may be counted only after it has rung
	if got := b.Counts(); got.Sent < 6 {
		t.Errorf("the sender counts %+v", got)
	}
}

// TestLastSend sends and closes the store at once: Close must ring first, though the listeners aren't known yet.
func TestLastSend(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	ring := watch(t, a, b, "queue")
	send(t, b, "queue")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	wantRing(t, ring, "a send just before the end")
}

func TestSendDoesNotWait(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	hold := make(chan struct{})
	slow := storagetest.Intercept(plain(t, path), func(ctx context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "query" {
			<-hold
		}
		return do()
	})
	a, b := put(t, plain(t, path), loopback(), quick()), put(t, slow, loopback(), quick())
	other := put(t, plain(t, path), loopback(), quick())
	ring := watch(t, a, other, "queue")
	for range 100 {
		send(t, b, "queue") // would wait for ever
	}
	close(hold)
	wantRing(t, ring, "the table could be read")
}

// Messages come without a ring. A worker whose Receive is full rings another worker; one that receives few rings
// none.
func TestBacklogWakesOthers(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	watch(t, a, b, "jobs")
	second := watch(t, b, a, "jobs")

	quiet := storage.New(a.own.Store).Queue("jobs")
	most := a.Props().MaxReceive
	if err := quiet.Send(t.Context(), make([]storage.Message, most+3)); err != nil {
		t.Fatal(err)
	}
	for len(second) > 0 {
		<-second
	}
	sent := a.Counts().Sent
	if got, err := a.Queue("jobs").Receive(t.Context(), most, time.Minute); err != nil || len(got) != most {
		t.Fatalf("received %d, %v", len(got), err)
	}
	<-second
	until(t, "the ring to be counted", func() bool { return a.Counts().Sent == sent+1 })
	if got, err := a.Queue("jobs").Receive(t.Context(), most, time.Minute); err != nil || len(got) != 3 {
		t.Fatalf("received %d, %v", len(got), err)
	}
	if n := a.Counts().Sent; n != sent+1 {
		t.Errorf("%d rings for a handful of messages", n-sent-1)
	}
}

// TestCopies checks that a ring which arrives several times rings once.
func TestCopies(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	ring := watch(t, a, b, "queue")
	l := listeners(t, b, 1)[0]
	writeRow(t, b, l.id, func(r *row) {
		*r = l.row
		r.Addresses = []string{l.Addresses[0], l.Addresses[0], l.Addresses[0]}
	})
	send(t, b, "queue")
	wantRing(t, ring, "a send")
	until(t, "the other copies", func() bool { return a.Counts().Repeated == 2 })
	if got, sent := a.Counts(), b.Counts().Sent; got.Accepted != 1 || got.Refused != 0 || sent != 1 {
		t.Errorf("%d rings sent, the listener counts %+v; want 1", sent, got)
	}
}
