// Package wire is what the packages that send and handle messages share: the wire format of messages, the codec of
// their bodies, the context of a handler, the routes and the outbox. Users of the module need none of it. They see
// package channel, which documents messages and their laws.
//
//   - An [Envelope] is a message with its attributes. [Decode] and [Envelope.Encode] are its wire format.
//   - A [Codec] turns the body of an envelope into a Go value by the envelope's [Kind], and upgrades older types.
//   - [WithHandling] marks the context of a handler with the message that it handles, so that the messages that the
//     handler sends continue the chain.
//   - [Routes] say to which queues the messages of a kind go, and how these queues are divided.
//   - An [Outbox] packs envelopes for their queues, sends them, and keeps large bodies in blobs (claim check).
//
// # Who owns a claim-checked body
//
//	sent message      claims/QUEUE/UUID     the worker deletes it after it has deleted the message
//	poisoned message  claims/QUEUE/UUID     the poison queue's entry owns it until it is discarded or retried
//	pending event     claims/stowed/UUID    the document owns it until the event is sent with bodies of its own
//
// Each copy of a message has a body of its own. So nothing counts references, and deleting the body of one copy leaves
// the others whole.
//
// # Files
//
//	envelope.go    Envelope, and its decoding; encode.go has its JSON form
//	previous.go    which emission came before this one to a queue
//	due.go         when a message is due, and for how long it is hidden; mark.go reads what decides on its lane
//	codec.go       Codec, and upgrades; body.go encodes and decodes bodies
//	id.go          IDs and the times that they carry; clock.go tells the present by these times; kind.go has kinds
//	compose.go     how an envelope is made of a message: sent, sent while another is handled, emitted, compensating
//	handling.go    what the context of a handler holds
//	routes.go      Route and Routes; lanes.go divides queues by them; about.go says what routes and registries have
//	outbox.go      Outbox: envelopes are packed for their queues, and sent; spool.go is a spool's interface
//	claimcheck.go  large bodies in blobs; dataref.go has the references to them, stow.go what documents keep
//	cancel.go      messages that are taken back before they are due
package wire
