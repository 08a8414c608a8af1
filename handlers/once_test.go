package handlers_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

// once runs a guarded reaction on a message, as the handler of a worker of its own would.
func once(ctx context.Context, s *storage.Store, group, id string, f func(context.Context) error) error {
	return reaction(s, group, f)(ctx, id)
}

// reaction is a guarded reaction in one worker, with that worker's memory of notes.
func reaction(s *storage.Store, group string, f func(context.Context) error) func(ctx context.Context, id string) error {
	guarded := handlers.Once(s, group, func(ctx context.Context, _ Added) error { return f(ctx) })
	return func(ctx context.Context, id string) error {
		return guarded(wire.WithHandling(ctx, envelope(id, "test.added.v1", "{}"), group, nil), Added{})
	}
}

// notes lists the rows of a group.
func notes(t testing.TB, s *storage.Store, group string) []string {
	t.Helper()
	var keys []string
	for row, err := range s.Table("once").Query(t.Context(), group, storage.RowRange{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, row.Key)
	}
	return keys
}

// counted is an effect that counts its runs.
type counted struct{ n atomic.Int64 }

func (c *counted) do(context.Context) error { c.n.Add(1); return nil }

func (c *counted) want(t testing.TB, n int64) {
	t.Helper()
	if got := c.n.Load(); got != n {
		t.Errorf("got %d effects, want %d", got, n)
	}
}

func wantLater(t testing.TB, err error, most time.Duration) {
	t.Helper()
	var later *handlers.LaterError
	if !errors.As(err, &later) || later.After <= 0 || later.After > most {
		t.Errorf("got error %v, want later, within %v", err, most)
	}
}

func TestOnce(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{"time": channel.NewID(), "key": "payment-17"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := worldtest.OpenStore(t, worldtest.Virtual)
			var effect counted
			for range 3 {
				if err := once(t.Context(), s, "mails", id, effect.do); err != nil {
					t.Fatal(err)
				}
			}
			effect.want(t, 1)
			if err := once(t.Context(), s, "audits", id, effect.do); err != nil { // another group has its own effect
				t.Fatal(err)
			}
			effect.want(t, 2)
			if err := once(t.Context(), s, "mails", id+"0", effect.do); err != nil { // another message too
				t.Fatal(err)
			}
			effect.want(t, 3)
		})
	}
}

// Registered by ReactOnce: the second copy of an event is skipped, and its delivery ends well.
func TestOnceInAReaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	var effect counted
	handlers.ReactOnce(w.Registry, "mails", func(ctx context.Context, _ Mail) error {
		if e, _, ok := channel.Handled(ctx); !ok || e.ID == "" {
			t.Error("the effect can't find out the message's ID")
		}
		return effect.do(ctx)
	})
	e := envelope(channel.NewID(), "test.mail.v1", `{"to":"ada"}`)
	for range 2 {
		p, err := w.Channels.Outbox().Pack(t.Context(), *e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Store.Commit(t.Context(), storage.Work{Send: p.Sends}); err != nil {
			t.Fatal(err)
		}
	}
	w.mustDrain("mails")
	effect.want(t, 1)
	if n := worldtest.Queued(t, w.Store, "mails"); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

func TestOnceOutsideOfAHandler(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	var effect counted
	guarded := handlers.Once(s, "mails", func(ctx context.Context, _ Added) error { return effect.do(ctx) })
	if err := guarded(t.Context(), Added{}); err == nil {
		t.Error("got no error")
	}
	effect.want(t, 0)
}

// A failure takes the note back: the next attempt begins at once.
func TestOnceAfterAFailure(t *testing.T) {
	t.Parallel()
	broken := errors.New("no paper")
	for name, fail := range map[string]func(context.Context) error{
		"error": func(context.Context) error { return broken },
		"panic": func(context.Context) error { panic(broken) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := worldtest.OpenStore(t, worldtest.Virtual)
			id := channel.NewID()
			var p *handlers.PanicError
			if err := once(t.Context(), s, "mails", id, fail); !errors.Is(err, broken) && !errors.As(err, &p) {
				t.Fatalf("got error %v, want %v", err, broken)
			}
			if got := notes(t, s, "mails"); len(got) != 0 {
				t.Errorf("notes stay behind: %q", got)
			}
			var effect counted
			if err := once(t.Context(), s, "mails", id, effect.do); err != nil {
				t.Fatal(err)
			}
			effect.want(t, 1)
		})
	}
}

// After the handler's context has ended, the note is still taken back, or marked as done.
func TestOnceUnderAnEndedContext(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]error{"failed": errors.New("cancelled half-way"), "done": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := worldtest.OpenStore(t, worldtest.Virtual)
			id := channel.NewID()
			var effect counted
			ctx, cancel := context.WithCancel(t.Context())
			err := once(ctx, s, "mails", id, func(ctx context.Context) error {
				cancel()
				if result == nil {
					return effect.do(ctx)
				}
				return result
			})
			if err != result {
				t.Fatalf("got error %v, want %v", err, result)
			}
			if err := once(t.Context(), s, "mails", id, effect.do); err != nil {
				t.Fatal(err)
			}
			effect.want(t, 1)
		})
	}
}

func TestOnceConcurrentCopies(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	id := channel.NewID()
	var effect counted
	running, finish := make(chan struct{}), make(chan struct{})
	first := make(chan error)
	go func() {
		first <- once(t.Context(), s, "mails", id, func(ctx context.Context) error {
			close(running)
			<-finish
			return effect.do(ctx)
		})
	}()
	<-running
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { wantLater(t, once(t.Context(), s, "mails", id, effect.do), 30*time.Second) })
	}
	wg.Wait()
	close(finish)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	effect.want(t, 1)
	if err := once(t.Context(), s, "mails", id, effect.do); err != nil {
		t.Fatal(err)
	}
	effect.want(t, 1)
}

// Many copies at the same time have one effect, and none of them fails.
func TestOnceCopiesRace(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	id := channel.NewID()
	var effect counted
	copies(t, reaction(s, "mails", effect.do), id, 16)
	effect.want(t, 1)
}

// copies delivers a message n times at once. Each delivery has the effect, finds it done, or is told to come later.
func copies(t *testing.T, react func(context.Context, string) error, id string, n int) {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if err := react(t.Context(), id); err != nil {
				wantLater(t, err, 30*time.Second)
			}
		})
	}
	all.Wait()
}

func TestOnceUnreadableNote(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	var effect counted
	if err := once(t.Context(), s, "mails", "17", effect.do); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Table("once").Put(t.Context(), "mails", notes(t, s, "mails")[0], []byte("{"), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	if err := once(t.Context(), s, "mails", "17", effect.do); err == nil {
		t.Error("got no error")
	}
	effect.want(t, 1)
}

// A reaction that ends its goroutine leaves no note behind: the next attempt begins at once.
func TestOnceAfterGoexit(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	react := reaction(s, "mails", func(context.Context) error {
		runtime.Goexit()
		return nil
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = react(t.Context(), channel.NewID())
	}()
	<-ended
	if n := len(notes(t, s, "mails")); n != 0 {
		t.Errorf("%d notes are left; want none", n)
	}
}
