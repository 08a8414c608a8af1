package handlers_test

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// Step is a message of several kinds.
type Step struct {
	Plan string `json:"plan"`
	To   string `json:"to"`
}

// Kind depends on the plan.
func (s Step) Kind() channel.Kind { return channel.Kind("test.step." + s.Plan) }

func kind(plan string) handling.As { return handling.As{Kind: Step{Plan: plan}.Kind()} }

// newSteps is a world with two kinds of steps, each in a queue of its own.
func newSteps(t *testing.T, cfg handlers.Config) *world {
	t.Helper()
	w := &world{t: t, log: worldtest.NewLog(), claims: map[*handlers.Delivery]storage.Claim{}}
	w.World = worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), cfg, wire.Together(
		wire.Routed(Step{Plan: "a"}, "steps-a"), wire.Routed(Step{Plan: "b"}, "steps-b")))
	return w
}

// A type may serve several kinds, each with a handler of its own.
func TestKindOfAValue(t *testing.T) {
	t.Parallel()
	w := newSteps(t, handlers.Config{})
	counts := values.New(w.Channels, "counts", values.Config[int]{})
	for plan, n := range map[string]int{"a": 1, "b": 10} {
		handling.Fold(w.Registry.Inside(), kind(plan), "count "+plan, "steps-"+plan, counts, anyKey(func(s Step) string { return s.To }),
			func(v int, e *channel.Envelope, m Step) (int, []channel.Message, error) {
				if m.Kind() != e.Kind {
					return v, nil, errors.New("another kind's message")
				}
				return v + n, nil, nil
			})
	}
	if err := w.Registry.Err(); err != nil {
		t.Fatal(err)
	}
	if err := w.Channels.Send(t.Context(), Step{"a", "ada"}, Step{"b", "ada"}, Step{"b", "bob"}); err != nil {
		t.Fatal(err)
	}
	w.mustDrain("steps-a")
	w.mustDrain("steps-b")
	for key, want := range map[string]int{"ada": 11, "bob": 10} {
		if got, err := counts.Get(t.Context(), key, ""); err != nil || got.Value != want {
			t.Errorf("%s: got %v, %v; want %d", key, got.Value, err, want)
		}
	}
	about := w.Registry.Inside().Handlers.About()
	if len(about) != 2 || about[0].Kind != "test.step.a" || about[1].Kind != "test.step.b" {
		t.Errorf("got %+v, want the two kinds", about)
	}
}

// A message that is not for its handler is deleted without a fold, and its middleware runs.
func TestFoldIgnoresMessagesOfOthers(t *testing.T) {
	t.Parallel()
	passed := 0
	middleware := func(next handlers.Next) handlers.Next {
		return func(ctx context.Context, d *handlers.Delivery) error {
			if _, _, ok := channel.Handled(ctx); ok {
				passed++
			}
			return next(ctx, d)
		}
	}
	for name, cfg := range map[string]handlers.Config{"plain": {}, "middleware": {Middleware: []handlers.Middleware{middleware}}} {
		w := newSteps(t, cfg)
		counts := values.New(w.Channels, "counts", values.Config[int]{})
		handling.Fold(w.Registry.Inside(), kind("a"), "count", "steps-a", counts, func(_ *channel.Envelope, m Step) (string, bool) {
			return m.To, !strings.HasPrefix(m.To, "!")
		}, func(v int, _ *channel.Envelope, _ Step) (int, []channel.Message, error) { return v + 1, nil, nil })
		if err := w.Registry.Err(); err != nil {
			t.Fatal(err)
		}
		if err := w.Channels.Send(t.Context(), Step{"a", "!no"}, Step{"a", "yes"}); err != nil {
			t.Fatal(err)
		}
		w.mustDrain("steps-a")
		var keys []string
		for key, err := range counts.Keys(t.Context(), "", "") {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		if len(keys) != 1 || keys[0] != "yes" {
			t.Errorf("%s: got documents %q, want only the one of the message that is for the handler", name, keys)
		}
		worldtest.Want(t, name+": messages left", worldtest.Queued(t, w.Store, "steps-a"), 0)
		for key, want := range map[string]bool{"!no": false, "yes": true} {
			e := worldtest.Envelope(channel.NewID(), Step{"a", key})
			if got, ok, err := w.Registry.Inside().Handlers.About()[0].Key(&e); err != nil || ok != want || ok && got != key {
				t.Errorf("%s: key %s: got %q, %v, %v; want %v", name, key, got, ok, err, want)
			}
		}
	}
	worldtest.Want(t, "messages in the middleware", passed, 2)
}

// A registry tells which messages the collections of its handlers keep no record of.
func TestAboutUnrecordedMessages(t *testing.T) {
	t.Parallel()
	w := newSteps(t, handlers.Config{})
	counts := values.New(w.Channels, "counts", values.Config[int]{Idempotent: func(e *channel.Envelope) bool {
		if e.ID == "panics" {
			panic("oops")
		}
		return e.ID == "known"
	}})
	handling.Fold(w.Registry.Inside(), kind("a"), "count", "steps-a", counts, anyKey(func(m Step) string { return m.To }),
		func(v int, _ *channel.Envelope, _ Step) (int, []channel.Message, error) { return v + 1, nil, nil })
	for id, want := range map[string]bool{"known": true, "other": false, "panics": true} {
		worldtest.Want(t, id, w.Registry.Inside().Handlers.About()[0].Unrecorded(&channel.Envelope{ID: id}), want)
	}
}

// A registry tells what a handler would make of a message, and writes nothing, whatever the handler's code does.
func TestAboutTriedMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSteps(t, handlers.Config{})
		counts := values.New(w.Channels, "counts", values.Config[int]{})
		handling.Fold(w.Registry.Inside(), kind("a"), "count", "steps-a", counts, func(_ *channel.Envelope, m Step) (string, bool) {
			return m.To, m.To != "other"
		}, func(v int, _ *channel.Envelope, m Step) (int, []channel.Message, error) {
			switch m.To {
			case "panics":
				panic("oops")
			case "exits":
				runtime.Goexit()
			case "hangs":
				time.Sleep(time.Hour) // in a bubble
			case "fails":
				return v, nil, errors.New("no")
			case "same":
				return 7, nil, values.ErrUnchanged
			}
			return v + 1, []channel.Message{Step{"b", "x"}}, nil
		})
		try := w.Registry.Inside().Handlers.About()[0].Try
		for to, want := range map[string]string{"panics": "oops", "exits": "Goexit", "hangs": "takes longer than", "fails": "no"} {
			e := worldtest.Envelope(channel.NewID(), Step{"a", to})
			if got, err := try(t.Context(), &e); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %+v, %v; want %q", to, got, err, want)
			}
		}
		for to, want := range map[string]wire.Tried{
			"other": {Ignored: true}, "same": {Key: "same", Before: []byte("0"), After: []byte("0")}, "count": {Key: "count", Before: []byte("0"), After: []byte("1")},
		} {
			e := worldtest.Envelope(channel.NewID(), Step{"a", to})
			got, err := try(t.Context(), &e)
			if emits := len(got.Emits); emits == 1 != (to == "count") || emits == 1 && got.Emits[0].Kind != (Step{"b", ""}).Kind() {
				t.Errorf("%s: it would emit %+v", to, got.Emits)
			}
			if got.Emits = nil; err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v, %v; want %+v", to, got, err, want)
			}
		}
		for key, err := range counts.Keys(t.Context(), "", "") {
			t.Errorf("it wrote document %q (%v)", key, err)
		}
		time.Sleep(time.Hour) // what hangs ends
	})
}
