// Package boot is what the programs in cmd share: settings, logs, signals, the store, the mailer, the HTTP server,
// and the order of stopping. It is the one place that names storage drivers.
//
// A program's main only calls a function, and hands it all that it may touch. So tests can call the function too:
//
//	func main() {
//		p := boot.Process{Args: os.Args[1:], Getenv: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr}
//		os.Exit(run(context.Background(), p))
//	}
//
// # How a program ends
//
// The first SIGINT or SIGTERM ends the context of [Main]'s function. Then, in this order:
//
//   - [Run] stops the parts in their order, each after the one before has ended: senders before the parts they send to,
//     and the part that reports health last.
//   - The store is closed.
//   - The program prints what it has asked of the store.
//
// Signals within a second of the first count as the same one, because supervisors and shells often send two. A later
// signal makes the program print the same and exit at once. The promise of the queues makes that harmless.
//
// Exit codes: 0 after an orderly stop, 1 after a failure, 2 when the command line can't be right, 128 plus the
// signal's number after a second signal.
package boot
