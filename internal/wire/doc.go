// Package wire is what the packages that send and handle messages share: the wire format of messages, the codec of
// their bodies, the context of a handler and the outbox. Users of the module need none of it. They see package channel,
// which documents messages and their laws.
//
//   - An [Envelope] is a message with its attributes. [Decode] and [Envelope.Encode] are its wire format.
//   - A [Codec] turns the body of an envelope into a Go value by the envelope's [Kind], and upgrades older types.
//   - [WithHandling] marks the context of a handler with the message that it handles, so that the messages that the
//     handler sends continue the chain.
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
package wire
