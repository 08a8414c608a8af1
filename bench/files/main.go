// Command files measures uploads and downloads with keys of package valet:
//
//	make bench-files                                   # some 2 minutes
//	make bench-files ARGS='-works disk -size 256 -rounds 9'
//
// Each work prints a table. What is compared takes turns in one process, and a ratio is the median of the ratios of
// such pairs. Nothing fails because it is slow.
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

	"github.com/millrace-go/millrace/bench/children"
	"github.com/millrace-go/millrace/bench/host"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
)

// childVar is of no use: this program has no children.
const childVar = "MILLRACE_BENCH_FILES_CHILD"

func main() { os.Exit(children.Main(childVar, nil, run)) }

// A plan is what to measure.
type plan struct {
	works  []string
	size   int64 // MiB of an upload to a folder
	azure  int64 // MiB of an upload to Azurite
	rounds int
	held   int // uploads at once
	keys   int
}

// A work is something to measure.
type work struct {
	name string
	run  func(context.Context, plan, io.Writer) error
}

var works = []work{
	{"disk", measureDisk},
	{"azure", measureAzure},
	{"memory", measureMemory},
	{"requests", measureRequests},
	{"keys", measureKeys},
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("files", flag.ContinueOnError)
	flags.SetOutput(errs)
	var p plan
	list := flags.String("works", "disk,azure,memory,requests,keys", "which `WORKS`, with commas between")
	flags.Int64Var(&p.size, "size", 256, "`MiB` of an upload to a folder")
	flags.Int64Var(&p.azure, "azure", 64, "`MiB` of an upload to Azurite")
	flags.IntVar(&p.rounds, "rounds", 9, "how many `ROUNDS`")
	flags.IntVar(&p.held, "held", 64, "how many `UPLOADS` are held in the middle of a part")
	flags.IntVar(&p.keys, "keys", 500, "how many `KEYS` are made")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if err := p.check(*list, flags.Args()); err != nil {
		_, _ = fmt.Fprintln(errs, "files:", err)
		return 2
	}
	_, _ = fmt.Fprintf(out, "%s. The load average was %s before.\n", host.Machine(), host.Load())
	for _, w := range works {
		if !slices.Contains(p.works, w.name) {
			continue
		}
		err := w.run(ctx, p, out)
		if errors.Is(err, azuretest.ErrNotInstalled) {
			_, _ = fmt.Fprintf(out, "\n%s isn't measured: %v\n", w.name, err)
			continue
		}
		if err != nil {
			_, _ = fmt.Fprintf(errs, "files: %s: %v\n", w.name, err)
			return 1
		}
	}
	return 0
}

func (p *plan) check(list string, rest []string) error {
	p.works = strings.Split(list, ",")
	for _, name := range p.works {
		if !slices.ContainsFunc(works, func(w work) bool { return w.name == name }) {
			return fmt.Errorf("there is no work %q; want some of disk, azure, memory, requests and keys", name)
		}
	}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is no flag", rest[0])
	case p.size < 1 || p.azure < 1 || p.rounds < 1 || p.held < 1 || p.keys < 1:
		return errors.New("want numbers of at least 1")
	case host.InMemory(os.TempDir()):
		return errors.New("the folder for temporary files lies in memory, where a sync does nothing: let TMPDIR name one on a disk")
	}
	return nil
}
