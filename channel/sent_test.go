package channel_test

import (
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

// Commands count when they were sent, however they were sent. Events don't count, and nor does what wasn't sent.
func TestSentCountsCommands(t *testing.T) {
	t.Parallel()
	c := newChannels(t, worldtest.OpenStore(t, worldtest.Virtual))
	ctx := t.Context()
	must(t, senderOf[Order](t, c).Send(ctx, Order{}, Order{}))
	must(t, senderOf[Order](t, c).SendAfter(ctx, time.Hour, Order{}))
	must(t, senderOf[Served](t, c).Send(ctx, Served{}))
	must(t, c.Send(ctx, Payment{}, Served{}, channel.After(time.Hour, Order{})))
	write := storage.Write{Key: "k", Container: "docs", Body: []byte("1")}
	if _, err := senderOf[Order](t, c).SendWith(ctx, write, Order{}); err != nil {
		t.Fatal(err)
	}
	if err := senderOf[Broken](t, c).Send(ctx, Broken{C: make(chan int)}); err == nil {
		t.Error("a message that can't be encoded was sent")
	}
	if got := c.Sent(); got != 6 {
		t.Errorf("got %d, want 6", got)
	}
}
