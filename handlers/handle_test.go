package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/values"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	w.Decide()
	worldtest.Send(w.World, Add{To: "ada", Amount: 5}, Add{To: "ada", Amount: 2}, Add{To: "bob", Amount: -1})
	w.mustDrain("accounts")
	if got, want := w.Balance("ada"), 7; got != want {
		t.Errorf("got balance %d, want %d", got, want)
	}
	if n := worldtest.Queued(t, w.Store, "accounts"); n != 0 {
		t.Errorf("%d commands are left", n)
	}
	if got := worldtest.Bodies(worldtest.Take(t, w.Store, "totals")); len(got) != 2 || !strings.Contains(got[0]+got[1], `"balance":7`) {
		t.Errorf("got events %q, want two, one of them with the balance 7", got)
	}
	if got := worldtest.Bodies(worldtest.Take(t, w.Store, "audits")); len(got) != 3 || got[2] != `{"to":"bob"}` {
		t.Errorf("got events %q, want two additions and the refusal of bob", got)
	}
}

// A command that comes twice is decided once, whether both deliveries come together or apart.
func TestDecideTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	w.Decide()
	worldtest.Send(w.World, Add{Key: "1", To: "ada", Amount: 5}, Add{Key: "1", To: "ada", Amount: 5})
	w.mustDrain("accounts")
	worldtest.Send(w.World, Add{Key: "1", To: "ada", Amount: 5})
	w.mustDrain("accounts")
	if got, want := w.Balance("ada"), 5; got != want {
		t.Errorf("got balance %d, want %d", got, want)
	}
	if got := worldtest.Bodies(worldtest.Take(t, w.Store, "totals")); len(got) != 1 {
		t.Errorf("got events %q, want one", got)
	}
	worldtest.Send(w.World, Add{Key: "1", To: "ada", Amount: 6})
	if errs := w.drain("accounts"); len(errs) != 1 || verdict.Judge(errs[0]).Reason != handlers.ReasonContentDiffers {
		t.Errorf("other content: got errors %v, want one with that reason", errs)
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	totals := values.New(w.Channels, "totals", values.Config[Total]{})
	handling.Fold(w.Registry.Inside(), handling.As{}, "sum up", "totals", totals, anyKey(Added.Subject), func(v Total, e *channel.Envelope, m Added) (Total, []channel.Message, error) {
		if e.Kind != m.Kind() || e.ID == "" {
			return v, nil, fmt.Errorf("got envelope %+v", e)
		}
		v.Sum += m.Amount
		return v, nil, nil
	})
	if err := w.Registry.Err(); err != nil {
		t.Fatal(err)
	}
	worldtest.Send(w.World, Added{To: "ada", Amount: 1}, Added{To: "ada", Amount: 2}, Added{To: "bob", Amount: 4})
	w.mustDrain("totals")
	for key, want := range map[string]Total{"ada": {Sum: 3}, "bob": {Sum: 4}} {
		got, err := totals.Get(t.Context(), key, "")
		if err != nil || got.Value != want {
			t.Errorf("%s: got %+v, error %v; want %+v", key, got.Value, err, want)
		}
	}
}

func TestReact(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	var got []string
	handlers.React(w.Registry, "audits", func(ctx context.Context, m Added) error {
		e, group, ok := channel.Handled(ctx)
		got = append(got, fmt.Sprintf("%v %s %v %s %v", m, group, ok, e.Kind, e.Data == nil))
		return nil
	})
	worldtest.Send(w.World, Added{To: "ada", Amount: 1})
	w.mustDrain("audits")
	if want := []string{"{ada 1 0 } audits true test.added.v1 true"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := worldtest.Queued(t, w.Store, "audits"); n != 0 {
		t.Errorf("%d events are left", n)
	}
}

func TestReactionThatFailsKeepsItsMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	broken := errors.New("no paper")
	handlers.React(w.Registry, "audits", func(context.Context, Added) error { return broken })
	worldtest.Send(w.World, Added{To: "ada"})
	if err := w.one(t.Context(), "audits"); !errors.Is(err, broken) {
		t.Errorf("got error %v, want the handler's own", err)
	}
	if n := worldtest.Queued(t, w.Store, "audits"); n != 1 {
		t.Errorf("got %d messages, want it to be there still", n)
	}
}

