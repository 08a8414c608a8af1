// Package spool lets a sending program go on accepting while its store is away: the messages that can't be sent are
// kept in a file on this machine, and forwarded when the store is back.
//
//	kept, err := spool.Open(ctx, "data/web.spool", channels, spool.Config{})
//	channels = kept.Channels()              // what these send is kept while the store is away
//	go kept.Run(ctx)                        // forwards, until ctx ends; then drains for a while
//	defer kept.Close()
//
//	ctx, spooled := channel.NoteSpooled(ctx)
//	err = channels.Send(ctx, m)             // nil: durable, in the store or in the spool
//	if spooled() > 0 { … }                  // in the spool
//
// The file is an SQLite database with a blob for each Send. PATH-lock lies beside it. Put it on a disk that outlives
// the program: a spool on a container's own disk is lost with the container.
//
// # How it works
//
//	Send ──▶ the store, for at most 2 seconds ──▶ nil
//	  │            └─ it is away ──▶ the file, synced ──▶ nil, spooled
//	  └─ messages wait already ────▶ the file, synced ──▶ nil, spooled
//	Run  ──▶ the oldest in the file ──▶ the store ──▶ out of the file
//
// The store is away when a call ends with storage.ErrUnavailable or storage.ErrThrottled, or doesn't end within 2
// seconds (or half the time that the caller has left). That includes a key that has expired and a role that is
// missing (401, 403): no message is at fault, and an operator mends it. Any other error says something about the
// message or the program, and Send returns it. Send also returns the error when its caller has left.
//
// # Laws
//
//  1. Durable: when Send returns nil, every message is synced to the disk of the store or of the spool. Send takes no
//     longer than 2 seconds and a write to the disk. Send waits for the write for 2 seconds, and one more for each
//     8 MiB, 10 seconds at most: the disk may hang, and another tool may have locked the file. While the store is known
//     to be away, Send doesn't try it unless the spool takes nothing; Run does.
//  2. The same message: the file has the whole envelope. ID, time, due time, trace, correlation and content are those
//     of the Send. A message whose first try had an unknown outcome may be in the store twice, with one ID:
//     documents and handlers.ReactOnce take it once.
//  3. Order: of messages for the same queues, Run sends the oldest first, in batches. A Send that begins while messages
//     wait lines up behind them, although the store may be back. So a message doesn't overtake another one whose Send
//     had returned. There are three exceptions: a spool that takes nothing lets messages past; a message that was set
//     aside holds up no other; and when the first message of some queues has failed ten times in a row, as if the
//     store were away, one message behind it goes ahead. If the store takes that one, the first is set aside.
//     Queues that are away by themselves hold up no others for long: while nothing can be sent, Run tries the messages
//     for three sets of queues at a time, in rotation, every five seconds or when their calls have ended.
//  4. Units: messages of one Send are in the file together or not at all, with their bodies, however large. SendWith is
//     never spooled, and neither are the messages that a handler sends.
//  5. Bounds: the file takes up to Config.MaxBytes, and nothing once its oldest message waits longer than
//     Config.MaxAge. Then Send does as without a spool: it returns the store's error. Messages that were accepted stay,
//     are forwarded whatever their age, and are never dropped.
//  6. A message that can't be sent although others can (its kind has no route any more, it is too large) is set aside
//     with a log line. It stays in the file, counts as refused, and is tried again every ten minutes and at each start.
//     [List] shows it. Only an operator discards it ([Discard]), and a log tells who has, and why.
//  7. A crash at any instruction loses nothing: a message leaves the file only after the store has acknowledged it, and
//     Open finds all that is there. Open refuses a file that is locked by another program, damaged, of another kind, or
//     not writable. If the file is removed or the disk is full while the program runs, the spool takes nothing. The
//     next Send finds that out before it returns, and Run within ten seconds. The spool takes messages again once a
//     write succeeds.
//     A Send that returns an error leaves nothing in the file. Where a write may have had its effect all the same, Run
//     deletes the entry, until the file answers. If it doesn't before Close, or the program is killed, the next start
//     may send the messages. So an error, such as a 503 to a client, means that the outcome is unknown, as without a
//     spool. Repeat the Send with the same IDs; package channel says who takes them once.
//  8. At the stop, Run goes on for 5 seconds or until the store fails. The rest waits for the next start.
//  9. While the store is there, a spool costs a Send a timer, and nothing is written to the file.
//  10. One owner: no two programs have the file open. It also says which program's messages it keeps, and for which
//     store (storage.Props.Place). Another program or store doesn't get them until [Release]; an empty file changes
//     hands. A lock file that is removed is made again at the next Send. If another program was quicker, the spool
//     takes nothing and forwards nothing. The lock file follows no link, and belongs to the owner of the spool's file.
//     The file of a store is no spool, nor a spool a store.
//
// # Files
//
// Each file decides one thing. Calls between these files go down the list, never up.
//
//	spool.go    what a program sees: Config, Open, Run, Close, State
//	send.go     when a message is taken into the spool
//	forward.go  when Run tries again, which queues it tries first, and which entry it sets aside or passes over
//	report.go   what the store is told; metrics.go has what is counted
//	health.go   what happens with a file that is removed, full or another program's, until it can be used
//	store.go    whether the store is known to be away
//	operate.go  what operators do: Look, List, Discard, Release
//	index.go    room, and what becomes of a write or deletion that fails; the index keeps memory and file in agreement
//	order.go    which entry is next, within a queue and among queues
//	aside.go    when an entry that was set aside is tried again
//	file.go     how the file is opened, written, read and deleted from; entry.go has the form of an entry
//	remarks.go  what the file says about entries: why one was set aside, who has discarded one
//	owner.go    which program's messages the file keeps; lock.go has which program may open the file
package spool
