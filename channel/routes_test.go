package channel_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

type badKind struct{}

func (badKind) Kind() channel.Kind { return "Bad Kind" }

func TestRoutes(t *testing.T) {
	t.Parallel()
	r := testRoutes(t)
	if got, want := r.Queues(), []string{"floor", "kitchen", "orders", "payments"}; !slices.Equal(got, want) {
		t.Errorf("queues: got %q, want %q", got, want)
	}
	if got, want := r.Kinds("orders"), []channel.Kind{"test.broken.v1", "test.order.v1"}; !slices.Equal(got, want) {
		t.Errorf("kinds of orders: got %q, want %q", got, want)
	}
	if got := r.Kinds("nowhere"); len(got) != 0 {
		t.Errorf("kinds of a queue without routes: got %q, want none", got)
	}
	if got, err := r.CommandQueue("test.order.v1"); got != "orders" || err != nil {
		t.Errorf("queue of a command: got %q, error %v", got, err)
	}
	if got, err := r.EventGroups("test.served.v1"); !slices.Equal(got, []string{"kitchen", "floor"}) || err != nil {
		t.Errorf("groups of an event: got %q, error %v", got, err)
	}
	if got, err := r.EventGroups("test.unheard.v1"); len(got) != 0 || err != nil {
		t.Errorf("groups of an event that nobody listens to: got %q, error %v", got, err)
	}
	for _, k := range []channel.Kind{"test.served.v1", "test.unknown.v1", ""} {
		if got, err := r.CommandQueue(k); err == nil {
			t.Errorf("queue of %q: got %q and no error", k, got)
		}
	}
	for _, k := range []channel.Kind{"test.order.v1", "test.unknown.v1", ""} {
		if got, err := r.EventGroups(k); err == nil {
			t.Errorf("groups of %q: got %q and no error", k, got)
		}
	}
}

