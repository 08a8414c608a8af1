// Command coord measures the packages under coord/ beside other ways to number, lock, lead, wait and signal.
//
//	make bench-coord                                          # everything: some ten minutes
//	make bench-coord ARGS='-works numbers,lease -json coord.json'
//	make bench-coord ARGS='-reps 1 -for 50ms'                 # briefly: below half a minute
//	make bench-coord ARGS='-list'
//
// All systems of a work are measured in the same run, in another order each time, on files in an empty folder under
// TMPDIR. A server starts when it is first needed and runs until the end. A system whose server is not installed is
// skipped, and the output says so. Times are stated, and nothing fails because it is slow.
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
	flags := flag.NewFlagSet("coord", flag.ContinueOnError)
	flags.SetOutput(errs)
	var p plan
	names := flags.String("works", "", "the `WORKS` to measure, with commas between; all by default")
	systems := flags.String("systems", "", "the `SYSTEMS` to measure; all by default")
	flags.IntVar(&p.reps, "reps", 3, "how many `REPETITIONS`")
	flags.DurationVar(&p.spell, "for", 2*time.Second, "the `TIME` of a rate, such as 500ms; gates and leaders take up to six times as long")
	flags.Uint64Var(&p.seed, "seed", 1, "`SEED` of the order and the pauses")
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
		err = fmt.Errorf("%q is no flag: lists have commas and no spaces, as in -works numbers,lease", flags.Arg(0))
	case p.reps < 1 || p.spell <= 0:
		err = fmt.Errorf("-reps %d, -for %v: want positive ones", p.reps, p.spell)
	case !*list && host.InMemory(os.TempDir()):
		err = errors.New("the folder for temporary files lies in memory, where a sync does nothing: let TMPDIR name one on a disk")
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "coord:", err)
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
		_, _ = fmt.Fprintln(errs, "coord:", err)
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
