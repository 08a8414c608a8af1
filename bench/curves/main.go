// Command curves measures how Millrace behaves as its work grows: one value object with its age and under many
// workers, a backlog with its depth, messages with their size, workers with their number, and pages against a bare
// server. It prints tables in Markdown. With -json and -svg it also writes the numbers for programs and as charts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-go/millrace/bench/host"
)

// A bench has the settings of all curves.
type bench struct {
	n      int           // operations in one measurement
	max    int           // greatest age and depth
	rounds int           // repeats; the median counts
	most   time.Duration // limit of one measurement
	settle time.Duration // after a drain
	stolen float64       // repeat a measurement that lost more than this share of processor time to the host
	window []int         // of the replay record, 0 is the default
	dir    string        // for files
	errs   io.Writer     // for progress lines
	lost   []float64     // shares lost to the host by the measurements of the current curve
}

// A curve returns its tables, even after a failure.
type curve struct {
	name string
	run  func(*bench, context.Context) ([]*table, error)
}

func curves() []curve {
	return []curve{
		{"age", (*bench).age}, {"hot", hotTables}, {"backlog", (*bench).backlog}, {"payload", (*bench).payload},
		{"handlers", (*bench).handlers}, {"processes", (*bench).processes}, {"files", (*bench).files}, {"views", pageTables},
	}
}

func main() {
	if spec := os.Getenv(childVar); spec != "" {
		os.Exit(beChild(spec, os.Stdin, os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second Ctrl-C doesn't wait
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	b := &bench{errs: errs}
	flags := flag.NewFlagSet("curves", flag.ContinueOnError)
	flags.SetOutput(errs)
	names := flags.String("curves", allNames(), "the `CURVES` to measure")
	flags.IntVar(&b.n, "n", 2000, "how many `OPERATIONS` one measurement has; 5 to 75 times as many where they are quick")
	flags.IntVar(&b.max, "max", 1_000_000, "the greatest `AGE` of a value object and depth of a backlog")
	flags.IntVar(&b.rounds, "rounds", 3, "of how many `RUNS` the median counts, where runs are short")
	flags.DurationVar(&b.most, "for", 5*time.Second, "the longest `TIME` of one measurement that has no number of operations, or many slow ones")
	flags.DurationVar(&b.settle, "settle", 30*time.Second, "the `TIME` that a drained file has to become small")
	flags.Float64Var(&b.stolen, "stolen", 1, "measure again if the host took more than this `SHARE` of the processors' time meanwhile: 0.02 for a machine that is shared")
	windows := flags.String("windows", "0", "the `WINDOWS` of the replay record to compare by age; 0 is the default one")
	limit := flags.Duration("limit", time.Hour, "the `TIME` after which all ends")
	jsonFile := flags.String("json", "", "the `FILE` for the numbers in JSON")
	svg := flags.String("svg", "", "the `FOLDER` for charts")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	chosen, err := choose(*names)
	if err == nil {
		b.window, err = list(*windows)
	}
	if err == nil && (b.n < 1 || b.max < 100 || b.rounds < 1 || b.most <= 0 || b.settle < 0 || b.stolen < 0 || flags.NArg() > 0) {
		err = errors.New("want -n and -rounds of at least 1, -max of at least 100, times above 0, -stolen not below 0, and no other arguments")
	}
	if err == nil {
		err = writeAll(nil, *jsonFile, *svg) // refuses a path that can't be written now, not after twenty minutes
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "curves:", err)
		return 2
	}
	ctx, cancel := context.WithTimeoutCause(ctx, *limit, errors.New("the time that -limit gives is over"))
	defer cancel()
	if b.dir, err = os.MkdirTemp("", "curves-"); err != nil {
		_, _ = fmt.Fprintln(errs, "curves:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(b.dir) }()
	tables, failed := b.measure(ctx, chosen, out)
	failed = errors.Join(failed, writeAll(tables, *jsonFile, *svg))
	if ctx.Err() != nil { // the failures only follow from the signal
		failed = fmt.Errorf("stopped before the end: %w", context.Cause(ctx))
	}
	if failed != nil {
		_, _ = fmt.Fprintln(errs, "curves:", failed)
		return 1
	}
	return 0
}

// measure runs curves one after the other, and prints each table as soon as it is complete. A curve that fails
// doesn't stop the others.
func (b *bench) measure(ctx context.Context, chosen []curve, out io.Writer) (all []*table, failed error) {
	for _, c := range chosen {
		if ctx.Err() != nil {
			return all, failed
		}
		began := time.Now()
		b.lost = nil
		tables, err := c.run(b, ctx)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", c.name, err))
		}
		for _, t := range tables {
			t.Machine = host.Machine() + b.taken()
			_, _ = io.WriteString(out, t.markdown()+"\n")
		}
		all = append(all, tables...)
		b.say("%s took %v", c.name, time.Since(began).Round(time.Second))
	}
	return all, failed
}

// quietly repeats f until the host takes little processor time meanwhile, and returns its measurement.
func quietly[T any](ctx context.Context, b *bench, f func() (T, error)) (T, error) {
	x, lost, err := host.Quietly(ctx, b.stolen, func() (T, float64, error) {
		before := host.Read()
		x, err := f()
		return x, before.Share(host.Read()), err
	}, func(_ T, lost float64) { b.say("again: the host took %.1f %% of the processors", 100*lost) })
	if err == nil {
		b.lost = append(b.lost, lost)
	}
	return x, err
}

// taken says what the host took during the measurements of a curve.
func (b *bench) taken() string {
	if len(b.lost) == 0 {
		return ""
	}
	return fmt.Sprintf("; its host took at most %.1f %% of it during a measurement of this curve, %.1f %% in the middle one", 100*slices.Max(b.lost), 100*median(b.lost))
}

// many is the count for operations that take microseconds.
func (b *bench) many() int { return 10 * b.n }

func (b *bench) say(format string, args ...any) { _, _ = fmt.Fprintf(b.errs, format+"\n", args...) }

// file returns the path of a new file in a folder of its own.
func (b *bench) file() (string, error) {
	dir, err := os.MkdirTemp(b.dir, "")
	return filepath.Join(dir, "store.db"), err
}

// allNames is the default of -curves.
func allNames() string {
	var all []string
	for _, c := range curves() {
		all = append(all, c.name)
	}
	return strings.Join(all, ",")
}

// choose returns the named curves in their own order.
func choose(names string) (chosen []curve, err error) {
	wanted := strings.Split(names, ",")
	for _, c := range curves() {
		if i := slices.Index(wanted, c.name); i >= 0 {
			chosen = append(chosen, c)
			wanted = slices.Delete(wanted, i, i+1)
		}
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("-curves: no %q; there are %s", wanted, allNames())
	}
	return chosen, nil
}

func list(numbers string) (all []int, err error) {
	for s := range strings.SplitSeq(numbers, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("-windows: %q: want numbers with commas", numbers)
		}
		all = append(all, n)
	}
	return all, nil
}

// powers returns first and its tenfolds up to most.
func powers(first, most int) (all []int) {
	for n := first; n <= most; n *= 10 {
		all = append(all, n)
	}
	return all
}
