package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/tracing/tracingtest"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// thank is a reaction that answers an event with a mail.
func thank(_ context.Context, e Added) ([]channel.Message, error) {
	return []channel.Message{Mail{To: e.To}}, nil
}

// The messages and the end of the delivery are one unit of work, and the messages follow from the one that is answered.
func TestReplyIsOneUnitOfWork(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		w := worldOn(t, storagetest.Intercept(s, calls.Hook), handlers.Config{})
		handlers.Reply(w.Registry, "audits", thank, Mail{})
		worldtest.Send(w.World, Added{To: "ada"})
		d := w.receive("audits")[0]
		before := len(calls.Ops())
		got := handling.Handle(t.Context(), handling.Group{}, []*handlers.Delivery{d}, w.commit([]*handlers.Delivery{d}))[0]
		worldtest.Want(t, "outcome", got, handling.Outcome{Ended: handling.Deleted})
		want := "commit"
		if !s.Atomic() {
			want = "send delete"
		}
		var names []string
		for _, op := range calls.Ops()[before:] {
			names = append(names, op.Name)
		}
		worldtest.Want(t, "calls", strings.Join(names, " "), want)
		mails := worldtest.Take(t, s, "mails")
		if len(mails) != 1 || mails[0].Causation != d.Envelope.ID || mails[0].Source != "/test" {
			t.Errorf("got mails %+v, want one that follows from %s", mails, d.Envelope.ID)
		}
		worldtest.Want(t, "messages left", worldtest.Queued(t, s, "audits"), 0)
	})
}

// A repeat answers with the same IDs as the first run, and as channel.Send under the same handler.
func TestReplyRepeatsItsIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	handlers.Reply(w.Registry, "audits", func(ctx context.Context, e Added) ([]channel.Message, error) {
		if e.Note != "" {
			return nil, channel.Send(ctx, Mail{To: e.To}, channel.After(time.Hour, Mail{To: e.To}))
		}
		return []channel.Message{Mail{To: e.To}, channel.After(time.Hour, Mail{To: e.To})}, nil
	}, Mail{})
	var ids [3]string
	for i := range ids {
		e := worldtest.Envelope("0190b6a2-7b1c-7def-8123-456789abcdef", Added{To: "ada"})
		if i == 2 {
			e.Data = []byte(`{"to":"ada","note":"by Send"}`)
		}
		d, err := w.Registry.Inside().Handlers.Resolve("audits", &e)
		if err != nil {
			t.Fatal(err)
		}
		worldtest.Want(t, "outcome without a commit", handling.Handle(t.Context(), handling.Group{}, []*handlers.Delivery{d}, nil)[0], handling.Outcome{})
		for _, m := range worldtest.Take(t, w.Store, "mails") {
			ids[i] += m.ID + " "
		}
	}
	if ids[0] == "" || ids[0] != ids[1] || ids[0] != ids[2] {
		t.Errorf("got the IDs %q, want the same three times", ids)
	}
}

// A worker whose receipt is stale sends the answer all the same, and knows that the message is another's.
func TestReplyWithAStaleReceipt(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := worldOn(t, s, handlers.Config{})
		handlers.Reply(w.Registry, "audits", thank, Mail{})
		worldtest.Send(w.World, Added{To: "ada"})
		late := w.receive("audits")
		time.Sleep(2 * time.Minute)
		again := w.receive("audits")
		got := handling.Handle(t.Context(), handling.Group{}, late, w.commit(late))[0]
		worldtest.Want(t, "outcome", got, handling.Outcome{Ended: handling.Stale})
		worldtest.Want(t, "messages left", worldtest.Queued(t, s, "audits"), 1)
		worldtest.WantErr(t, w.handle(t.Context(), again...)[again[0]], nil)
		worldtest.Want(t, "distinct mails", len(idsOf(worldtest.Take(t, s, "mails"))), 1)
	})
}

func idsOf(es []channel.Envelope) map[string]bool {
	ids := map[string]bool{}
	for _, e := range es {
		ids[e.ID] = true
	}
	return ids
}

