package reservations_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/storage"
)

const retention = reservations.MinRetention

// letters keeps the subjects of mails, with the reservations that they are about.
type letters struct {
	mu   sync.Mutex
	sent []string
	all  map[string]bool // by subject, reservation and ID
}

func (l *letters) Send(_ context.Context, m reservations.Mail) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, id, _ := strings.Cut(m.Text, "Reservation ")
	line := m.Subject + ": " + strings.TrimSpace(id)
	l.sent = append(l.sent, line)
	if l.all == nil {
		l.all = map[string]bool{}
	}
	l.all[line+" "+m.MessageID] = true
	return nil
}

// take returns what was sent since the last call, sorted.
func (l *letters) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	sent := slices.Sorted(slices.Values(l.sent))
	l.sent = nil
	return sent
}

func (l *letters) want(t *testing.T, when string, want ...string) {
	t.Helper()
	if got := l.take(); !slices.Equal(got, want) {
		t.Errorf("mails %s: got %q, want %q", when, got, want)
	}
}

const (
	booked    = "Your table is booked: "
	refused   = "We have no table for you: "
	cancelled = "Your reservation is cancelled: "
	kept      = "Your reservation can't be cancelled: "
	reminder  = "We are looking forward to your visit: "
)

// bistro is the program with its schedules, at a restaurant in Berlin.
func bistro(mails reservations.Mailer) millracetest.Program {
	p := program(mails)
	register := p.Register
	p.Register = func(h *handlers.Registry) error {
		reservations.Schedule(h, "Europe/Berlin", retention)
		return register(h)
	}
	return p
}

// until lets time pass until a moment in Berlin.
func until(t *testing.T, app *millracetest.App, moment string) {
	t.Helper()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04", moment, berlin)
	if err != nil {
		t.Fatal(err)
	}
	app.Advance(time.Until(at))
}

// request sends a reservation as the site does, with a request.
func request(t *testing.T, app *millracetest.App, id, date string, quantity int) {
	t.Helper()
	if _, err := app.Store().Blobs("requests").Put(t.Context(), reservations.Key(id), []byte(`{}`), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	app.Send(made(id, date, quantity))
	app.Drain()
}

// A date from its first booking to the archive.
func TestTheLifeOfADate(t *testing.T) {
	t.Parallel()
	const date = "2000-01-15"
	var mails letters
	millracetest.Run(t, bistro(&mails), func(t *testing.T, app *millracetest.App) {
		day := func() reservations.Capacity {
			return millracetest.Value(t, reservations.Capacities(app.Channels(), houseSeats), date)
		}
		sold := func() []string {
			return millracetest.View(t, reservations.Months(app.Channels()), "2000-01").DisabledDays
		}
		request(t, app, "reservation-a", date, 4)
		request(t, app, "reservation-b", date, 2)
		request(t, app, "reservation-c", date, 5)
		request(t, app, "reservation-d", "2000-01-16", 1)
		app.Send(reservations.CancelReservation{ID: "reservation-b", Date: date})
		until(t, app, "2000-01-14 09:59")
		mails.want(t, "at first", refused+"reservation-c", cancelled+"reservation-b", booked+"reservation-a", booked+"reservation-b", booked+"reservation-d")

		app.Kill()
		until(t, app, "2000-01-14 10:01")
		mails.want(t, "on the day before", reminder+"reservation-a")
		request(t, app, "reservation-e", date, 6)
		mails.want(t, "after the reminder", booked+"reservation-e")
		if got := sold(); !slices.Equal(got, []string{date}) {
			t.Errorf("sold out: got %q, want %s", got, date)
		}
		if _, err := schedule.At(app.Store(), "remind-guests").Run(t.Context(), schedule.Note{By: "ada"}); err != nil {
			t.Fatal(err)
		}
		app.Drain()
		mails.want(t, "when an operator asks again", reminder+"reservation-e")

		until(t, app, "2000-01-16 00:09")
		if day().Closed {
			t.Error("the date is closed too early")
		}
		app.Kill()
		until(t, app, "2000-01-16 00:11")
		if got := day(); !got.Closed || len(got.Accepted) != 2 || len(sold()) > 0 {
			t.Errorf("over: got %+v, and %q sold out; want it closed with two reservations, and gone from the calendar", got, sold())
		}
		app.Send(reservations.CancelReservation{ID: "reservation-a", Date: date})
		request(t, app, "reservation-f", date, 1)
		mails.want(t, "when it is over", reminder+"reservation-d", refused+"reservation-f", kept+"reservation-a")
		for id, state := range map[string]reservations.State{"reservation-a": reservations.Accepted, "reservation-f": reservations.Rejected} {
			if got := millracetest.View(t, reservations.Statuses(app.Channels()), reservations.Key(id)); got.Status != state || got.Reason != "That day is over." {
				t.Errorf("%s: got %+v, want it %s, and why", id, got, state)
			}
		}

		numbers := map[string]string{}
		for id := range strings.SplitSeq("a e", " ") {
			numbers[id] = millracetest.View(t, reservations.Statuses(app.Channels()), reservations.Key("reservation-"+id)).Number
		}
		until(t, app, "2000-02-15 00:19")
		if got := day(); len(got.Accepted) != 2 {
			t.Errorf("on the last day of the retention: got %+v, want two reservations", got)
		}
		until(t, app, "2000-02-15 00:21")
		wantArchived(t, app, date, reservations.Evening{
			Guests: 10, Tables: []reservations.Table{{Number: numbers["a"], Seats: 4}, {Number: numbers["e"], Seats: 6}}, Cancelled: 1, Rejected: 2,
		})
		for id := range strings.SplitSeq("a b c e f", " ") {
			wantForgotten(t, app, "reservation-"+id)
		}
		if _, err := app.Store().Blobs("requests").Get(t.Context(), reservations.Key("reservation-d"), ""); err != nil {
			t.Errorf("the request for the next day: %v", err)
		}
		app.Send(made("reservation-g", date, 1), reservations.CancelReservation{ID: "reservation-a", Date: date})
		app.Drain()
		mails.want(t, "to who comes too late", refused+"reservation-g")
		if got := day(); !got.Closed || got.Remaining != 0 || len(got.Accepted)+len(got.Early) > 0 {
			t.Errorf("after a late command: got %+v, want the date closed and empty", got)
		}
	})
}

// wantArchived checks that a date is closed and empty, and that nothing but its evening is left.
func wantArchived(t *testing.T, app *millracetest.App, date string, want reservations.Evening) {
	t.Helper()
	if got := millracetest.Value(t, reservations.Capacities(app.Channels(), houseSeats), date); !got.Closed || got.Remaining != 0 || len(got.Accepted) > 0 {
		t.Errorf("%s: got %+v, want it closed and empty", date, got)
	}
	got := millracetest.Value(t, reservations.Evenings(app.Channels()), date)
	slices.SortFunc(got.Tables, func(a, b reservations.Table) int { return a.Seats - b.Seats }) // the ledger has them by key
	if got.Guests != want.Guests || !slices.Equal(got.Tables, want.Tables) || got.Cancelled != want.Cancelled || got.Rejected != want.Rejected {
		t.Errorf("evening: got %+v, want %+v", got, want)
	}
	for _, name := range []string{"reservations", "cancellations", "rejections"} {
		for row, err := range app.Store().Table(name).Query(t.Context(), date, storage.RowRange{}) {
			t.Errorf("table %s: a row is left: %s (%v)", name, row.Key, err)
		}
	}
}

// wantForgotten checks that nothing is left of a reservation.
func wantForgotten(t *testing.T, app *millracetest.App, id string) {
	t.Helper()
	for _, name := range []string{"statuses", "requests"} {
		if blob, err := app.Store().Blobs(name).Get(t.Context(), reservations.Key(id), ""); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s of %s: got %s (%v), want nothing", name, id, blob.Body, err)
		}
	}
}

