package reservations_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/sample/reservations"
)

const houseSeats = 10

func program(mails reservations.Mailer) millracetest.Program {
	return millracetest.Program{Routes: reservations.Routes, Register: func(h *handlers.Registry) error {
		numbers, err := reservations.Numbers(h.Channels().Store(), ids.Config{})
		if err != nil {
			return err
		}
		files, err := reservations.Files(h.Channels(), valet.Config{})
		reservations.Register(h, houseSeats, reservations.Mails{Mailer: mails}, numbers, files)
		return err
	}}
}

func made(id, date string, quantity int) reservations.MakeReservation {
	return reservations.MakeReservation{ID: id, Date: date, Name: "Ada", Email: "ada@example.org", Quantity: quantity}
}

// A day sells out and reopens: the calendar, the receipts, the ledger and the mails follow.
func TestADay(t *testing.T) {
	t.Parallel()
	const date = "2026-12-24"
	var mails outbox
	millracetest.Run(t, program(&mails), func(t *testing.T, app *millracetest.App) {
		c := app.Channels()
		disabled := func() []string { return millracetest.View(t, reservations.Months(c), "2026-12").DisabledDays }
		state := func(id string) reservations.State {
			return millracetest.View(t, reservations.Statuses(c), reservations.Key(id)).Status
		}
		app.Send(made("reservation-a", date, 4), made("reservation-b", date, 6), made("reservation-a", date, 4))
		app.Drain()
		if got := disabled(); !slices.Equal(got, []string{date}) {
			t.Errorf("disabled days: got %q, want %s", got, date)
		}
		app.Restart()
		app.Send(made("reservation-c", date, 1))
		app.Drain()
		app.Send(reservations.CancelReservation{ID: "reservation-a", Date: date})
		app.Advance(24 * time.Hour)
		if got := disabled(); len(got) > 0 {
			t.Errorf("disabled days after a cancellation: got %q, want none", got)
		}
		for id, want := range map[string]reservations.State{
			"reservation-a": reservations.Cancelled, "reservation-b": reservations.Accepted, "reservation-c": reservations.Rejected,
		} {
			if got := state(id); got != want {
				t.Errorf("%s: got %s, want %s", id, got, want)
			}
		}
		if got := millracetest.Value(t, reservations.Capacities(c, houseSeats), date); got.Remaining != 4 || len(got.Accepted) != 1 {
			t.Errorf("the day: got %+v, want 4 seats left", got)
		}
		if n := len(mails.sent); n != 4 {
			t.Errorf("mails: got %d, want 4", n)
		}
	})
}

// Whatever fails, no day is overbooked, every reservation is answered, and the ledger holds the accepted ones.
func TestUnderFaults(t *testing.T) {
	t.Parallel()
	dates := []string{"2026-12-24", "2026-12-31"}
	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
		var mails outbox
		sim.Start(program(&mails))
		capacities := reservations.Capacities(sim.Channels(), houseSeats)
		sim.Always("no seat is given away twice", func() error {
			for _, date := range dates {
				c, err := capacities.Get(context.Background(), date, "")
				if err != nil {
					return err
				}
				if n := c.Value.Remaining + taken(c.Value); n != houseSeats || c.Value.Remaining < 0 {
					return fmt.Errorf("%s: %d seats, want %d", date, n, houseSeats)
				}
			}
			return nil
		})
		var asked []string
		for i := range 12 {
			id, date := fmt.Sprintf("reservation-%d", i), dates[sim.Rand.IntN(len(dates))]
			asked = append(asked, id)
			book := []channel.Message{made(id, date, 1+sim.Rand.IntN(4))}
			if sim.Rand.IntN(3) == 0 {
				book = append(book, reservations.CancelReservation{ID: id, Date: date})
			}
			sim.Send(book...)
			sim.Advance(time.Duration(sim.Rand.IntN(40)) * time.Second)
		}
		sim.Settle()

		given := map[string]string{} // IDs by number
		for _, id := range asked {
			s := millracetest.View(t, reservations.Statuses(sim.Channels()), reservations.Key(id))
			if s.Status == "" || s.Status == reservations.Accepted && s.Number == "" {
				t.Errorf("%s was never answered, or has no number: %+v", id, s)
			}
			if other := given[s.Number]; other != "" && s.Number != "" {
				t.Errorf("%s and %s have No. %s", id, other, s.Number)
			}
			given[s.Number] = id
		}
		var disabled []string
		for _, date := range dates {
			day := millracetest.Value(t, capacities, date)
			if day.Remaining == 0 {
				disabled = append(disabled, date)
			}
			n := 0
			for row, err := range reservations.NewLedger(sim.Store(), nil).On(t.Context(), date) {
				if _, ok := day.Accepted[row.ID]; err != nil || !ok || given[row.Number] != row.ID {
					t.Errorf("ledger of %s: %s is no accepted reservation with No. %s (%v)", date, row.ID, row.Number, err)
				}
				n++
			}
			if n != len(day.Accepted) {
				t.Errorf("ledger of %s: got %d rows, want %d", date, n, len(day.Accepted))
			}
		}
		if got := millracetest.View(t, reservations.Months(sim.Channels()), "2026-12").DisabledDays; !slices.Equal(got, disabled) {
			t.Errorf("disabled days: got %q, want %q", got, disabled)
		}
	})
}

func taken(c reservations.Capacity) (n int) {
	for _, b := range c.Accepted {
		n += b.Quantity
	}
	return n
}
