package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/values"
)

// world stands for the bank and the carrier. It knows orders by their IDs, as they do.
type world struct {
	mu      sync.Mutex
	charged map[string]int // cents, by order
	gone    map[string]bool
	shipped map[string]int
	kept    map[string]bool

	bank    func(order string) error // what the bank answers before it does anything
	carrier func(order string) error
}

func newWorld() *world {
	return &world{charged: map[string]int{}, gone: map[string]bool{}, shipped: map[string]int{}, kept: map[string]bool{}}
}

func (w *world) Charge(_ context.Context, order string, cents int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bank != nil {
		if err := w.bank(order); err != nil {
			return err
		}
	}
	if !w.gone[order] { // a charge that comes after its refund is void
		w.charged[order] = cents
	}
	return nil
}

func (w *world) Refund(_ context.Context, order string, _ int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.charged, order)
	w.gone[order] = true
	return nil
}

func (w *world) Ship(_ context.Context, order, _ string, count int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.carrier != nil {
		if err := w.carrier(order); err != nil {
			return err
		}
	}
	if !w.kept[order] {
		w.shipped[order] = count
	}
	return nil
}

func (w *world) Recall(_ context.Context, order string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.shipped, order)
	w.kept[order] = true
	return nil
}

func (w *world) program() millracetest.Program {
	return millracetest.Program{Routes: routes, Register: outside{w, w}.register}
}

// check reports an order whose money, goods and state don't agree, or goods that are lost.
func (w *world) check(t *testing.T, c *channel.Channels, placed ...Place) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	orders := values.New(c, "orders", values.Config[Order]{})
	left := onStock
	for _, p := range placed {
		o := millracetest.Value(t, orders, p.Order)
		done := o.State == Done
		if done {
			left -= p.Count
		}
		if _, charged := w.charged[p.Order]; charged != done {
			t.Errorf("order %s is %q, charged: %v", p.Order, o.State, charged)
		}
		if _, shipped := w.shipped[p.Order]; shipped != done {
			t.Errorf("order %s is %q, shipped: %v", p.Order, o.State, shipped)
		}
		if got := millracetest.View(t, progress(c), p.Order).State; got != o.State {
			t.Errorf("order %s is %q, its view says %q", p.Order, o.State, got)
		}
	}
	if got := millracetest.Value(t, stocks(c), "teapot"); got.Left != left || len(got.Held) > 0 {
		t.Errorf("got %+v, want %d left", got, left)
	}
}

func order(id string, count int) Place {
	return Place{ID: ID{id}, Item: "teapot", Count: count, Cents: 4900 * count}
}

func TestOrderDecides(t *testing.T) {
	t.Parallel()
	id := ID{"17"}
	charging := Order{State: Charging, Item: "teapot", Count: 1, Cents: 4900}
	late := charging
	late.State = TooLate
	millracetest.Decide(t, Order.Place).Given(Order{}).When(order("17", 1)).
		Then(Reserve{id, "teapot", 1}, channel.After(timeLimit, TimeUp{id}), Changed{id, Reserving})
	millracetest.Decide(t, Order.Paid).Given(charging).When(Paid{id, true}).Then(Ship{id, "teapot", 1}, Changed{id, Shipping})
	millracetest.Decide(t, Order.Paid).Given(charging).When(Paid{id, false}).Then(Release{id, "teapot"}, Changed{id, NoMoney})
	millracetest.Decide(t, Order.Paid).Given(late).When(Paid{id, true}).Then(Refund{id, 4900})
	millracetest.Decide(t, Order.TimeUp).Given(charging).When(TimeUp{id}).Then(Release{id, "teapot"}, Changed{id, TooLate})
	millracetest.Decide(t, Stock.Release).Given(Stock{Left: 3, Held: map[string]int{"17": 2}}).When(Release{id, "teapot"}).
		ThenValue(Stock{Left: 5})
}

