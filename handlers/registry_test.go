package handlers_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/values"
)

// Lost has no route.
type Lost struct{}

func (Lost) Kind() channel.Kind { return "test.lost.v1" }

// Misnamed has a malformed kind.
type Misnamed struct{}

func (Misnamed) Kind() channel.Kind { return "Misnamed" }

// AddedToo has the kind of Added.
type AddedToo struct{}

func (AddedToo) Kind() channel.Kind { return "test.added.v1" }

func nothing[E channel.Message](context.Context, E) error { return nil }

func TestRegistryWithoutFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	w.Decide()
	handlers.React(w.Registry, "audits", nothing[Added])
	handlers.React(w.Registry, "audits", nothing[Refused])
	handlers.React(w.Registry, "mails", nothing[Mail])
	if err := w.Registry.Err(); err != nil {
		t.Fatal(err)
	}
	if got, want := w.Registry.Queues(), []string{"accounts", "audits", "mails"}; !slices.Equal(got, want) {
		t.Errorf("queues: got %q, want %q", got, want)
	}
	var got []string
	for _, q := range w.Registry.Queues() {
		for _, h := range w.Registry.Inside().Handlers.Of(q) {
			got = append(got, q+": "+h.Name()+" "+string(h.Kind()))
		}
	}
	want := []string{
		"accounts: decide accounts test.add.v1", "audits: react audits test.added.v1",
		"audits: react audits test.refused.v1", "mails: react mails test.mail.v1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("handlers: got %q, want %q", got, want)
	}
	if len(w.Registry.Kinds("nowhere")) != 0 {
		t.Error("a queue without handlers has handlers")
	}
	if got, want := w.Registry.Kinds("audits"), []channel.Kind{"test.added.v1", "test.refused.v1"}; !slices.Equal(got, want) {
		t.Errorf("kinds of audits: got %q, want %q", got, want)
	}
	if w.Registry.Channels() != w.Channels {
		t.Error("not the channels that it was made with")
	}
}

// A fault of the configuration is reported, not replaced by a default.
func TestConfigFaults(t *testing.T) {
	t.Parallel()
	for timeout, fault := range map[time.Duration]bool{0: false, 1: false, -1: true, -time.Hour: true} {
		err := newWorld(t, handlers.Config{Timeout: timeout}).Registry.Err()
		if (err != nil) != fault || fault && !strings.Contains(err.Error(), "Timeout is "+timeout.String()) {
			t.Errorf("timeout %v: got error %v", timeout, err)
		}
	}
}

func TestRegistryCollectsFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	same := func(v Account, _ Add) (Account, []channel.Message, error) { return v, nil, nil }
	w.Decide()
	handlers.Decide(w.Registry, w.Accounts, Add.Subject, same)
	handlers.Decide(w.Registry, w.Accounts, Added.Subject, func(v Account, _ Added) (Account, []channel.Message, error) { return v, nil, nil })
	handlers.Decide(w.Registry, w.Accounts, func(Lost) string { return "" }, func(v Account, _ Lost) (Account, []channel.Message, error) { return v, nil, nil })
	handlers.Decide(w.Registry, values.New(w.Channels, "no_name", values.Config[Account]{}), func(Mail) string { return "" },
		func(v Account, _ Mail) (Account, []channel.Message, error) { return v, nil, nil }, Lost{}, Add{})
	handlers.React(w.Registry, "mails", nothing[Added])
	handlers.React(w.Registry, "Audits", nothing[Added])
	handlers.React(w.Registry, "audits", nothing[Misnamed])
	handlers.React(w.Registry, "audits", nothing[Added])
	handlers.React(w.Registry, "audits", nothing[Added])
	handlers.React(w.Registry, "totals", nothing[AddedToo])
	handlers.Upgrade(w.Registry, func(Lost) Misnamed { return Misnamed{} })
	err := w.Registry.Err()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{
		"decide accounts: test.add.v1: registered twice",
		"test.added.v1: the routes have it as an event: use handlers.On",
		"no route for command test.lost.v1",
		`collection "no_name"`,
		"it emits test.lost.v1, which has no route: add channel.Event",
		"no route takes test.added.v1 to queue mails",
		`"Audits"`,
		`kind "Misnamed"`,
		"queue audits has a handler for test.added.v1 already: react audits",
		"AddedToo",
		"upgrade from test.lost.v1",
	} {
		if strings.Count(err.Error(), want) != 1 {
			t.Errorf("want %q once in:\n%v", want, err)
		}
	}
}

