package reservations

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/storage"
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
		channel.Command[RemindGuests]("reservations"),
		channel.Command[CloseDate]("reservations"),
		channel.Command[ArchiveDate]("reservations"),
		channel.Command[KeepEvening]("reservations"),
		channel.Event[ReservationAccepted]("ledger"),
		channel.Event[ReservationNumbered]("statuses", MailQueue),
		channel.Event[ReservationRejected]("statuses", "ledger", MailQueue),
		channel.Event[ReservationCancelled]("statuses", "ledger", MailQueue),
		channel.Event[CancellationRefused]("statuses", MailQueue),
		channel.Event[ReminderDue](MailQueue),
		channel.Event[OperatorAlerted](MailQueue),
		channel.Event[SoldOut]("months"),
		channel.Event[Reopened]("months"),
		channel.Event[DateClosed]("months"),
		channel.Event[DateArchived]("ledger"),
		channel.Event[EveningKept]("ledger"),
		channel.Event[valet.Uploaded]("statuses", "ledger"),
		channel.Event[valet.Rejected]("statuses"),
		schedule.Route(),
		valet.Route(),
	)
}

// Register sets the handlers of all messages. A worker also needs [Schedule]. Numbers may be nil where no handler runs,
// and files, see [Files], where no menu wish comes.
func Register(h *handlers.Registry, seats int, mails Mails, numbers *ids.Sequence, files *valet.Valet) {
	c := h.Channels()
	if files != nil {
		registerWishes(h, files)
	}

	capacities := Capacities(c, seats)
	handlers.Decide(h, capacities, MakeReservation.date, Capacity.Reserve,
		ReservationAccepted{}, ReservationRejected{}, ReservationCancelled{}, SoldOut{})
	handlers.Decide(h, capacities, CancelReservation.date, Capacity.Cancel,
		ReservationCancelled{}, Reopened{}, CancellationRefused{})
	handlers.Decide(h, capacities, RemindGuests.date, Capacity.Remind, ReminderDue{})
	handlers.Decide(h, capacities, CloseDate.date, Capacity.Close, DateClosed{})
	handlers.Decide(h, capacities, ArchiveDate.date, Capacity.Archive, DateClosed{}, DateArchived{})

	handlers.Decide(h, Evenings(c), KeepEvening.date, Evening.Keep, EveningKept{})

	months := Months(c)
	views.Latest(h, months, SoldOut.month, Month.Disable)
	views.Latest(h, months, Reopened.month, Month.Enable)
	views.Latest(h, months, DateClosed.month, Month.Close)
	handlers.Optional(h, "months", 1) // the calendar may be late: the date's own document decides

	statuses := Statuses(c)
	views.Project(h, statuses, ReservationNumbered.key, Status.Accept)
	views.Project(h, statuses, ReservationRejected.key, Status.Reject)
	views.Project(h, statuses, ReservationCancelled.key, Status.Cancel)
	views.Project(h, statuses, CancellationRefused.key, Status.Keep)

	ledger := NewLedger(c.Store(), numbers)
	handlers.React(h, "ledger", ledger.Accept)
	handlers.React(h, "ledger", ledger.Reject)
	handlers.React(h, "ledger", func(ctx context.Context, e ReservationCancelled) error {
		if err := ledger.Cancel(ctx, e); err != nil {
			return err
		}
		return wishes{files}.cancel(ctx, e)
	})
	archive := NewArchive(c, files)
	handlers.React(h, "ledger", archive.Keep)
	handlers.React(h, "ledger", archive.Forget)

	handlers.ReactOnce(h, MailQueue, mails.Confirm)
	handlers.ReactOnce(h, MailQueue, mails.Refuse)
	handlers.ReactOnce(h, MailQueue, mails.Cancel)
	handlers.ReactOnce(h, MailQueue, mails.KeepBooked)
	handlers.ReactOnce(h, MailQueue, mails.Remind)
	handlers.ReactOnce(h, MailQueue, mails.Alert)
}

// registerWishes sets the handlers of menu wishes.
func registerWishes(h *handlers.Registry, files *valet.Valet) {
	files.Register(h)
	statuses := Statuses(h.Channels())
	views.Project(h, statuses, wishOf, Status.Wished)
	views.Project(h, statuses, unwishOf, Status.Unwished)
	handlers.React(h, "ledger", wishes{files}.replace)
}

// Numbers returns the counter that numbers the accepted reservations of a store. Close it at the end of the process.
func Numbers(s *storage.Store, cfg ids.Config) (*ids.Sequence, error) {
	return ids.Open(s, "reservations", cfg)
}

// Capacities returns the value objects, by date. A date without a document has all seats free.
func Capacities(c *channel.Channels, seats int) *values.Collection[Capacity] {
	return values.New(c, "capacity", values.Config[Capacity]{
		Initial: func(string) Capacity { return Capacity{Remaining: seats} },
	})
}

// Evenings returns the archive, by date.
func Evenings(c *channel.Channels) *values.Collection[Evening] {
	return values.New(c, "evenings", values.Config[Evening]{})
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
func (m RemindGuests) date() string        { return m.Date }
func (m CloseDate) date() string           { return m.Date }
func (m ArchiveDate) date() string         { return m.Date }
func (m KeepEvening) date() string         { return m.Date }
func (e SoldOut) month() string            { return MonthOf(e.Date) }
func (e Reopened) month() string           { return MonthOf(e.Date) }
func (e DateClosed) month() string         { return MonthOf(e.Date) }
func (e ReservationNumbered) key() string  { return Key(e.ID) }
func (e ReservationRejected) key() string  { return Key(e.ID) }
func (e ReservationCancelled) key() string { return Key(e.ID) }
func (e CancellationRefused) key() string  { return Key(e.ID) }
