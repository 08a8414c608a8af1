package millracetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/poison"
)

// syncShop is a command that takes a turn.
type syncShop struct {
	Shop string `json:"shop"`
	N    int    `json:"n"`
}

func (syncShop) Kind() channel.Kind { return "kit.sync.v1" }

// inTurn is the program whose mails go out in order, and which also syncs shops, one at a time.
func inTurn(m *mails, run func(ctx context.Context, c syncShop) error, halt bool) millracetest.Program {
	return millracetest.Program{
		Routes: func() (*channel.Routes, error) {
			return channel.NewRoutes(
				channel.Command[place]("orders"), channel.Command[remind]("orders"), channel.Command[syncShop]("syncs"),
				channel.Event[placed]("seats", "mails"), channel.Event[reminded]("mails"), channel.InOrder("mails"),
			)
		},
		Register: func(h *handlers.Registry) error {
			o := orders(h.Channels())
			handlers.Decide(h, o, func(c place) string { return c.Order }, order.place, placed{}, remind{})
			handlers.Decide(h, o, func(c remind) string { return c.Order }, order.remind, reminded{})
			handlers.React(h, "seats", func(context.Context, placed) error { return nil })
			handlers.ReactInOrder(h, "mails", func(_ context.Context, e placed) error { return m.send(fmt.Sprint(e.Order, " ", e.Seats)) })
			handlers.ReactInOrder(h, "mails", func(_ context.Context, e reminded) error { return m.send(e.Order + " remind") })
			handlers.OneAtATime(h, "syncs", func(c syncShop) string { return c.Shop }, run)
			handlers.Turns(h, "mails", handlers.TurnConfig{Halt: halt})
			handlers.Turns(h, "syncs", handlers.TurnConfig{Halt: halt})
			return nil
		},
	}
}

func noSync(context.Context, syncShop) error { return nil }

// mailsOf returns the mails of an order, each at its first time.
func mailsOf(m *mails, of string) (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sent {
		if text, ok := strings.CutPrefix(s, of+" "); ok && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// The events of a value object are handled in order, and the commands of a shop one at a time, although mails fail and
// the worker dies.
func TestRunInOrderAndOneAtATime(t *testing.T) {
	t.Parallel()
	m, fails := &mails{}, 0
	m.before = func() error {
		if fails++; fails%3 == 1 {
			return errors.New("the mail server is busy")
		}
		return nil
	}
	var app *millracetest.App
	running, most, died := map[string]int{}, 0, false
	var runs []int
	run := func(_ context.Context, c syncShop) error {
		m.mu.Lock()
		running[c.Shop]++
		most = max(most, running[c.Shop])
		runs = append(runs, c.N)
		m.mu.Unlock()
		defer func() { m.mu.Lock(); running[c.Shop]--; m.mu.Unlock() }()
		if c.N == 3 && !died {
			died = true
			app.Kill()
			return errors.New("dead")
		}
		return nil
	}
	millracetest.Run(t, inTurn(m, run, false), func(t *testing.T, a *millracetest.App) {
		app = a
		for i := range 5 {
			app.Send(place{"a", i + 1}, place{"b", 10 * (i + 1)}, syncShop{"tea", i + 1})
		}
		app.Drain()
		app.Advance(72 * time.Hour)
		for _, of := range []string{"a", "b"} {
			want := append(millracetest.Value(t, orders(app.Channels()), of).Placed, "remind") // decisions have no order
			if got := mailsOf(m, of); len(want) != 6 || !slices.Equal(got, want) {
				t.Errorf("mails of order %s: got %q, want %q", of, got, want)
			}
		}
		slices.Sort(runs)
		if most != 1 || !died || !slices.Equal(slices.Compact(runs), []int{1, 2, 3, 4, 5}) {
			t.Errorf("%d syncs of one shop ran at the same time; runs %v", most, runs)
		}
	})
}

// A message that fails for good halts its key, and no other. When it is sent back and done, its key goes on; or an
// operator releases it.
func TestRunHalts(t *testing.T) {
	t.Parallel()
	closed, m := true, &mails{}
	m.before = func() error {
		if closed {
			closed = false
			return handlers.Poison("closed", nil)
		}
		return nil
	}
	var runs []syncShop
	run := func(_ context.Context, c syncShop) error {
		if c == (syncShop{"tea", 1}) {
			return handlers.Poison("closed", nil)
		}
		runs = append(runs, c)
		return nil
	}
	millracetest.Run(t, inTurn(m, run, true), func(t *testing.T, app *millracetest.App) {
		app.Send(place{"a", 1})
		app.Send(syncShop{"tea", 1})
		app.Wait(time.Minute)
		app.Send(place{"a", 2}, place{"b", 3}, syncShop{"tea", 2}, syncShop{"pot", 1})
		app.Wait(time.Hour)
		if len(mailsOf(m, "a")) != 0 || len(mailsOf(m, "b")) != 1 || !slices.Equal(runs, []syncShop{{"pot", 1}}) {
			t.Errorf("halted: got mails %q and syncs %v", m.sent, runs)
		}
		for _, e := range app.Poison() {
			if e.Queue == "mails" {
				if err := poison.At(app.Channels(), e.Queue).Retry(t.Context(), e.Key); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, released, err := keylock.Release(t.Context(), app.Store(), "syncs", "tea", keylock.Note{By: "ada"}); err != nil || !released {
			t.Errorf("release: got %v, %v", released, err)
		}
		app.Drain()
		if got := mailsOf(m, "a"); !slices.Equal(got, []string{"1", "2"}) || !slices.Contains(runs, syncShop{"tea", 2}) {
			t.Errorf("in the end: got mails %q and syncs %v", got, runs)
		}
	})
}

// Reactions in order and in turn keep their laws under random faults, and the kit's laws hold beside them.
func TestSimulateInOrder(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
		m := &mails{}
		var mu sync.Mutex
		last := map[string]uint64{} // of the events that are done, by their value objects
		p := inTurn(m, noSync, false)
		p.Handlers.Middleware = []handlers.Middleware{func(next handlers.Next) handlers.Next {
			return func(ctx context.Context, d *handlers.Delivery) error {
				e := d.Envelope
				before, _, ok := e.PreviousTo(d.Queue)
				mu.Lock()
				if d.Queue == "mails" && (!ok || last[e.Source] < before) {
					t.Errorf("event %d of %s begins before event %d is done", e.Sequence, e.Source, before)
				}
				mu.Unlock()
				err := next(ctx, d)
				mu.Lock()
				defer mu.Unlock()
				if d.Queue == "mails" && err == nil {
					last[e.Source] = max(last[e.Source], e.Sequence)
				}
				return err
			}
		}}
		sim.Start(p)
		want := map[string][]string{}
		for i := range 12 {
			key := fmt.Sprint("o", i%2)
			sim.Send(place{key, i + 1}, syncShop{key, i})
			want[key] = append(want[key], fmt.Sprint(i+1))
			sim.Advance(time.Duration(10+sim.Rand.IntN(60)) * time.Second)
		}
		sim.Settle()
		for of, texts := range want {
			got := slices.DeleteFunc(mailsOf(m, of), func(s string) bool { return s == "remind" })
			if len(got) != len(texts) {
				t.Errorf("mails of order %s: got %q, want all of %q", of, got, texts)
			}
		}
	}, 1, 2, 3)
}
