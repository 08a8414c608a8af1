package reservations

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/millracetest"
)

const date = "2026-12-24"

func ask(id string, quantity int) MakeReservation {
	return MakeReservation{ID: id, Date: date, Name: "Ada", Email: "ada@example.org", Quantity: quantity}
}

func cancel(id string) CancelReservation { return CancelReservation{ID: id, Date: date} }

// decide runs commands against a day with 10 seats.
func decide(t *testing.T, commands ...channel.Message) (Capacity, []channel.Message) {
	t.Helper()
	c := Capacity{Remaining: 10}
	var all []channel.Message
	for _, m := range commands {
		var o *millracetest.Outcome[Capacity]
		switch m := m.(type) {
		case MakeReservation:
			o = millracetest.Decide(t, Capacity.Reserve).Given(c).When(m)
		case CancelReservation:
			o = millracetest.Decide(t, Capacity.Cancel).Given(c).When(m)
		}
		c, all = o.Value(), append(all, o.Emitted()...)
	}
	return c, all
}

func apply(c Capacity, m channel.Message) (Capacity, []channel.Message, error) {
	switch m := m.(type) {
	case MakeReservation:
		return c.Reserve(m)
	case CancelReservation:
		return c.Cancel(m)
	}
	panic(fmt.Sprintf("no such command: %T", m))
}

// Each decision and its events, one at a time.
func TestReserve(t *testing.T) {
	t.Parallel()
	a := ask("reservation-a", 4)
	reserve, cancels := millracetest.Decide(t, Capacity.Reserve), millracetest.Decide(t, Capacity.Cancel)
	full := reserve.Given(Capacity{Remaining: 4}).When(a).
		Then(ReservationAccepted(a), SoldOut{date}).
		ThenValue(Capacity{Accepted: map[string]Booking{a.ID: {"Ada", "ada@example.org", 4}}}).
		Value()
	cancels.Given(full).When(cancel(a.ID)).
		Then(ReservationCancelled(a), Reopened{date}).
		ThenValue(Capacity{Remaining: 4})
	cancels.Given(Capacity{Remaining: 4}).When(cancel(a.ID)).
		Then().
		ThenValue(Capacity{Remaining: 4, Early: []string{a.ID}})
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	a, b := ask("reservation-a", 4), ask("reservation-b", 6)
	rejected := func(m MakeReservation, reason string) ReservationRejected {
		return ReservationRejected{ID: m.ID, Date: m.Date, Name: m.Name, Email: m.Email, Quantity: m.Quantity, Reason: reason}
	}
	large := ask("reservation-x", 11)
	for _, test := range []struct {
		name      string
		commands  []channel.Message
		events    []channel.Message
		remaining int
	}{
		{"accept", []channel.Message{a}, []channel.Message{ReservationAccepted(a)}, 6},
		{"the same again changes nothing", []channel.Message{a, a}, []channel.Message{ReservationAccepted(a)}, 6},
		{"the last seats sell the day out", []channel.Message{a, b},
			[]channel.Message{ReservationAccepted(a), ReservationAccepted(b), SoldOut{date}}, 0},
		{"a full day rejects, and is not sold out again", []channel.Message{a, b, ask("reservation-c", 1)},
			[]channel.Message{ReservationAccepted(a), ReservationAccepted(b), SoldOut{date}, rejected(ask("reservation-c", 1), "We are fully booked that day.")}, 0},
		{"too many", []channel.Message{a, ask("reservation-c", 7)},
			[]channel.Message{ReservationAccepted(a), rejected(ask("reservation-c", 7), "Only 6 seats are left that day.")}, 6},
		{"one seat in the singular", []channel.Message{ask("reservation-c", 9), ask("reservation-d", 2)},
			[]channel.Message{ReservationAccepted(ask("reservation-c", 9)), rejected(ask("reservation-d", 2), "Only one seat is left that day.")}, 1},
		{"cancel", []channel.Message{a, cancel(a.ID)}, []channel.Message{ReservationAccepted(a), ReservationCancelled(a)}, 10},
		{"cancel twice", []channel.Message{a, cancel(a.ID), cancel(a.ID)}, []channel.Message{ReservationAccepted(a), ReservationCancelled(a)}, 10},
		{"cancel on a full day", []channel.Message{a, b, cancel(a.ID)},
			[]channel.Message{ReservationAccepted(a), ReservationAccepted(b), SoldOut{date}, ReservationCancelled(a), Reopened{date}}, 4},
		{"reopen once", []channel.Message{a, b, cancel(a.ID), cancel(b.ID)},
			[]channel.Message{ReservationAccepted(a), ReservationAccepted(b), SoldOut{date}, ReservationCancelled(a), Reopened{date}, ReservationCancelled(b)}, 10},
		{"cancel before the decision", []channel.Message{cancel(a.ID), a}, []channel.Message{ReservationCancelled(a)}, 10},
		{"cancel twice before the decision", []channel.Message{cancel(a.ID), cancel(a.ID), a}, []channel.Message{ReservationCancelled(a)}, 10},
		{"cancel after the refusal", []channel.Message{large, cancel(large.ID)},
			[]channel.Message{rejected(large, "Only 10 seats are left that day.")}, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, events := decide(t, test.commands...)
			if !reflect.DeepEqual(events, test.events) {
				t.Errorf("events\n got %#v\nwant %#v", events, test.events)
			}
			if c.Remaining != test.remaining {
				t.Errorf("remaining: got %d, want %d", c.Remaining, test.remaining)
			}
		})
	}
}