// A reaction that runs again sends the same IDs: after a redelivery, and when a middleware repeats it.
func TestReactionRepeatsItsIDs(t *testing.T) {
	t.Parallel()
	again := func(next handlers.Next) handlers.Next {
		return func(ctx context.Context, d *handlers.Delivery) error { return errors.Join(next(ctx, d), next(ctx, d)) }
	}
	w := newWorld(t, handlers.Config{Middleware: []handlers.Middleware{again}})
	mails, err := channel.NewSender[Mail](w.Channels)
	if err != nil {
		t.Fatal(err)
	}
	handlers.React(w.Registry, "audits", func(ctx context.Context, m Added) error {
		return mails.Send(ctx, Mail{To: m.To}, Mail{To: m.To})
	})
	worldtest.Send(w.World, Added{To: "ada"})
	d := w.receive("audits")[0]
	for range 2 { // the first worker died before it had deleted the message
		if got, want := handling.Handle(t.Context(), handling.Group{}, []*handlers.Delivery{d}, nil)[0], (handling.Outcome{}); got != want {
			t.Fatalf("got outcome %+v, want %+v", got, want)
		}
	}
	ds, err := w.Store.Queue("mails").Receive(t.Context(), 32, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, x := range ds {
		e, err := wire.Decode(x.Body)
		if err != nil {
			t.Fatal(err)
		}
		count[e.ID]++
	}
	if len(ds) != 8 || len(count) != 2 {
		t.Errorf("got %d messages with %d IDs, want 8 with 2: %v", len(ds), len(count), count)
	}
}

func TestPanicInAReaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	handlers.React(w.Registry, "audits", func(_ context.Context, m Added) error {
		return errors.New(m.To[100:])
	})
	worldtest.Send(w.World, Added{To: "secret-body"})
	err := w.one(t.Context(), "audits")
	var p *handlers.PanicError
	if !errors.As(err, &p) || !strings.Contains(p.Stack, "TestPanicInAReaction") {
		t.Fatalf("got error %v, want a panic with its stack", err)
	}
	if v := verdict.Judge(err); v.Action != verdict.TryAgain {
		t.Errorf("got %+v, want another attempt", v)
	}
}

// One command that panics, fails or is poison leaves the others of its batch alone.
func TestOneOfABatchFailsAlone(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		fail  func() error
		check func(error) bool
	}{
		"panic":  {func() error { panic("broken") }, func(err error) bool { var p *handlers.PanicError; return errors.As(err, &p) }},
		"error":  {func() error { return broken }, func(err error) bool { return errors.Is(err, broken) }},
		"poison": {func() error { return handlers.Poison("x", nil) }, func(err error) bool { return verdict.Judge(err).Reason == "x" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, handlers.Config{})
			handlers.Decide(w.Registry, w.Accounts, Add.Subject, func(a Account, m Add) (Account, []channel.Message, error) {
				if m.Amount == 13 {
					a.Balance = -1
					if err := test.fail(); err != nil {
						return a, []channel.Message{Refused{}}, err
					}
				}
				return a.Add(m)
			}, Added{}, Refused{})
			worldtest.Send(w.World, Add{To: "ada", Amount: 1}, Add{To: "ada", Amount: 13}, Add{To: "ada", Amount: 2})
			if errs := w.drain("accounts"); len(errs) != 1 || !test.check(errs[0]) {
				t.Errorf("got errors %v, want the one", errs)
			}
			if got, want := w.Balance("ada"), 3; got != want {
				t.Errorf("got balance %d, want %d", got, want)
			}
			if n := worldtest.Queued(t, w.Store, "accounts"); n != 1 {
				t.Errorf("got %d commands, want the failed one to be there still", n)
			}
			if got := worldtest.Bodies(worldtest.Take(t, w.Store, "audits")); len(got) != 2 {
				t.Errorf("got events %q, want two", got)
			}
		})
	}
}

