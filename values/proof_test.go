package values_test

import (
	"context"
	"testing"
	"time"

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
			onEachStore(t, func(t *testing.T, s *storage.Store) {
				cfg := values.Config[sum]{Window: 1}
				start := time.Now()
				first := idAt(start, 1)
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
						c.applied("k", c.change(idAt(start.Add(time.Duration(10+i)*time.Second), 10+i), 0))
					}
				}
				old := newProcess(t, s, cfg)
				for i := range 4 { // a message newer than the first one has left
					old.applied("k", old.change(idAt(start.Add(time.Duration(2+i)*time.Second), 2+i), 0))
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
				a.send(target, plus{N: 1})
				a.applied("k", a.received(1)...)
				wantInt(t, "total", total(t, old.sums, "k"), 1)
				wantInt(t, "events of the first message", min(1, idsOf(events(t, s, "listeners"))[eventID("k", first)]), 1)
				wantInt(t, "commands left", queued(t, s, "commands"), 0)
			})
		})
	}
}
