package handlers_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

// unchanged decides that nothing changes.
func unchanged[M channel.Message](v Account, _ M) (Account, []channel.Message, error) {
	return v, nil, nil
}

// The fault of a registration says what to do, and leads in no circle.
func TestAdviceAtRegistration(t *testing.T) {
	t.Parallel()
	to := func(string) string { return "a" }
	for name, test := range map[string]struct {
		register func(w *world)
		want     string // empty: it is right
	}{
		"an event that is decided": {func(w *world) { handlers.Decide(w.Registry, w.Accounts, Added.Subject, unchanged[Added]) },
			"test.added.v1: the routes have it as an event: use handlers.On for a subscriber group's queue, or channel.Command in the routes"},
		"a command that is decided": {func(w *world) { handlers.Decide(w.Registry, w.Accounts, Add.Subject, unchanged[Add]) }, ""},
		"a command by On": {func(w *world) { handlers.On(w.Registry, "audits", w.Accounts, Add.Subject, unchanged[Add]) },
			"test.add.v1: the routes have it as a command: use handlers.Decide, or channel.Event in the routes"},
		"an event by On": {func(w *world) { handlers.On(w.Registry, "audits", w.Accounts, Added.Subject, unchanged[Added]) }, ""},
		"On for another group": {func(w *world) { handlers.On(w.Registry, "mails", w.Accounts, Added.Subject, unchanged[Added]) },
			"no route takes test.added.v1 to queue mails: add it to the routes"},
		"no route": {func(w *world) {
			handlers.Decide(w.Registry, w.Accounts, func(Lost) string { return to("") }, unchanged[Lost])
		}, "no route for command test.lost.v1: add channel.Command for it to the routes"},
		"On without a route": {func(w *world) {
			handlers.On(w.Registry, "audits", w.Accounts, func(Lost) string { return to("") }, unchanged[Lost])
		}, "no route takes test.lost.v1 to queue audits: add it to the routes"},
		"an emission without a route": {func(w *world) { handlers.Decide(w.Registry, w.Accounts, Add.Subject, unchanged[Add], Lost{}) },
			"it emits test.lost.v1, which has no route: add channel.Event for it to the routes, or channel.Command if it is a command"},
		"a later emission without a route": {func(w *world) {
			handlers.Decide(w.Registry, w.Accounts, Add.Subject, unchanged[Add], channel.After(0, Lost{}))
		}, "it emits test.lost.v1, which has no route"},
		"a later emission": {func(w *world) {
			handlers.Decide(w.Registry, w.Accounts, Add.Subject, unchanged[Add], channel.After(0, Mail{}), channel.At(time.Time{}, Added{}))
		}, ""},
		"a nil emission": {func(w *world) { handlers.Decide(w.Registry, w.Accounts, Add.Subject, unchanged[Add], Added{}, nil) },
			"emission 2 of 2 is nil; want a value of its type"},
		"a later nil": {func(w *world) {
			handlers.Decide(w.Registry, w.Accounts, Add.Subject, unchanged[Add], channel.After(time.Hour, nil))
		}, "emission 1 of 1 is nil; want a value of its type"},
	} {
		w := newWorld(t, handlers.Config{})
		test.register(w)
		err := w.Registry.Err()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: got error %v, want %q alone", name, err, test.want)
		}
	}
}

// An emission that can't be sent is the verdict of its message alone, at once: a pure decision would say it again.
func TestAdviceAtRunTime(t *testing.T) {
	t.Parallel()
	var nobody *Mail
	for name, test := range map[string]struct {
		emission     channel.Message
		reason, want string
	}{
		"undeclared":       {Refused{}, "undeclared emission", "it emits test.refused.v1: name a value of that type in the last arguments of its registration"},
		"undeclared later": {channel.After(time.Hour, Refused{}), "undeclared emission", "it emits test.refused.v1"},
		"nil":              {nil, "nil emission", "emission 2 of 2 is nil"},
		"a nil pointer":    {nobody, "nil emission", "emission 2 of 2 is nil"},
		"nil later":        {channel.At(time.Time{}, nil), "nil emission", "emission 2 of 2 is nil"},
		"refused":          {Checked{N: -1}, "refused emission", "emission 2 of 2, test.checked.v1: refused by its check: n is negative"},
		"in eleven years":  {channel.After(11*channel.MaxDelay/10, Checked{N: 1}), "refused emission", "want at most ten years"},
		"refused later":    {channel.After(time.Hour, Checked{N: -1}), "refused emission", "n is negative"},
		"fine":             {channel.After(time.Hour, Checked{N: 1}), "", ""},
	} {
		w := checking(t, handlers.Config{})
		handlers.Decide(w.Registry, w.Accounts, Add.Subject, func(v Account, c Add) (Account, []channel.Message, error) {
			all := []channel.Message{Mail{To: c.To}}
			if c.To == "bad" {
				all = append(all, test.emission)
			}
			v.Count++
			return v, all, nil
		}, Mail{}, Checked{})
		worldtest.Send(w.World, Add{To: "good"}, Add{To: "bad"})
		errs := w.drain("accounts")
		if test.want == "" {
			worldtest.WantErr(t, errors.Join(errs...), nil)
			continue
		}
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), test.want) {
			t.Errorf("%s: got errors %v, want %q", name, errs, test.want)
			continue
		}
		if v := verdict.Judge(errs[0]); v.Action != verdict.ToPoison || v.Reason != test.reason {
			t.Errorf("%s: got verdict %+v, want poison for %q", name, v, test.reason)
		}
		worldtest.Want(t, name+": mails of the other message", len(worldtest.Take(t, w.Store, "mails")), 1)
	}
}

