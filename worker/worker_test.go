package worker_test

import (
	"fmt"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

func TestCommandsToViews(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldtest.OpenStore(t, ""))
	w.Start(worker.Config{})
	const n, accounts = 500, 7
	want := map[string]int{}
	for i := range n {
		key := fmt.Sprintf("a-%d", i%accounts)
		want[key] += i
		worldtest.Send(w.World, Add{To: key, Amount: i})
	}
	w.WaitUntilIdle()
	for key, sum := range want {
		worldtest.Want(t, "balance of "+key, w.Balance(key), sum)
		if got := w.Total(key); got.Sum != sum {
			t.Errorf("total of %s: got %+v, want the sum %d", key, got, sum)
		}
	}
	if got := w.reacted.Load(); got != n {
		t.Errorf("reactions: got %d, want %d", got, n)
	}
}

// A message can't make its worker delete the body of a message in another queue.
func TestBodyOfAnotherQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldtest.OpenStore(t, ""))
	key := "audits/" + channel.NewID()
	if _, err := w.Store.Blobs("claims").Put(t.Context(), key, []byte(`{}`), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	e := channel.Envelope{ID: channel.NewID(), Source: "/stranger", Kind: Add{}.Kind(), DataRef: "claims/" + key}
	body, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Store.Queue("accounts").Send(t.Context(), []storage.Message{{Body: body}}); err != nil {
		t.Fatal(err)
	}
	w.Start(worker.Config{})
	w.WaitUntilIdle()
	poison := poison.At(w.Channels, "accounts")
	n := 0
	for m, err := range poison.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if m.Reason != handlers.ReasonUndecodable {
			t.Errorf("got reason %q, want %q", m.Reason, handlers.ReasonUndecodable)
		}
		if err := poison.Discard(t.Context(), m.Key); err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("got %d poisoned messages, want 1", n)
	}
	if _, err := w.Store.Blobs("claims").Get(t.Context(), key, ""); err != nil {
		t.Errorf("the other queue's body: %v", err)
	}
}
