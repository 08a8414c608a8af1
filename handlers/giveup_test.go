package handlers_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
)

// OldMail is what Mail was before.
type OldMail struct {
	Recipient string `json:"recipient"`
}

// Kind is the name on the wire.
func (OldMail) Kind() channel.Kind { return "test.mail.v0" }

func newMail(m OldMail) Mail { return Mail{To: m.Recipient} }

// A handler knows which attempt it is, and how many there are: in a reaction, in a middleware, of an upgraded message.
func TestAttempt(t *testing.T) {
	t.Parallel()
	var got [][2]int
	note := func(ctx context.Context) {
		n, most := handlers.Attempt(ctx)
		got = append(got, [2]int{n, most})
	}
	w := newWorld(t, handlers.Config{Middleware: []handlers.Middleware{func(next handlers.Next) handlers.Next {
		return func(ctx context.Context, d *handlers.Delivery) error {
			note(ctx)
			return next(ctx, d)
		}
	}}})
	handlers.React(w.Registry, "mails", func(ctx context.Context, _ Mail) error { note(ctx); return nil })
	handlers.Upgrade(w.Registry, newMail)
	w.Decide()
	ctx := wire.WithMostAttempts(t.Context(), 3)
	for queue, e := range map[string]*channel.Envelope{
		"mails":    envelope("a", "test.mail.v0", `{"recipient":"ada"}`),
		"accounts": envelope("b", worldtest.AddKind, `{"to":"ada","amount":1}`),
	} {
		for _, before := range []int{0, 2, 4} {
			got, e.Attempts = nil, before
			d, err := w.Registry.Inside().Handlers.Resolve(queue, e)
			if err != nil {
				t.Fatal(err)
			}
			g, _ := d.Group()
			if out := handling.Handle(ctx, g, []*handlers.Delivery{d}, nil)[0]; out.Err != nil {
				t.Fatal(out.Err)
			}
			want := [][2]int{{before + 1, 3}}
			if queue == "mails" {
				want = append(want, want[0])
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: got attempts %v, want %v", queue, got, want)
			}
		}
	}
	if n, most := handlers.Attempt(ctx); n != 0 || most != 0 {
		t.Errorf("outside of a handler: got %d of %d, want 0 of 0", n, most)
	}
}

// lost is what a program sends for a mail that it gives up.
func lost(m Mail, _ handlers.Poisoned) []channel.Message { return []channel.Message{Refused{To: m.To}} }

// The faults of an OnPoison are reported at start, in words that help.
func TestOnPoisonFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		register func(r *handlers.Registry)
		want     string
	}{
		"nil":     {func(r *handlers.Registry) { handlers.OnPoison[Mail](r, nil) }, "test.mail.v1: the function is nil"},
		"a route": {func(r *handlers.Registry) { handlers.OnPoison(r, lost, Lost{}) }, "it emits test.lost.v1, which has no route: add channel.Event"},
		"nothing": {func(r *handlers.Registry) { handlers.OnPoison(r, lost, channel.After(time.Hour, nil)) }, "emission 1 of 1 is nil"},
		"twice": {func(r *handlers.Registry) {
			handlers.OnPoison(r, lost, Refused{})
			handlers.OnPoison(r, lost, Refused{})
		}, "registered twice"},
		"no handler": {func(r *handlers.Registry) {
			handlers.OnPoison(r, func(Add, handlers.Poisoned) []channel.Message { return nil })
		}, "test.add.v1: this registry has no handler for it"},
		"a bad kind": {func(r *handlers.Registry) {
			handlers.OnPoison(r, func(Misnamed, handlers.Poisoned) []channel.Message { return nil })
		}, "Misnamed"},
		"none, before its handler": {func(r *handlers.Registry) {
			handlers.OnPoison(r, func(Refused, handlers.Poisoned) []channel.Message { return nil }, channel.After(0, Mail{}), &Mail{})
			handlers.React(r, "audits", nothing[Refused])
		}, ""},
	} {
		w := newWorld(t, handlers.Config{})
		test.register(w.Registry)
		handlers.React(w.Registry, "mails", nothing[Mail])
		err := w.Registry.Err()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got error %v, want %q", name, err, test.want)
		}
		if err != nil && strings.Count(err.Error(), "on poison") != 1 {
			t.Errorf("%s: got error %v, want one fault", name, err)
		}
	}
}

