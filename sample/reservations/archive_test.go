package reservations_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
)

// A late acceptance is recorded while its date is archived, in every possible order of their first storage calls. No
// row is left.
func TestLateAcceptanceAndArchiveInAnyOrder(t *testing.T) {
	t.Parallel()
	file := openStore(t)
	store, interleave := turns(file)
	l, a := reservations.NewLedger(store, numbers(t, file)), reservations.NewArchive(sampleChannels(t, store), nil)
	n := 0
	for order := range schedules([]int{4, 7}) {
		e := accepted(fmt.Sprintf("reservation-%d", n))
		e.Date = time.Date(2001, 1, 1+n, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
		n++
		interleave(t, order,
			func(ctx context.Context) error { _, err := l.Record(ctx, e); return err },
			func(ctx context.Context) error {
				if _, err := store.Blobs("evenings").Put(ctx, e.Date, []byte("{}"), storage.Condition{}); err != nil {
					return err
				}
				return a.Forget(ctx, reservations.EveningKept{Date: e.Date})
			},
		)
		for row, err := range file.Table("reservations").Query(t.Context(), e.Date, storage.RowRange{}) {
			t.Fatalf("order %v leaves %s (%v)", order, row.Data, err)
		}
	}
	if want := 330; n != want { // 11! / (4! 7!)
		t.Errorf("orders: got %d, want %d", n, want)
	}
}

// An evening stays as it was kept first, because a repeat may find that the ledger is empty.
func TestEvening(t *testing.T) {
	t.Parallel()
	keep := millracetest.Decide(t, reservations.Evening.Keep)
	m := reservations.KeepEvening{Date: "2026-12-24", Guests: 4, Tables: []reservations.Table{{Number: "1-3", Seats: 4}}, Rejected: 1}
	kept := keep.Given(reservations.Evening{}).When(m).Then(reservations.EveningKept{Date: m.Date}).ThenValue(reservations.Evening(m)).Value()
	keep.Given(kept).When(reservations.KeepEvening{Date: m.Date}).Then(reservations.EveningKept{Date: m.Date}).ThenValue(kept)
}

// Whatever fails, a closed date takes no booking any more, its evening is what the ledger had, and nobody gets two
// reminders.
func TestTheEndUnderFaults(t *testing.T) {
	t.Parallel()
	const date, past = "2001-02-20", "2001-01-02"
	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
		var mails letters
		sim.Start(program(&mails))
		capacities := reservations.Capacities(sim.Channels(), houseSeats)
		var over reservations.Capacity
		sim.Always("a closed date changes no more, until it is empty", func() error {
			c, err := capacities.Get(context.Background(), date, "")
			if err != nil {
				return err
			}
			if over.Closed && (!c.Value.Closed || len(c.Value.Accepted) > 0 && len(c.Value.Accepted) != len(over.Accepted)) {
				return fmt.Errorf("got %+v after %+v", c.Value, over)
			}
			over = c.Value
			return nil
		})
		for i := range 6 {
			sim.Send(made(fmt.Sprintf("reservation-%d", i), date, 1+sim.Rand.IntN(4)), made(fmt.Sprintf("past-date-%d", i), past, 1))
			sim.Advance(time.Duration(sim.Rand.IntN(40)) * time.Second)
		}
		sim.Send(reservations.RemindGuests{Date: date})
		sim.Advance(time.Duration(sim.Rand.IntN(40)) * time.Second)
		sim.Send(reservations.CloseDate{Date: date}, reservations.RemindGuests{Date: date}, reservations.ArchiveDate{Date: past}, reservations.ArchiveDate{Date: past})
		for i := range 6 {
			sim.Send(made(fmt.Sprintf("latecomer-%d", i), date, 1), reservations.CancelReservation{ID: fmt.Sprintf("reservation-%d", i), Date: date})
			sim.Advance(time.Duration(sim.Rand.IntN(40)) * time.Second)
		}
		sim.Settle()
		for date, most := range map[string]int{date: houseSeats, past: 0} {
			if d := millracetest.Value(t, capacities, date); !d.Closed || len(d.Accepted) > most {
				t.Errorf("%s: got %+v, want it closed, with at most %d reservations", date, d, most)
			}
		}
		for row, err := range reservations.NewLedger(sim.Store(), nil).On(t.Context(), past) {
			t.Errorf("the ledger has %+v (%v) of an archived date", row, err)
		}
		reminded := map[string]string{}
		for line := range mails.all {
			subject, rest, _ := strings.Cut(line, ": ")
			id, mail, _ := strings.Cut(rest, " ")
			if other := reminded[id]; subject+": " == reminder && other != "" && other != mail {
				t.Errorf("%s is reminded by two mails", id)
			}
			if subject+": " == reminder {
				reminded[id] = mail
			}
		}
	})
}
