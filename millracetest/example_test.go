package millracetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/millracetest"
)

// printer prints the failures of a test.
type printer struct{ testing.TB }

func (printer) Helper()                        {}
func (printer) Errorf(format string, a ...any) { fmt.Printf(format+"\n", a...) }

// In a test, t is the test's.
func ExampleDecide() {
	t := printer{}
	d := millracetest.Decide(t, order.place)
	d.Given(order{}).When(place{"a", 2}).
		Then(placed{"a", 2}, channel.After(72*time.Hour, remind{"a"})).
		ThenValue(order{Placed: []string{"2"}, Seats: 2})
	d.Given(order{}).When(place{"a", -1}).ThenError(errors.New("poison: no such seats"))

	d.Given(order{}).When(place{"a", 2}).
		Then(placed{"a", 3}, channel.After(72*time.Hour, remind{"a"})) // this fails
	// Output:
	// emitted messages (- want, + got)
	//   kit.placed.v1 (millracetest_test.placed) {
	//     "order": "a",
	// -   "seats": 3
	// +   "seats": 2
	//   }
	//   kit.remind.v1 (millracetest_test.remind) after 72h0m0s {
	//     "order": "a"
	//   }
}

func ExampleRun() {
	_ = func(t *testing.T) {
		var sent mails
		millracetest.Run(t, program(&sent), func(t *testing.T, app *millracetest.App) {
			app.Send(place{"a", 2})
			app.Drain()
			if n := millracetest.View(t, seats(app.Channels()), "all"); n != 2 {
				t.Errorf("seats: got %d, want 2", n)
			}
			app.Advance(72 * time.Hour)
			if n := len(sent.sent); n != 2 {
				t.Errorf("mails: got %d, want the confirmation and the reminder", n)
			}
		})
	}
}

func ExampleSimulate() {
	_ = func(t *testing.T) {
		millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
			var sent mails
			sim.Start(program(&sent))
			all := orders(sim.Channels())
			sim.Always("an order has its seats", func() error {
				o, err := all.Get(context.Background(), "a", "")
				if err == nil && o.Value.Seats > 20 {
					err = fmt.Errorf("%d seats, want at most 20", o.Value.Seats)
				}
				return err
			})
			for range 10 {
				sim.Send(place{"a", 1 + sim.Rand.IntN(2)})
				sim.Advance(time.Duration(sim.Rand.IntN(60)) * time.Second)
			}
			sim.Settle()
			if o := millracetest.Value(t, all, "a"); len(o.Placed) != 10 {
				t.Errorf("placed: got %d, want 10", len(o.Placed))
			}
		})
	}
}