func TestUndeclaredEmissionIsPoison(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	handlers.Decide(w.Registry, w.Accounts, Add.Subject, Account.Add, Refused{})
	worldtest.Send(w.World, Add{To: "ada", Amount: 5})
	err := w.one(t.Context(), "accounts")
	if v := verdict.Judge(err); v.Action != verdict.ToPoison || v.Reason != "undeclared emission" {
		t.Errorf("got error %v, want poison", err)
	}
	if got := w.Balance("ada"); got != 0 {
		t.Errorf("got balance %d, want nothing decided", got)
	}
	if worldtest.Queued(t, w.Store, "audits")+worldtest.Queued(t, w.Store, "totals") != 0 {
		t.Error("events were sent")
	}
}

// trace is a middleware that notes when it begins and ends.
type trace struct {
	mu    sync.Mutex
	lines []string
}

func (x *trace) note(s string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lines = append(x.lines, s)
}

func (x *trace) middleware(name string) handlers.Middleware {
	return func(next handlers.Next) handlers.Next {
		return func(ctx context.Context, d *handlers.Delivery) error {
			x.note(name + " begins " + d.Handler.Name())
			err := next(ctx, d)
			x.note(fmt.Sprint(name, " ends ", err))
			return err
		}
	}
}

func TestMiddlewareOrder(t *testing.T) {
	t.Parallel()
	x := &trace{}
	w := newWorld(t, handlers.Config{Middleware: []handlers.Middleware{x.middleware("outer"), x.middleware("inner")}})
	handlers.Decide(w.Registry, w.Accounts, Add.Subject, func(a Account, m Add) (Account, []channel.Message, error) {
		x.note("decide")
		return a.Add(m)
	}, Added{}, Refused{})
	handlers.React(w.Registry, "audits", func(context.Context, Added) error {
		x.note("react")
		return errors.New("no paper")
	})
	worldtest.Send(w.World, Add{To: "ada", Amount: 5})
	w.mustDrain("accounts")
	want := []string{"outer begins decide accounts", "inner begins decide accounts", "decide", "inner ends <nil>", "outer ends <nil>"}
	if !slices.Equal(x.lines, want) {
		t.Errorf("decide: got %q, want %q", x.lines, want)
	}
	x.lines = nil
	w.drain("audits")
	want = []string{"outer begins react audits", "inner begins react audits", "react", "inner ends no paper", "outer ends no paper"}
	if !slices.Equal(x.lines, want) {
		t.Errorf("react: got %q, want %q", x.lines, want)
	}
}

// A middleware may refuse a message, replace its error, and change the context of a reaction.
func TestMiddlewareEffect(t *testing.T) {
	t.Parallel()
	type key struct{}
	refused := errors.New("not now")
	w := newWorld(t, handlers.Config{Middleware: []handlers.Middleware{
		func(next handlers.Next) handlers.Next {
			return func(ctx context.Context, d *handlers.Delivery) error {
				if m, ok := d.Message.(Add); ok && m.Amount == 13 {
					return refused
				}
				if err := next(context.WithValue(ctx, key{}, "from the middleware"), d); err != nil {
					return handlers.Later(time.Minute, err.Error())
				}
				return nil
			}
		},
	}})
	w.Decide()
	var got any
	handlers.React(w.Registry, "audits", func(ctx context.Context, _ Added) error {
		got = ctx.Value(key{})
		return errors.New("no paper")
	})
	worldtest.Send(w.World, Add{To: "ada", Amount: 13}, Add{To: "ada", Amount: 5})
	if errs := w.drain("accounts"); len(errs) != 1 || !errors.Is(errs[0], refused) {
		t.Errorf("decide: got errors %v, want one, %v", errs, refused)
	}
	if got := w.Balance("ada"); got != 5 {
		t.Errorf("got balance %d, want what was not refused", got)
	}
	if err := w.one(t.Context(), "audits"); verdict.Judge(err).Action != verdict.HandBack {
		t.Errorf("react: got error %v, want it turned into later", err)
	}
	if got != "from the middleware" {
		t.Errorf("got %v from the context", got)
	}
}

