package values_test

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// A row may be newer than the document that was read before it. A process that finds a replay by its row, and writes
// nothing, must know which events are pending for it in the document as it is stored now. Otherwise they are never
// sent.
func TestReplayByARowIsProved(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"remembered", "read"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				cfg := values.Config[Account]{Window: 1}
				start := time.Now()
				first := worldtest.IDAt(start, 1)
				overtake := func() {
					// B writes the first message and dies before it has sent the event; C's writes push it out of the window.
					dying := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
						if op.Name == "send" {
							return op.Fail(storage.ErrUnavailable)
						}
						return do()
					})
					b := newProcess(t, dying, cfg)
					b.apply("k", b.change(first, 1))
					c := newProcess(t, s, cfg)
					for i := range 3 {
						c.applied("k", c.change(worldtest.IDAt(start.Add(time.Duration(10+i)*time.Second), 10+i), 0))
					}
				}
				old := newProcess(t, s, cfg)
				for i := range 4 { // a message newer than the first one has left
					old.applied("k", old.change(worldtest.IDAt(start.Add(time.Duration(2+i)*time.Second), 2+i), 0))
				}
				a, target := old, first
				if how == "remembered" {
					overtake()
				} else {
					done := false
					a = newProcess(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
						err := do()
						if op.Name == "get blob" && !done { // after the read of the document, before that of the row
							done = true
							overtake()
						}
						return err
					}), cfg)
				}
				a.send(target, Add{Amount: 1})
				a.applied("k", a.received(1)...)
				worldtest.Want(t, "balance", old.Balance("k"), 1)
				worldtest.Want(t, "events of the first message", min(1, idsOf(worldtest.Take(t, s, "totals"))[eventID("k", first)]), 1)
				worldtest.Want(t, "commands left", worldtest.Queued(t, s, "accounts"), 0)
			})
		})
	}
}
