// Command crash measures one number on Millrace and on two other systems: how long a job that is running when its
// worker is killed waits until it runs again.
//
// A trial has a store of its own. One worker takes some jobs, which never end. A second worker starts and finds
// nothing to do. After a random time of up to 20 seconds the first one gets SIGKILL. The measured time ends when the
// second worker's handler has the job. Trials run side by side; workers only wait, so trials don't disturb one
// another.
//
//	go run .                      # Millrace, Asynq, and River with a shortened setting: some minutes
//	go run . -systems river -rescue 0   # River as it is by default: more than an hour
//
// PostgreSQL and Redis are started for the run, by package servers. A system without its server is skipped, and the
// output says so.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-go/millrace/bench/servers"
)

// A system runs jobs, whatever it calls them.
type system struct {
	name string

	// start starts what the workers of all trials need, in a folder. It returns the address and a function that stops
	// everything.
	start func(ctx context.Context, dir string) (addr string, stop func(), err error)

	// enqueue makes a trial's store and puts jobs into it, with these IDs.
	enqueue func(ctx context.Context, addr string, trial int, ids []string) error

	// work is a worker of a trial. It runs until ctx ends, and calls run for each job.
	work func(ctx context.Context, addr string, trial int, set settings, run func(ctx context.Context, id string)) error

	settings func(set settings) string // in words
}

type settings struct{ rescue time.Duration }

func systems() []system { return []system{millraceSystem(), asynqSystem(), riverSystem()} }

const (
	jobs     = 4                // of a trial
	phase    = 20 * time.Second // a worker that has its jobs lives at most so long
	patience = 2 * time.Hour    // for all of a trial
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("crash", flag.ContinueOnError)
	flags.SetOutput(errs)
	names := flags.String("systems", "millrace,asynq,river", "the `SYSTEMS` to measure")
	trials := flags.Int("trials", 8, "how many `KILLS` for each system, at most 15")
	rescue := flags.Duration("rescue", time.Minute, "River's RescueStuckJobsAfter; 0 is its default, an `HOUR`")
	worker := flags.String("worker", "", "for this program's own use: be a worker of that `SYSTEM`")
	addr := flags.String("worker-addr", "", "likewise")
	trial := flags.Int("worker-trial", 0, "likewise")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *trials < 1 || *trials > 15 {
		_, _ = fmt.Fprintln(errs, "crash: -trials is from 1 to 15")
		return 2
	}
	set := settings{rescue: *rescue}
	for _, s := range systems() {
		if *worker == s.name {
			return beWorker(ctx, s, *addr, *trial, set, out, errs)
		}
	}
	code := 0
	_, _ = fmt.Fprintln(out, "| system | settings | jobs | p50 | longest |\n|---|---|---|---|---|")
	for _, s := range systems() {
		if !slices.Contains(strings.Split(*names, ","), s.name) {
			continue
		}
		times, err := measure(ctx, s, *trials, set)
		switch {
		case errors.Is(err, servers.ErrMissing):
			_, _ = fmt.Fprintf(out, "| %s | SKIPPED: %v | | | |\n", s.name, err)
		case err != nil:
			_, _ = fmt.Fprintf(errs, "crash: %s: %v\n", s.name, err)
			code = 1
		default:
			_, _ = fmt.Fprintf(out, "| %s | %s | %d | %.1f s | %.1f s |\n", s.name, s.settings(set), len(times), times[len(times)/2].Seconds(), times[len(times)-1].Seconds())
		}
	}
	return code
}

// beWorker is a worker process. It prints "running ID" for each job, and ends none of them.
func beWorker(ctx context.Context, s system, addr string, trial int, set settings, out, errs io.Writer) int {
	err := s.work(ctx, addr, trial, set, func(ctx context.Context, id string) {
		_, _ = fmt.Fprintf(out, "running %s\n", id)
		<-ctx.Done()
	})
	if err != nil {
		_, _ = fmt.Fprintf(errs, "crash: worker of %s: %v\n", s.name, err)
		return 1
	}
	return 0
}

// measure runs the trials of a system and returns their times, sorted.
func measure(ctx context.Context, s system, trials int, set settings) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dir, err := os.MkdirTemp("", "crash-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as another user
		return nil, err
	}
	addr, stop, err := s.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer stop()
	var (
		mu   sync.Mutex
		all  []time.Duration
		errs []error
		wg   sync.WaitGroup
	)
	for i := range trials {
		wg.Go(func() {
			times, err := try(ctx, s, addr, i, set)
			mu.Lock()
			defer mu.Unlock()
			all, errs = append(all, times...), append(errs, err)
		})
	}
	wg.Wait()
	slices.Sort(all)
	return all, errors.Join(errs...)
}

// try runs one trial.
func try(ctx context.Context, s system, addr string, trial int, set settings) (times []time.Duration, err error) {
	var ids []string
	for i := range jobs {
		ids = append(ids, fmt.Sprintf("job-%d-%d", trial, i))
	}
	if err := s.enqueue(ctx, addr, trial, ids); err != nil {
		return nil, err
	}
	first, err := startWorker(ctx, s, addr, trial, set)
	if err != nil {
		return nil, err
	}
	defer first.kill()
	if _, err := first.running(ctx, ids); err != nil {
		return nil, err
	}
	second, err := startWorker(ctx, s, addr, trial, set)
	if err != nil {
		return nil, err
	}
	defer second.kill()
	select {
	case <-time.After(rand.N(phase)):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	killed := time.Now()
	first.kill()
	since, err := second.running(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, t := range since {
		times = append(times, t.Sub(killed))
	}
	return times, nil
}

// A process is a worker.
type process struct {
	cmd   *exec.Cmd
	lines chan string
	kill  func()
}

func startWorker(ctx context.Context, s system, addr string, trial int, set settings) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-worker", s.name, "-worker-addr", addr, "-worker-trial", fmt.Sprint(trial), "-rescue", set.rescue.String())
	cmd.Stderr = os.Stderr
	servers.DieWithUs(cmd)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, lines: make(chan string, 100)}
	go func() {
		defer close(p.lines)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	p.kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return p, nil
}

// running waits until the worker runs all jobs, and returns when each began.
func (p *process) running(ctx context.Context, ids []string) (map[string]time.Time, error) {
	began := map[string]time.Time{}
	for len(began) < len(ids) {
		select {
		case line, ok := <-p.lines:
			if !ok {
				return nil, errors.New("the worker has ended")
			}
			id, _ := strings.CutPrefix(line, "running ")
			if slices.Contains(ids, id) && began[id].IsZero() {
				began[id] = time.Now()
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return began, nil
}
