package reservations

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
)

// MailQueue is the queue of mails that wait to be sent.
const MailQueue = "mails"

// Routes is where messages go: commands to the one queue whose workers decide them, events to one queue for each
// group of subscribers.
func Routes() (*channel.Routes, error) {
	return channel.NewRoutes(
		channel.Command[MakeReservation]("reservations"),
		channel.Command[CancelReservation]("reservations"),
		channel.Event[ReservationAccepted]("statuses", "ledger", MailQueue),
		channel.Event[ReservationRejected]("statuses", MailQueue),
		channel.Event[ReservationCancelled]("statuses", "ledger", MailQueue),
		channel.Event[SoldOut]("months"),
		channel.Event[Reopened]("months"),
	)
}

// Register sets the handlers of all messages. A worker needs nothing else of this package.
func Register(h *handlers.Registry, seats int, mails Mails) {
	c := h.Channels()

	capacities := Capacities(c, seats)
	handlers.Decide(h, capacities, MakeReservation.date, Capacity.Reserve,
		ReservationAccepted{}, ReservationRejected{}, ReservationCancelled{}, SoldOut{})
	handlers.Decide(h, capacities, CancelReservation.date, Capacity.Cancel,
		ReservationCancelled{}, Reopened{})

	months := Months(c)
	views.Latest(h, months, SoldOut.month, Month.Disable)
	views.Latest(h, months, Reopened.month, Month.Enable)

	statuses := Statuses(c)
	views.Latest(h, statuses, ReservationAccepted.key, Status.Accept)
	views.Latest(h, statuses, ReservationRejected.key, Status.Reject)
	views.Latest(h, statuses, ReservationCancelled.key, Status.Cancel)

	ledger := NewLedger(c.Store())
	handlers.React(h, "ledger", ledger.Accept)
	handlers.React(h, "ledger", ledger.Cancel)

	handlers.ReactOnce(h, MailQueue, mails.Confirm)
	handlers.ReactOnce(h, MailQueue, mails.Refuse)
	handlers.ReactOnce(h, MailQueue, mails.Cancel)
}

// Capacities returns the value objects, by date. A date without a document has all seats free.
func Capacities(c *channel.Channels, seats int) *values.Collection[Capacity] {
	return values.New(c, "capacity", values.Config[Capacity]{
		Initial: func(string) Capacity { return Capacity{Remaining: seats} },
	})
}

// Months returns the calendar's view, by month.
func Months(c *channel.Channels) *views.View[Month] {
	return views.New(c, "months", views.Config[Month]{
		Initial: func(string) Month { return Month{DisabledDays: []string{}} }, // [] in JSON, not null
		Fresh:   100 * time.Millisecond,
	})
}

// Statuses returns the view of each reservation's state, by its [Key].
func Statuses(c *channel.Channels) *views.View[Status] {
	return views.New(c, "statuses", views.Config[Status]{})
}

// RebuildMonths makes the calendar's view again from the value objects, for example after it was lost, and returns
// how many there are. Workers may go on meanwhile.
func RebuildMonths(ctx context.Context, c *channel.Channels, seats int) (int, error) {
	month := func(date string, _ Capacity) string { return MonthOf(date) }
	return views.Rebuild(ctx, Months(c), Capacities(c, seats), month, Month.Restore)
}

func (m MakeReservation) date() string     { return m.Date }
func (m CancelReservation) date() string   { return m.Date }
func (e SoldOut) month() string            { return MonthOf(e.Date) }
func (e Reopened) month() string           { return MonthOf(e.Date) }
func (e ReservationAccepted) key() string  { return Key(e.ID) }
func (e ReservationRejected) key() string  { return Key(e.ID) }
func (e ReservationCancelled) key() string { return Key(e.ID) }
