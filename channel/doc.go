// Package channel makes messages and sends them: kinds, routes, senders and the envelope.
//
//	routes, err := channel.NewRoutes(
//		channel.Command[MakeReservation]("reservations"),
//		channel.Event[ReservationAccepted]("status", "mails"),
//	)
//	channels, err := channel.New(store, routes, "/web")
//	makes, err := channel.NewSender[MakeReservation](channels) // no route is an error here, at start-up
//	err = makes.Send(ctx, MakeReservation{...})                // nil: durable
//	err = makes.SendAfter(ctx, time.Hour, MakeReservation{...}) // or SendAt; Cancel takes it back
//	err = channels.Send(ctx, a, channel.After(time.Hour, b))    // messages of several kinds, as one unit of work
//
// A message is a Go value that names its kind. A command goes to exactly one queue. An event goes to one queue per
// subscriber group. [Routes] hold these queues, as one value that senders and workers share.
//
// On the wire a message is a CloudEvents 1.0 event in JSON format (https://github.com/cloudevents/spec, v1.0.2). Its
// extensions are due, since, correlationid, causationid, traceparent, tenantid, priorityclass, replyto, sequence and
// dataref. Workers add attempts, hangs, handbacks, hops, lasterror and firstfailed, and the poison queue adds retried.
// The first message of a chain has no correlationid: its ID is the chain's.
//
// Where the program has a provider of OpenTelemetry, spans of sending and handling are linked by the traceparent, and
// what a message brings about is one trace; see [Channels.TraceWith].
//
// # Laws
//
//   - An ID is a UUIDv7 (RFC 9562), unless the message chooses one by [Identified]. The same ID is the same message,
//     for receivers that remember it. Documents (handlers.Decide, handlers.On and views) and handlers.ReactOnce take
//     it once, however often it comes. If a second message with its ID has other content, they refuse it, as long as
//     they remember the first: it goes to the poison queue. handlers.React, Reply and OneAtATime remember nothing, so
//     they run for every copy, and for the other content, too. handlers.ReactInOrder goes by the event's place, and
//     package process by what the message is for. So give different messages different IDs.
//   - Send returns nil when every copy is durable: in the store or, if the channels have one, in the spool (package
//     spool). After an error any part may have been sent; send all of it again. To be safe across a repeat the messages
//     must choose their IDs.
//   - Send reports a fault of the content, such as text that is not UTF-8, before it sends anything. NewRoutes refuses
//     a type whose fields are all unexported, because nothing of it would arrive.
//   - Correlation, causation, trace, tenant, priority and reply address are passed on by themselves. A message sent
//     under a handler's context continues the chain of the handled message. Its ID is derived from the handled message,
//     the content and the delay, so that a repeated handler repeats the same IDs.
//   - A message that is due later, by up to ten years, is handled when it is due, on every store. Where that is longer
//     than the engine can hide it, the workers hand it back until then, about once a week. These hops spend nothing.
//     Its age counts from when it is due. Until then it can be cancelled; see [Sender.Cancel].
//   - A body that is too large for a message goes to a blob of its own, and the message refers to it (claim check). The
//     blob is deleted after the message was, never before. A crash between the two, or between writing the blob and
//     sending the message, leaves an orphan blob and loses nothing. The limit for a body is [MaxData].
package channel
