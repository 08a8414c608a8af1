// Package telling is the part of Hear and Tell (see driver.Listener) that all drivers share. A driver keeps its ears in
// [Ears], and calls:
//
//	h, err := ears.Hear(topic, ear)                          // after the driver has made sure that others reach it
//	n, err := telling.Tell(ctx, ears, transport, topic, data, one) // transport is nil where there is no other process
//
// # How it works
//
//	Tell ──▶ the own ears, and each Peer of the Transport
//	one:   Ask all ─▶ counts ─▶ choose one at random, as often as its count says ─▶ GiveOne; 0: choose another
//	each:  GiveAll to all at the same time ─▶ sum of the counts
//
// # Laws
//
//   - One telling to one is given by one store at most: another store is chosen only if the first one has answered that
//     nobody took it, or is gone. If the first one doesn't answer, the error says that the data may have been heard.
//   - A peer that doesn't answer costs the limit of time, and is never chosen.
//   - An ear may do anything. It runs in a goroutine of its own, and counts 0 if it panics, ends the goroutine or
//     doesn't return. It isn't called again until it has returned.
package telling
