package channel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
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
	if s, err := channel.SenderOf[Payment](c); err == nil || s != nil || !strings.Contains(err.Error(), "test.payment.v1") {
		t.Errorf("got sender %v and error %v, want an error that names the kind", s, err)
	}
	if _, err := channel.SenderOf[Order](c); err != nil {
		t.Errorf("a kind with a route: got error %v", err)
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

func ExampleNewRoutes() {
	_, err := channel.NewRoutes(
		channel.Command[Order]("orders"),
		channel.Event[Served]("Kitchen", "floor", "floor"),
	)
	fmt.Println(err)
	// Output: channel: routes: route of test.served.v1: invalid argument: name "Kitchen": want 3 to 50 lower-case letters, digits and single hyphens, beginning with a letter, ending with a letter or digit
	// route of test.served.v1 names queue floor twice
}
