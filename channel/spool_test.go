package channel_test

import (
	"context"
	"errors"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

// keeper is a spool that keeps everything, or refuses it.
type keeper struct {
	kept    *int
	refusal error
}

func (k keeper) Send(_ context.Context, envelopes []channel.Envelope, _ func(context.Context) error) (bool, error) {
	if k.refusal == nil {
		*k.kept += len(envelopes)
	}
	return k.refusal == nil, k.refusal
}

func (k keeper) Away() error    { return k.refusal }
func (k keeper) Waiting() int64 { return int64(*k.kept) }
func (k keeper) Unsent() int64  { return int64(*k.kept) }

// A sender learns how many of its messages are in the spool. Each context counts for itself.
func TestNoteSpooled(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	plain := newChannels(t, s)
	k := keeper{kept: new(int)}
	c := plain.SpoolTo(k)
	if plain.Spools() || !c.Spools() || plain.SpoolTo(nil).Spools() {
		t.Error("Spools doesn't tell which channels have a spool")
	}
	for _, n := range []int{1, 3} {
		ctx, spooled := channel.NoteSpooled(t.Context())
		must(t, senderOf[Order](t, c).Send(ctx, make([]Order, n)...))
		must(t, senderOf[Order](t, plain).Send(ctx, Order{Table: 1}))
		worldtest.Want(t, "messages in the spool", spooled(), int64(n))
	}
	must(t, c.Send(t.Context(), Order{Table: 1})) // nobody asks
	must(t, c.Send(t.Context()))
	worldtest.Want(t, "kept", *k.kept, 5)
	worldtest.Want(t, "commands sent", c.Sent(), 7)
	worldtest.Want(t, "in the queue", worldtest.Queued(t, s, "orders"), 2)

	full := plain.SpoolTo(keeper{kept: new(int), refusal: storage.ErrUnavailable})
	ctx, spooled := channel.NoteSpooled(t.Context())
	if err := full.Send(ctx, Order{Table: 1}); !errors.Is(err, storage.ErrUnavailable) || spooled() != 0 {
		t.Errorf("got %v with %d in the spool, want the refusal", err, spooled())
	}
	_, err := full.SendWith(ctx, storage.Write{Container: "docs", Key: "a", Body: []byte("{}")}, Order{Table: 1})
	if !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("SendWith: got %v, want that the store is away", err)
	}
}
