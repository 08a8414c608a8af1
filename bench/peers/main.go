// Command peers measures the same work on Millrace, on other systems for background jobs in Go, and on the raw limit
// of this machine.
//
//	make bench-peers                                  # everything: about an hour
//	make bench-peers ARGS='-systems millrace,river,raw -works balanced,drain -json peers.json -svg peers.svg'
//	make bench-peers ARGS='-from peers.json -svg peers.svg'    # table and chart again
//	make bench-peers ARGS='-stolen 0.05 -json peers.json'      # on a shared machine
//	make bench-peers ARGS='-resume peers.json -json peers.json'    # the rest of a run that was stopped
//
// Each measurement is a process of its own. It has an empty folder on the disk under TMPDIR and, if the system needs
// one, a server that has just started. Systems take turns, in another order each time. A system whose server is not
// installed is skipped, and the output says so.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-go/millrace/bench/host"
	"github.com/millrace-go/millrace/bench/peers/child"
)

func main() {
	if os.Getenv(childEnv) != "" {
		os.Exit(child.Main(children()))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(errs)
	systems := flags.String("systems", "", "the `SYSTEMS` to measure, with commas between; all by default")
	works := flags.String("works", "", "the `WORKS` to measure; all by default")
	p := plan{}
	flags.IntVar(&p.reps, "reps", 3, "how many `REPETITIONS`")
	flags.DurationVar(&p.spec.For, "for", 3*time.Second, "the `TIME` of a rate, such as 500ms; latency and idle take six times as long, a drain at most four times")
	flags.IntVar(&p.spec.Backlog, "backlog", 100_000, "how many `JOBS` to drain")
	flags.Float64Var(&p.stolen, "stolen", 1, "measure again if the host took more than this `SHARE` of the processors' time meanwhile: 0.02 for a machine that is shared")
	flags.Uint64Var(&p.spec.Seed, "seed", 1, "`SEED` of the order and the gaps")
	list := flags.Bool("list", false, "list systems and works")
	from := flags.String("from", "", "measure nothing: read what -json wrote from this `FILE`")
	resume := flags.String("resume", "", "measure what is missing in this `FILE`, which -json wrote when a run was stopped")
	jsonFile := flags.String("json", "", "write all samples into this `FILE`")
	svgFile := flags.String("svg", "", "write the chart into this `FILE`")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	var err error
	if p.systems, err = pick(split(*systems)); err == nil {
		p.works, err = pickWorks(split(*works))
	}
	if err == nil && *resume != "" && *from != "" {
		err = errors.New("-resume measures and -from doesn't: want one of them")
	}
	if err == nil && *resume != "" {
		var r *Report
		if r, err = load(*resume); err == nil {
			err = p.resume(r)
		}
	}
	for _, path := range []string{*jsonFile, *svgFile} {
		if err == nil && path != "" {
			err = writable(path)
		}
	}
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("%q is no flag: lists have commas and no spaces, as in -systems millrace,river", flags.Arg(0))
	case p.reps < 1 || p.spec.For <= 0 || p.spec.Backlog < 1:
		err = fmt.Errorf("-reps %d, -for %v, -backlog %d: want positive ones", p.reps, p.spec.For, p.spec.Backlog)
	case !(p.stolen >= 0 && p.stolen <= 1):
		err = fmt.Errorf("-stolen %v: want a share from 0 to 1, 0.03 for 3 %%", p.stolen)
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "peers:", err)
		return 2
	}
	if *list {
		all := p.systems
		if *systems == "" {
			all = contenders()
		}
		for _, c := range all {
			name := c.Name
			if c.named {
				name += " *"
			}
			_, _ = fmt.Fprintf(out, "%-22s %s, %s: %s (%s)\n", name, c.Title, c.Durability, c.Settings, c.Source)
		}
		_, _ = fmt.Fprintln(out, "* measured only if it is named")
		for _, w := range child.Works {
			_, _ = fmt.Fprintf(out, "%-22s %s\n", w, headings[w])
		}
		return 0
	}
	var r *Report
	if *from != "" {
		r, err = load(*from)
	} else {
		if host.InMemory(os.TempDir()) {
			_, _ = fmt.Fprintln(errs, "peers: the folder for temporary files lies in memory, where a sync does nothing: let TMPDIR name one on a disk")
			return 2
		}
		r = p.run(ctx, errs)
		if *jsonFile != "" {
			err = r.save(*jsonFile)
		}
	}
	if err == nil && len(r.Samples) == 0 && len(r.Skipped) == 0 && ctx.Err() == nil {
		err = errors.New("none of these systems has any of these works: disk has sync alone, and nothing else has that")
	}
	if err == nil {
		err = r.markdown(out)
	}
	if err == nil && *svgFile != "" {
		var b bytes.Buffer
		if err = r.chart(&b); err == nil {
			err = os.WriteFile(*svgFile, b.Bytes(), 0o644)
		}
	}
	if err == nil && ctx.Err() != nil {
		err = errors.New("stopped before the end")
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "peers:", err)
		return 1
	}
	if slices.ContainsFunc(r.Samples, func(s child.Sample) bool { return s.Err != "" }) {
		return 1
	}
	return 0
}

// writable refuses a path that can't be written now, not after an hour. The file keeps its content.
func writable(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' })
}

// pickWorks returns the named works in the report's order, or all.
func pickWorks(names []string) ([]child.Work, error) {
	for _, name := range names {
		if !slices.Contains(child.Works, child.Work(name)) {
			return nil, fmt.Errorf("no work %q; want some of %s", name, strings.Trim(fmt.Sprint(child.Works), "[]"))
		}
	}
	return slices.DeleteFunc(slices.Clone(child.Works), func(w child.Work) bool {
		return len(names) > 0 && !slices.Contains(names, string(w))
	}), nil
}