func TestPanicInAMiddleware(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{Middleware: []handlers.Middleware{
		func(handlers.Next) handlers.Next {
			return func(context.Context, *handlers.Delivery) error { panic("middleware") }
		},
	}})
	w.Decide()
	handlers.React(w.Registry, "audits", nothing[Added])
	worldtest.Send(w.World, Add{To: "ada"})
	worldtest.Send(w.World, Added{To: "ada"})
	for _, queue := range []string{"accounts", "audits"} {
		var p *handlers.PanicError
		if err := w.one(t.Context(), queue); !errors.As(err, &p) {
			t.Errorf("%s: got error %v, want a panic", queue, err)
		}
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handlers.Config{Timeout: 10 * time.Second})
		var cause error
		handlers.React(w.Registry, "audits", func(ctx context.Context, _ Added) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		})
		worldtest.Send(w.World, Added{To: "ada"})
		began := time.Now()
		err := w.one(t.Context(), "audits")
		if got, want := time.Since(began), 10*time.Second; got != want {
			t.Errorf("ended after %v, want %v", got, want)
		}
		if !errors.Is(err, context.DeadlineExceeded) || verdict.Judge(err).Action != verdict.TryAgain {
			t.Errorf("got error %v, want the deadline and another attempt", err)
		}
		if cause == nil || !strings.Contains(cause.Error(), "10s") {
			t.Errorf("got cause %v, want one that names the limit", cause)
		}
	})
}

func TestDefaultTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handlers.Config{})
		var left time.Duration
		handlers.React(w.Registry, "audits", func(ctx context.Context, _ Added) error {
			end, _ := ctx.Deadline()
			left = time.Until(end)
			return nil
		})
		worldtest.Send(w.World, Added{To: "ada"})
		w.mustDrain("audits")
		if left != 5*time.Minute {
			t.Errorf("got %v, want 5 minutes", left)
		}
	})
}

// The cause with which the worker ends a context reaches the handler.
func TestCauseOfTheWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	var got error
	draining := errors.New("draining")
	ctx, cancel := context.WithCancelCause(t.Context())
	handlers.React(w.Registry, "audits", func(ctx context.Context, _ Added) error {
		cancel(draining)
		<-ctx.Done()
		got = context.Cause(ctx)
		return got
	})
	worldtest.Send(w.World, Added{To: "ada"})
	if err := w.one(ctx, "audits"); !errors.Is(err, draining) || got != draining {
		t.Errorf("got error %v and cause %v, want %v", err, got, draining)
	}
}

// A middleware that ends a message without running its handler changes nothing.
func TestMiddlewareEndsAMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{Middleware: []handlers.Middleware{
		func(next handlers.Next) handlers.Next {
			return func(ctx context.Context, d *handlers.Delivery) error {
				if m, ok := d.Message.(Add); ok && m.Amount == 13 {
					return nil
				}
				return next(ctx, d)
			}
		},
	}})
	w.Decide()
	worldtest.Send(w.World, Add{To: "ada", Amount: 5})
	w.mustDrain("accounts")
	worldtest.Send(w.World, Add{To: "ada", Amount: 13})
	w.mustDrain("accounts")
	if got := w.Balance("ada"); got != 5 {
		t.Errorf("got balance %d, want 5 as before", got)
	}
}
