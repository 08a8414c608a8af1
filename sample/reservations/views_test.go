package reservations

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/views/viewstest"
)

func foldMonth(m Month, e channel.Message) Month {
	switch e := e.(type) {
	case SoldOut:
		return m.Disable(e)
	case Reopened:
		return m.Enable(e)
	}
	panic(fmt.Sprintf("no such event: %T", e))
}

func TestMonthInAnyOrder(t *testing.T) {
	t.Parallel()
	var events []viewstest.Event
	for day := 1; day <= 5; day++ {
		date := fmt.Sprintf("2026-12-%02d", day)
		for n := range uint64(day) { // day 1 ends sold out, day 2 reopened, and so on
			e := viewstest.Event{Message: SoldOut{date}, Source: "/capacity/" + date, Sequence: 10 * (n + 1)}
			if n%2 == 1 {
				e.Message = Reopened{date}
			}
			events = append(events, e)
		}
	}
	viewstest.Latest(t, func() Month { return Month{} }, foldMonth, events)

	var got Month
	for _, e := range events {
		got = foldMonth(got, e.Message)
	}
	if want := []string{"2026-12-01", "2026-12-03", "2026-12-05"}; !reflect.DeepEqual(got.DisabledDays, want) {
		t.Errorf("disabled days: got %v, want %v", got.DisabledDays, want)
	}
}

func TestMonthFoldsArePure(t *testing.T) {
	t.Parallel()
	before := Month{DisabledDays: append(make([]string, 0, 10), "2026-12-02", "2026-12-04")} // room to grow in place
	before.Disable(SoldOut{"2026-12-03"})
	before.Enable(Reopened{"2026-12-02"})
	if want := []string{"2026-12-02", "2026-12-04"}; !reflect.DeepEqual(before.DisabledDays, want) {
		t.Errorf("got %v, want %v", before.DisabledDays, want)
	}
}

func TestMonthRestoredEqualsMonthFolded(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 0))
	var folded, restored Month
	for day := 1; day <= 20; day++ {
		c := Capacity{Remaining: 10}
		date := fmt.Sprintf("2026-12-%02d", day)
		for i := range 6 {
			m := MakeReservation{ID: fmt.Sprintf("reservation-%d", i), Date: date, Name: "Ada", Email: "ada@example.org", Quantity: 1 + r.IntN(5)}
			var events, more []channel.Message
			c, events, _ = c.Reserve(m)
			if r.IntN(4) == 0 {
				c, more, _ = c.Cancel(CancelReservation{ID: m.ID, Date: date})
			}
			for _, e := range append(events, more...) {
				switch e.(type) {
				case SoldOut, Reopened:
					folded = foldMonth(folded, e)
				}
			}
		}
		restored = restored.Restore(date, c)
	}
	if len(folded.DisabledDays) == 0 || !reflect.DeepEqual(restored, folded) {
		t.Errorf("restored %v, folded %v", restored, folded)
	}
}

func TestStatusInAnyOrder(t *testing.T) {
	t.Parallel()
	m := ask("reservation-a", 3)
	fold := func(s Status, e channel.Message) Status {
		switch e := e.(type) {
		case ReservationAccepted:
			return s.Accept(e)
		case ReservationCancelled:
			return s.Cancel(e)
		}
		panic(fmt.Sprintf("no such event: %T", e))
	}
	viewstest.Latest(t, func() Status { return Status{} }, fold, []viewstest.Event{
		{Message: ReservationAccepted(m), Source: "/capacity/" + date, Sequence: 7},
		{Message: ReservationCancelled(m), Source: "/capacity/" + date, Sequence: 12},
	})
	got := Status{}.Reject(ReservationRejected{ID: m.ID, Date: m.Date, Name: m.Name, Email: m.Email, Quantity: 3, Reason: "Full."})
	if want := (Status{ID: m.ID, Date: date, Name: "Ada", Quantity: 3, Status: Rejected, Reason: "Full."}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