// checking makes a world that routes Checked and worldtest.Moody messages.
func checking(t *testing.T, cfg handlers.Config) *world {
	t.Helper()
	w := &world{t: t, claims: map[*handlers.Delivery]storage.Claim{}}
	w.World = worldtest.New(t, worldtest.OpenStore(t, worldtest.Virtual), worldtest.Config{Handlers: cfg, Routes: []channel.Route{
		channel.Command[Mail]("mails"), channel.Command[Checked]("checks"), channel.Command[worldtest.Moody]("checks"),
	}})
	return w
}

// The check of a decision's emission may do anything: that ends in an error of its message alone.
func TestEmissionWhoseCheckMisbehaves(t *testing.T) {
	t.Parallel()
	for mood, want := range map[string]string{"panics": "panic: in the check", "ends": "runtime.Goexit", "hangs": "hangs", "": ""} {
		t.Run(mood, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := checking(t, handlers.Config{Timeout: time.Second})
				handlers.Decide(w.Registry, w.Accounts, Add.Subject, func(v Account, c Add) (Account, []channel.Message, error) {
					v.Count++
					return v, []channel.Message{worldtest.Moody{Mood: c.Note}}, nil
				}, worldtest.Moody{})
				worldtest.Send(w.World, Add{To: "a"}, Add{To: "a", Note: mood})
				errs := w.drain("accounts")
				if want == "" && len(errs) != 0 || want != "" && (len(errs) == 0 || !strings.Contains(errors.Join(errs...).Error(), want)) {
					t.Errorf("got errors %v, want %q", errs, want)
				}
				if v := verdict.Judge(errors.Join(errs...)); want != "" && mood != "hangs" && (v.Action != verdict.TryAgain || len(errs) != 1) {
					t.Errorf("got verdict %+v of %d, want another attempt of one", v, len(errs))
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// The check is run on the message as the handler gets it: upgraded, or a pointer. A body that is null is no pointer.
func TestCheckOfWhatTheHandlerGets(t *testing.T) {
	t.Parallel()
	w := checking(t, handlers.Config{})
	handlers.React(w.Registry, "checks", nothing[Checked])
	handlers.Upgrade(w.Registry, func(m oldChecked) Checked { return Checked{N: -m.Minus} })
	for _, test := range []struct {
		kind   channel.Kind
		body   string
		reason string
	}{
		{"test.checked.v1", `{"n":1}`, ""},
		{"test.checked.v1", `{"n":-1}`, handlers.ReasonRefused},
		{"test.checked.v0", `{"minus":-1}`, ""},
		{"test.checked.v0", `{"minus":1}`, handlers.ReasonRefused},
	} {
		_, err := w.Registry.Inside().Handlers.Resolve("checks", envelope("a", test.kind, test.body))
		if v := verdict.Judge(err); v.Reason != test.reason || (err != nil) != (test.reason != "") {
			t.Errorf("%s %s: got %+v, want reason %q", test.kind, test.body, v, test.reason)
		}
	}
	b := worldtest.NewBare(t, w.Store, handlers.Config{}, channel.Command[*Pointed]("points"))
	handlers.React(b.Registry, "points", nothing[*Pointed])
	for body, reason := range map[string]string{`{"n":1}`: "", `{"n":-1}`: handlers.ReasonRefused, `null`: handlers.ReasonUndecodable} {
		_, err := b.Registry.Inside().Handlers.Resolve("points", envelope("a", "test.pointed.v1", body))
		if v := verdict.Judge(err); v.Reason != reason || (err != nil) != (reason != "") {
			t.Errorf("%s: got %+v, want reason %q", body, v, reason)
		}
	}
}

// oldChecked is what Checked was before. It has a check of its own, which counts where it is sent.
type oldChecked struct {
	Minus int `json:"minus"`
}

func (oldChecked) Kind() channel.Kind { return "test.checked.v0" }
func (oldChecked) Check() error       { return errors.New("no longer sent") }

// Pointed is a message that is a pointer.
type Pointed struct {
	N int `json:"n"`
}

// Kind is the name on the wire.
func (*Pointed) Kind() channel.Kind { return "test.pointed.v1" }

// Check refuses negative numbers.
func (p *Pointed) Check() error { return Checked{N: p.N}.Check() }
