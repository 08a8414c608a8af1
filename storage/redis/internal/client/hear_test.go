package client

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// A SUBSCRIBE that is given up leaves no wait, which a later confirmation would end in another one's place.
func TestASubscriptionThatIsGivenUpLeavesNoWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	conn, err := Dial(t.Context(), Options{Addrs: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	h, err := conn.Hear(t.Context(), func(string, string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	waits := func() int {
		e := h.(*ear)
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.waiting)
	}
	server.Stall(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := h.Subscribe(ctx, "a", "b"); err == nil {
		t.Error("a server that stands still has confirmed channels")
	}
	if n := waits(); n != 0 {
		t.Errorf("%d channels have waits, want none", n)
	}
	server.Resume(t)
	if err := h.Subscribe(t.Context(), "a", "b"); err != nil {
		t.Error(err)
	}
	if n := waits(); n != 0 {
		t.Errorf("after the confirmations %d channels have waits, want none", n)
	}
}