// Nothing is sent unless the outermost middleware returns nil, and then the answer of the last run is.
func TestReplyWithinMiddleware(t *testing.T) {
	t.Parallel()
	refusal := errors.New("the middleware says no")
	for name, test := range map[string]struct {
		within func(next func() error) error
		mails  string // to whom
		err    error
	}{
		"it passes":          {func(next func() error) error { return next() }, "1", nil},
		"it fails after":     {func(next func() error) error { return errors.Join(next(), refusal) }, "", refusal},
		"it never calls":     {func(func() error) error { return nil }, "", nil},
		"it calls twice":     {func(next func() error) error { return errors.Join(next(), next()) }, "2", nil},
		"the last run fails": {func(next func() error) error { _, _, _ = next(), next(), next(); return nil }, "", nil},
		"it ends its own":    {func(next func() error) error { _ = next(); runtime.Goexit(); return nil }, "", errAny},
		"it panics after":    {func(next func() error) error { _ = next(); panic("oops") }, "", errAny},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, handlers.Config{Middleware: []handlers.Middleware{func(next handlers.Next) handlers.Next {
				return func(ctx context.Context, d *handlers.Delivery) error {
					return test.within(func() error { return next(ctx, d) })
				}
			}}})
			runs := 0
			handlers.Reply(w.Registry, "audits", func(context.Context, Added) ([]channel.Message, error) {
				if runs++; runs == 3 {
					return []channel.Message{Mail{To: "3"}}, errors.New("the third run fails")
				}
				return []channel.Message{Mail{To: fmt.Sprint(runs)}}, nil
			}, Mail{})
			worldtest.Send(w.World, Added{To: "ada"})
			err := w.one(t.Context(), "audits")
			if test.err == errAny {
				if err == nil {
					t.Error("got no error")
				}
			} else {
				worldtest.WantErr(t, err, test.err)
			}
			mails := ""
			for _, e := range worldtest.Take(t, w.Store, "mails") {
				mails += strings.Trim(string(e.Data), `{}":to`)
			}
			worldtest.Want(t, "mails", mails, test.mails)
			left := 0
			if test.err != nil {
				left = 1
			}
			worldtest.Want(t, "messages left", worldtest.Queued(t, w.Store, "audits"), left)
		})
	}
}

var errAny = errors.New("any error")

// A fault of the answer is a fault of its message alone, and nothing is sent.
func TestReplyFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		messages []channel.Message
		action   verdict.Action
	}{
		"undeclared":   {[]channel.Message{Mail{To: "a"}, Refused{}}, verdict.ToPoison},
		"nil":          {[]channel.Message{Mail{To: "a"}, nil}, verdict.ToPoison},
		"not UTF-8":    {[]channel.Message{Mail{To: "a"}, Mail{To: "\xff"}}, verdict.TryAgain},
		"too far off":  {[]channel.Message{Mail{To: "a"}, channel.After(11*365*24*time.Hour, Mail{})}, verdict.ToPoison},
		"over the top": {[]channel.Message{Mail{To: "a"}, Mail{To: strings.Repeat("a", channel.MaxData)}}, verdict.TryAgain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, handlers.Config{})
			handlers.Reply(w.Registry, "audits", func(context.Context, Added) ([]channel.Message, error) { return test.messages, nil }, Mail{})
			worldtest.Send(w.World, Added{To: "ada"})
			v := verdict.Judge(w.one(t.Context(), "audits"))
			worldtest.Want(t, "action", v.Action, test.action)
			worldtest.Want(t, "an attempt is spent", v.Spent, true)
			worldtest.Want(t, "mails", len(worldtest.Take(t, w.Store, "mails")), 0)
			worldtest.Want(t, "messages left", worldtest.Queued(t, w.Store, "audits"), 1)
		})
	}
}

// A store that fails spends no attempt, and leaves the message.
func TestReplyWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		down := false
		w := worldOn(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if down && (op.Name == "send" || op.Name == "commit") {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}), handlers.Config{})
		handlers.Reply(w.Registry, "audits", thank, Mail{})
		worldtest.Send(w.World, Added{To: "ada"})
		ds := w.receive("audits")
		down = true
		worldtest.Want(t, "action", verdict.Judge(w.handle(t.Context(), ds...)[ds[0]]).Action, verdict.Unavailable)
		down = false
		worldtest.Want(t, "messages left", worldtest.Queued(t, s, "audits"), 1)
	})
}

// A reaction that hangs is given up, and whatever it returns later is not sent.
func TestReplyAfterAHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handlers.Config{Timeout: time.Second})
		handlers.Reply(w.Registry, "audits", func(ctx context.Context, e Added) ([]channel.Message, error) {
			time.Sleep(time.Minute)
			return thank(ctx, e)
		}, Mail{})
		worldtest.Send(w.World, Added{To: "ada"})
		hang := (*verdict.HangError)(nil)
		if err := w.one(t.Context(), "audits"); !errors.As(err, &hang) {
			t.Fatalf("got error %v, want a hang", err)
		}
		<-hang.Ended
		worldtest.Want(t, "mails", len(worldtest.Take(t, w.Store, "mails")), 0)
	})
}