// After forty days without a worker all past dates are closed, and the first two are archived. Only the guests of the
// next day get a reminder.
func TestAfterAWhileWithoutWorkers(t *testing.T) {
	t.Parallel()
	var mails letters
	millracetest.Run(t, bistro(&mails), func(t *testing.T, app *millracetest.App) {
		dates := []string{"2000-01-10", "2000-01-20", "2000-02-19", "2000-02-20", "2000-02-21"}
		for _, date := range dates {
			request(t, app, "reservation-"+date, date, 2)
		}
		until(t, app, "2000-01-09 09:00")
		mails.take()
		app.Stop()
		time.Sleep(40 * 24 * time.Hour) // the bubble's
		app.Start()
		until(t, app, "2000-02-19 00:30")
		mails.want(t, "afterwards", reminder+"reservation-2000-02-19")
		until(t, app, "2000-02-20 00:30")
		mails.want(t, "a day later", reminder+"reservation-2000-02-20")
		for i, date := range dates {
			got := millracetest.Value(t, reservations.Capacities(app.Channels(), houseSeats), date)
			if over, archived := i < 3, i < 2; got.Closed != over || (len(got.Accepted) == 0) != archived {
				t.Errorf("%s: got %+v, want it closed: %v, and empty: %v", date, got, over, archived)
			}
		}
	})
}

// A worker dies, or a call fails, at any moment of the end of a date. Nobody gets two reminders, but for copies of one,
// and the evening is whole.
func TestTheEndOfADateSurvivesFaults(t *testing.T) {
	t.Parallel()
	const date = "2000-01-02"
	millracetest.CrashEverywhere(t, func(t *testing.T, start func(millracetest.Program) *millracetest.App) {
		var mails letters
		app := start(program(&mails))
		keep(t, app, date, "reservation-a", "1-3", 4)
		app.Send(reservations.RemindGuests{Date: date})
		app.Drain()
		app.Send(reservations.ArchiveDate{Date: date})
		app.Drain()
		wantArchived(t, app, date, reservations.Evening{Guests: 4, Tables: []reservations.Table{{Number: "1-3", Seats: 4}}})
		wantForgotten(t, app, "reservation-a")
		if n := len(mails.all); n != 1 {
			t.Errorf("mails: got %q, want one reminder", mails.sent)
		}
	})
}

// keep stores an accepted reservation as workers do.
func keep(t *testing.T, app *millracetest.App, date, id, number string, quantity int) {
	t.Helper()
	c := app.Channels()
	err := reservations.Capacities(c, houseSeats).Insert(t.Context(), date, reservations.Capacity{
		Remaining: houseSeats - quantity, Accepted: map[string]reservations.Booking{id: {Name: "Ada", Email: "ada@example.org", Quantity: quantity}},
	})
	if err != nil {
		t.Fatal(err)
	}
	row, err := json.Marshal(reservations.ReservationNumbered{ID: id, Date: date, Name: "Ada", Email: "ada@example.org", Quantity: quantity, Number: number})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Store().Table("reservations").Put(t.Context(), date, reservations.Key(id), row, storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Store().Blobs("requests").Put(t.Context(), reservations.Key(id), []byte(`{}`), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
}
