package once_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling/once"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

// runOnce runs a guarded reaction on a message, as the handler of a worker of its own would.
func runOnce(ctx context.Context, s *storage.Store, group, id string, f func(context.Context) error) error {
	return reaction(s, group, f)(ctx, id)
}

// envelope makes an envelope as a worker receives it.
func envelope(id string, kind channel.Kind, body string) *channel.Envelope {
	return &channel.Envelope{ID: id, Source: "/test", Kind: kind, Data: []byte(body)}
}

// guard returns a guarded effect in one worker, with that worker's memory of notes.
func guard(s *storage.Store, group string, f func(context.Context) error) func(context.Context) error {
	notes := once.New(s, group)
	return func(ctx context.Context) error { return notes.Do(ctx, f) }
}

// reaction is a guarded reaction in one worker, with that worker's memory of notes.
func reaction(s *storage.Store, group string, f func(context.Context) error) func(ctx context.Context, id string) error {
	guarded := guard(s, group, f)
	return func(ctx context.Context, id string) error {
		return guarded(wire.WithHandling(ctx, envelope(id, "test.added.v1", "{}"), group, nil))
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
	var later *verdict.LaterError
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
				if err := runOnce(t.Context(), s, "mails", id, effect.do); err != nil {
					t.Fatal(err)
				}
			}
			effect.want(t, 1)
			if err := runOnce(t.Context(), s, "audits", id, effect.do); err != nil { // another group has its own effect
				t.Fatal(err)
			}
			effect.want(t, 2)
			if err := runOnce(t.Context(), s, "mails", id+"0", effect.do); err != nil { // another message too
				t.Fatal(err)
			}
			effect.want(t, 3)
		})
	}
}

func TestOnceOutsideOfAHandler(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	var effect counted
	guarded := guard(s, "mails", effect.do)
	if err := guarded(t.Context()); err == nil {
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
			var p *verdict.PanicError
			if err := runOnce(t.Context(), s, "mails", id, fail); !errors.Is(err, broken) && !errors.As(err, &p) {
				t.Fatalf("got error %v, want %v", err, broken)
			}
			if got := notes(t, s, "mails"); len(got) != 0 {
				t.Errorf("notes stay behind: %q", got)
			}
			var effect counted
			if err := runOnce(t.Context(), s, "mails", id, effect.do); err != nil {
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
			err := runOnce(ctx, s, "mails", id, func(ctx context.Context) error {
				cancel()
				if result == nil {
					return effect.do(ctx)
				}
				return result
			})
			if err != result {
				t.Fatalf("got error %v, want %v", err, result)
			}
			if err := runOnce(t.Context(), s, "mails", id, effect.do); err != nil {
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
		first <- runOnce(t.Context(), s, "mails", id, func(ctx context.Context) error {
			close(running)
			<-finish
			return effect.do(ctx)
		})
	}()
	<-running
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { wantLater(t, runOnce(t.Context(), s, "mails", id, effect.do), 30*time.Second) })
	}
	wg.Wait()
	close(finish)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	effect.want(t, 1)
	if err := runOnce(t.Context(), s, "mails", id, effect.do); err != nil {
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
	if err := runOnce(t.Context(), s, "mails", "17", effect.do); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Table("once").Put(t.Context(), "mails", notes(t, s, "mails")[0], []byte("{"), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	if err := runOnce(t.Context(), s, "mails", "17", effect.do); err == nil {
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
