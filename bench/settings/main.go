// Command settings measures how long a change of settings takes until all nodes run it: real processes on one SQLite
// file, which ring each other.
//
//	make bench-settings                                    # 8 nodes, 300 changes: some 2 minutes
//	make bench-settings ARGS='-nodes 2,8,32 -changes 1000'
//
// A change is set as millrace settings set --now does. Its time begins with the call, and ends when the last node has
// told that it runs the change: each node is asked first, and all nodes must say yes. The pause between two changes is drawn at
// random, up to twice -pause. With -sync normal no write waits for the disk, which tells how much of the time is the
// disk's. Times are stated, and nothing fails because it is slow.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/bench/children"
	"github.com/millrace-go/millrace/bench/host"
	"github.com/millrace-go/millrace/bench/stats"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// childVar makes this program a node.
const childVar = "MILLRACE_BENCH_SETTINGS_CHILD"

const name = "bench"

// values are the settings.
type values struct {
	Number int `json:"number"`
}

// A saying is a line of a node: the version that the node is asked about, or the version that the node runs.
type saying struct {
	Number int  `json:"number"`
	Asked  bool `json:"asked,omitempty"`
}

func main() { os.Exit(children.Main(childVar, beNode, run)) }

// beNode is the main function of a node.
func beNode(text string, in io.Reader, out, errs io.Writer) int {
	ctx, t, err := children.Begin[string, saying](text, in, out)
	if err == nil {
		err = follow(ctx, t.Spec, t.Say)
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "settings: node:", err)
		return 1
	}
	return 0
}

// follow is a node until ctx ends.
func follow(ctx context.Context, path string, say func(saying)) (err error) {
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s, err := settings.Open(ctx, store, name, values{}, settings.Config{})
	if err != nil {
		return err
	}
	s.Changing(func(_ context.Context, _, to values) error { say(saying{to.Number, true}); return nil })
	s.Changed(func(_, to values) { say(saying{Number: to.Number}) })
	say(saying{})
	<-ctx.Done()
	return s.Close(ctx)
}

// A plan is what to measure.
type plan struct {
	nodes   []int
	changes int
	pause   time.Duration
	sync    string
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("settings", flag.ContinueOnError)
	flags.SetOutput(errs)
	var p plan
	nodes := flags.String("nodes", "8", "how many `NODES`; numbers with commas between are measured one after the other")
	flags.IntVar(&p.changes, "changes", 300, "how many `CHANGES`")
	flags.DurationVar(&p.pause, "pause", 200*time.Millisecond, "the `TIME` between two changes, on average")
	flags.StringVar(&p.sync, "sync", "full", "whether each write waits for the disk: full, or normal for none")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	err := p.check(*nodes)
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("%q is no flag: lists have commas and no spaces, as in -nodes 2,8", flags.Arg(0))
	case host.InMemory(os.TempDir()):
		err = errors.New("the folder for temporary files lies in memory, where a sync does nothing: let TMPDIR name one on a disk")
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "settings:", err)
		return 2
	}
	_, _ = fmt.Fprintf(out, "| nodes | changes | p50 | p99 | max | until all are asked, p50 | until the call returns, p50 |\n|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, n := range p.nodes {
		r, err := p.measure(ctx, n, errs)
		if err != nil {
			_, _ = fmt.Fprintln(errs, "settings:", err)
			return 1
		}
		_, _ = fmt.Fprintf(out, "| %d | %d | %.0f ms | %.0f ms | %.0f ms | %.0f ms | %.0f ms |\n", n, len(r.all),
			stats.Percentile(r.all, 50), stats.Percentile(r.all, 99), stats.Percentile(r.all, 100), stats.Percentile(r.asked, 50), stats.Percentile(r.set, 50))
	}
	return 0
}

// check reads and checks a plan.
func (p *plan) check(nodes string) error {
	for text := range strings.SplitSeq(nodes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 100 {
			return fmt.Errorf("-nodes %s: want numbers from 1 to 100, with commas between", nodes)
		}
		p.nodes = append(p.nodes, n)
	}
	if p.changes < 1 || p.pause < 0 || p.sync != "full" && p.sync != "normal" {
		return fmt.Errorf("-changes %d, -pause %v, -sync %s: want at least 1, no negative time, and full or normal", p.changes, p.pause, p.sync)
	}
	return nil
}

// A result has milliseconds for each change.
type result struct {
	asked []float64 // until the last node is asked
	all   []float64 // until the last node runs it
	set   []float64 // until the call that set it returns
}

// measure changes the settings of so many nodes.
func (p plan) measure(ctx context.Context, nodes int, errs io.Writer) (r result, err error) {
	dir, err := os.MkdirTemp("", "millrace-bench-settings-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "bench.db") + "?sync=" + p.sync
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	ledger, err := settings.At(store, name)
	if err != nil {
		return r, err
	}
	var all []*children.Child[saying]
	defer func() {
		for _, c := range all {
			c.Stop() // all at once
		}
		for _, c := range all {
			err = errors.Join(err, c.End(10*time.Second))
		}
	}()
	for range nodes {
		c, err := children.Start[saying](childVar, path, errs)
		if err != nil {
			return r, err
		}
		all = append(all, c)
	}
	if err := hear(ctx, all, saying{}); err != nil {
		return r, err
	}
	for i := range p.changes {
		select {
		case <-time.After(rand.N(2*p.pause + 1)):
		case <-ctx.Done():
			return r, context.Cause(ctx)
		}
		began := time.Now()
		patch := settings.Patch{Set: map[string]json.RawMessage{"number": json.RawMessage(strconv.Itoa(i + 1))}}
		ended := make(chan error, 1)
		go func() {
			_, err := ledger.Set(ctx, settings.Note{By: "bench", Now: true}, patch)
			r.set = append(r.set, milliseconds(began))
			ended <- err
		}()
		asked := hear(ctx, all, saying{i + 1, true})
		r.asked = append(r.asked, milliseconds(began))
		run := hear(ctx, all, saying{Number: i + 1})
		r.all = append(r.all, milliseconds(began))
		if err := errors.Join(<-ended, asked, run); err != nil {
			return r, err
		}
	}
	return r, nil
}

// hear waits until all nodes have said something.
func hear(ctx context.Context, all []*children.Child[saying], want saying) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("a node doesn't say %+v", want))
	defer cancel()
	for _, c := range all {
		for {
			x, err := c.Listen(ctx)
			if err != nil {
				return err
			}
			if x == want {
				break
			}
		}
	}
	return nil
}

func milliseconds(since time.Time) float64 {
	return float64(time.Since(since)) / float64(time.Millisecond)
}
