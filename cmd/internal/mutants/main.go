// Command mutants shows that the tests of the promise can fail. It breaks one law at a time, in a copy of a source
// file that only the compiler sees. On it runs the simulation, or one test of a package where the simulation can't
// show the break. Each break must be caught. The unbroken code must pass.
//
//	make mutants
//	go run ./cmd/internal/mutants -run ETag
//	go run ./cmd/internal/mutants -run . -of 4 -part 7    each fourth one, and next time with -part 8 the next ones
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(errs)
	only := flags.String("run", "", "only breaks whose names match this regular expression")
	seeds := flags.Int("seeds", 60, "random schedules for each break")
	of := flags.Int("of", 1, "one break in so many only")
	part := flags.Int("part", 0, "which one of so many: any number")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	wanted, err := regexp.Compile(*only)
	if err != nil || *of < 1 || *part < 0 {
		fmt.Fprintf(errs, "mutants: -run %s -of %d -part %d: want an expression, at least 1, and at least 0 (%v)\n", *only, *of, *part, err)
		return 2
	}
	r := runner{seeds: *seeds}
	if *only == "" {
		began := time.Now()
		if err := r.unbroken(ctx); err != nil {
			fmt.Fprintln(errs, "mutants:", err)
			return 1
		}
		fmt.Fprintf(out, "%5.0fs  the unbroken code passes\n", time.Since(began).Seconds())
	}
	var mu sync.Mutex // guards caught and out
	n, caught := 0, 0
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0)) // go test itself runs as many packages at a time
	for m := range pick(mutants(), wanted, *of, *part) {
		n++
		all.Go(func() error {
			began := time.Now()
			check, err := r.judge(ctx, m)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if check == "" {
				check = "NOBODY"
			} else {
				caught++
			}
			fmt.Fprintf(out, "%5.0fs  %s\n        caught by %s\n", time.Since(began).Seconds(), m.name, check)
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		fmt.Fprintln(errs, "mutants:", err)
		return 1
	}
	fmt.Fprintf(out, "caught %d of %d\n", caught, n)
	if caught < n || n == 0 {
		return 1
	}
	return 0
}

// pick returns the breaks with a name that is wanted, or one part of so many of them.
func pick(all []mutant, wanted *regexp.Regexp, of, part int) iter.Seq[mutant] {
	return func(yield func(mutant) bool) {
		for i, m := range all {
			if wanted.MatchString(m.name) && i%of == part%of && !yield(m) {
				return
			}
		}
	}
}

type runner struct{ seeds int }

// unbroken returns an error unless the code passes all tests as it is.
func (r runner) unbroken(ctx context.Context) error {
	folder, err := os.MkdirTemp("", "unbroken")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	runs := map[string][][]string{} // by package
	for _, m := range mutants() {
		pkg, all := m.tests()
		for _, args := range all {
			if !slices.ContainsFunc(runs[pkg], func(other []string) bool { return slices.Equal(args, other) }) {
				runs[pkg] = append(runs[pkg], args)
			}
		}
	}
	bin := filepath.Join(folder, "tests")
	for _, pkg := range slices.Sorted(maps.Keys(runs)) {
		if err := build(ctx, bin, pkg, ""); err != nil {
			return err
		}
		for _, args := range runs[pkg] {
			if check, output, err := r.caught(ctx, bin, pkg, args); err != nil || check != "" {
				return fmt.Errorf("the unbroken code does not pass: %s %v\n%s", check, err, output)
			}
		}
	}
	return nil
}

// judge returns the check that catches a mutant, "" if none does.
func (r runner) judge(ctx context.Context, m mutant) (check string, err error) {
	overlay, remove, err := m.overlay()
	if err != nil {
		return "", err
	}
	defer remove()
	pkg, runs := m.tests()
	bin := filepath.Join(filepath.Dir(overlay), "tests")
	if err := build(ctx, bin, pkg, overlay); err != nil {
		return "", err
	}
	for _, args := range runs {
		if check, _, err = r.caught(ctx, bin, pkg, args); check != "" || err != nil {
			return check, err
		}
	}
	return "", nil
}

// tests returns the package with the tests of which one must catch the mutant, and the flags of each run.
func (m mutant) tests() (pkg string, runs [][]string) {
	if m.by == "" {
		return "proof/simulation", [][]string{{"-test.run=^TestRandomSchedules$"}, {"-test.run=Single"}} // the first finds most breaks sooner
	}
	return m.by, [][]string{{"-test.short", "-test.run=^" + m.test + "$"}}
}

// overlay writes the broken file, and the file that makes the compiler use it.
func (m mutant) overlay() (name string, remove func(), err error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "", nil, err
	}
	if n := bytes.Count(text, []byte(m.old)); n != 1 {
		return "", nil, fmt.Errorf("%s contains the code to break %d times; want once. Update the break to the code as it is now", m.file, n)
	}
	folder, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(folder) }
	broken := filepath.Join(folder, "broken.go")
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", remove, err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: broken}})
	if err != nil {
		return "", remove, err
	}
	name = filepath.Join(folder, "overlay.json")
	for file, text := range map[string][]byte{broken: bytes.Replace(text, []byte(m.old), []byte(m.new), 1), name: replace} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return "", remove, err
		}
	}
	return name, remove, nil
}

// build compiles the tests of a package, which are run as a program of their own: so a run can be ended at once.
func build(ctx context.Context, bin, pkg, overlay string) error {
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", bin}
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	output, err := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...).CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("the code does not compile: %w\n%s", err, output)
	}
	return nil
}

// firstFailure collects output, and calls stop when a test has failed: one is enough.
type firstFailure struct {
	output []byte
	stop   func()
}

// Write implements [io.Writer].
func (f *firstFailure) Write(p []byte) (int, error) {
	line := bytes.LastIndexByte(f.output, '\n') + 1 // the first that p ends or holds
	f.output = append(f.output, p...)
	if _, name, ok := bytes.Cut(f.output[line:], []byte("--- FAIL: ")); ok && bytes.IndexByte(name, '\n') >= 0 {
		f.stop()
	}
	return len(p), nil
}

// caught runs tests and returns the check that fails first, "" if they pass.
func (r runner) caught(ctx context.Context, bin, pkg string, args []string) (check, output string, err error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(running, bin, append(slices.Clone(args), "-test.v", "-test.timeout=10m")...)
	cmd.Dir = filepath.FromSlash(pkg)
	cmd.Env = append(os.Environ(), fmt.Sprintf("MILLRACE_SEEDS=%d", r.seeds), "MILLRACE_TURNS=all")
	cmd.WaitDelay = 10 * time.Second // for processes that the tests have started
	out := &firstFailure{stop: stop}
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	output = string(out.output)
	switch {
	case ctx.Err() != nil:
		return "", output, ctx.Err()
	case err == nil:
		return "", output, nil
	case strings.Contains(output, "panic: test timed out"):
		return "", output, fmt.Errorf("the tests time out, which proves nothing:\n%s", output)
	}
	for _, sign := range []struct{ pattern, check string }{
		{`audit: ([a-z ]+): `, "the auditor of %s, because this does not hold: %s"},
		{`(?m)^\s+--- FAIL: (\S+)`, "%s: %s"},
		{`(?m)^--- FAIL: (\S+)`, "%s: %s"},
		{`(?m)^(panic: .*)$`, "%s: %s"},
	} {
		if m := regexp.MustCompile(sign.pattern).FindStringSubmatch(output); m != nil {
			return fmt.Sprintf(sign.check, pkg, m[1]), output, nil
		}
	}
	return "", output, fmt.Errorf("the tests fail in an unknown way: %w\n%s", err, output)
}