// Functions that are nil are reported at start-up, and spend no message.
func TestRegistryReportsNilFunctions(t *testing.T) {
	t.Parallel()
	same := func(v Account, _ Mail) (Account, []channel.Message, error) { return v, nil, nil }
	ends := func(handlers.Next) handlers.Next { return nil }
	w := newWorld(t, handlers.Config{Middleware: []handlers.Middleware{nil, ends}})
	handlers.Decide[Account, Add](w.Registry, w.Accounts, Add.Subject, nil, nil)
	handlers.Decide(w.Registry, values.New(w.Channels, "boxes", values.Config[Account]{}), nil, same)
	handlers.ReactOnce[Added](w.Registry, "audits", nil)
	handlers.React[Refused](w.Registry, "audits", nil)
	handlers.Upgrade[Lost, Added](w.Registry, nil)
	handlers.Decide[Account, Mail](w.Registry, nil, func(Mail) string { return "" }, same)
	handlers.On[Account, Added](w.Registry, "audits", nil, func(Added) string { return "" }, nil)
	err := w.Registry.Err()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{
		"Middleware 1 of 2 is nil", "react audits: Middleware 2 of 2 returned nil",
		"decide accounts: test.add.v1: the decision is nil", "decide accounts: test.add.v1: emission 1 of 1 is nil",
		"decide boxes: the function for the key of test.mail.v1 is nil",
		"react audits: the reaction to test.added.v1 is nil", "react audits: the reaction to test.refused.v1 is nil",
		"upgrade from test.lost.v1 to test.added.v1: the function is nil",
		"decide test.mail.v1: the collection is nil", "on test.added.v1: the collection is nil",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in:\n%v", want, err)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	w.Decide()
	handlers.React(w.Registry, "audits", nothing[Added])
	e := envelope("1", "test.add.v1", `{"to":"ada","amount":3,"unknown":[]}`)
	d, err := w.Registry.Inside().Handlers.Resolve("accounts", e)
	if err != nil {
		t.Fatal(err)
	}
	if d.Message != (Add{To: "ada", Amount: 3}) || d.Envelope != e || d.Queue != "accounts" || d.Handler.Name() != "decide accounts" {
		t.Errorf("got %+v", d)
	}
	for _, test := range []struct {
		name, queue string
		e           *channel.Envelope
		want        error
	}{
		{"unknown kind", "accounts", envelope("1", "test.add.v2", `{}`), wire.ErrUnknownKind},
		{"kind of another queue", "accounts", envelope("1", "test.added.v1", `{}`), wire.ErrUnknownKind},
		{"unknown queue", "nowhere", envelope("1", "test.add.v1", `{}`), wire.ErrUnknownKind},
		{"bad body", "accounts", envelope("1", "test.add.v1", `{"amount":"x"}`), channel.ErrBody},
		{"no body", "accounts", envelope("1", "test.add.v1", ``), channel.ErrBody},
	} {
		if d, err := w.Registry.Inside().Handlers.Resolve(test.queue, test.e); !errors.Is(err, test.want) || d != nil {
			t.Errorf("%s: got %v and error %v, want %v", test.name, d, err, test.want)
		}
	}
}

func TestGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	w.Decide()
	handlers.React(w.Registry, "audits", nothing[Added])
	group := func(queue string, kind channel.Kind, to string) (handling.Group, bool, error) {
		t.Helper()
		d, err := w.Registry.Inside().Handlers.Resolve(queue, envelope("1", kind, `{"to":"`+to+`"}`))
		if err != nil {
			return handling.Group{}, false, err
		}
		g, ok := d.Group()
		return g, ok, nil
	}
	a, ok, err := group("accounts", "test.add.v1", "ada")
	if !ok || err != nil {
		t.Fatalf("got %v, error %v; want a group", ok, err)
	}
	if b, _, _ := group("accounts", "test.add.v1", "ada"); a != b {
		t.Error("two messages for one document are two groups")
	}
	if b, _, _ := group("accounts", "test.add.v1", "bob"); a == b {
		t.Error("messages for two documents are one group")
	}
	if _, ok, err := group("audits", "test.added.v1", "ada"); ok || err != nil {
		t.Errorf("a reaction: got %v, error %v; want no group", ok, err)
	}
	for _, key := range []string{"", `\u0000`, strings.Repeat("a", 257)} {
		_, ok, err := group("accounts", "test.add.v1", key)
		if v := verdict.Judge(err); ok || v.Action != verdict.ToPoison || v.Reason != handlers.ReasonBadKey {
			t.Errorf("key %.10q: got %v, error %v; want poison", key, ok, err)
		}
	}
}

