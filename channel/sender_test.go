package channel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestSend(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	before := time.Now()
	ctx := channel.WithTrace(t.Context(), channel.Trace{Parent: "00-trace-01", Tenant: "north"})
	must(t, senderOf[Order](t, newChannels(t, s)).Send(ctx, Order{Table: 4}))

	e := receivedOne(t, s, "orders")
	if _, ok := channel.IDTime(e.ID); !ok {
		t.Errorf("got ID %s, want a UUIDv7", e.ID)
	}
	if e.Time.Before(before) || e.Time.After(time.Now()) {
		t.Errorf("got time %v, want now", e.Time)
	}
	got := e
	got.ID, got.Time = "", time.Time{}
	want := channel.Envelope{
		Source: "/web", Kind: "test.order.v1", Data: []byte(`{"table":4}`), TraceParent: "00-trace-01", Tenant: "north",
	}
	if string(mustJSON(t, got)) != string(mustJSON(t, want)) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func mustJSON(t testing.TB, x any) []byte {
	t.Helper()
	b, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSendWithItsOwnKeyAndSubject(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	pay := senderOf[Payment](t, newChannels(t, s))
	must(t, pay.Send(t.Context(), Payment{Key: "payment 17", Table: "4"}, Payment{}))
	all := worldtest.Take(t, s, "payments")
	if len(all) != 2 {
		t.Fatalf("got %d messages, want 2", len(all))
	}
	slices.SortFunc(all, func(a, b channel.Envelope) int { return len(a.ID) - len(b.ID) })
	if got := all[0]; got.ID != "payment 17" || got.Subject != "4" || got.Correlation != "" {
		t.Errorf("got %+v, want the message's own ID and subject", got)
	}
	if _, ok := channel.IDTime(all[1].ID); !ok || all[1].Subject != "" {
		t.Errorf("got %+v, want a new ID for an empty key, and no subject", all[1])
	}
}

// The queue doesn't know IDs: the same message sent twice is there twice, and equal but for its time.
func TestSendTwice(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	pay := senderOf[Payment](t, newChannels(t, s))
	for range 2 {
		must(t, pay.Send(t.Context(), Payment{Key: "17"}))
	}
	all := worldtest.Take(t, s, "payments")
	if len(all) != 2 {
		t.Fatalf("got %d messages, want 2", len(all))
	}
	all[0].Time = all[1].Time
	if a, b := mustEncode(t, all[0]), mustEncode(t, all[1]); string(a) != string(b) {
		t.Errorf("the copies differ:\n%s\n%s", a, b)
	}
}

func TestSendIsDurable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	s, err := sqlite.Open(t.Context(), path+"?wake=off")
	if err != nil {
		t.Fatal(err)
	}
	must(t, senderOf[Order](t, newChannels(t, s)).Send(t.Context(), Order{Table: 4}), s.Close())
	again := worldtest.OpenAt(t, path+worldtest.Virtual)
	if got, want := string(receivedOne(t, again, "orders").Data), `{"table":4}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSendNothing(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	must(t, senderOf[Order](t, newChannels(t, s)).Send(t.Context()))
	if n := worldtest.Queued(t, s, "orders"); n != 0 {
		t.Errorf("got %d messages, want none", n)
	}
}

func TestEventFansOut(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	c := newChannels(t, s)
	must(t, senderOf[Served](t, c).Send(t.Context(), Served{Table: 4}), senderOf[Unheard](t, c).Send(t.Context(), Unheard{}))
	a, b := receivedOne(t, s, "kitchen"), receivedOne(t, s, "floor")
	if a.ID != b.ID || string(a.Data) != string(b.Data) {
		t.Errorf("the copies differ: %+v, %+v", a, b)
	}
}

// Many messages are encoded by several goroutines, and are sent in their order.
func TestSendManyInOrder(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	var messages []Order
	var want []string
	for i := range 1000 {
		messages = append(messages, Order{Table: i})
		want = append(want, fmt.Sprintf(`{"table":%d}`, i))
	}
	must(t, senderOf[Order](t, newChannels(t, s)).Send(t.Context(), messages...))
	var got []string
	for _, e := range worldtest.Take(t, s, "orders") {
		got = append(got, string(e.Data))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %d messages, %.200q; want %d in their order", len(got), got, len(want))
	}
}

// With one bad message among good ones nothing is sent, and no body stays behind.
func TestSendBatchWithABadItem(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 60<<10)
	for _, plain := range []bool{false, true} {
		for name, test := range map[string]struct {
			bad  Payment
			want error
		}{
			"bad ID":      {Payment{Key: "a\nb"}, channel.ErrAttribute},
			"long ID":     {Payment{Key: strings.Repeat("a", 129)}, channel.ErrAttribute},
			"bad subject": {Payment{Key: "1", Table: "\x00"}, channel.ErrAttribute},
			"too large":   {Payment{Key: "1", Note: strings.Repeat("x", channel.MaxData)}, storage.ErrTooLarge},
		} {
			t.Run(name+" plain "+strconv.FormatBool(plain), func(t *testing.T) {
				t.Parallel()
				s := worldtest.OpenStore(t, worldtest.Virtual)
				if plain {
					s = storagetest.Plain(s)
				}
				pay := senderOf[Payment](t, newChannels(t, s))
				many := slices.Repeat([]Payment{{Key: "good"}}, 100)
				err := pay.Send(t.Context(), slices.Concat(many, []Payment{{Key: "large", Note: large}, test.bad}, many)...)
				if !errors.Is(err, test.want) {
					t.Errorf("got error %.200v, want %v", err, test.want)
				}
				if n := worldtest.Queued(t, s, "payments"); n != 0 {
					t.Errorf("got %d messages, want none", n)
				}
				if keys := worldtest.Claims(t, s); len(keys) != 0 {
					t.Errorf("bodies stay behind: %q", keys)
				}
			})
		}
	}
}

func TestSendWhatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	err := senderOf[Broken](t, newChannels(t, s)).Send(t.Context(), Broken{C: make(chan int)})
	if !errors.Is(err, channel.ErrBody) || !strings.Contains(err.Error(), "message 1 of 1") {
		t.Errorf("got error %v, want %v that names the message", err, channel.ErrBody)
	}
}

func TestSendAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		orders := senderOf[Order](t, newChannels(t, s))
		must(t, orders.SendAfter(t.Context(), time.Hour, Order{Table: 1}, Order{Table: 2}))
		time.Sleep(time.Hour - time.Millisecond)
		if got := worldtest.Take(t, s, "orders"); len(got) != 0 {
			t.Fatalf("got %d messages before the delay has passed", len(got))
		}
		time.Sleep(time.Millisecond)
		if got := worldtest.Take(t, s, "orders"); len(got) != 2 {
			t.Fatalf("got %d messages after the delay, want 2", len(got))
		}
	})
}

// Messages that were due before now are sent at once, under the same ID as without a delay.
func TestSendAfterPast(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{-1, -50 * time.Nanosecond, -300 * 24 * time.Hour, time.Until(time.Now()), math.MinInt64} {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		orders := senderOf[Order](t, newChannels(t, s))
		must(t, orders.SendAfter(t.Context(), delay, Order{Table: 1}))
		if got := worldtest.Take(t, s, "orders"); len(got) != 1 {
			t.Errorf("delay %v: got %d messages at once, want 1", delay, len(got))
		}
		if got, want := sentAfter(t, timedID, delay), sentAfter(t, timedID, 0); got != want {
			t.Errorf("delay %v: got ID %s, want %s as without one", delay, got, want)
		}
	}
}

func TestSendAfterBadDelay(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	orders := senderOf[Order](t, newChannels(t, s))
	if err := orders.SendAfter(t.Context(), channel.MaxDelay+time.Minute, Order{}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("got error %v, want %v", err, storage.ErrInvalid)
	}
	must(t, orders.SendAfter(t.Context(), channel.MaxDelay, Order{}))
	if n := worldtest.Queued(t, s, "orders"); n != 1 {
		t.Errorf("got %d messages, want the one with the longest delay", n)
	}
}

func TestSendWith(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		t.Run("plain "+strconv.FormatBool(plain), func(t *testing.T) {
			t.Parallel()
			s := worldtest.OpenStore(t, worldtest.Virtual)
			if plain {
				s = storagetest.Plain(s)
			}
			served := senderOf[Served](t, newChannels(t, s))
			write := func(body string, cond storage.Condition, m Served) (storage.ETag, error) {
				return served.SendWith(t.Context(), storage.Write{Container: "tables", Key: "4", Body: []byte(body), If: cond}, m)
			}
			large := Served{Table: 4, Menu: strings.Repeat("x", 60<<10)}

			etag, err := write("first", storage.Condition{IfAbsent: true}, Served{Table: 4})
			if err != nil || etag == "" {
				t.Fatalf("got ETag %q and error %v", etag, err)
			}
			if _, err := write("second", storage.Condition{IfAbsent: true}, large); !storage.LostRace(err) {
				t.Errorf("a document that exists: got error %v, want a lost race", err)
			}
			if _, err := write("second", storage.Condition{IfMatch: "other"}, large); !storage.LostRace(err) {
				t.Errorf("another state: got error %v, want a lost race", err)
			}
			if _, err := served.SendWith(t.Context(), storage.Write{Container: "NO", Key: "4"}, large); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("bad container: got error %v, want %v", err, storage.ErrInvalid)
			}
			if keys := worldtest.Claims(t, s); len(keys) != 0 {
				t.Errorf("nothing was sent, but bodies stay behind: %q", keys)
			}
			blob, err := s.Blobs("tables").Get(t.Context(), "4", "")
			if err != nil || string(blob.Body) != "first" || blob.ETag != etag {
				t.Errorf("got document %q %s, error %v; want the first, %s", blob.Body, blob.ETag, err, etag)
			}
			for _, q := range []string{"kitchen", "floor"} {
				if n := worldtest.Queued(t, s, q); n != 1 {
					t.Errorf("queue %s: got %d messages, want the first alone", q, n)
				}
			}
			if _, err := write("second", storage.Condition{IfMatch: etag}, large); err != nil {
				t.Errorf("the right state: got error %v", err)
			}
			if keys := worldtest.Claims(t, s); len(keys) != 2 {
				t.Errorf("got bodies %q, want one for each of two copies", keys)
			}
		})
	}
}

// After an error that leaves open whether anything was sent, the bodies stay, because a message may refer to them.
func TestSendUnknownOutcomeKeepsBodies(t *testing.T) {
	t.Parallel()
	inner := worldtest.OpenStore(t, worldtest.Virtual)
	s := storagetest.Intercept(inner, func(_ context.Context, op storagetest.Op, do func() error) error {
		err := do()
		if op.Name == "commit" {
			return op.Fail(storage.ErrUnavailable) // it was sent, but the answer is lost
		}
		return err
	})
	err := senderOf[Order](t, newChannels(t, s)).Send(t.Context(), Order{Dish: strings.Repeat("x", 60<<10)})
	if !errors.Is(err, storage.ErrUnavailable) {
		t.Fatalf("got error %v, want %v", err, storage.ErrUnavailable)
	}
	e := receivedOne(t, inner, "orders")
	if err := newChannels(t, inner).Outbox().FetchBody(t.Context(), &e); err != nil {
		t.Errorf("the body is gone: %v", err)
	}
}

func TestSendUnderACancelledContext(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	cause := errors.New("no more time")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := senderOf[Order](t, newChannels(t, s)).Send(ctx, Order{}); !errors.Is(err, cause) {
		t.Errorf("got error %v, want %v", err, cause)
	}
}

func handled() *channel.Envelope {
	return &channel.Envelope{
		ID: timedID, Source: "/tables/4", Kind: "test.served.v1", Data: []byte("{}"),
		Correlation: "the first", Causation: "the one before", TraceParent: "00-parent-01", Tenant: "north",
	}
}

// sendUnder sends orders under a handler's context and returns their IDs by table.
func sendUnder(t testing.TB, e *channel.Envelope, group string, send func(ctx context.Context, orders *channel.Sender[Order]) error) map[int][]string {
	t.Helper()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	// The chain of the handled message has its own trace and tenant, which win.
	ctx := channel.WithTrace(t.Context(), channel.Trace{Parent: "00-other-01", Tenant: "south"})
	must(t, send(wire.WithHandling(ctx, e, group, nil), senderOf[Order](t, newChannels(t, s))))
	ids := map[int][]string{}
	for _, got := range worldtest.Take(t, s, "orders") {
		if got.Correlation != "the first" || got.Causation != e.ID || got.TraceParent != "00-parent-01" || got.Tenant != "north" {
			t.Errorf("got %+v, want it to continue %+v", got, e)
		}
		var o Order
		if err := json.Unmarshal(got.Data, &o); err != nil {
			t.Fatal(err)
		}
		ids[o.Table] = append(ids[o.Table], got.ID)
		slices.Sort(ids[o.Table])
	}
	return ids
}

func TestHandlersContextTravels(t *testing.T) {
	t.Parallel()
	want := sendUnder(t, handled(), "kitchen", func(ctx context.Context, orders *channel.Sender[Order]) error {
		return orders.Send(ctx, Order{Table: 1}, Order{Table: 1}, Order{Table: 2}, Order{Table: 3})
	})
	if len(want[1]) != 2 || want[1][0] == want[1][1] {
		t.Fatalf("two equal sends: got IDs %q, want two", want[1])
	}
	all := append(append(slices.Clone(want[1]), want[2]...), want[3]...)
	for _, id := range all {
		at, ok := channel.IDTime(id)
		if parent, _ := channel.IDTime(timedID); !ok || !at.Equal(parent) {
			t.Errorf("ID %s: got time %v, want the parent's", id, at)
		}
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 4 {
		t.Fatalf("got %d different IDs, want 4: %q", n, all)
	}
	same := func(name string, got map[int][]string) {
		t.Helper()
		for table, ids := range want {
			if !slices.Equal(got[table], ids) {
				t.Errorf("%s: table %d: got IDs %q, want %q", name, table, got[table], ids)
			}
		}
	}
	same("another order, one by one", sendUnder(t, handled(), "kitchen", func(ctx context.Context, orders *channel.Sender[Order]) error {
		return errors.Join(orders.Send(ctx, Order{Table: 3}), orders.SendAfter(ctx, 0, Order{Table: 1}), orders.Send(ctx, Order{Table: 2}), orders.Send(ctx, Order{Table: 1}))
	}))
	same("several goroutines", sendUnder(t, handled(), "kitchen", func(ctx context.Context, orders *channel.Sender[Order]) error {
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i, table := range []int{1, 2, 1, 3} {
			wg.Go(func() { errs[i] = orders.Send(ctx, Order{Table: table}) })
		}
		wg.Wait()
		return errors.Join(errs...)
	}))

	others := func(e *channel.Envelope, group string) map[int][]string {
		return sendUnder(t, e, group, func(ctx context.Context, orders *channel.Sender[Order]) error {
			return orders.Send(ctx, Order{Table: 2})
		})
	}
	if got := others(handled(), "floor"); slices.Equal(got[2], want[2]) {
		t.Error("two groups that handle one event send under one ID")
	}
	second := handled()
	second.ID = channel.NewID()
	if got := others(second, "kitchen"); slices.Equal(got[2], want[2]) {
		t.Error("two messages that are handled send under one ID")
	}
}

func TestOwnKeyCountsInAHandlerToo(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	ctx := wire.WithHandling(t.Context(), handled(), "kitchen", nil)
	must(t, senderOf[Payment](t, newChannels(t, s)).Send(ctx, Payment{Key: "17"}))
	if e := receivedOne(t, s, "payments"); e.ID != "17" || e.Causation != timedID || e.Correlation != "the first" {
		t.Errorf("got %+v, want its own ID in the handled message's chain", e)
	}
}

func TestHandled(t *testing.T) {
	t.Parallel()
	if _, _, ok := channel.Handled(t.Context()); ok {
		t.Error("a message is handled outside of a handler")
	}
	e, group, ok := channel.Handled(wire.WithHandling(t.Context(), handled(), "kitchen", nil))
	if !ok || group != "kitchen" || e.ID != timedID || e.Tenant != "north" || e.Data != nil {
		t.Errorf("got %+v, %q, %v; want the message without its data", e, group, ok)
	}
}

// A message as it is sent is an event that the public SDK reads.
func TestSDKReadsWhatIsSent(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	must(t, senderOf[Order](t, newChannels(t, s)).Send(t.Context(), Order{Table: 4, Dish: "<b>&\"\u2028"}))
	ds, err := s.Queue("orders").Receive(t.Context(), 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var got event.Event
	must(t, json.Unmarshal(ds[0].Body, &got), got.Validate())
	var o Order
	must(t, got.DataAs(&o))
	if want := (Order{Table: 4, Dish: "<b>&\"\u2028"}); o != want {
		t.Errorf("got %+v, want %+v", o, want)
	}
	if got := got.Extensions(); len(got) > 0 {
		t.Errorf("got extensions %v, want none", got)
	}
}
