// Package doorbell gives a store that can't ring, one in the cloud, rings (see storage.Store.Listen): idle workers look at
// their queues every half minute only, and still pick a message up within milliseconds, because the process that sent
// it rings them. A ring is one UDP datagram and costs no storage request. docs/doorbell.md has the whole design.
//
//	sender                                       listener
//	Send ──▶ store                               Listen ▶ socket, key ──▶ row in the table "doorbells"
//	  └─▶ two listeners of the queue ──datagram──▶ verify ──▶ ring the consumers ──▶ Receive ──▶ store
//	          ▲ learnt from the table, at most once a minute
//
// # Laws
//
//   - A ring is a hint. Lost, doubled, forged, replayed or late, it costs one empty Receive at most, and loss costs no more
//     than the wait for the next poll.
//   - A message whose visibility ends, because its consumer crashed, rings nobody: the next poll finds it.
//   - No call of the store waits for a ring, for the network or for the table "doorbells", but for Close, shortly.
//   - Rings are bounded: of one queue a process sends and heeds one round in 20 ms, and what came between is folded into
//     the next one. The last ring is never dropped by that.
//   - A row that somebody else has removed is written again at the first sign of that, at most once in 30 seconds. No
//     request is made to look for signs: they are in the answers to what is asked anyway.
//   - A listener answers nobody, whatever it hears, so it can't be used against others.
//   - What needs trust comes from the table: whoever can read it may ring, whoever can write it may be rung.
//
// # Files
//
// bells.go: what this process waits for and has to tell, without any network. tell.go: the sender. listen.go: the listener
// and its row. wire.go: datagrams and rows.
package doorbell
