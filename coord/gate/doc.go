// Package gate lets processes be ready and wait until somebody opens a gate. Then all go at once. A process that comes
// later finds the gate open. It works on any *storage.Store.
//
//	g := gate.At(store, "start-order-processing")
//	if err := g.Wait(ctx); err != nil { // until the gate is open, or ctx ends
//		return err
//	}
//
// An operator or another program opens it, now or at an announced moment, and closes it:
//
//	err := g.Open(ctx, gate.Note{By: "ada", Why: "results are in"})
//	err = g.OpenAt(ctx, start, gate.Note{})
//	err = g.Close(ctx, gate.Note{})
//
// Package worker/limiters holds a worker's queue behind a gate.
//
// # How it works
//
// A gate is a blob in the container "gates", under the gate's name. It says whether the gate is open, when it will
// open, who changed it last, and why. Without a blob the gate is closed. The blob is the truth: each change replaces it
// by a guarded write, and Wait returns only after it has read it. Wait reads it every 2.5 seconds. Where the store
// rings, each change also tells those that wait, and they read it at once.
//
//	closed ──Open────────────────────────────────────────▶ open
//	  │  ▲                                                 ▲  │
//	  │  └──Close──┐                                       │  │
//	  └──OpenAt──▶ closed, opens at t ──somebody looks at t┘  │
//	  ▲                                                       │
//	  └──────────────────────────Close────────────────────────┘
//
// # Laws
//
//   - An opening is never missed, whether it comes before Wait, while Wait begins, or later. Wait reads the blob again
//     once it listens. The blob counts openings, so one that was followed by a closing releases those that waited.
//   - Nobody goes before the gate was open. A ring, however spurious, only makes Wait read the blob.
//   - Closing doesn't recall those that have gone.
//   - An announced opening is kept by the first process that looks at the gate and whose clock says that the moment has
//     come. From then on the gate is open for all, whatever their clocks say. See [Gate.OpenAt].
//   - A change has its effect once at most. If its answer is lost and somebody else has changed the gate since, it is
//     not repeated, and the error says that its outcome is unknown.
//   - A store that fails holds up those that wait, and ends no wait.
//
// # Cost
//
//   - Wait for a gate that is open is one read.
//   - While a gate is closed, each Wait reads it 1600 times an hour, and is answered "not modified". N Waits cost N
//     times that, so let one goroutine of a process wait. A Watch of an open gate reads it some 130 times an hour.
//   - To listen costs what storage.Store.Subscribe costs, once. Each change costs each listener one read.
//   - Open and Close are a read, a write, and what storage.Store.Publish costs.
//   - At an announced moment each process that waits makes a write. One succeeds, and the others read.
package gate