func TestRoutesReportAllFaults(t *testing.T) {
	t.Parallel()
	r, err := channel.NewRoutes(
		channel.Command[Order]("Orders"),
		channel.Event[Served]("kitchen", "kitchen", "no", "floor"),
		channel.Command[badKind]("bad_queue"),
		channel.Event[Order]("floor"),
		channel.Route{},
	)
	if err == nil || r != nil {
		t.Fatalf("got %v and error %v, want all faults", r, err)
	}
	for _, want := range []string{
		`"Orders"`, "queue kitchen twice", `"no"`, `kind "Bad Kind"`, `"bad_queue"`, "test.order.v1 has two routes", `kind ""`,
	} {
		if strings.Count(err.Error(), want) != 1 {
			t.Errorf("want %q once in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "floor") {
		t.Errorf("a good queue is named in:\n%v", err)
	}
}

func TestRoutesDoNotChange(t *testing.T) {
	t.Parallel()
	groups := []string{"kitchen", "floor"}
	r, err := channel.NewRoutes(channel.Event[Served](groups...))
	if err != nil {
		t.Fatal(err)
	}
	groups[0] = "scribble"
	got, err := r.EventGroups("test.served.v1")
	if err != nil || !slices.Equal(got, []string{"kitchen", "floor"}) {
		t.Fatalf("after the caller changed its slice: got %q, error %v", got, err)
	}
	got[1] = "scribble"
	if got, _ := r.EventGroups("test.served.v1"); !slices.Equal(got, []string{"kitchen", "floor"}) {
		t.Errorf("after the caller changed the result: got %q", got)
	}
}

func TestNoRouteIsAnErrorAtStartUp(t *testing.T) {
	t.Parallel()
	routes, err := channel.NewRoutes(channel.Command[Order]("orders"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := channel.New(worldtest.OpenStore(t, worldtest.Virtual), routes, "/web")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := channel.NewSender[Payment](c); err == nil || s != nil || !strings.Contains(err.Error(), "test.payment.v1") {
		t.Errorf("got sender %v and error %v, want an error that names the kind", s, err)
	}
	if _, err := channel.NewSender[Order](c); err != nil {
		t.Errorf("a kind with a route: got error %v", err)
	}
}

// A store or routes that an unchecked error left nil are reported when the channels are made, not by the first send.
func TestChannelsWithoutStoreOrRoutes(t *testing.T) {
	t.Parallel()
	store := worldtest.OpenStore(t, worldtest.Virtual)
	if _, err := channel.New(nil, testRoutes(t), "/web"); err == nil || !strings.Contains(err.Error(), "the store is nil") {
		t.Errorf("no store: got %v", err)
	}
	if _, err := channel.New(store, nil, "/web"); err == nil || !strings.Contains(err.Error(), "the routes are") {
		t.Errorf("no routes: got %v", err)
	}
}

func TestBadSource(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"", "/my web", "/%zz", "\x00", strings.Repeat("a", 1025)} {
		if c, err := channel.New(worldtest.OpenStore(t, worldtest.Virtual), testRoutes(t), source); err == nil {
			t.Errorf("source %q: got %v and no error", source, c)
		}
	}
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	if got, want := channel.KindOf[Order](), channel.Kind("test.order.v1"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// No queue has the name under which documents keep the bodies of events: its messages could name these bodies.
func TestTheNameOfStowedBodiesIsNoQueue(t *testing.T) {
	t.Parallel()
	if _, err := channel.NewRoutes(channel.Command[Order](wire.StowedQueue)); err == nil || !strings.Contains(err.Error(), "choose another") {
		t.Errorf("got %v, want it refused", err)
	}
}

// FuzzQueueName feeds names to routes: a name that passes is valid in every store.
func FuzzQueueName(f *testing.F) {
	for _, s := range []string{"mails", "a--b", "stowed", "Mails", "", "mails/", "../x", "mails\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		routes, err := channel.NewRoutes(channel.Command[Order](name))
		if (err == nil) != (storage.CheckName(name) == nil && name != wire.StowedQueue) {
			t.Errorf("%q: got %v", name, err)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\x00\r\x1b\x7f") {
			t.Errorf("%q: the error has control characters: %q", name, err)
		}
		if err == nil && !slices.Equal(routes.Queues(), []string{name}) {
			t.Errorf("%q: got the queues %q", name, routes.Queues())
		}
	})
}

// planned is a message whose kind depends on its value.
type planned struct {
	Plan string `json:"plan"`
}

func (p planned) Kind() channel.Kind { return channel.Kind("test." + p.Plan) }

// sealed is a type of which nothing arrives.
type sealed struct{ plan string }

func (s sealed) Kind() channel.Kind { return channel.Kind("test." + s.plan) }

// One value may stand for several routes, of which some have one type. Its faults are reported with all others.
func TestRoutesTogether(t *testing.T) {
	t.Parallel()
	routes, err := channel.NewRoutes(channel.Command[Order]("orders"), wire.Together(
		wire.Routed(planned{"begin"}, "plans"),
		wire.Together(wire.Routed(planned{"done"}, "bills"), wire.Together())))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := routes.Queues(), []string{"bills", "orders", "plans"}; !slices.Equal(got, want) {
		t.Errorf("got queues %q, want %q", got, want)
	}
	for kind, want := range map[channel.Kind]string{"test.begin": "plans", "test.done": "bills"} {
		if q, err := routes.CommandQueue(kind); err != nil || q != want {
			t.Errorf("%s: got queue %q, %v; want %q", kind, q, err, want)
		}
	}
	_, err = channel.NewRoutes(wire.Together(
		wire.Faulty(errors.New("a plan without steps")),
		wire.Routed(planned{"same"}, "plans"), wire.Routed(planned{"same"}, "others"),
		wire.Routed(sealed{"sealed"}, "plans"),
		wire.Routed(planned{"Bad"}, "plans"),
		wire.Routed(nil, "plans")))
	for _, want := range []string{"a plan without steps", "test.same has two routes", "kind test.sealed", `kind "test.Bad"`, "no message"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v; want %q in it", err, want)
		}
	}
}

func ExampleNewRoutes() {
	_, err := channel.NewRoutes(
		channel.Command[Order]("orders"),
		channel.Event[Served]("Kitchen", "floor", "floor"),
	)
	fmt.Println(err)
	// Output: channel: routes: route of test.served.v1: invalid argument: name "Kitchen": want 3 to 50 lower-case letters, digits and single hyphens, beginning with a letter, ending with a letter or digit
	// route of test.served.v1 names queue floor twice
}

// A type that can't tell its kind is refused with its name, and nothing panics.
func TestRoutesOfTypesWithoutAKind(t *testing.T) {
	t.Parallel()
	for want, route := range map[string]func() channel.Route{
		"channel.Message":   func() channel.Route { return channel.Command[channel.Message]("queue") },
		"*channel_test.own": func() channel.Route { return channel.Event[*own]("queue") },
	} {
		if _, err := channel.NewRoutes(route()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about %s", err, want)
		}
	}
}

// own has its kind in a field.
type own struct{ kind channel.Kind }

func (o *own) Kind() channel.Kind { return o.kind }
