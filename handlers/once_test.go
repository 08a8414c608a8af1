package handlers_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/post"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// once runs a guarded reaction on a message, as the handler of a worker of its own would.
func once(ctx context.Context, s *storage.Store, group, id string, f func(context.Context) error) error {
	return reaction(s, group, f)(ctx, id)
}

// reaction is a guarded reaction in one worker, with that worker's memory of notes.
func reaction(s *storage.Store, group string, f func(context.Context) error) func(ctx context.Context, id string) error {
	guarded := handlers.Once(s, group, func(ctx context.Context, _ Added) error { return f(ctx) })
	return func(ctx context.Context, id string) error {
		return guarded(post.WithHandling(ctx, envelope(id, "test.added.v1", "{}"), group, nil), Added{})
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

// Old notes go once in a hundred effects, at a random one. Young notes stay, and so do those of keys.
func TestOnceForgetsOldNotes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls storagetest.Calls
		s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), calls.Hook)
		var effect counted
		guarded := handlers.Once(s, "mails", func(ctx context.Context, _ Added) error { return effect.do(ctx) })
		run := func(id string) {
			t.Helper()
			if err := guarded(post.WithHandling(t.Context(), envelope(id, "test.added.v1", "{}"), "mails", nil), Added{}); err != nil {
				t.Fatal(err)
			}
		}
		const old, sweep = 49, 100
		for i := range old {
			run(worldtest.IDAt(time.Now(), i))
		}
		run("a key")
		time.Sleep(29 * 24 * time.Hour)
		young := worldtest.IDAt(time.Now(), 0)
		run(young)
		time.Sleep(2*24*time.Hour + time.Second)
		before := calls.Count("query")
		for i := range sweep {
			run(worldtest.IDAt(time.Now(), i))
		}
		if got := calls.Count("query") - before; got != 1 {
			t.Errorf("looked for old notes %d times in %d effects, want once", got, sweep)
		}
		got := notes(t, s, "mails")
		if want := 2 + sweep; len(got) != want {
			t.Errorf("after the sweep: got %d notes, want %d", len(got), want)
		}
		done := effect.n.Load()
		run(young)
		run("a key")
		effect.want(t, done)
	})
}

// Processes that end long before their hundredth effect sweep old notes, too.
func TestOnceForgetsInShortLives(t *testing.T) {
	t.Parallel()
	var calls storagetest.Calls
	s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), calls.Hook)
	var effect counted
	for range 2000 { // the chance that none of them sweeps is e^-20
		if err := once(t.Context(), s, "mails", channel.NewID(), effect.do); err != nil {
			t.Fatal(err)
		}
	}
	if n := calls.Count("query"); n == 0 || n > 100 {
		t.Errorf("looked for old notes %d times in 2000 lives of one effect, want about 20 times", n)
	}
}

// A sweep that fails is no fault of the message whose effect is done.
func TestOnceSweepFails(t *testing.T) {
	t.Parallel()
	s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "query" {
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
	var effect counted
	guarded := handlers.Once(s, "mails", func(ctx context.Context, _ Added) error { return effect.do(ctx) })
	for range 100 {
		if err := guarded(post.WithHandling(t.Context(), envelope(channel.NewID(), "test.added.v1", "{}"), "mails", nil), Added{}); err != nil {
			t.Fatal(err)
		}
	}
	effect.want(t, 100)
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
