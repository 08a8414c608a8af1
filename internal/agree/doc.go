// Package agree lets processes agree on something through a store. It has a document that several processes write, and
// a loop that keeps up with the document.
//
// A capability is a document and a decision. The document says what has been agreed. The decision is a pure function
// of the document, of what this process knows, and of the time for which this process has seen the document unchanged.
// This package has the rest:
//
//   - [Document] reads a document and replaces it by guarded writes. A [Sighting] is a state that was read, and since
//     when it has lasted.
//   - [Hold] is what only one process has at a time. The process knows until when it has the hold; the comment of Hold
//     has the proof. A [Memory] is what a process has seen of documents, and since when.
//   - [Presence] tells which processes live, by rows that they write again at each beat.
//   - [Change] makes an operator's change once, whatever answers are lost.
//   - [Loop] calls a step when a ring, a poll or this process gives a reason. The step looks, decides and writes.
//   - [Ring] tells all loops of a topic that there is something to look at.
//   - [Trouble] logs the first failure of something, and the first success after it.
//
// # Laws
//
//  1. A ring is only a reason to look. A ring that is lost costs time, never correctness: the step is called again when
//     the time has passed for which it asked.
//  2. Whatever was told before a loop listened is seen: the step is called again when the loop has begun to listen.
//  3. A loop that can't listen asks its store for that at most twice a minute.
//  4. A write replaces exactly what was seen, or does nothing.
//  5. A change has its effect once at most. If its answer is lost, and somebody has changed the document since, the
//     change isn't repeated, and the error says that its outcome is unknown.
//  6. Two holds of one thing are never alive at once, by any of their contexts.
//  7. A damaged document is told from an absent one, and nothing writes over it but a repair.
//
// # Files
//
//	document.go  a document, its guarded writes, and what is damaged
//	memory.go    for how long a process has seen a document unchanged
//	hold.go      until when a holder may act (ProvedUntil), from when another process may take over (DeadFrom), and
//	             the number of the next holder (NextFence)
//	present.go   who lives
//	change.go    an operator's change, once
//	loop.go      when a step is called
package agree
