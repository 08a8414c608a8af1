// Package boot is the frame of a process: settings, logs, signals, opening the store, the HTTP server, health, and the
// order of stopping. Package host makes programs on it. It is the one place that names storage drivers, and it knows
// nothing of what a program does.
//
// A program is a function that gets all that it may touch of the process, so that tests can call it too:
//
//	flags := boot.NewFlags("shop", about, p.Getenv)
//	settings := boot.AddSettings(flags, "data/shop.db")
//	code := boot.Main(ctx, p, flags, func(ctx context.Context, log *slog.Logger, level *slog.LevelVar) error { … })
//
// # Laws
//
//   - The first SIGINT or SIGTERM ends the context of [Main]'s function. Signals within a second of the first count as
//     the same one. A later signal makes the process say its last words ([BeforeExit]) and exit at once.
//   - [Run] stops the parts in their order, each after the one before has ended.
//   - Exit codes: 0 after an orderly stop, 1 after a failure, 2 when the command line or the environment can't be
//     right, 128 plus the signal's number after a second signal.
package boot