// compensating makes a world that sends what f returns for a mail that it gives up.
func compensating(t *testing.T, f func(Mail, handlers.Poisoned) []channel.Message) *world {
	t.Helper()
	w := newWorld(t, handlers.Config{})
	handlers.React(w.Registry, "mails", nothing[Mail])
	handlers.Upgrade(w.Registry, newMail)
	handlers.OnPoison(w.Registry, f, Refused{}, Added{}, Checked{}, &Mail{})
	return w
}

// A message of a compensation has the same ID each time, whatever the time: it follows from the given-up message's ID
// and content, its queue and its place. The time from which it counts stands beside it.
func TestCompensationsHaveIDsThatFollow(t *testing.T) {
	t.Parallel()
	w := compensating(t, func(m Mail, why handlers.Poisoned) []channel.Message {
		return []channel.Message{
			Refused{To: m.To}, channel.After(time.Hour, Refused{To: m.To}), channel.At(why.Last.Add(-time.Hour), Refused{To: why.Reason}), Added{To: "x"},
		}
	})
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	ids := func(e *channel.Envelope, queue string, at time.Time) (ids []string) {
		all, err := w.Registry.Inside().Compensations.Make(e, handlers.Poisoned{ID: e.ID, Queue: queue, Reason: "bad", Last: at})
		if err != nil || len(all) != 4 {
			t.Fatalf("got %+v, %v; want four", all, err)
		}
		for i, x := range all {
			due := time.Time{}
			if i == 1 {
				due = at.Add(time.Hour)
			}
			born := at
			if i == 1 {
				born = due
			}
			if !x.Due.Equal(due) || !x.Born().Equal(born) || x.Source != "/poison/"+queue || x.Causation != e.ID || x.Tenant != "north" {
				t.Errorf("message %d: got %+v, want it due at %v and counting from %v", i, x, due, born)
			}
			ids = append(ids, x.ID)
		}
		return ids
	}
	for _, id := range []string{channel.NewID(), "order 17"} {
		e := envelope(id, "test.mail.v0", `{"recipient":"ada"}`)
		e.Tenant = "north"
		want := ids(e, "mails", at)
		if got := ids(e, "mails", at.Add(40*24*time.Hour)); !slices.Equal(got, want) {
			t.Errorf("poisoned again: got IDs %q, want %q", got, want)
		}
		all := slices.Concat(want, ids(e, "others", at))
		e.Data = []byte(`{"recipient":"bob"}`)
		all = append(all, ids(e, "mails", at)...)
		if slices.Sort(all); len(slices.Compact(all)) != 12 {
			t.Errorf("got IDs %q, want 4 of each queue and content", all)
		}
	}
}

// Whatever the function of OnPoison does, it ends in an error that says what to do.
func TestCompensationsThatFail(t *testing.T) {
	t.Parallel()
	var nobody *Mail
	for name, test := range map[string]struct {
		f    func(Mail, handlers.Poisoned) []channel.Message
		body string
		want string
	}{
		"panics":     {f: func(Mail, handlers.Poisoned) []channel.Message { panic("boom") }, want: "panic: boom"},
		"ends":       {f: func(Mail, handlers.Poisoned) []channel.Message { runtime.Goexit(); return nil }, want: "runtime.Goexit"},
		"nil":        {f: func(Mail, handlers.Poisoned) []channel.Message { return []channel.Message{Refused{}, nil} }, want: "emission 2 of 2 is nil"},
		"later nil":  {f: func(Mail, handlers.Poisoned) []channel.Message { return []channel.Message{channel.After(1, nil)} }, want: "emission 1 of 1 is nil"},
		"typed nil":  {f: func(Mail, handlers.Poisoned) []channel.Message { return []channel.Message{nobody} }, want: "emission 1 of 1 is nil"},
		"undeclared": {f: func(Mail, handlers.Poisoned) []channel.Message { return []channel.Message{Add{}} }, want: "it emits test.add.v1: name a value of that type"},
		"refused":    {f: func(Mail, handlers.Poisoned) []channel.Message { return []channel.Message{Checked{N: -1}} }, want: "n is negative"},
		"too late": {f: func(Mail, handlers.Poisoned) []channel.Message {
			return []channel.Message{channel.After(2*channel.MaxDelay, Refused{})}
		}, want: "at most ten years"},
		"bad text":    {f: func(Mail, handlers.Poisoned) []channel.Message { return []channel.Message{Refused{To: "\xff"}} }, want: "UTF-8"},
		"undecodable": {f: lost, body: `{"to":7}`, want: "the message can't be decoded"},
		"no body":     {f: lost, body: "gone", want: wire.ErrDataLost.Error()},
		"fine":        {f: lost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := compensating(t, test.f)
			e := envelope("a", "test.mail.v1", `{"to":"ada"}`)
			switch test.body {
			case "":
			case "gone":
				e.Data, e.DataRef = nil, "claims/mails/"+channel.NewID()
			default:
				e.Data = []byte(test.body)
			}
			sent, err := w.Registry.Inside().Compensations.Make(e, handlers.Poisoned{ID: "a", Queue: "mails", Last: time.Now()})
			if test.want == "" && (err != nil || len(sent) != 1) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || sent != nil) {
				t.Errorf("got %d messages and error %v, want %q", len(sent), err, test.want)
			}
		})
	}
}

