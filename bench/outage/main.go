// Command outage measures what job systems do while a service that their jobs call is away:
//
//	make bench-outage                                                # ten minutes without a service, in all half an hour
//	make bench-outage ARGS='-systems millrace,river -for 2m -json outage.json'
//	make bench-outage ARGS='-for 5s -rate 50 -limit 15s'             # briefly
//	make bench-outage ARGS='-list'
//
// Each job is one POST to an HTTP server on loopback. For the time of -for, that server answers 503 without Retry-After
// at once, and counts the calls. It answers rather than refusing connections, because only an answered call can be
// counted by the server itself, and no system here treats the two differently. Before and after, it answers 200 at once.
//
// All systems run side by side, through the same outage, in real time, each in a process and a store of its own. Their
// retries keep the schedules of their defaults. A compressed outage would leave those schedules as they are, and so
// favour whichever fits. Jobs come at the same rate until a system has done all that were sent before the service came
// back, or until -limit after that.
//
// A system whose server is not installed is skipped, and the output says so. Nothing fails because it is slow.
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
	flags := flag.NewFlagSet("outage", flag.ContinueOnError)
	flags.SetOutput(errs)
	var p plan
	names := flags.String("systems", "", "the `SYSTEMS` to measure, with commas between; all by default")
	flags.DurationVar(&p.away, "for", 10*time.Minute, "the `TIME` for which the service is away")
	flags.Float64Var(&p.rate, "rate", 100, "how many `JOBS` a second are sent")
	flags.DurationVar(&p.limit, "limit", 20*time.Minute, "how much `TIME` a system has after the service is back")
	list := flags.Bool("list", false, "list the systems")
	file := flags.String("json", "", "write all that was counted into this `FILE`")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	err := p.choose(strings.FieldsFunc(*names, func(c rune) bool { return c == ',' || c == ' ' }))
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("%q is no flag: lists have commas and no spaces, as in -systems millrace,river", flags.Arg(0))
	case p.away <= 0 || p.limit <= 0 || !(p.rate >= 1 && p.rate <= 1000):
		err = fmt.Errorf("-for %v, -limit %v, -rate %v: want positive times, and 1 to 1000 jobs a second", p.away, p.limit, p.rate)
	case !*list && host.InMemory(os.TempDir()):
		err = errors.New("the folder for temporary files lies in memory, where a sync does nothing: let TMPDIR name one on a disk")
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "outage:", err)
		return 2
	}
	if *list {
		for _, s := range p.systems {
			_, _ = fmt.Fprintf(out, "%-18s %s (needs %s)\n", s.Name, s.Title, needs(s))
		}
		return 0
	}
	r, err := p.run(ctx, errs)
	if err == nil && *file != "" {
		err = r.save(*file)
	}
	if err == nil {
		_, err = io.WriteString(out, r.markdown())
	}
	if err == nil && ctx.Err() != nil {
		err = errors.New("stopped before the end")
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "outage:", err)
		return 1
	}
	if slices.ContainsFunc(r.Samples, func(s Sample) bool { return s.Err != "" }) {
		return 1
	}
	return 0
}

func needs(s System) string {
	if s.Server == "" {
		return "no server"
	}
	return s.Server
}
