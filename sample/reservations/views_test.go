package reservations

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
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

// A day that is over leaves the calendar, and no rebuild brings it back.
func TestMonthWithoutDaysThatAreOver(t *testing.T) {
	t.Parallel()
	m := Month{DisabledDays: []string{"2026-12-02", "2026-12-04"}}.Close(DateClosed{"2026-12-02"})
	if want := []string{"2026-12-04"}; !reflect.DeepEqual(m.DisabledDays, want) {
		t.Errorf("closed: got %v, want %v", m.DisabledDays, want)
	}
	if got := m.Restore("2026-12-02", Capacity{Closed: true}); !reflect.DeepEqual(got, m) {
		t.Errorf("restored: got %v, want %v", got, m)
	}
}

func TestStatusInAnyOrder(t *testing.T) {
	t.Parallel()
	m := ask("reservation-a", 3)
	numbered := ReservationNumbered{ID: m.ID, Date: m.Date, Name: m.Name, Email: m.Email, Quantity: m.Quantity, Number: "1042-9"}
	fold := func(s Status, e channel.Message) Status {
		switch e := e.(type) {
		case ReservationNumbered:
			return s.Accept(e)
		case ReservationCancelled:
			return s.Cancel(e)
		case valet.Uploaded:
			return s.Wished(e)
		case valet.Rejected:
			return s.Unwished(e)
		}
		panic(fmt.Sprintf("no such event: %T", e))
	}
	viewstest.OrderFree(t, func() Status { return Status{} }, fold, []viewstest.Event{
		{Message: numbered}, {Message: ReservationCancelled(m)},
		{Message: valet.Rejected{ID: "w1", Reason: "too late"}}, {Message: valet.Uploaded{ID: "w2", Name: "a.png"}},
		{Message: valet.Uploaded{ID: "w3", Name: "b.pdf"}}, {Message: valet.Rejected{ID: "w4", Reason: "no picture"}},
		{Message: valet.Rejected{ID: "w5", Reason: "a virus"}},
	})
	got := fold(fold(Status{}, ReservationCancelled(m)), numbered)
	if want := (Status{ID: m.ID, Date: date, Name: "Ada", Quantity: 3, Status: Cancelled, Number: "1042-9"}); got != want {
		t.Errorf("cancelled, then numbered: got %+v, want %+v", got, want)
	}
	kept := CancellationRefused{ID: m.ID, Date: m.Date, Name: m.Name, Email: m.Email, Quantity: m.Quantity, Reason: "Too late."}
	want := Status{ID: m.ID, Date: date, Name: "Ada", Quantity: 3, Status: Accepted, Number: "1042-9", Reason: "Too late."}
	if a, b := (Status{}).Keep(kept).Accept(numbered), (Status{}).Accept(numbered).Keep(kept); a != want || b != want {
		t.Errorf("not cancelled: got %+v and %+v, want %+v", a, b, want)
	}
	got = Status{}.Reject(ReservationRejected{ID: m.ID, Date: m.Date, Name: m.Name, Email: m.Email, Quantity: 3, Reason: "Full."})
	if want := (Status{ID: m.ID, Date: date, Name: "Ada", Quantity: 3, Status: Rejected, Reason: "Full."}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// The newest wish counts, and a newer file that was refused doesn't end it.
func TestWish(t *testing.T) {
	t.Parallel()
	s := Status{}.Wished(valet.Uploaded{ID: "w2", Name: "a.png", Type: "image/png"})
	for _, test := range []struct {
		name string
		got  Status
		want Wish
	}{
		{"one", s, Wish{File: "w2", Name: "a.png", Type: "image/png"}},
		{"an older one comes late", s.Wished(valet.Uploaded{ID: "w1", Name: "b.png"}), Wish{File: "w2", Name: "a.png", Type: "image/png"}},
		{"a newer one", s.Wished(valet.Uploaded{ID: "w3", Name: "c.pdf", Type: "application/pdf"}), Wish{File: "w3", Name: "c.pdf", Type: "application/pdf"}},
		{"an older one is refused late", s.Unwished(valet.Rejected{ID: "w1", Reason: "no"}), Wish{File: "w2", Name: "a.png", Type: "image/png"}},
		{"a newer one is refused", s.Unwished(valet.Rejected{ID: "w3", Reason: "no"}), Wish{File: "w2", Name: "a.png", Type: "image/png", Refused: "w3", Reason: "no"}},
		{"and replaced", s.Unwished(valet.Rejected{ID: "w3", Reason: "no"}).Wished(valet.Uploaded{ID: "w4", Name: "d.png"}), Wish{File: "w4", Name: "d.png"}},
	} {
		if test.got.Wish != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, test.got.Wish, test.want)
		}
	}
}
