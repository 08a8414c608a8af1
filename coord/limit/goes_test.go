package limit

import (
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
)

// Law 1: a member goes only if its part is idle at the moment when it gives its share up. A call that takes a slot just
// before keeps it, and no other process has it, too.
func TestLaw1ASlotIsKeptWhileTheMemberGoes(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, store *storage.Store) {
		first, err := NewSlots(store, "bank", 1, Config{})
		if err != nil {
			t.Fatal(err)
		}
		p, now := first.p, time.Now()
		m := newMember(p) // the test is its goroutine
		p.asked, p.running, p.left, p.eager, p.since = now, true, make(chan struct{}), true, now
		for range 5 {
			if err := m.step(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(p.cfg.ttl / 3)
		}
		goes := func() (tried, left bool) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return m.goes(t.Context())
		}
		if !p.idle(time.Now()) || p.use != 1 {
			t.Fatalf("the part has %d slots, and isn't idle", p.use)
		}
		if _, ok := first.Take(); !ok {
			t.Fatal("there is no slot")
		}
		if tried, left := goes(); tried || left {
			t.Errorf("got %v, %v: the member went with a slot in use", tried, left)
		}
		if err := m.look(t.Context()); err != nil || m.part.seen.Doc.Members[m.part.id].Share != 1 || first.Share() != 1 {
			t.Errorf("got %+v, %v: the slot in use isn't in the document", m.part.seen.Doc, err)
		}
		first.Give()
		time.Sleep(2 * p.cfg.ttl)
		if tried, left := goes(); !tried || !left || p.running {
			t.Errorf("got %v, %v: an idle member stays", tried, left)
		}
		if err := m.look(t.Context()); err != nil || len(m.part.seen.Doc.Members) != 0 {
			t.Errorf("got %+v, %v: the row stays", m.part.seen.Doc, err)
		}
	})
}
