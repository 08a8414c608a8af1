package channel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// queued counts the messages of all queues.
func queued(t testing.TB, s *storage.Store) (n int) {
	t.Helper()
	for _, q := range testRoutes(t).Queues() {
		n += worldtest.Queued(t, s, q)
	}
	return n
}

// Messages of several kinds are sent as one unit of work: in one commit, and not at all where it fails.
func TestSendOfMixedKindsIsOneUnit(t *testing.T) {
	t.Parallel()
	var commits, others atomic.Int64
	var down atomic.Bool
	inner := worldtest.OpenStore(t, worldtest.Virtual)
	s := storagetest.Intercept(inner, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name != "commit" {
			others.Add(1)
			return do()
		}
		commits.Add(1)
		if down.Load() {
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
	c := newChannels(t, s)
	all := []channel.Message{Order{Table: 1}, &Served{Table: 1}, channel.After(time.Hour, Payment{Key: "17"}), Unheard{}, channel.At(time.Time{}, Order{Table: 2})}
	must(t, c.Send(t.Context(), all...))
	worldtest.Want(t, "messages", queued(t, inner), 5)
	worldtest.Want(t, "commits", commits.Load(), 1)
	worldtest.Want(t, "other calls", others.Load(), 0)
	down.Store(true)
	worldtest.WantErr(t, c.Send(t.Context(), all...), storage.ErrUnavailable)
	worldtest.Want(t, "messages after a commit that failed", queued(t, inner), 5)
}

// One message that can't be sent keeps all from being sent, with an error that names it.
func TestSendOfABadMessageSendsNothing(t *testing.T) {
	t.Parallel()
	var nobody *Order
	for name, test := range map[string]struct {
		bad  channel.Message
		want string
	}{
		"no route":              {nowhere{}, "no route for kind test.nowhere.v1: add channel.Command or channel.Event"},
		"nil":                   {nil, "the message is nil"},
		"a nil pointer":         {nobody, "the message is a nil *channel_test.Order"},
		"nil after a delay":     {channel.After(time.Hour, nil), "the message is nil"},
		"nil at a time":         {channel.At(time.Now(), nil), "the message is nil"},
		"a pointer that is due": {channel.After(time.Hour, channel.After(time.Hour, nobody)), "the message is a nil *channel_test.Order"},
		"too late":              {channel.After(channel.MaxDelay, channel.After(time.Hour, Order{})), "at most ten years"},
		"a bad ID":              {Payment{Key: "a\nb"}, "control characters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, limit := range []func(*storage.Store) *storage.Store{func(s *storage.Store) *storage.Store { return s }, storagetest.Plain} {
				s := limit(worldtest.OpenStore(t, worldtest.Virtual))
				c := newChannels(t, s)
				good := Order{Dish: strings.Repeat("x", 60<<10)}
				for _, ctx := range []context.Context{t.Context(), wire.WithHandling(t.Context(), handled(), "kitchen", c)} {
					err := c.Send(ctx, good, test.bad, good)
					if err == nil || !strings.Contains(err.Error(), test.want) {
						t.Errorf("got error %v, want %q", err, test.want)
					}
				}
				if n, bodies := queued(t, s), len(worldtest.Claims(t, s)); n != 0 || bodies != 0 {
					t.Errorf("got %d messages and %d bodies, want none", n, bodies)
				}
			}
		})
	}
}

// nowhere has no route.
type nowhere struct{}

func (nowhere) Kind() channel.Kind { return "test.nowhere.v1" }

// Under a handler's context the IDs of mixed kinds depend neither on their order nor on how they are sent.
func TestSendInAHandlerDerivesIDs(t *testing.T) {
	t.Parallel()
	messages := []channel.Message{Order{Table: 1}, Served{Table: 1}, Order{Table: 1}, channel.After(time.Nanosecond, Order{Table: 1})}
	ids := func(send func(ctx context.Context, c *channel.Channels) error) string {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		c := newChannels(t, s)
		must(t, send(wire.WithHandling(t.Context(), handled(), "kitchen", c), c))
		var all []string
		for _, q := range []string{"orders", "floor"} {
			for _, e := range worldtest.Take(t, s, q) {
				all = append(all, fmt.Sprint(e.Kind, " ", e.ID))
				if e.Causation != timedID || e.Correlation != "the first" {
					t.Errorf("got %+v, want it to follow from the handled message", e)
				}
			}
		}
		slices.Sort(all)
		if len(slices.Compact(slices.Clone(all))) != len(messages) {
			t.Errorf("got IDs %q, want %d", all, len(messages))
		}
		return strings.Join(all, "\n")
	}
	want := ids(func(ctx context.Context, c *channel.Channels) error { return c.Send(ctx, messages...) })
	for name, send := range map[string]func(context.Context, *channel.Channels) error{
		"through the context": func(ctx context.Context, _ *channel.Channels) error { return channel.Send(ctx, messages...) },
		"in another order": func(ctx context.Context, c *channel.Channels) error {
			other := slices.Clone(messages)
			slices.Reverse(other)
			return c.Send(ctx, other...)
		},
		"one by one": func(ctx context.Context, _ *channel.Channels) error {
			var errs []error
			for _, m := range messages {
				errs = append(errs, channel.Send(ctx, m))
			}
			return errors.Join(errs...)
		},
	} {
		if got := ids(send); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// Outside of a handler the context has no channels, and the error says what to use.
func TestSendOutsideOfAHandler(t *testing.T) {
	t.Parallel()
	for _, ctx := range []context.Context{t.Context(), wire.WithHandling(t.Context(), handled(), "kitchen", nil)} {
		if err := channel.Send(ctx, Order{}); err == nil || !strings.Contains(err.Error(), "use the method Send of your channels") {
			t.Errorf("got error %v", err)
		}
	}
}

// Messages are values: an optional method that only their pointers have would not be called, so the route refuses it.
func TestMethodsThatWouldNotBeCalled(t *testing.T) {
	t.Parallel()
	_, err := channel.NewRoutes(channel.Command[checkedByPointer]("orders"), channel.Command[identifiedByPointer]("orders"),
		channel.Event[subjectedByPointer]("orders"), channel.Command[*allByPointer]("orders"))
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{"method Check of channel_test.checkedByPointer", "method MessageID of", "method Subject of"} {
		if strings.Count(err.Error(), want) != 1 {
			t.Errorf("want %q once in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "allByPointer") {
		t.Errorf("got error %v, but a message may be a pointer", err)
	}
}

type (
	checkedByPointer    struct{}
	identifiedByPointer struct{}
	subjectedByPointer  struct{}
	allByPointer        struct{}
)

func (checkedByPointer) Kind() channel.Kind    { return "test.checked.v1" }
func (identifiedByPointer) Kind() channel.Kind { return "test.identified.v1" }
func (subjectedByPointer) Kind() channel.Kind  { return "test.subjected.v1" }
func (*allByPointer) Kind() channel.Kind       { return "test.all.v1" }

func (*checkedByPointer) Check() error         { return nil }
func (*identifiedByPointer) MessageID() string { return "1" }
func (*subjectedByPointer) Subject() string    { return "1" }
func (*allByPointer) Check() error             { return nil }
