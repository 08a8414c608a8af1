// Command chaos checks the promise on real processes and real kills.
//
// It builds cmd/web and cmd/worker and runs one web and some workers on a store, while a client posts reservations.
// The client repeats each under the same ID until it is acknowledged or the client gives up. Meanwhile a plan that
// follows from a seed disturbs the run:
//
//   - Processes are killed, stalled for longer than a message's visibility, and restarted in order.
//   - The disk is full for a while.
//   - A proxy cuts, resets and delays connections, lets only one of their directions through, and breaks answers off.
//   - Azurite goes away and comes back.
//
// The connections between the processes:
//
//	client ─▶ proxy ─▶ web ─────┐                        SQLite: a file on a small disk of its own
//	                            ├─▶ (proxies ─▶) store ◀─┤
//	                 workers ───┘                        Azure: Azurite, its data on disk
//
// Then all disturbances end, the workers empty the queues, and an auditor looks from outside, over HTTP and in the
// store. It knows only what was sent and acknowledged. Each of its checks has a name, as in the simulation.
//
//	make chaos            both stores, the long form
//	make chaos-short      both stores, in some minutes
//	go run . -store sqlite -n 20000 -for 5m -seed 7
//
// The exit code is 0 only if nothing was lost or doubled, the queues and the poison queues are empty, no process
// ended by itself, and each kind of disturbance took place. Times are reported and never judged. docs/reliability.md
// says what the run measures, and how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// settings are those of one run, on one store.
type settings struct {
	store   string // "sqlite" or "azure"
	n       int    // reservations
	lasts   time.Duration
	seed    uint64
	workers int
	only    []kind // empty for all
	root    string // of the repository
	dir     string // of this run
	bin     string // folder of the programs
}

// defaults are the length of a run on a store, short or long.
func defaults(store string, short bool) (n int, lasts time.Duration) {
	switch {
	case store == azureStore && short:
		return 400, 70 * time.Second
	case store == azureStore:
		return 2000, 10 * time.Minute
	case short:
		return 3000, 60 * time.Second
	}
	return 20000, 5 * time.Minute
}

const (
	sqliteStore = "sqlite"
	azureStore  = "azure"
	everyStore  = sqliteStore + "," + azureStore
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once, and its children with it
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(errs)
	stores := flags.String("store", everyStore, "the `STORES` to run on, one after the other")
	short := flags.Bool("short", false, "a run of a minute on each store instead of five or ten")
	n := flags.Int("n", 0, "how many `RESERVATIONS` are sent; 0 is the form's own number")
	lasts := flags.Duration("for", 0, "for how `LONG` they are sent and everything is disturbed; 0 is the form's own time")
	seed := flags.Uint64("seed", 0, "where the plan comes from; 0 takes one at random and says which")
	workers := flags.Int("workers", 4, "how many `PROCESSES` of cmd/worker run")
	only := flags.String("only", "", "the `KINDS` of disturbance, with commas, by what the report calls them; none means all")
	keep := flags.String("keep", "", "the `FOLDER` for the logs of all processes; without one they are kept only after a run that failed")
	root := flags.String("root", "../..", "the repository's `FOLDER`")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	fail := func(err error) int {
		_, _ = fmt.Fprintln(errs, "chaos:", err)
		return 1
	}
	if *n < 0 || *lasts < 0 || *workers < 2 || flags.NArg() > 0 {
		return fail(errors.New("-n and -for can't be negative, -workers is at least 2, and there are no arguments"))
	}
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000) + 1
	}
	kinds, err := parseKinds(*only)
	if err != nil {
		return fail(err)
	}
	dir, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		return fail(err)
	}
	bin := filepath.Join(dir, "bin")
	defer func() { _ = os.RemoveAll(bin) }()
	rootDir, err := filepath.Abs(*root)
	if err != nil {
		return fail(err)
	}
	if err := build(ctx, rootDir, bin); err != nil {
		return fail(err)
	}
	good := true
	for store := range strings.SplitSeq(*stores, ",") {
		if store != sqliteStore && store != azureStore {
			return fail(fmt.Errorf("-store %q: want %s, %s or both with a comma", store, sqliteStore, azureStore))
		}
		s := settings{store: store, n: *n, lasts: *lasts, seed: *seed, workers: *workers, only: kinds, root: rootDir, dir: filepath.Join(dir, store), bin: bin}
		formN, formLasts := defaults(store, *short)
		if s.n == 0 {
			s.n = formN
		}
		if s.lasts == 0 {
			s.lasts = formLasts
		}
		_, _ = fmt.Fprintf(out, "%s: %d reservations in %v, seed %d, logs meanwhile in %s\n", store, s.n, s.lasts, s.seed, s.dir)
		r, err := runOn(ctx, s)
		if errors.Is(err, errNoAzurite) && *stores == everyStore && os.Getenv("CI") == "" {
			_, _ = fmt.Fprintf(out, "%s: SKIPPED: %v\n", store, err)
			continue
		}
		if err != nil {
			return fail(err)
		}
		r.print(out)
		good = good && len(r.found) == 0
	}
	if *keep != "" {
		if err := os.CopyFS(*keep, os.DirFS(dir)); err != nil { // the target may be on another file system
			return fail(fmt.Errorf("the logs stay in %s: %w", dir, err))
		}
		_ = os.RemoveAll(dir)
		_, _ = fmt.Fprintf(out, "logs: %s\n", *keep)
	} else if good {
		_ = os.RemoveAll(dir) // remains do no harm
	}
	if !good {
		return 1
	}
	return 0
}

// build makes the programs under test, in the repository's own module.
func build(ctx context.Context, root, bin string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", bin+string(filepath.Separator), "./cmd/web", "./cmd/worker")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", root, err, out)
	}
	return nil
}