// Each way that an order can end.
func TestOrders(t *testing.T) {
	t.Parallel()
	broken := errors.New("the line is dead")
	slow := 20 * time.Minute
	for _, test := range []struct {
		name          string
		count         int
		bank, carrier error
		expected      int // entries in the poison queues
		want          State
	}{
		{"happy", 2, nil, nil, 0, Done},
		{"no stock", 6, nil, nil, 0, NoStock},
		{"no money", 1, ErrDeclined, nil, 0, NoMoney},
		{"no bank", 1, broken, nil, 1, NoMoney},
		{"no carrier", 1, nil, broken, 1, NoCarrier},
		{"too late", 1, handlers.Later(slow, "the bank is closed"), nil, 0, TooLate},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			asked := 0
			w.bank = func(string) error {
				if asked++; asked > 1 && test.want == TooLate {
					return nil // it has opened
				}
				return test.bank
			}
			w.carrier = func(string) error { return test.carrier }
			millracetest.Run(t, w.program(), func(t *testing.T, app *millracetest.App) {
				p := order("17", test.count)
				app.Send(p, p) // twice is once
				app.Drain()
				app.Advance(time.Hour)
				w.check(t, app.Channels(), p)
				if got := millracetest.View(t, progress(app.Channels()), "17").State; got != test.want {
					t.Errorf("got an order that is %q, want %q", got, test.want)
				}
				if got := app.Poison(); len(got) != test.expected {
					t.Errorf("got %d entries in the poison queues, want %d", len(got), test.expected)
				}
			})
		})
	}
}

// The worker is killed when the bank has charged, and has not said so.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newWorld()
	millracetest.Run(t, w.program(), func(t *testing.T, app *millracetest.App) {
		kills := 0
		w.carrier = func(string) error {
			if kills++; kills < 3 {
				app.Kill()
			}
			return nil
		}
		app.Send(order("17", 1))
		app.Drain()
		if kills < 3 {
			t.Errorf("the carrier was asked %d times, want 3", kills)
		}
		w.check(t, app.Channels(), order("17", 1))
	})
}

// A delivery that was given up and taken back is retried by an operator: nothing is shipped.
func TestRetryAfterCompensation(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.carrier = func(string) error { return errors.New("the line is dead") }
	millracetest.Run(t, w.program(), func(t *testing.T, app *millracetest.App) {
		app.Send(order("17", 1))
		app.Drain()
		entries := app.Poison()
		if len(entries) != 1 {
			t.Fatalf("got %d entries in the poison queues, want 1", len(entries))
		}
		w.carrier = nil
		if err := poison.At(app.Channels(), entries[0].Queue).Retry(t.Context(), entries[0].Key); err != nil {
			t.Fatal(err)
		}
		app.Drain()
		w.check(t, app.Channels(), order("17", 1))
	})
}

// Whatever dies, comes late or comes twice, and whoever says no: money, goods and states agree.
func TestOrdersUnderFaults(t *testing.T) {
	t.Parallel()
	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
		w := newWorld()
		broken := errors.New("the line is dead")
		asked := map[string]bool{}
		w.bank = func(order string) error {
			first := !asked[order]
			asked[order] = true
			switch order[len(order)-1] {
			case '2':
				return ErrDeclined
			case '3':
				return broken
			case '4':
				if first {
					return handlers.Later(20*time.Minute, "the bank is closed")
				}
			}
			return nil
		}
		w.carrier = func(order string) error {
			if order[len(order)-1] == '5' {
				return broken
			}
			return nil
		}
		sim.ExpectPoison(func(e poison.Entry) bool { return e.Queue == "bank" || e.Queue == "carrier" })
		sim.Start(w.program())
		var placed []Place
		for i := range 9 {
			p := order(fmt.Sprint(sim.Seed, "-", i), 1+sim.Rand.IntN(2))
			placed = append(placed, p)
			sim.Send(p)
			sim.Advance(time.Duration(sim.Rand.IntN(300)) * time.Second)
		}
		sim.Settle()
		w.check(t, sim.Channels(), placed...)
	})
}

// The code beside the domain stays below sixty lines.
func TestProgramIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			lines++
		}
	}
	if lines >= 60 {
		t.Errorf("main.go has %d lines of code, want fewer than 60", lines)
	}
}