// The user's code that runs while a message is resolved may panic without harm to other messages.
func TestPanicsBeforeTheHandler(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	handlers.Decide(w.Registry, w.Accounts, func(Add) string { panic("no key") }, Account.Add, Added{}, Refused{})
	handlers.Upgrade(w.Registry, func(oldAdd) Add { panic("no upgrade") })
	var p *handlers.PanicError
	if d, err := w.Registry.Inside().Handlers.Resolve("accounts", envelope("1", "test.add.v1", `{}`)); d != nil || !errors.As(err, &p) || p.Text != "panic: no key" || len(p.Stack) == 0 {
		t.Errorf("key: got %v, error %v; want a panic with its stack", d, err)
	}
	if d, err := w.Registry.Inside().Handlers.Resolve("accounts", envelope("1", "test.add.v0", `{}`)); d != nil || !errors.As(err, &p) || p.Text != "panic: no upgrade" || len(p.Stack) == 0 {
		t.Errorf("upgrade: got %v, error %v; want a panic with its stack", d, err)
	}
}

// oldAdd is the older version of Add.
type oldAdd struct {
	Account string `json:"account"`
	Cents   int    `json:"cents"`
}

func (oldAdd) Kind() channel.Kind { return "test.add.v0" }

// While a new version is rolled out, the new handler handles old senders' messages, in one group with new ones.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	w.Decide()
	handlers.Upgrade(w.Registry, func(m oldAdd) Add { return Add{To: m.Account, Amount: m.Cents / 100} })
	if err := w.Registry.Err(); err != nil {
		t.Fatal(err)
	}
	before, err := w.Registry.Inside().Handlers.Resolve("accounts", envelope("old", "test.add.v0", `{"account":"ada","cents":500}`))
	if err != nil {
		t.Fatal(err)
	}
	now, err := w.Registry.Inside().Handlers.Resolve("accounts", envelope("new", "test.add.v1", `{"to":"ada","amount":2}`))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := before.Group()
	b, _ := now.Group()
	if a != b {
		t.Fatal("old and new messages for one document are two groups")
	}
	for i, o := range handling.Handle(t.Context(), a, []*handlers.Delivery{before, now}, nil) {
		if o.Err != nil {
			t.Fatalf("message %d: %v", i, o.Err)
		}
	}
	if got, want := w.Balance("ada"), 7; got != want {
		t.Errorf("got balance %d, want %d", got, want)
	}
	// A worker of the older version doesn't know the new kind, and reports that.
	if _, err := w.Registry.Inside().Handlers.Resolve("accounts", envelope("newer", "test.add.v2", `{}`)); verdict.Judge(err).Action != verdict.UnknownKind {
		t.Errorf("a newer kind: got error %v, want one that hands it back", err)
	}
}

// Faults of turns and order are found at start-up.
func TestTurnsFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	handlers.OneAtATime[Mail](w.Registry, "mails", nil, nil)
	handlers.Turns(w.Registry, "mails", handlers.TurnConfig{Patience: time.Second})
	handlers.Turns(w.Registry, "mails", handlers.TurnConfig{})
	handlers.Turns(w.Registry, "totals", handlers.TurnConfig{})
	handlers.ReactInOrder(w.Registry, "audits", nothing[Added])
	err := w.Registry.Err()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{
		"in turn mails: the function for the key of test.mail.v1 is nil", "in turn mails: the reaction to test.mail.v1 is nil",
		`turns of "mails": Patience is 1s`, `turns of "mails": said twice`,
		`turns of "totals": the queue has no handler by OneAtATime`, `add channel.InOrder("audits")`,
		"in order audits: the routes take test.refused.v1 to it",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in:\n%v", want, err)
		}
	}
	about := map[string]bool{}
	for _, x := range w.Registry.Inside().Handlers.About() {
		about[x.Queue] = x.Turns
	}
	if !about["mails"] || !about["audits"] {
		t.Errorf("the registry tells of turns: %v", about)
	}
	if handlers.Fence(t.Context()) != 0 {
		t.Error("a fence outside of a turn")
	}
}

// A queue that is in order by the routes alone is found at start-up: its events are not in order, and nothing else
// shows that.
func TestOrderWithoutAHandlerForIt(t *testing.T) {
	t.Parallel()
	const fault = "the routes say that it is in order, and no handler keeps the order: use handlers.ReactInOrder"
	w := worldtest.NewBare(t, worldtest.OpenStore(t, ""), handlers.Config{}, channel.Command[Add]("adds"), channel.Event[Added]("audits", "mails"), channel.InOrder("audits", "adds", "mails"))
	handlers.React(w.Registry, "audits", nothing[Added])
	handlers.React(w.Registry, "adds", nothing[Add])
	handlers.ReactInOrder(w.Registry, "mails", nothing[Added])
	err := w.Registry.Err()
	for _, queue := range []string{"audits", "adds"} {
		if err == nil || !strings.Contains(err.Error(), "queue "+queue+": "+fault) {
			t.Errorf("queue %s: got %v, want that %s", queue, err, fault)
		}
	}
	if err != nil && strings.Contains(err.Error(), "mails") {
		t.Errorf("got %v, want no fault of mails", err)
	}
}
