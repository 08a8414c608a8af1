// Package pubsub is the part of Subscribe and Publish (see driver.Listener) that all drivers share. A driver keeps its
// receivers in [Receivers], and calls:
//
//	reg, err := receivers.Subscribe(topic, receiver) // after the driver has made sure that others reach it
//	n, err := pubsub.Publish(ctx, receivers, transport, topic, data, one) // transport is nil where nobody else is
//
// # How it works
//
//	Publish ──▶ own receivers, and each Peer of the Transport
//	one:   Ask all ─▶ counts ─▶ choose one at random, as often as its count says ─▶ GiveOne; 0: choose another
//	each:  GiveAll to all at the same time ─▶ sum of the counts
//
// # Laws
//
//   - One publication to one is given by one store at most: another store is chosen only if the first one has answered
//     that nobody took it, or is gone. If the first one doesn't answer, the error says that the data may have been
//     received.
//   - A peer that doesn't answer costs the limit of time, and is never chosen.
//   - A receiver may do anything. It runs in a goroutine of its own, and counts 0 if it panics, ends the goroutine or
//     doesn't return. It isn't called again until it has returned.
package pubsub
