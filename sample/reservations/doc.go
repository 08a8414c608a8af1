// Package reservations is the sample for users to copy: a restaurant with a fixed number of seats for each date. It
// knows the shape of messages and the rules of the house, and no storage driver.
//
// # The model
//
// People ask with commands, [MakeReservation] and [CancelReservation]. All commands of one date are decided on one
// value object, that date's [Capacity], by two pure methods: Reserve and Cancel. Their decisions are events:
// [ReservationAccepted], [ReservationRejected] and [ReservationCancelled] for the person, [SoldOut] and [Reopened]
// for the calendar. "No seats left" is such an event, not an error: an error would mean that nothing is decided yet.
//
//	MakeReservation ───▶ Capacity.Reserve ──▶ Accepted | Rejected | Cancelled, SoldOut
//	CancelReservation ─▶ Capacity.Cancel ───▶ Cancelled, Reopened
//
// Two views fold the events: a [Month] has the days that can't be booked, a [Status] the state of one reservation.
// Two reactions have effects outside: the [Ledger] keeps the accepted reservations as rows of a table, and [Mails]
// writes to the person. Each is a subscriber group of its own ([Routes]), so that a mail server that is down delays
// mails and nothing else. [Register] puts everything together on one screen.
//
// # Late, repeated and reordered messages
//
//   - A command that comes twice is decided once: the framework remembers its ID. Reserve also checks this by itself,
//     because giving a table away twice is the one mistake that this package exists to avoid.
//   - A cancellation may overtake its reservation. Then Cancel notes the ID, and Reserve emits ReservationCancelled and
//     takes no seats.
//   - SoldOut and Reopened of one day cancel each other out, and so do Accepted and Cancelled of one reservation.
//     Queues promise no order, so both views keep, for each source, the newest event only (views.Latest).
//   - The ledger doesn't fold; see [Ledger] for why it is right in any order.
//   - A sent mail can't be taken back, so a guard lets each event through once. The mail's ID is derived from the
//     event's, so that its reader can recognise the rare repeat.
//
// # The right to cancel
//
// The sample has no login: everybody who knows a reservation's ID may see and cancel it. So the ID is in contents
// only: documents, bodies, the person's pages and mails. Names that logs and errors may hold are made from [Key].
package reservations