// A date reminds its guests, closes and is archived. Then it refuses everything.
func TestTheEndOfADate(t *testing.T) {
	t.Parallel()
	a, b, late := ask("reservation-b", 2), ask("reservation-a", 4), ask("reservation-c", 1)
	open := Capacity{Remaining: 4, Early: []string{"reservation-x"}, Accepted: map[string]Booking{a.ID: {"Ada", a.Email, 2}, b.ID: {"Ada", b.Email, 4}}}
	remind, closes, archive := millracetest.Decide(t, Capacity.Remind), millracetest.Decide(t, Capacity.Close), millracetest.Decide(t, Capacity.Archive)
	reserve, cancels := millracetest.Decide(t, Capacity.Reserve), millracetest.Decide(t, Capacity.Cancel)

	remind.Given(open).When(RemindGuests{date}).Then(ReminderDue(b), ReminderDue(a)).ThenValue(open)
	remind.Given(Capacity{Remaining: 10}).When(RemindGuests{date}).Then()
	closed := closes.Given(open).When(CloseDate{date}).
		Then(DateClosed{date}).
		ThenValue(Capacity{Closed: true, Remaining: 4, Accepted: open.Accepted}).
		Value()
	closes.Given(closed).When(CloseDate{date}).Then().ThenValue(closed)
	archived := archive.Given(closed).When(ArchiveDate{date}).Then(DateArchived{date}).ThenValue(Capacity{Closed: true}).Value()
	archive.Given(archived).When(ArchiveDate{date}).Then(DateArchived{date}).ThenValue(archived)
	archive.Given(open).When(ArchiveDate{date}).Then(DateClosed{date}, DateArchived{date}).ThenValue(archived)

	refused := ReservationRejected{ID: late.ID, Date: date, Name: late.Name, Email: late.Email, Quantity: 1, Reason: "That day is over."}
	for _, over := range []Capacity{closed, archived} {
		remind.Given(over).When(RemindGuests{date}).Then().ThenValue(over)
		reserve.Given(over).When(late).Then(refused).ThenValue(over)
		cancels.Given(over).When(cancel("reservation-y")).Then().ThenValue(over)
	}
	reserve.Given(closed).When(a).Then().ThenValue(closed)
	cancels.Given(closed).When(cancel(a.ID)).
		Then(CancellationRefused{ID: a.ID, Date: date, Name: "Ada", Email: a.Email, Quantity: 2, Reason: "That day is over."}).
		ThenValue(closed)
}

func TestEarlyCancellationsAreBounded(t *testing.T) {
	t.Parallel()
	c := Capacity{Remaining: 10}
	for i := range 3 * maxEarly {
		c, _, _ = c.Cancel(cancel(fmt.Sprintf("stranger-%04d", i)))
	}
	if got := len(c.Early); got != maxEarly {
		t.Errorf("remembered: got %d, want %d", got, maxEarly)
	}
	if got, want := c.Early[maxEarly-1], fmt.Sprintf("stranger-%04d", 3*maxEarly-1); got != want {
		t.Errorf("newest: got %s, want %s", got, want)
	}
}

// TestAnySequenceKeepsTheSeats sends random commands, many of them repeated or in the wrong order, and checks the
// invariants after each.
func TestAnySequenceKeepsTheSeats(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		const seats = 40
		r := rand.New(rand.NewPCG(seed, 0))
		c := Capacity{Remaining: seats}
		accepted := map[string]bool{} // according to the events alone
		soldOut := false
		for range 200 {
			id := fmt.Sprintf("reservation-%02d", r.IntN(30))
			var m channel.Message = ask(id, 1+r.IntN(12))
			if r.IntN(3) == 0 {
				m = cancel(id)
			}
			before := encode(t, c)
			next, events, err := apply(c, m)
			if err != nil {
				t.Fatalf("seed %d: %#v: %v", seed, m, err)
			}
			if after := encode(t, c); after != before {
				t.Fatalf("seed %d: %#v changed its receiver\nfrom %s\n  to %s", seed, m, before, after)
			}
			again, repeated, _ := apply(c, m)
			if !reflect.DeepEqual(again, next) || !reflect.DeepEqual(repeated, events) {
				t.Fatalf("seed %d: %#v is not pure", seed, m)
			}
			c = next
			for _, e := range events {
				switch e := e.(type) {
				case ReservationAccepted:
					if accepted[e.ID] {
						t.Fatalf("seed %d: %s accepted while it holds its seats", seed, e.ID)
					}
					accepted[e.ID] = true
				case ReservationCancelled:
					delete(accepted, e.ID)
				case SoldOut:
					if soldOut {
						t.Fatalf("seed %d: sold out twice", seed)
					}
					soldOut = true
				case Reopened:
					if !soldOut {
						t.Fatalf("seed %d: reopened while open", seed)
					}
					soldOut = false
				}
			}
			taken := 0
			for id, b := range c.Accepted {
				taken += b.Quantity
				if !accepted[id] {
					t.Fatalf("seed %d: %s holds seats and nobody was told", seed, id)
				}
			}
			if len(c.Accepted) != len(accepted) || c.Remaining+taken != seats || c.Remaining < 0 {
				t.Fatalf("seed %d: %d remaining, %d taken by %d, %d accepted", seed, c.Remaining, taken, len(c.Accepted), len(accepted))
			}
			if soldOut != (c.Remaining == 0) {
				t.Fatalf("seed %d: sold out %v with %d remaining", seed, soldOut, c.Remaining)
			}
			if duplicates := len(c.Early) - len(slices.Compact(slices.Sorted(slices.Values(c.Early)))); duplicates > 0 {
				t.Fatalf("seed %d: %d cancellations noted twice", seed, duplicates)
			}
		}
	}
}

func encode(t *testing.T, c Capacity) string {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
