package millracetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/schedule"
)

// A sound program keeps the laws under all faults.
func TestSimulate(t *testing.T) {
	t.Parallel()
	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
		m := &mails{}
		sim.Start(program(m))
		sim.Always("no order has more seats than were asked for", func() error {
			if o := millracetest.Value(t, orders(sim.Channels()), "order-1"); o.Seats > 20 {
				return fmt.Errorf("%d seats", o.Seats)
			}
			return nil
		})
		placeSome(t, sim)
	})
}

// placeSome places orders at random times, one of which can't be placed, and looks at what the view has in the end.
func placeSome(t *testing.T, sim *millracetest.Sim) {
	t.Helper()
	sim.ExpectPoison(func(e poison.Entry) bool { return e.Reason == "no such seats" })
	sim.Send(place{"order-9", -1})
	total := 0
	for i := range 10 {
		n := 1 + sim.Rand.IntN(4)
		total += n
		sim.Send(place{fmt.Sprintf("order-%d", i%4), n})
		sim.Advance(time.Duration(sim.Rand.IntN(60)) * time.Second)
	}
	sim.Settle()
	if n := millracetest.View(t, seats(sim.Channels()), "all"); n != total {
		t.Errorf("seats: got %d, want %d", n, total)
	}
}

// A document that the program itself changes is left out of the laws.
func TestRebuildsAreLeftOut(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
		sim.Start(program(&mails{}))
		sim.Send(place{"a", 1}, place{"b", 1})
		sim.Advance(time.Hour)
		if err := orders(sim.Channels()).Update(t.Context(), "a", func(o order) (order, bool) { o.Seats = 9; return o, true }); err != nil {
			t.Error(err)
		}
		if err := seats(sim.Channels()).Clear(t.Context()); err != nil {
			t.Error(err)
		}
		sim.Send(place{"a", 2})
	}, 1, 2, 3)
}

// A schedule waits for its next due time for ever. No test has to say so.
func TestSimulateAProgramWithASchedule(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	daily := millracetest.Program{
		Routes: func() (*channel.Routes, error) {
			return channel.NewRoutes(schedule.Route(), channel.Command[remind]("reminders"))
		},
		Register: func(h *handlers.Registry) error {
			schedule.Every(h, "daily", schedule.Interval(24*time.Hour), func(schedule.Tick) remind { return remind{"a"} }, schedule.Config{})
			handlers.Decide(h, orders(h.Channels()), func(c remind) string { return c.Order }, func(o order, _ remind) (order, []channel.Message, error) {
				o.Seats++
				return o, nil, nil
			})
			return nil
		},
	}
	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
		sim.Start(daily)
		sim.Advance(60 * time.Hour)
		began := time.Now()
		sim.Settle()
		if took := time.Since(began); took > 24*time.Hour {
			t.Errorf("it took %v until nothing was left to do", took)
		}
		if n := millracetest.Value(t, orders(sim.Channels()), "a").Seats; n < 2 || n > 3 {
			t.Errorf("the command of a daily schedule came %d times in 60 hours", n)
		}
	}, 1)
}

// A timer that is renewed for ever may stay at the end, where the test says so.
func TestEndless(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	ticks := millracetest.Program{
		Routes: func() (*channel.Routes, error) { return channel.NewRoutes(channel.Command[remind]("ticks")) },
		Register: func(h *handlers.Registry) error {
			handlers.Decide(h, orders(h.Channels()), func(c remind) string { return c.Order }, func(o order, c remind) (order, []channel.Message, error) {
				o.Seats++
				return o, []channel.Message{channel.After(10*24*time.Hour, c)}, nil
			}, remind{})
			return nil
		},
	}
	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
		sim.Endless("ticks")
		sim.Start(ticks)
		sim.Send(remind{"a"})
		sim.Settle()
		if n := millracetest.Value(t, orders(sim.Channels()), "a").Seats; n < 1 {
			t.Errorf("ticks: got %d, want some", n)
		}
	}, 1, 2)
}
