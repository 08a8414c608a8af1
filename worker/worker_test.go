package worker_test

import (
	"fmt"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

func TestCommandsToViews(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newStore(t))
	w.start(t, worker.Config{})
	const n, accounts = 500, 7
	want := map[string]int{}
	for i := range n {
		key := fmt.Sprintf("a-%d", i%accounts)
		want[key] += i
		if err := w.send.Send(t.Context(), add{Account: key, N: i}); err != nil {
			t.Fatal(err)
		}
	}
	w.drained(t)
	for key, sum := range want {
		object, err := w.accounts.Get(t.Context(), key, "")
		if err != nil {
			t.Fatal(err)
		}
		if object.Value.Sum != sum {
			t.Errorf("account %s: got sum %d, want %d", key, object.Value.Sum, sum)
		}
		view, _, err := w.totals.GetFresh(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if view != object.Value {
			t.Errorf("view %s: got %+v, want %+v", key, view, object.Value)
		}
	}
	if got := w.reacted.Load(); got != n {
		t.Errorf("reactions: got %d, want %d", got, n)
	}
}

// A message can't make its worker delete the body of a message in another queue.
func TestBodyOfAnotherQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newStore(t))
	key := "reactions/" + channel.NewID()
	if _, err := w.store.Blobs("claims").Put(t.Context(), key, []byte(`{}`), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	e := channel.Envelope{ID: channel.NewID(), Source: "/stranger", Kind: add{}.Kind(), DataRef: "claims/" + key}
	body, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.Queue("commands").Send(t.Context(), []storage.Message{{Body: body}}); err != nil {
		t.Fatal(err)
	}
	w.start(t, worker.Config{})
	w.drained(t)
	poison := poison.At(w.channels, "commands")
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
	if _, err := w.store.Blobs("claims").Get(t.Context(), key, ""); err != nil {
		t.Errorf("the other queue's body: %v", err)
	}
}
