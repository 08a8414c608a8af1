// Package boot is what the programs in cmd share: settings, logs, signals, the store, the mailer, the HTTP
// server, and the order of stopping. It is the one place that names storage drivers.
//
// A program's main does nothing but call a function with all that it may touch, so that tests can call it too:
//
//	func main() {
//		os.Exit(run(context.Background(), boot.Process{Args: os.Args[1:], Getenv: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr}))
//	}
//
// # How a program ends
//
// The first SIGINT or SIGTERM ends the context of [Main]'s function. [Run] then stops the parts in their order,
// each after the one before has ended: senders before those they send to, and what reports health last. The store is
// closed when nobody uses it any more. Then the program says what it has asked of the store. Signals within a second of the
// first count as the same one: supervisors and shells often send two. A later one makes the program say the same and exit
// at once; the promise of the queues makes that harmless.
//
// Exit codes: 0 after an orderly stop, 1 after a failure, 2 when the command line can't be right, 128 plus the
// signal's number after a second signal.
package boot
