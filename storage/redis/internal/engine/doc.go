// Package engine runs what a store asks of a Redis server, each call as one script: the server then does the call as
// one step, whoever else calls. It doesn't know the port.
//
//	e, err := engine.Open(ctx, conn, engine.Config{Prefix: "app"})
//	u := new(engine.Unit)
//	u.Write("orders", "o1", etag, state, engine.Absent)
//	u.Send("mails", message, "", 0)
//	err = e.Do(ctx, u)                 // waits for a call that many callers share
//	list, err := e.Ask(ctx, engine.Claim, "mails", …)
//
// # How it works
//
//	Do ──▶ waiting ──▶ call: unit, unit, … ──▶ one script ──▶ answers
//
// While a call is under way, the units of all callers gather, and the next call takes them together. A unit costs the
// server some 7 µs in a large call and ten times as much alone.
//
// # Laws
//
//   - A script first reads all that it needs, each key by a command of the key's type, and then writes what can't fail.
//     The server undoes nothing of a script that fails half-way.
//   - Nothing that is compared comes from a counter of the server, because a failover sets counters back: this process
//     draws IDs, nonces and ETags.
//   - The store's time is the server's clock plus a difference in the store's hash. Time never goes back: a clock that
//     was set back, or another server's, adds to the difference. A jump ahead, beyond what this process's own clock
//     allows and beyond what any other process has seen, is taken away before anything counts as due. A call may have
//     lain in a socket for long, so a script refuses such a time at first, and the process judges it by how long the
//     call took. The store gives back what it took by a thousandth of the time that passes. A process that has just
//     started can't tell a jump: if it is the first to call after one, the jump counts.
//   - Each call names the store's mark, or reads the mark after what it reads. A store that was wiped or replaced
//     answers nothing.
//   - The store counts the changes of each process, and the reply to a change brings the count. A count that is behind
//     the largest that its process was told means that acknowledged changes are lost. The next change of that process
//     notes the loss in the store, and it is logged. A process that ended before nobody can ask.
//   - A call that has met a foreign type or full memory is repeated unit by unit, so that a unit fails by its own fault
//     alone. A call that didn't reach the server is repeated for some seconds.
//   - A call whose connection was cut is repeated once if it reads, or if it does units. Each call of units has a
//     number, and the store keeps the newest number of each process with what failed. So a repeat does nothing twice,
//     and a call that arrives after its repeat does nothing. No other call is repeated.
//
// # Files
//
//	engine.go   opening, and what callers of this package call
//	caller.go   calls, their repeats, and what their replies say about the store
//	gather.go   units of many callers in one call
//	unit.go     the steps of a unit
//	large.go    states that are too large for a script
//	scripts.go  the scripts, of the files in lua/
//	clock.go    the store's time; losses.go what the store has lost; dead.go what dead processes hold
//	ids.go      what this process draws
package engine
