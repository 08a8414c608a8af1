package operator

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// bodies counts the bodies that lie beside messages.
func bodies(t *testing.T, s *storage.Store) (n int) {
	t.Helper()
	for _, err := range s.Blobs("claims").List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// A peek shows what waits, ready messages first, and nothing of what is in them.
func TestQueuesPeek(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newStranger(t, s)
	x.publish(t)
	contains(t, "empty", x.want(t, 0, "", "queues", "peek", "wishes"), "No messages wait.")
	contains(t, "a queue that nobody knows", x.want(t, 2, "", "queues", "peek", "nope"), `unknown queue "nope"; want one of accounts`)
	worldtest.Send(x.World, wish{For: "ada", Items: []string{"a secret"}}, wish{For: "bob"})
	if err := x.Channels.Send(t.Context(), channel.After(time.Hour, wish{For: "eve"})); err != nil {
		t.Fatal(err)
	}
	out := x.want(t, 0, "", "queues", "peek", "wishes")
	contains(t, "waiting", out, "ID KIND SENT READY ATTEMPTS BYTES", "stranger.wish.v1", " now 0 ", " in 1h0m")
	got := jsonLines[acts.Waiting](t, result{out: x.want(t, 0, "", "queues", "peek", "wishes", "-json")})
	if len(got) != 3 || got[0].ReadyAt != nil || got[2].ReadyAt == nil || got[0].Kind != "stranger.wish.v1" || got[0].ID == "" || got[0].Sent == nil || got[0].Bytes == 0 {
		t.Errorf("got %+v", got)
	}
	if strings.Contains(out, "secret") {
		t.Errorf("content is shown: %s", out)
	}
	contains(t, "a limit", x.want(t, 0, "", "queues", "peek", "wishes", "-limit", "1"), "Note: There are more: --skip 1 shows them.")
	if err := s.Queue("wishes").Send(t.Context(), []storage.Message{{Body: []byte("junk \x1b[31m")}}); err != nil {
		t.Fatal(err)
	}
	contains(t, "a message that is none", x.want(t, 0, "", "queues", "peek", "wishes"), "– –")
	if code, _, told := x.doOn(t, storagetest.Plain(s), "", "queues", "peek", "wishes"); code != 1 || !strings.Contains(told, "unsupported") {
		t.Errorf("a store that shows nothing: got exit code %d and %q", code, told)
	}
}

// A purge deletes what waits, with the bodies that lie beside messages. It leaves what workers hold. A dry run deletes
// nothing.
func TestQueuesPurge(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		x := newStranger(t, s)
		x.publish(t)
		send := func(all ...channel.Message) {
			t.Helper()
			if err := x.Channels.Send(t.Context(), all...); err != nil {
				t.Fatal(err)
			}
		}
		large := wish{For: "bob", Items: []string{strings.Repeat("x", 200_000)}}
		send(wish{For: "held"})
		held, err := s.Queue("wishes").Receive(t.Context(), 1, time.Hour)
		if err != nil || len(held) != 1 {
			t.Fatalf("got %v, %v", held, err)
		}
		for i := range 40 {
			send(wish{For: fmt.Sprint(i)})
		}
		send(large, channel.After(time.Hour, large), worldtest.Add{To: "ada", Amount: 1})
		contains(t, "without a reason", x.want(t, 2, "", "queues", "purge", "wishes", "-yes"), "add --why TEXT")
		contains(t, "not sure", x.want(t, 2, "", "queues", "purge", "wishes", "-why", "x"), "add --yes to do it, or --dry-run")
		delayed := int64(0)
		if s.Finds() {
			delayed = 1
		}
		dry := oneLine[acts.Purged](t, x.want(t, 0, "", "queues", "purge", "wishes", "-why", "x", "-dry-run", "-json"))
		if dry.Result != "selected" || dry.Deleted != 41+delayed || *dry.InHands != 1 || *dry.Delayed != 1-delayed {
			t.Errorf("dry run: got %+v", dry)
		}
		worldtest.Want(t, "bodies before", bodies(t, s), 2)
		contains(t, "purged", x.want(t, 0, "", "queues", "purge", "wishes", "-why", "a test", "-yes"), fmt.Sprintf("Deleted %d messages of queue wishes. Workers hold 1 message, which stay.", 41+delayed))
		worldtest.Want(t, "bodies after", int64(bodies(t, s)), 1-delayed)
		st, err := s.Queue("wishes").Stats(t.Context())
		if err != nil || st.Ready != 0 || st.InFlight != 1 || st.Delayed != 1-delayed {
			t.Errorf("got %+v, %v", st, err)
		}
		if err := s.Queue("wishes").Delete(t.Context(), []storage.Receipt{held[0].Receipt}); err != nil {
			t.Errorf("what a worker holds was touched: %v", err)
		}
		worldtest.Want(t, "messages of another queue", worldtest.Queued(t, s, "accounts"), 1)
		contains(t, "again", x.want(t, 0, "", "queues", "purge", "wishes", "-why", "a test", "-yes"), "Deleted 0 messages")
	})
}