// A function that hangs is given up, and its late result isn't used.
func TestCompensationHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opened := make(chan struct{})
		w := compensating(t, func(m Mail, why handlers.Poisoned) []channel.Message { <-opened; return lost(m, why) })
		sent, err := w.Registry.Inside().Compensations.Make(envelope("a", "test.mail.v1", `{"to":"ada"}`), handlers.Poisoned{Queue: "mails"})
		close(opened)
		hang := (*verdict.HangError)(nil)
		if !errors.As(err, &hang) || !strings.Contains(hang.Stack, "TestCompensationHangs") {
			t.Fatalf("got error %v, want that it hangs, and where", err)
		}
		if <-hang.Ended; sent != nil {
			t.Errorf("got %+v, want nothing", sent)
		}
	})
}

// A package of this module has a function of its own for a queue. It gets the envelope, and the program's function gets
// the message, too.
func TestOnPoisonOfOneQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	handlers.React(w.Registry, "mails", nothing[Mail])
	handlers.OnPoison(w.Registry, lost, Refused{})
	handling.OnPoison(w.Registry.Inside(), handling.As{}, "mails", func(e *channel.Envelope, m Mail, why handlers.Poisoned) ([]channel.Message, error) {
		return []channel.Message{Add{To: m.To, Note: e.ReplyTo + " " + why.Reason}}, nil
	})
	worldtest.WantErr(t, w.Registry.Err(), nil)
	e := envelope("a", "test.mail.v1", `{"to":"ada"}`)
	e.ReplyTo = "here"
	for queue, want := range map[string][]string{"mails": {`{"to":"ada","amount":0,"note":"here bad"}`, `{"to":"ada"}`}, "others": {`{"to":"ada"}`}} {
		all, err := w.Registry.Inside().Compensations.Make(e, handlers.Poisoned{ID: e.ID, Queue: queue, Reason: "bad", Last: time.Now()})
		var got []string
		for _, x := range all {
			got = append(got, string(x.Data))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v; want %q", queue, got, err, want)
		}
	}
	handling.OnPoison(w.Registry.Inside(), handling.As{}, "others", func(*channel.Envelope, Mail, handlers.Poisoned) ([]channel.Message, error) { return nil, nil })
	if err := w.Registry.Err(); err == nil || !strings.Contains(err.Error(), "test.mail.v1: this registry has no handler for it") {
		t.Errorf("got error %v, want that the queue has no handler", err)
	}
}

// Only kinds with a function are compensated, whichever version of them comes.
func TestCompensates(t *testing.T) {
	t.Parallel()
	w := compensating(t, lost)
	for kind, want := range map[channel.Kind]bool{"test.mail.v1": true, "test.mail.v0": true, "test.added.v1": false, "test.other.v1": false} {
		if got := w.Registry.Inside().Compensations.Has("mails", kind); got != want {
			t.Errorf("%s: got %v, want %v", kind, got, want)
		}
	}
}
