// Command chaos checks the promise on real processes and real kills.
//
// It builds cmd/web and cmd/worker and runs one web and some workers on a store, while a client posts reservations.
// The client repeats each under the same ID until it is acknowledged or the client gives up. Meanwhile a plan that
// follows from a seed disturbs the run:
//
//   - Processes are killed, stalled for longer than a message's visibility, and restarted in order.
//   - The disk is full for a while.
//   - A proxy cuts, resets and delays connections, lets only one of their directions through, and breaks answers off.
//   - Azurite or Redis goes away and comes back. Redis is killed in the middle of its work, and stopped.
//
// The connections between the processes:
//
//	client ─▶ proxy ─▶ web ─────┐                        SQLite: a file on a small disk of its own
//	                            ├─▶ (proxies ─▶) store ◀─┤
//	                 workers ───┘                        Azure: Azurite, its data on disk
//	                                                     Redis: a server that syncs each write to the disk
//
// Then all disturbances end, the workers empty the queues, and an auditor looks from outside, over HTTP and in the
// store. It knows only what was sent and acknowledged. Each of its checks has a name, as in the simulation.
//
//	make chaos            all parts, all stores, one after the other, the long form
//	make chaos-short      all parts, all stores together, in some minutes
//	go run . -store sqlite -n 20000 -for 5m -seed 7
//	go run . -part coordination -short
//
// The second part is coordination. Six processes (coord_child.go) use every package under coord at once, with the
// shortest leases, and note in journals what they got before they use it. The plan kills them, restarts them, and stops
// leaders and holders until others have followed. On Azure and Redis it also disturbs the proxies and the server. Then an auditor
// compares the journals with the store (coord_audit.go). All processes share one clock, so it can tell what came first.
//
// The third part is processes: a shop whose orders are reserved, charged, packed, booked, picked up and shipped
// (shop.go). Workers run its plan. Its bank and its carrier are processes of their own, with journals of their own
// (shop_service.go). Customers start, signal and cancel. The plan kills workers, bank and carrier, and stops workers
// that have charged until the time of their step is over. The auditor believes the journals of bank and carrier, and
// holds the instances, the stock and the index against them (shop_audit.go).
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
	part    string // "reservations", "coordination" or "processes"
	store   string // "sqlite", "azure" or "redis"
	n       int    // reservations, or instances
	lasts   time.Duration
	seed    uint64
	workers int
	only    []kind // empty for all
	root    string // of the repository
	dir     string // of this run
	bin     string // folder of the programs
}

// defaults are the length of a run on a store, short or long.
func defaults(part, store string, short bool) (n int, lasts time.Duration) {
	switch {
	case part == coordination && short:
		return 0, 20 * time.Second
	case part == coordination:
		return 0, 2 * time.Minute
	case part == processes && short:
		return 40, 20 * time.Second
	case part == processes && store == azureStore:
		return 200, 5 * time.Minute
	case part == processes:
		return 1000, 5 * time.Minute
	case store == azureStore && short:
		return 200, 45 * time.Second
	case store == azureStore:
		return 2000, 10 * time.Minute
	case short:
		return 1500, 40 * time.Second
	}
	return 20000, 5 * time.Minute
}

