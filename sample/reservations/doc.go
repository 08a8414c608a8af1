// Package reservations is the sample for users to copy: a restaurant with a fixed number of seats for each date. It
// knows the shape of messages and the rules of the house, and no storage driver.
//
// # The model
//
// People ask with commands, [MakeReservation] and [CancelReservation]. All commands of one date are decided on one
// value object, that date's [Capacity], by two pure methods: Reserve and Cancel. Their decisions are events:
// [ReservationAccepted] for the ledger, [ReservationRejected] and [ReservationCancelled] for the person, [SoldOut] and
// [Reopened] for the calendar. "No seats left" is such an event, not an error: an error would mean that nothing is
// decided yet. A number from a counter would make a decision impure, so the [Ledger] numbers what was accepted, and
// tells the person by [ReservationNumbered].
//
//	MakeReservation ───▶ Capacity.Reserve ──▶ Accepted | Rejected | Cancelled, SoldOut
//	CancelReservation ─▶ Capacity.Cancel ───▶ Cancelled, Reopened
//	Accepted ──────────▶ Ledger.Accept ─────▶ Numbered
//
// Three schedules send the other commands ([Schedule]): [RemindGuests] on the day before, [CloseDate] after midnight,
// and [ArchiveDate] when nobody needs the names and addresses any more. The date decides on them, too:
//
//	RemindGuests ──────▶ Capacity.Remind ───▶ ReminderDue for each reservation
//	CloseDate ─────────▶ Capacity.Close ────▶ DateClosed
//	ArchiveDate ───────▶ Capacity.Archive ──▶ DateArchived, for the [Archive]
//
// Two views fold the events: a [Month] has the days that can't be booked, a [Status] the state of one reservation.
// Two reactions have effects outside: the [Ledger] keeps the accepted reservations as rows of a table, and [Mails]
// writes to the person. Each is a subscriber group of its own ([Routes]), so that a mail server that is down delays
// mails and nothing else. [Register] puts everything together on one screen.
//
// A guest may add a menu wish to a reservation: a picture or a PDF. The bytes go past the program, with keys of package
// valet ([Files]); their events are folded into the Status ([Wish]), too. The newest file that was accepted counts.
//
// A [Season] can't be booked before its gate is open. Only the site asks it, before it sends a command.
//
// # Late, repeated and reordered messages
//
//   - A command that comes twice is decided once: the framework remembers its ID. Reserve also checks this by itself,
//     because giving a table away twice is the one mistake that this package exists to avoid.
//   - A cancellation may overtake its reservation. Then Cancel notes the ID, and Reserve emits ReservationCancelled and
//     takes no seats.
//   - SoldOut and Reopened of one day cancel each other out. Queues promise no order, so the month keeps, for each
//     source, the newest event only (views.Latest).
//   - Numbered and Cancelled of one reservation have different sources. A cancelled reservation never comes back, so
//     the status folds them in any order (views.Project).
//   - Files of one reservation have different sources. So the status keeps the newest of those that were accepted, and
//     the newest of those that weren't.
//   - The ledger doesn't fold; see [Ledger] for why it is right in any order, and why no number is given twice.
//   - A sent mail can't be taken back, so a guard lets each event through once. The mail's ID is derived from the
//     event's, so that its reader can recognise the rare repeat.
//
// # The end of a date
//
//   - The date decides about reminders when they are due. A reservation that is cancelled by then, or made later, gets
//     none. All reminders of a reservation have one ID, so it gets one, however often somebody asks for it.
//   - A closed date refuses every booking and cancellation, and tells the person why. It leaves the calendar.
//   - A date is closed for good. Its document stays, empty, when all others of the date are deleted. So no late command
//     finds a date with free seats.
//   - An [Evening] is kept of each date, with the numbers and seats of its reservations, and nothing personal. It is
//     written before anything is deleted; see [Archive] for what may happen in between.
//   - An ArchiveDate may be repeated by hand, and also removes what a late command has left.
//
// # The right to cancel
//
// The sample has no login: everybody who knows a reservation's ID may see and cancel it. So the ID is in contents
// only: documents, bodies, the person's pages and mails. Names that logs and errors may hold are made from [Key]. A
// number can be guessed and gives no right: it leads to the date, the seats and the state, and to no person.
package reservations
