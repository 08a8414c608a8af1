// Package peers lets the stores that have one file open, in this process and in others, find each other. A driver
// gives its functions to [New], and then calls:
//
//	p.Announce()                  // before a commit that others can learn of
//	gen := p.Generation()         // for each claim: it goes into the claim, and shows whose the claim is
//	p.Signal()                    // after a commit that sent something, or for a ring
//	p.Watch()                     // once a consumer waits for rings
//	p.ReleaseClaimsOfDead(ctx)    // before a receive: it costs some microseconds, once a second
//	p.CheckSocket(), p.Serve()    // before the first receiver is there
//	p.Others()                    // to tell others something
//
// In return the package calls [Config].RingAll when another store may have sent something, and [Config].Release for
// the claims of a process that was killed. The zero [Peers] does nothing; its generations belong to no process.
//
// # How it works
//
//	Signal ──▶ a file of this store in PATH-wake changes ──▶ watchers of the other stores ──▶ their RingAll
//	Announce ──▶ a locked file of this store in PATH-wake ◀── tried by the other stores ──▶ their Release
//
// PATH-wake is a folder beside the database. Each store has two files there:
//
//   - The signal file has a random name. A write to it is a signal. The others watch the folder, so no process polls
//     quickly, no store takes its own signal for another's, and no signal overwrites another.
//   - The presence file, process-NUMBER, is locked (flock) as long as the process lives. The lock goes when the
//     process is gone, whatever ended it, and not before: a process that is stopped or hangs keeps it. A generation
//     holds the NUMBER.
//
// A store with receivers has a third one, the socket ear-RANDOM, made at the first [Peers.Serve]. Others find it by its
// name and connect. It gets that name when it accepts connections. So one that refuses them is a dead process's, and
// the store that finds it removes it. A store whose own socket's file is gone calls [Config].Lost.
//
// Everything in the folder is a hint. A store that can't use the folder logs that once and works without it.
//
// A watcher also checks by itself:
//
//   - every five seconds while it doesn't see its own signals, because then it sees no other store's. It rings.
//   - every five seconds while other processes are there, and once after one may have gone. They may have claims
//     whose ends this store can't know, and a killed process gives no signal. It rings, and releases the claims of
//     dead processes.
//   - every thirty seconds while it sees no other process. It asks whether the file was changed by another process,
//     which may not be able to use the folder, and rings if so.
//
// Each check also watches the folder that is there now, and gives a signal if the store's signal file is gone. So a
// folder that was removed or replaced is found within thirty seconds, whatever its last events told.
//
// A store that receives looks for dead processes too, once a second at most. A store that gets the lock of another's
// presence file has the claims of that NUMBER released in one call, and removes the file.
//
// # Laws
//
// No claim of a living process is released:
//
//   - A store makes and locks its presence file before its first claim. Then it checks that the file is there and is
//     locked by its name, because another store may have looked in between. The check also shows where locks do
//     nothing. A store removes a file only under the file's lock, and trusts no lock on a file that has lost its name.
//   - Locks belong to open files, not to processes: stores in one process don't share them.
//   - A claim belongs to the store that received or last extended it. A generation without a number belongs to no
//     process. Such are the claims of stores that can lock no file, on Windows for one.
//
// The claims of a killed process are released when another store looks. If the release fails, the presence file stays,
// and a later look tries again. Some claims wait for the end of their visibility:
//
//   - those of a store that was closed. It removes its presence file before the lock goes, because its receipts still
//     work.
//   - those of a store whose presence file was removed. It makes another one, with another number, for later claims.
//
// A signal is never lost while the folder can be used: one that can't be given is given later.
package peers
