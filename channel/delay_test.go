package channel_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

const day = 24 * time.Hour

// sentAfter returns the ID of an order that is sent with a delay under the handling of a message.
func sentAfter(t testing.TB, parent string, delay time.Duration) string {
	t.Helper()
	e := handled()
	e.ID = parent
	var id string
	probe := func(ctx context.Context, orders *channel.Sender[Order]) error {
		return orders.SendAfter(ctx, delay, Order{Table: 1})
	}
	for range 2 { // the handler runs again
		again := delayedUnder(t, e, probe)
		if len(again) != 1 || id != "" && again[0] != id {
			t.Fatalf("got IDs %q, want the one that was sent before, %q", again, id)
		}
		id = again[0]
	}
	return id
}

// delayedUnder sends orders under the handling of a message and returns their IDs. Any delay is allowed.
func delayedUnder(t testing.TB, e *channel.Envelope, send func(ctx context.Context, orders *channel.Sender[Order]) error) (ids []string) {
	t.Helper()
	s := storage.New(undelayed{worldtest.OpenStore(t, worldtest.Virtual).Driver()})
	must(t, send(wire.WithHandling(t.Context(), e, "kitchen", nil), senderOf[Order](t, newChannels(t, s))))
	for _, got := range worldtest.Take(t, s, "orders") {
		ids = append(ids, got.ID)
	}
	slices.Sort(ids)
	return ids
}

// undelayed is a store that ignores the delays of messages.
type undelayed struct{ driver.Store }

func (s undelayed) Committer() driver.Committer { return s }

func (s undelayed) Commit(ctx context.Context, w storage.Work) (storage.Committed, error) {
	for i := range w.Send {
		w.Send[i].Message.Delay = 0
	}
	return s.Store.Committer().Commit(ctx, w)
}

// However long a chain of delayed messages goes on, each message's ID has the time of its own delivery.
func TestChainOfDelays(t *testing.T) {
	t.Parallel()
	id := timedID
	want, _ := channel.IDTime(timedID)
	for range 10 {
		id = sentAfter(t, id, 6*day+time.Millisecond)
		want = want.Add(6*day + time.Millisecond)
		if at, ok := channel.IDTime(id); !ok || !at.Equal(want) {
			t.Fatalf("ID %s: got time %v, %v; want %v", id, at, ok, want)
		}
	}
	last := "ffffffff-ffff-7fff-bfff-ffffffffffff"
	if at, _ := channel.IDTime(sentAfter(t, last, day)); at.UnixMilli() != 1<<48-1 {
		t.Errorf("after the last time: got %v; want the last one still", at)
	}
}

// The delay tells two sends of one content apart, so their order doesn't matter. Without a delay the ID is as before.
func TestDelayIsPartOfTheID(t *testing.T) {
	t.Parallel()
	for _, parent := range []string{timedID, "order-17"} {
		e := handled()
		e.ID = parent
		delays := []time.Duration{0, time.Hour, time.Hour, 2 * time.Hour, 2*time.Hour + time.Nanosecond}
		var all [][]string
		for _, order := range [][]int{{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 4, 0, 3, 1}} {
			all = append(all, delayedUnder(t, e, func(ctx context.Context, orders *channel.Sender[Order]) error {
				errs := make([]error, len(order))
				for i, d := range order {
					errs[i] = orders.SendAfter(ctx, delays[d], Order{Table: 1})
				}
				return errors.Join(errs...)
			}))
		}
		all = append(all, delayedUnder(t, e, func(ctx context.Context, orders *channel.Sender[Order]) error {
			var wg sync.WaitGroup
			errs := make([]error, len(delays))
			for i, d := range delays {
				wg.Go(func() { errs[i] = orders.SendAfter(ctx, d, Order{Table: 1}) })
			}
			wg.Wait()
			return errors.Join(errs...)
		}))
		for _, ids := range all {
			if n := len(slices.Compact(slices.Clone(ids))); n != len(delays) || !slices.Equal(ids, all[0]) {
				t.Errorf("under %s: got IDs %q, want the same %d in any order: %q", parent, ids, len(delays), all[0])
			}
		}
		at := delayedUnder(t, e, func(ctx context.Context, orders *channel.Sender[Order]) error {
			return orders.Send(ctx, Order{Table: 1})
		})
		if !slices.Contains(all[0], at[0]) {
			t.Errorf("under %s: a send without delay has another ID, %s, than one with a delay of 0", parent, at[0])
		}
	}
	// Every later version must derive the same ID.
	if got, want := sentAfter(t, timedID, 0), "0190b6a2-7b1c-7057-a2dd-63f8e3d5f1ef"; got != want {
		t.Errorf("without delay: got %s, want %s", got, want)
	}
	if got, want := sentAfter(t, timedID, day), "0190bbc8-d71c-7222-9641-01bed2dc47e4"; got != want {
		t.Errorf("a day later: got %s, want %s", got, want)
	}
}

// After and At keep the reply address of a message.
func TestDelaysKeepTheReplyAddress(t *testing.T) {
	t.Parallel()
	asked := wire.Wrapped{Message: Order{}, ReplyTo: "/asked/by"}
	for _, m := range []channel.Message{channel.After(time.Hour, asked), channel.At(time.Now(), asked), channel.At(time.Now(), channel.After(1, asked))} {
		if got := wire.Wrap(m).ReplyTo; got != asked.ReplyTo {
			t.Errorf("got reply address %q, want %q", got, asked.ReplyTo)
		}
	}
}
