package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/bench/peers/child"
)

// TestMain lets the test's binary be a child, as main does.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child.Main(children()))
	}
	os.Exit(m.Run())
}

func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	temp, dir := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	var table, again, log strings.Builder
	json, svg := filepath.Join(dir, "peers.json"), filepath.Join(dir, "peers.svg")
	args := []string{"-systems", "millrace,millrace-cqrs,raw,disk,backlite", "-reps", "1", "-for", "50ms", "-backlog", "300", "-json", json, "-svg", svg}
	if code := run(t.Context(), args, &table, &log); code != 0 {
		t.Fatalf("exit code %d\n%s", code, log.String())
	}
	for _, work := range append(slices.Clone(queueWorks), child.Sync) {
		if !strings.Contains(table.String(), headings[work]) {
			t.Errorf("no table of %s", work)
		}
	}
	r, err := load(json)
	if err != nil {
		t.Fatal(err)
	}
	if want := 4*len(queueWorks) + 1; len(r.Samples) != want {
		t.Errorf("%d samples, want %d", len(r.Samples), want)
	}
	for _, s := range r.Samples {
		if s.Twice != 0 {
			t.Errorf("%s, %s: %d jobs came twice", s.System, s.Work, s.Twice)
		}
		if s.Work == child.Idle && s.Operations < 0 {
			t.Errorf("%s: the operations of an idle minute are unknown", s.System)
		}
		if s.Work == child.Drain && (s.N <= 0 || s.N > 300) {
			t.Errorf("%s drained %d of 300 jobs", s.System, s.N)
		}
	}
	chart, err := os.ReadFile(svg)
	if err != nil || !strings.Contains(string(chart), "Millrace, full path") {
		t.Errorf("the chart: %v\n%s", err, chart)
	}
	if code := run(t.Context(), []string{"-from", json}, &again, &log); code != 0 || again.String() != table.String() {
		t.Errorf("from the file, with code %d:\n%s\nwant\n%s", code, again.String(), table.String())
	}
	// The report is that of a run that was stopped before its last two measurements.
	last := r.Samples[len(r.Samples)-2:]
	r.Samples = r.Samples[:len(r.Samples)-2]
	if err := r.save(json); err != nil {
		t.Fatal(err)
	}
	log.Reset()
	if code := run(t.Context(), append(args, "-resume", json), &again, &log); code != 0 || strings.Count(log.String(), "1/1") != len(last) {
		t.Errorf("resumed, with code %d:\n%s", code, log.String())
	}
	for i, s := range last {
		if !strings.Contains(log.String(), string(s.Work)) || !strings.Contains(log.String(), s.System) {
			t.Errorf("number %d, %s of %s, was not measured", i, s.Work, s.System)
		}
	}
	if code := run(t.Context(), append(args, "-resume", json, "-backlog", "301"), &again, &log); code != 2 {
		t.Errorf("resumed with another backlog, with code %d", code)
	}
	r.Program = "1234567"
	if err := r.save(json); err != nil {
		t.Fatal(err)
	}
	log.Reset()
	if code := run(t.Context(), append(args, "-resume", json), &again, &log); code != 2 || !strings.Contains(log.String(), "another build") {
		t.Errorf("resumed by another program, with code %d:\n%s", code, log.String())
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Each system on Redis does each of its works, and the server's CPU, commands and memory are known.
func TestSmokeOnRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	if _, err := exec.LookPath("redis-server"); err != nil && !strings.Contains(os.Getenv("MILLRACE_REQUIRE"), "redis") {
		t.Skip(err)
	}
	file := filepath.Join(t.TempDir(), "peers.json")
	var table, log strings.Builder
	args := []string{"-systems", "asynq,millrace-redis,millrace-redis-cqrs,redis-driver", "-reps", "1", "-for", "50ms", "-backlog", "300", "-json", file}
	if code := run(t.Context(), args, &table, &log); code != 0 {
		t.Fatalf("exit code %d\n%s", code, log.String())
	}
	r, err := load(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := 3*len(redisWorks) + len(asynqWorks); len(r.Samples) != want {
		t.Errorf("%d samples, want %d", len(r.Samples), want)
	}
	for _, s := range r.Samples {
		if s.Work == child.Paced && s.ServerCPU <= 0 || s.Operations <= 0 {
			t.Errorf("%s, %s: the server's CPU %v s, %d commands", s.System, s.Work, s.ServerCPU, s.Operations)
		}
		if s.Work == child.Waiting && (s.N != 300 || s.Memory < 300*200) {
			t.Errorf("%s: %d jobs wait in %d bytes", s.System, s.N, s.Memory)
		}
		if s.Work == child.Paced && len(s.Latencies) != 50 {
			t.Errorf("%s: %d latencies, want 50", s.System, len(s.Latencies))
		}
	}
}

func TestAStopLeavesNothingBehind(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan string, 1)
	c := contenders()[0]
	go func() {
		_, err := measure(ctx, c, child.Spec{System: c.Name, Work: child.Idle, For: 1 << 40})
		stopped <- err.Error()
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for open := false; !open; {
		select {
		case <-tick.C:
			files, err := filepath.Glob(filepath.Join(temp, "*", "client", "*"))
			open = err != nil || len(files) > 0 // the child has begun
		case err := <-stopped:
			t.Fatal(err)
		}
	}
	cancel()
	if got := <-stopped; got != context.Canceled.Error() {
		t.Errorf("stopped with %q", got)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, args := range []string{"-systems none", "-works none", "-reps 0", "-for -1s", "-backlog 0", "-stolen -1", "-stolen 3", "-list -svg", "word", "-nonsense"} {
		var out, errs strings.Builder
		if code := run(t.Context(), strings.Fields(args), &out, &errs); code != 2 || errs.Len() == 0 || out.Len() > 0 {
			t.Errorf("%s: code %d, %q, %q", args, code, out.String(), errs.String())
		}
	}
}

func TestList(t *testing.T) {
	var out, errs strings.Builder
	if code := run(t.Context(), []string{"-list"}, &out, &errs); code != 0 {
		t.Fatal(errs.String())
	}
	names := map[string]bool{}
	for _, c := range contenders() {
		if !strings.Contains(out.String(), c.Name+" ") || names[c.Name] {
			t.Errorf("%s is not listed once", c.Name)
		}
		names[c.Name] = true
	}
}

func TestAMissingProgramIsSkipped(t *testing.T) {
	var out, errs strings.Builder
	if code := run(t.Context(), []string{"-systems", "river-sqlite", "-reps", "1"}, &out, &errs); code != 0 || !strings.Contains(out.String(), "SKIPPED river-sqlite: riversqlite is not installed") {
		t.Errorf("code %d, %s%s", code, errs.String(), out.String())
	}
}