const (
	reservationsPart = "reservations"
	coordination     = "coordination"
	processes        = "processes"
	everyPart        = reservationsPart + "," + coordination + "," + processes

	sqliteStore = "sqlite"
	azureStore  = "azure"
	redisStore  = "redis"
	everyStore  = sqliteStore + "," + azureStore + "," + redisStore
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once, and its children with it
	if spec := os.Getenv(childSpecIn); spec != "" {
		if err := runChild(ctx, spec, os.Stdout); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "chaos: child:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(errs)
	parts := flags.String("part", everyPart, "the `PARTS` to run")
	stores := flags.String("store", everyStore, "the `STORES` to run on")
	short := flags.Bool("short", false, "a run of less than a minute on each store, together, instead of five or ten, one after the other")
	n := flags.Int("n", 0, "the number of `RESERVATIONS`, or of instances of processes; 0 means the default of the long or short form")
	lasts := flags.Duration("for", 0, "the `TIME` in which they are sent and everything is disturbed; 0 means the default of the form")
	seed := flags.Uint64("seed", 0, "the seed of the plan; 0 means a random one, which the output names")
	workers := flags.Int("workers", 4, "the number of `PROCESSES` that work")
	only := flags.String("only", "", "the `KINDS` of disturbance, separated by commas, by their names in the report; none means all")
	keep := flags.String("keep", "", "the `FOLDER` for the logs of all processes; by default logs are kept only after a failed run")
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
	with := settings{n: *n, lasts: *lasts, seed: *seed, workers: *workers, only: kinds, root: rootDir, dir: dir, bin: bin}
	plan, err := listRuns(with, *parts, *stores, *short)
	if err != nil {
		return fail(err)
	}
	good := true
	for _, all := range plan {
		if len(all) > 0 && all[0].part == reservationsPart {
			if err := build(ctx, rootDir, bin); err != nil {
				return fail(err)
			}
		}
		held, err := runAll(ctx, all, *short, out)
		if err != nil {
			return fail(err)
		}
		good = good && held
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

// listRuns returns the runs of each part, on each store. A part is left out if none of its disturbances is asked for.
func listRuns(with settings, parts, stores string, short bool) (plan [][]settings, err error) {
	for part := range strings.SplitSeq(parts, ",") {
		if part != reservationsPart && part != coordination && part != processes {
			return nil, fmt.Errorf("-part %q: want %s, %s, %s or some of them with commas", part, reservationsPart, coordination, processes)
		}
		var all []settings
		for store := range strings.SplitSeq(stores, ",") {
			if store != sqliteStore && store != azureStore && store != redisStore {
				return nil, fmt.Errorf("-store %q: want %s, %s, %s or some of them with commas", store, sqliteStore, azureStore, redisStore)
			}
			s := with
			s.part, s.store, s.dir = part, store, filepath.Join(with.dir, part, store)
			formN, formLasts := defaults(part, store, short)
			if s.n == 0 {
				s.n = formN
			}
			if s.lasts == 0 {
				s.lasts = formLasts
			}
			if len(s.rates()) > 0 {
				all = append(all, s)
			}
		}
		plan = append(plan, all)
	}
	return plan, nil
}

// outcome is the result of a run.
type outcome struct {
	verdict verdict
	err     error // there is no verdict
}

// A verdict is the report of a run.
type verdict interface {
	good() bool
	print(out io.Writer)
}

// runAll runs on each store, together or one after the other, and prints the reports in order. It reports whether the
// promise held on all. Together they take the time of one, because a run mostly waits.
func runAll(ctx context.Context, all []settings, together bool, out io.Writer) (good bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	runs := make([]chan outcome, len(all))
	started, read := 0, 0
	defer func() { // after an error the other runs clean up first
		cancel()
		for ; read < started; read++ {
			<-runs[read]
		}
	}()
	good = true
	for i := range all {
		for ; started <= i || together && started < len(all); started++ {
			s, done := all[started], make(chan outcome, 1)
			_, _ = fmt.Fprintf(out, "%s, %s: %v, seed %d, logs meanwhile in %s\n", s.part, s.store, s.lasts, s.seed, s.dir)
			runs[started] = done
			go func() {
				v, err := runPart(ctx, s)
				done <- outcome{v, err}
			}()
		}
		o := <-runs[i]
		read++
		switch {
		case (errors.Is(o.err, errNoAzurite) || errors.Is(o.err, errNoRedis)) && len(all) > 1 && os.Getenv("CI") == "":
			_, _ = fmt.Fprintf(out, "%s: SKIPPED: %v\n", all[i].store, o.err)
		case o.err != nil:
			return false, o.err
		default:
			o.verdict.print(out)
			good = good && o.verdict.good()
		}
	}
	return good, nil
}

func runPart(ctx context.Context, s settings) (verdict, error) {
	switch s.part {
	case coordination:
		return runCoordination(ctx, s)
	case processes:
		return runProcesses(ctx, s)
	}
	return runOn(ctx, s)
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
