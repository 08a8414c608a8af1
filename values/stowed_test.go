package values_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// The body of a large event is kept beside the document until the event is sent. It must not outlive a try that wrote
// no document, and must not go while a document may refer to it.

func largeNote() Add { return Add{Amount: 1, Note: strings.Repeat("long ", 20_000)} }

// large is a message with a large event.
func (p *process) large(id string) values.Change[Account] {
	p.t.Helper()
	e := worldtest.Envelope(id, largeNote())
	return p.changeOf(&e)
}

func wantStowed(t testing.TB, what string, s *storage.Store, want int) {
	t.Helper()
	got, _ := claims(t, s)
	worldtest.Want(t, "stowed bodies "+what, got, want)
}

// arrived demands that every listener has the event of a large message, whole.
func arrived(t testing.TB, s *storage.Store, id string) {
	t.Helper()
	channels := worldtest.New(t, s, worldtest.Config{}).Channels
	for _, queue := range []string{"totals", "audits"} {
		found := false
		for _, e := range worldtest.Take(t, s, queue) {
			if e.ID != eventID("k", id) {
				continue
			}
			found = true
			if err := channels.Fetch(t.Context(), &e); err != nil {
				t.Errorf("queue %s: %v", queue, err)
			}
			var got Added
			if err := json.Unmarshal(e.Data, &got); err != nil || got.Note != largeNote().Note {
				t.Errorf("queue %s: the event has %d bytes, error %v; want its note whole", queue, len(e.Data), err)
			}
		}
		if !found {
			t.Errorf("queue %s: no event of %s", queue, id)
		}
	}
}

func TestLostRaceLeavesNoBody(t *testing.T) {
	onPlain(t, func(t *testing.T, s *storage.Store) {
		rival := newProcess(t, s, values.Config[Account]{})
		lost := 0
		p := newProcess(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "put blob" && op.Resource == "blob accounts/k" && lost < 3 {
				lost++
				wantStowed(t, "when a write begins", s, 1)
				rival.applied("k", rival.change(newID(), 1))
			}
			return do()
		}), values.Config[Account]{})
		id := newID()
		p.applied("k", p.large(id))
		worldtest.Want(t, "folds", int(p.folds.Load()), 4)
		wantStowed(t, "after three lost races and a write", s, 1)
		_, sent := claims(t, s)
		worldtest.Want(t, "bodies of the copies sent", sent, 2)
		arrived(t, s, id)
		p.applied("k", p.change(newID(), 1)) // its write leaves the event out
		wantStowed(t, "after the write that leaves it out", s, 0)
	})
}

// Two workers have the same message. The one that loses the race deletes its own body, and finds the winner's.
func TestLoserOfARaceLeavesTheWinnersBody(t *testing.T) {
	onPlain(t, func(t *testing.T, s *storage.Store) {
		id := newID()
		won := false
		p := newProcess(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "put blob" && op.Resource == "blob accounts/k" && !won {
				won = true
				dieSending(t, s, values.Config[Account]{}, id, largeNote())
			}
			return do()
		}), values.Config[Account]{})
		p.applied("k", p.large(id))
		wantStowed(t, "of the winner", s, 1)
		arrived(t, s, id)
	})
}

// A try that ends before its write leaves nothing, however it ends.
func TestTryWithoutAWriteLeavesNoBody(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for _, c := range []struct {
		name  string
		after func() (channel.Message, error) // the fold's result besides the large event
		fails string                          // the prefix of blobs that can't be written
		want  int                             // large events of the other message
	}{
		{"message refused", func() (channel.Message, error) { return nil, refused }, "", 1},
		{"event that can't be encoded", func() (channel.Message, error) { return thing{func() {}}, nil }, "", 1},
		{"event too large", func() (channel.Message, error) { return thing{strings.Repeat("x", channel.MaxData)}, nil }, "", 1},
		{"event without a route", func() (channel.Message, error) { return stray{}, nil }, "", 1},
		{"bodies of copies can't be written", func() (channel.Message, error) { return Added{}, nil }, "blob claims/audits/", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			onPlain(t, func(t *testing.T, s *storage.Store) {
				p := newProcess(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
					if c.fails != "" && strings.HasPrefix(op.Resource, c.fails) {
						return op.Fail(storage.ErrUnavailable)
					}
					return do()
				}), values.Config[Account]{})
				bad := p.large(newID())
				bad.Fold = func(v Account) (Account, []channel.Message, error) {
					m, err := c.after()
					return v, []channel.Message{Added{Note: largeNote().Note}, m}, err
				}
				good := newID()
				errs := p.apply("k", p.large(good), bad)
				if errs[1] == nil || (errs[0] == nil) != (c.want == 1) {
					t.Errorf("got errors %.200v and %.200v", errs[0], errs[1])
				}
				wantStowed(t, "of pending events", s, c.want)
				if _, sent := claims(t, s); sent != 2*c.want {
					t.Errorf("bodies of copies: got %d, want %d", sent, 2*c.want)
				}
				if c.want > 0 {
					arrived(t, s, good)
				}
			})
		})
	}
}

// When it is unknown whether the document was written, the bodies that it may refer to stay.
func TestUnknownWriteKeepsTheBody(t *testing.T) {
	t.Parallel()
	for _, written := range []bool{true, false} {
		t.Run(fmt.Sprintf("written=%v", written), func(t *testing.T) {
			onPlain(t, func(t *testing.T, s *storage.Store) {
				p := newProcess(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
					if op.Resource != "blob accounts/k" || op.Name != "put blob" {
						return do()
					}
					if written {
						do()
					}
					return op.Fail(storage.ErrUnavailable)
				}), values.Config[Account]{})
				id := newID()
				worldtest.WantErr(t, p.apply("k", p.large(id))[0], storage.ErrUnavailable)
				wantStowed(t, "after a lost answer", s, 1)

				next := newProcess(t, s, values.Config[Account]{})
				next.applied("k", next.large(id))
				worldtest.Want(t, "decided again", int(next.folds.Load()), map[bool]int{true: 0, false: 1}[written])
				arrived(t, s, id)
				next.applied("k", next.change(newID(), 1))
				wantStowed(t, "in the end", s, map[bool]int{true: 0, false: 1}[written]) // the orphan that the laws allow
			})
		})
	}
}

// A worker that dies leaves one body at most: one whose document it had not written, or one that it had not deleted
// yet. No event loses its body.
func TestCrashLeavesAtMostOneBody(t *testing.T) {
	t.Parallel()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		t.Run(moment.String(), func(t *testing.T) {
			onPlain(t, func(t *testing.T, s *storage.Store) {
				n, orphans := int64(0), 0
				for fired := true; fired; {
					n++
					p := newProcess(t, s, values.Config[Account]{})
					p.applied("k", p.large(newID()))
					time.Sleep(time.Hour) // so that the next writer sends the pending events
					dying, fuse := storagetest.Crash(s, n, moment)
					id := newID()
					dead := newProcess(t, dying, values.Config[Account]{})
					dead.apply("k", dead.large(id))

					next := newProcess(t, s, values.Config[Account]{})
					next.applied("k", next.large(id))
					arrived(t, s, id)
					next.applied("k", next.change(newID(), 1))
					all, _ := claims(t, s)
					if left := all - orphans; left > 1 {
						t.Errorf("crash at call %d: %d stowed bodies are left, want 1 at most", n, left)
					}
					orphans, fired = all, fuse.Fired()
				}
				if n < 8 || orphans == 0 {
					t.Errorf("%d crashes left %d bodies; want a crash in each call, and some bodies", n-1, orphans)
				}
			})
		})
	}
}