// The registry reports what is wrong with a reply, and handling.Reply takes a kind of its own and needs no declaration.
func TestReplyIsRegistered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	handlers.Reply[Added](w.Registry, "audits", nil, unrouted{})
	err := w.Registry.Err()
	for _, want := range []string{"the reaction to test.added.v1 is nil", "it emits test.unrouted.v1, which has no route"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v; want %q in it", err, want)
		}
	}
	s := newSteps(t, handlers.Config{})
	handling.Reply(s.Registry.Inside(), kind("a"), "go on", "steps-a", func(_ context.Context, e *channel.Envelope, m Step) ([]channel.Message, error) {
		return []channel.Message{wire.Wrapped{Message: Step{"b", m.To}, ReplyTo: e.ID}}, nil
	})
	if err := s.Registry.Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Channels.Send(t.Context(), Step{"a", "ada"}); err != nil {
		t.Fatal(err)
	}
	s.mustDrain("steps-a")
	if next := worldtest.Take(t, s.Store, "steps-b"); len(next) != 1 || next[0].ReplyTo == "" || next[0].ReplyTo != next[0].Causation {
		t.Errorf("got %+v, want a step with a reply address", next)
	}
}

// A test that watches reactions sees a reply as any reaction.
func TestReplyIsWatched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	began, ended := "", 0
	w.Channels.Outbox().Watch = func(h *wire.Handling, once bool) func(error) {
		began = fmt.Sprint(h.Queue, " ", once)
		return func(error) { ended++ }
	}
	handlers.Reply(w.Registry, "audits", thank, Mail{})
	worldtest.Send(w.World, Added{To: "ada"})
	w.mustDrain("audits")
	worldtest.Want(t, "begun", began, "audits false")
	worldtest.Want(t, "ended", ended, 1)
}

// unrouted is an event without a route.
type unrouted struct{}

func (unrouted) Kind() channel.Kind { return "test.unrouted.v1" }

// An answer continues the trace of the call that made it, and its unit of work has a span.
func TestReplyInTraces(t *testing.T) {
	t.Parallel()
	spans := tracingtest.New(t)
	w := &world{t: t, log: worldtest.NewLog(), claims: map[*handlers.Delivery]storage.Claim{}}
	w.World = worldtest.New(t, worldtest.OpenStore(t, worldtest.Virtual), worldtest.Config{
		Routes:   []channel.Route{channel.Command[Mail]("mails")},
		Channels: func(c *channel.Channels) *channel.Channels { return c.TraceWith(spans.Provider) },
	})
	handlers.Reply(w.Registry, "audits", thank, Mail{})
	worldtest.Send(w.World, Added{To: "ada"})
	w.mustDrain("audits")
	mails := worldtest.Take(t, w.Store, "mails")
	call := spans.One("reply audits")
	if len(mails) != 1 || !strings.Contains(mails[0].TraceParent, call.SpanContext.SpanID().String()) {
		t.Errorf("got mails %+v, want one with the span %s as its parent", mails, call.SpanContext.SpanID())
	}
	spans.One("commit audits")
}

// handling.OnPoison takes the messages of one kind, where their type has several.
func TestOnPoisonOfOneKind(t *testing.T) {
	t.Parallel()
	w := newSteps(t, handlers.Config{})
	counts := values.New(w.Channels, "counts", values.Config[int]{})
	for _, plan := range []string{"a", "b"} {
		handling.Fold(w.Registry.Inside(), kind(plan), "count "+plan, "steps-"+plan, counts, anyKey(func(s Step) string { return s.To }),
			func(v int, _ *channel.Envelope, _ Step) (int, []channel.Message, error) { return v, nil, nil })
	}
	handling.OnPoison(w.Registry.Inside(), kind("a"), "steps-a", func(_ *channel.Envelope, m Step, why handlers.Poisoned) ([]channel.Message, error) {
		if m.To == "nobody" {
			return []channel.Message{nil}, nil
		}
		return []channel.Message{Step{"b", m.To + " " + why.Reason}}, nil
	})
	if err := w.Registry.Err(); err != nil {
		t.Fatal(err)
	}
	worldtest.Want(t, "compensates a", w.Registry.Inside().Compensations.Has("steps-a", "test.step.a"), true)
	worldtest.Want(t, "compensates b", w.Registry.Inside().Compensations.Has("steps-b", "test.step.b"), false)
	e := worldtest.Envelope(channel.NewID(), Step{"a", "ada"})
	sent, err := w.Registry.Inside().Compensations.Make(&e, handlers.Poisoned{Queue: "steps-a", Reason: "late"})
	if err != nil || len(sent) != 1 || sent[0].Kind != "test.step.b" || !strings.Contains(string(sent[0].Data), "ada late") {
		t.Errorf("got %+v, %v; want one step b", sent, err)
	}
	e = worldtest.Envelope(channel.NewID(), Step{"a", "nobody"})
	if _, err := w.Registry.Inside().Compensations.Make(&e, handlers.Poisoned{Queue: "steps-a"}); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("got error %v, want one about a nil message", err)
	}
}
