// Package doorbell adds rings (see storage.Store.Listen) to a store that can't ring, such as one in the cloud. Idle
// workers then poll their queues only every half minute. They still receive a message within milliseconds, because
// the process that sent it rings them. A ring is one UDP datagram and costs no storage request. docs/doorbell.md
// has the whole design.
//
//	sender                                       listener
//	Send ──▶ store                               Listen ─▶ socket, key ─▶ row in the table "doorbells"
//	  └─▶ two listeners of the queue ─datagram─▶ verify ─▶ ring consumers ─▶ Receive ─▶ store
//	          ▲ known from the table, read at most once a minute
//
// # Laws
//
//   - A ring is a hint. A lost, doubled, forged, replayed or late ring costs at most one empty Receive. A lost ring
//     also costs the wait for the next poll, but no more.
//   - The end of a message's visibility, after its consumer crashed, doesn't ring: the next poll finds the message.
//   - No call of the store waits for a ring, for the network or for the table "doorbells", except Subscribe and
//     Publish, and Close, briefly.
//   - Rings are bounded: a process sends and accepts one round per queue in 20 ms, and folds the rings in between into
//     the next round. So the last ring is never dropped.
//   - A row that another program has removed is written again at the first sign of that, at most once in 30 seconds.
//     The signs cost no request, because the answers to other requests contain them.
//   - A listener answers only a publication, which is a datagram that is signed with its key and fresh. It answers
//     once, by a smaller one. So it can't be used against other hosts.
//   - A publication is given at most once. Subscribe returns when the row has its topic, and Publish reads the rows
//     each time. A Registration is lost when the row can't be kept, was missing, or grew too old while the machine was
//     suspended.
//   - Trust comes from the table: a program that can read the table may ring, and one that can write it may be rung.
//
// # Files
//
// Each file calls only files below it:
//
//	doorbell.go   what a program writes, and its faults
//	through.go    rings that go through another store, where no UDP passes
//	store.go      the store: it makes the parts, and is what a consumer calls
//	queue.go      calls of a queue that ring
//	publish.go    publications: the requests that wait for an answer of another process
//	send.go       the socket for sending; which listeners are rung
//	listen.go     the socket for receiving; which datagrams are heeded
//	row.go        when this process's row is written
//	directory.go  the table: the rows of others, which of them are alive, and this process's own
//	bells.go      the queues that this process waits for, and the rings it has to send, without any network
//	budget.go     how much work is done for worthless datagrams
//	wire.go       datagrams and rows
package doorbell