// A cancel takes back a message that no handler has had, ready or delayed. Where the store can't find it, the
// worker deletes it, and a message that is seen to be ready is refused.
func TestMessagesCancel(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newStranger(t, s)
	x.publish(t)
	worldtest.Send(x.World, wish{For: "ada"})
	if err := x.Channels.Send(t.Context(), channel.After(time.Hour, wish{For: "eve"})); err != nil {
		t.Fatal(err)
	}
	peek := func() []acts.Waiting {
		return jsonLines[acts.Waiting](t, result{out: x.want(t, 0, "", "queues", "peek", "wishes", "-json")})
	}
	all := peek()
	contains(t, "none", x.want(t, 3, "", "messages", "cancel", "wishes", "nope", "-why", "x"), `no message "nope" waits in queue wishes`)
	contains(t, "why", x.want(t, 2, "", "messages", "cancel", "wishes", all[0].ID), "add --why TEXT")
	code, _, told := x.doOn(t, blind(s), "", "messages", "cancel", "wishes", all[0].ID, "-why", "x")
	if code != 1 || !strings.Contains(told, "is ready, and this store can't find a message by its ID") {
		t.Errorf("a ready message that can't be found: got exit code %d and %q", code, told)
	}
	for i, m := range slices.Backward(all) {
		got := oneLine[acts.MessageCancelled](t, x.want(t, 0, "", "messages", "cancel", "wishes", m.ID, "-why", "x", "-json"))
		if got.Result != "cancelled" || got.Kind != "stranger.wish.v1" || len(peek()) != i {
			t.Errorf("got %+v, and %d are left", got, len(peek()))
		}
	}
	worldtest.Send(x.World, wish{For: "bob"})
	held, err := s.Queue("wishes").Receive(t.Context(), 1, time.Hour)
	if err != nil || len(held) != 1 {
		t.Fatalf("got %v, %v", held, err)
	}
	e, err := wire.Decode(held[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, "held", x.want(t, 3, "", "messages", "cancel", "wishes", e.ID, "-why", "x"), "a worker may have it")
	if _, err := s.Queue("wishes").Extend(t.Context(), held[0].Receipt, 0); err != nil {
		t.Fatal(err)
	}
	contains(t, "delivered before", x.want(t, 1, "", "messages", "cancel", "wishes", e.ID, "-why", "x"), "a worker has it or has had it")

	id := channel.NewID()
	if code, _, told := x.doOn(t, storagetest.Plain(s), "", "messages", "cancel", "wishes", id, "-why", "x"); code != 2 || !strings.Contains(told, "add --kind KIND") {
		t.Errorf("a store that shows nothing: got exit code %d and %q", code, told)
	}
	code, out, _ := x.doOn(t, storagetest.Plain(s), "", "messages", "cancel", "wishes", id, "-kind", "stranger.wish.v1", "-why", "x")
	if code != 0 || !strings.Contains(out, "It is noted that message") {
		t.Errorf("a tombstone: got exit code %d and %q", code, out)
	}
	if _, err := s.Table("cancelled").Get(t.Context(), "wishes", wire.TombstoneKey("stranger.wish.v1", id)); err != nil {
		t.Errorf("the tombstone: %v", err)
	}
}

// Messages wait in a queue that no program has published, as in one that was renamed: they are shown, cancelled and
// purged. An empty queue that nobody knows is a misspelt name.
func TestMessagesOfAQueueThatNobodyKnows(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newStranger(t, s)
	for _, args := range []string{"queues peek wishes", "queues purge wishes -why x -yes", "messages cancel wishes id -why x"} {
		contains(t, args, x.want(t, 2, "", strings.Fields(args)...), `unknown queue "wishes"`)
	}
	worldtest.Send(x.World, wish{For: "ada"}, wish{For: "bob"}, wish{For: "eve"})
	got := jsonLines[acts.Waiting](t, result{out: x.want(t, 0, "", "queues", "peek", "wishes", "-json")})
	if len(got) != 3 {
		t.Fatalf("got %+v", got)
	}
	contains(t, "cancelled", x.want(t, 0, "", "messages", "cancel", "wishes", got[0].ID, "-why", "x"), "is cancelled.")
	contains(t, "purged", x.want(t, 0, "", "queues", "purge", "wishes", "-why", "x", "-yes"), "Deleted 2 messages of queue wishes.")
}

// blind is a store that shows the first ready messages without receipts, and finds nothing by its key.
func blind(s *storage.Store) *storage.Store { return storage.New(blindly{s.Driver()}) }

type blindly struct{ driver.Store }

func (blindly) Finder() driver.Finder   { return nil }
func (b blindly) Peeker() driver.Peeker { return b }

func (b blindly) Peek(ctx context.Context, queue string) iter.Seq2[driver.Peeked, error] {
	return func(yield func(driver.Peeked, error) bool) {
		for m, err := range b.Store.Peeker().Peek(ctx, queue) {
			if m.Receipt = ""; err == nil && !m.ReadyAt.IsZero() || !yield(m, err) {
				return
			}
		}
	}
}

// Law: a purge deletes no more messages than waited when it began, however many come meanwhile.
func TestLawAPurgeTakesNoLaterMessage(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newStranger(t, s)
	x.publish(t)
	worldtest.Send(x.World, wish{For: "ada"}, wish{For: "bob"})
	late := 0
	busy := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "receive" && late < 10 {
			late++
			worldtest.Send(x.World, wish{For: "late"})
		}
		return do()
	})
	if code, out, told := x.doOn(t, busy, "", "queues", "purge", "wishes", "-why", "x", "-yes"); code != 0 || !strings.HasPrefix(out, "Deleted 2 messages of queue wishes.") {
		t.Errorf("got exit code %d, %q and %q", code, out, told)
	}
	worldtest.Want(t, "messages that came meanwhile", worldtest.Queued(t, s, "wishes"), late)
}
