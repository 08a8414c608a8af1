// Package reservations is the sample that users copy: a restaurant with a fixed number of seats for each
// date. It knows the shape of a message and the rules of the house, and no storage driver.
//
// # The model
//
// People ask with commands, [MakeReservation] and [CancelReservation]. All commands of one date are decided
// on one value object, that date's [Capacity], by two pure methods: Reserve and Cancel. What they decide is
// told in events: [ReservationAccepted], [ReservationRejected] and [ReservationCancelled] for the person,
// [SoldOut] and [Reopened] for the calendar. "No seats left" is such an event, not an error: an error would
// mean that nothing is decided yet.
//
//	MakeReservation ───▶ Capacity.Reserve ──▶ Accepted | Rejected | Cancelled, SoldOut
//	CancelReservation ─▶ Capacity.Cancel ───▶ Cancelled, Reopened
//
// Two views follow the events: a [Month] holds the days that can't be booked, a [Status] what became of one
// reservation. Two reactions reach outside: the [Ledger] keeps the accepted reservations as rows of a table,
// and [Mails] writes to the person. Each is a subscriber group of its own ([Routes]), so that a mail server
// that is down delays mails and nothing else. [Register] puts all of it together on one screen.
//
// # What comes late, twice or in the wrong order
//
//   - A command that comes twice is decided once: the framework remembers its ID. Reserve looks for itself
//     as well, because giving a table away twice would be the one mistake this package exists to avoid.
//   - A cancellation may overtake its reservation. Cancel then notes the ID, and Reserve answers
//     with ReservationCancelled and takes no seats.
//   - SoldOut and Reopened of one day take each other back, and so do Accepted and Cancelled of one
//     reservation. Queues promise no order, so both views keep, for each source, the newest event only
//     (views.Latest).
//   - The ledger can't fold; see [Ledger] for why it is right in any order.
//   - A mail can't be taken back, so a guard lets each event through once, and the mail carries an ID made
//     from the event's, by which the rare repeat can be recognised.
//
// # The right to cancel
//
// Nobody logs in: whoever knows a reservation's ID may see and cancel it. So the ID is in contents only: documents,
// bodies, the person's pages and mails. What has a name that logs and errors may hold is named by [Key].
package reservations
