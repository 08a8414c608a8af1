package channel_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
)

// Types of messages that would arrive empty, or that could not be sent at all.
type (
	sealedOrder struct{ table int }
	nestedOrder struct{ Lines []sealedOrder }
	chanOrder   struct {
		Table int
		Done  chan int
	}
	partOrder struct{ Table, seat int }
)

func (m sealedOrder) Kind() channel.Kind { return "test.sealed.v1" }
func (nestedOrder) Kind() channel.Kind   { return "test.nested.v1" }
func (chanOrder) Kind() channel.Kind     { return "test.chan.v1" }
func (m partOrder) Kind() channel.Kind   { return "test.part.v1" }
func (m sealedOrder) MessageID() string  { return strings.Repeat("a", m.table) }
func (m partOrder) MessageID() string    { return strings.Repeat("a", m.seat) }

// A type of which nothing would arrive has no route and no handler.
func TestMessagesThatWouldArriveEmpty(t *testing.T) {
	t.Parallel()
	_, err := channel.NewRoutes(channel.Command[sealedOrder]("orders"), channel.Event[nestedOrder]("kitchen"),
		channel.Event[chanOrder](), channel.Event[partOrder]("kitchen"))
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{
		"kind test.sealed.v1: JSON keeps no field of channel_test.sealedOrder (channel_test.sealedOrder.table)",
		"kind test.nested.v1: JSON keeps no field of channel_test.sealedOrder",
		"kind test.chan.v1: channel_test.chanOrder.Done is of type chan int",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "part") {
		t.Errorf("got error %v, want none for what arrives in part", err)
	}
	var c channel.Codec
	must(t, channel.Register[bookV2](&c), channel.Register[partOrder](&c))
	for name, err := range map[string]error{
		"registered": channel.Register[sealedOrder](&c),
		"upgraded":   channel.Upgrade(&c, func(sealedOrder) bookV2 { return bookV2{} }),
	} {
		if err == nil || !strings.Contains(err.Error(), "sealedOrder.table") {
			t.Errorf("%s: got error %v, want one with the field", name, err)
		}
	}
}

// Text that JSON can't hold is refused before anything is sent: two texts would become one. The error names the member
// and repeats nothing of the content.
func TestSendWhatIsNotUTF8(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	orders := worldtest.SenderOf[Order](t, newChannels(t, s))
	for _, dish := range []string{"caf\xe9", "caf\xe8", "\xff", "a\xc3"} {
		err := orders.Send(t.Context(), Order{Table: 1, Dish: "soup"}, Order{Table: 2, Dish: dish})
		if !errors.Is(err, channel.ErrBody) || !strings.HasSuffix(err.Error(), "not valid UTF-8 in member dish") || strings.Contains(err.Error(), "caf") {
			t.Errorf("%q: got error %v, want %v that names the member alone", dish, err, channel.ErrBody)
		}
	}
	if n := worldtest.Queued(t, s, "orders"); n != 0 {
		t.Errorf("got %d messages, want none", n)
	}
	must(t, orders.Send(t.Context(), Order{Table: 1, Dish: "café"}, Order{Table: 2, Dish: "\ufffd"}))
	if n := worldtest.Queued(t, s, "orders"); n != 2 {
		t.Errorf("got %d messages, want the two that are UTF-8", n)
	}
}

// A body from elsewhere is refused when it is read.
func TestDecodeWhatIsNotUTF8(t *testing.T) {
	t.Parallel()
	var c channel.Codec
	must(t, channel.Register[Order](&c))
	for _, body := range []string{"{\"dish\":\"caf\xe9\"}", `{"dish":"\ud800"}`} {
		if m, err := decodeAs(&c, "test.order.v1", body); !errors.Is(err, channel.ErrBody) {
			t.Errorf("%q: got %+v, error %v; want %v", body, m, err, channel.ErrBody)
		}
	}
}
