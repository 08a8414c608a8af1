// Command processes measures systems that run work of many steps beside one another: sequences of steps, fan-outs, a
// step in an idle system, what a kill costs, and what an ended instance leaves in the store.
//
//	make bench-processes                                              # everything: half an hour or more
//	make bench-processes ARGS='-systems dbos -works steps64,recover -json processes.json'
//	make bench-processes ARGS='-reps 1 -for 50ms -instances 16 -limit 15s'    # briefly: two minutes
//	make bench-processes ARGS='-list'
//
// All systems of a work are measured in the same run, in another order each time, each in a process and a store of its
// own, under TMPDIR. Steps do nothing, so all time is the system's. All stores sync before they answer. A measurement
// that takes longer than -limit is stopped, and its system is not measured again in this work or a larger one of the
// same kind. A system whose server is not installed is skipped. The output tells of both. Times are stated, and
// nothing fails because it is slow.
//
// It is a module of its own: go-workflows requires a linter and the hundred modules of it, which nothing else under
// bench needs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/bench/children"
	"github.com/millrace-go/millrace/bench/host"
)

func main() { os.Exit(children.Main(childVar, beChild, run)) }

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("processes", flag.ContinueOnError)
	flags.SetOutput(errs)
	var p plan
	names := flags.String("works", "", "the `WORKS` to measure, with commas between; all by default")
	systems := flags.String("systems", "", "the `SYSTEMS` to measure; all by default")
	flags.IntVar(&p.reps, "reps", 3, "how many `REPETITIONS`")
	flags.DurationVar(&p.spell, "for", 5*time.Second, "repeat short works for this `TIME`, such as 500ms")
	flags.IntVar(&p.instances, "instances", 1000, "how many `INSTANCES` a sequence of steps has at least")
	flags.DurationVar(&p.limit, "limit", 3*time.Minute, "stop a measurement after this `TIME`")
	flags.Uint64Var(&p.seed, "seed", 1, "`SEED` of the order and of the kills")
	list := flags.Bool("list", false, "list works and systems")
	file := flags.String("json", "", "write all samples into this `FILE`")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	err := p.choose(split(*names), split(*systems))
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("%q is no flag: lists have commas and no spaces, as in -works steps64,idle", flags.Arg(0))
	case p.reps < 1 || p.spell <= 0 || p.instances < 1 || p.limit <= 0:
		err = fmt.Errorf("-reps %d, -for %v, -instances %d, -limit %v: want positive ones",
			p.reps, p.spell, p.instances, p.limit)
	case !*list && host.InMemory(os.TempDir()):
		err = errors.New("the folder for temporary files lies in memory, where a sync does nothing: " +
			"let TMPDIR name one on a disk")
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "processes:", err)
		return 2
	}
	if *list {
		p.list(out)
		return 0
	}
	r, err := p.run(ctx, errs)
	if err == nil && *file != "" {
		err = r.save(*file)
	}
	if err == nil {
		err = r.markdown(out)
	}
	if err == nil && ctx.Err() != nil {
		err = errors.New("stopped before the end")
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "processes:", err)
		return 1
	}
	if slices.ContainsFunc(r.Samples, func(s Sample) bool { return s.Err != "" }) {
		return 1
	}
	return 0
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' })
}
