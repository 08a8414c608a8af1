package main

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test's binary be a child, as main does.
func TestMain(m *testing.M) {
	if text := os.Getenv(childVar); text != "" {
		os.Exit(beChild(text, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// A brief run without servers has a row for Millrace in each table but that of the requests. It leaves nothing behind.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	temp, file := t.TempDir(), filepath.Join(t.TempDir(), "coord.json")
	t.Setenv("TMPDIR", temp)
	var table, log strings.Builder
	args := []string{"-systems", "millrace,millrace-normal,memory", "-reps", "1", "-for", "50ms", "-json", file}
	if code := run(t.Context(), args, &table, &log); code != 0 {
		t.Fatalf("exit code %d\n%s", code, log.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	for _, w := range works() {
		i := slices.IndexFunc(r.Samples, func(s Sample) bool { return s.Work == w.name && s.System == ours })
		if w.name == "requests" {
			continue
		}
		if i < 0 || !strings.Contains(table.String(), "### "+w.title+"\n") {
			t.Errorf("no row of %s", w.name)
		} else if got := r.Samples[i].Values; len(got) != len(w.metrics) || slices.ContainsFunc(got, math.IsNaN) {
			t.Errorf("%s: got %v, want a value for each of %v", w.name, got, w.metrics)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Each repetition has stores of its own.
func TestRepetitions(t *testing.T) {
	var out, errs strings.Builder
	if code := run(t.Context(), []string{"-works", "lease,quorum", "-systems", ours, "-reps", "3", "-for", "1ms"}, &out, &errs); code != 0 || strings.Count(errs.String(), "3/3") != 2 {
		t.Errorf("code %d, %s%s", code, errs.String(), out.String())
	}
}

// Locks on Redis have rows beside redsync's, with the CPU time of client and servers.
func TestLocksOnRedis(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil && !strings.Contains(os.Getenv("MILLRACE_REQUIRE"), "redis") {
		t.Skip(err)
	}
	file := filepath.Join(t.TempDir(), "coord.json")
	var table, errs strings.Builder
	if code := run(t.Context(), []string{"-works", "lease,contended,quorum", "-systems", "millrace-redis,redsync", "-reps", "1", "-for", "50ms", "-json", file}, &table, &errs); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Samples) != 6 {
		t.Errorf("%d samples, want 6", len(r.Samples))
	}
	for _, s := range r.Samples {
		if s.Work != "contended" && !(s.Values[4] > 0 && s.Values[3] > s.Values[4]) {
			t.Errorf("%s of %s: CPU %v µs, of it the servers %v", s.Work, s.System, s.Values[3], s.Values[4])
		}
	}
	if !strings.Contains(table.String(), "| redsync, everysec | relaxed |") || !strings.Contains(table.String(), ", Redis 7") {
		t.Errorf("no row, or no version of the server:\n%s", table.String())
	}
}

func TestMarkdown(t *testing.T) {
	p := plan{}
	if err := p.choose([]string{"handover", "lease"}, nil); err != nil {
		t.Fatal(err)
	}
	r := &Report{Machine: "2 × a processor", Loads: []string{"1.00", "2.00"}, For: time.Second, Reps: 2, Systems: p.systems, works: p.works,
		Versions: map[string]string{"etcd": "etcd 3"}, Skipped: map[string]string{"redsync": "not installed"}}
	add := func(work, system string, values ...[]float64) {
		for i, v := range values {
			r.Samples = append(r.Samples, Sample{Work: work, System: system, Rep: i + 1, Values: v})
		}
	}
	add("lease", ours, []float64{100, 10, 40, 8, 0}, []float64{300, 10, 40, 8, 0})
	add("lease", normal, []float64{1000, 1, 2, 4, 0})
	add("lease", onRedis, []float64{250, 1, 2, 60, 20})
	add("lease", "redsync", []float64{500, 2, 4, 30, 10})
	add("lease", "redsync-always", []float64{400, 5, 4, 40, 20})
	add("lease", "etcd", []float64{50, 20, 20, 16, 4})
	add("handover", ours, []float64{5, 10})
	r.Samples = append(r.Samples, Sample{Work: "handover", System: "etcd", Rep: 1, Err: "no luck"})
	r.Requests = []Requests{{"one thing", 2}}
	var b strings.Builder
	if err := r.markdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| Millrace | strict | 200 [100, 300] | – | 10.0 [10.0, 10.0] | – | 40.0 [40.0, 40.0] | – | 8.00 [8.00, 8.00] | – | 0 [0, 0] |\n" +
			"| Millrace, sync=normal | relaxed | 1,000 [1,000, 1,000] | – | 1.00 [1.00, 1.00] | – | 2.00 [2.00, 2.00] | – | 4.00 [4.00, 4.00] | – | 0 [0, 0] |\n" +
			"| Millrace, Redis everysec | relaxed | 250 [250, 250] | – | 1.00 [1.00, 1.00] | – | 2.00 [2.00, 2.00] | – | 60.0 [60.0, 60.0] | – | 20.0 [20.0, 20.0] |\n" +
			"| redsync, everysec | relaxed | 500 [500, 500] | 0.500 × | 2.00 [2.00, 2.00] | 2.00 × | 4.00 [4.00, 4.00] | 2.00 × | 30.0 [30.0, 30.0] | 0.500 × | 10.0 [10.0, 10.0] |\n" +
			"| redsync, always | strict | 400 [400, 400] | 0.500 × | 5.00 [5.00, 5.00] | 0.500 × | 4.00 [4.00, 4.00] | 0.100 × | 40.0 [40.0, 40.0] | 5.00 × | 20.0 [20.0, 20.0] |\n" +
			"| etcd | strict | 50.0 [50.0, 50.0] | 4.00 × | 20.0 [20.0, 20.0] | 2.00 × | 20.0 [20.0, 20.0] | 0.500 × | 16.0 [16.0, 16.0] | 2.00 × | 4.00 [4.00, 4.00] |\n",
		"|---|---|---|---|---|---|---|---|---|---|---|\n",
		"| system | durability | p50, ms | longest, ms |\n|---|---|---|---|\n| Millrace | strict | 5.00 [5.00, 5.00] | 10.0 [10.0, 10.0] |\n",
		"| one thing | 2.00 |\n",
		"The load average was 1.00 and 2.00 before and after.",
		"SKIPPED redsync: not installed\n",
		"FAILED etcd, handover, repetition 1: no luck\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("not in the report:\n%s", want)
		}
	}
	if t.Failed() {
		t.Log(b.String())
	}
}

func TestWrongFlags(t *testing.T) {
	for _, args := range []string{"-systems none", "-works none", "-reps 0", "-for -1s", "word", "-nonsense"} {
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
	for _, w := range works() {
		for name := range w.measures {
			if !slices.ContainsFunc(systems(), func(s System) bool { return s.Name == name }) || !strings.Contains(out.String(), name) {
				t.Errorf("%s: %s is not listed", w.name, name)
			}
		}
	}
}

func TestAMissingServerIsSkipped(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out, errs strings.Builder
	if code := run(t.Context(), []string{"-works", "numbers,handover", "-systems", "redis,etcd", "-reps", "1", "-for", "1ms"}, &out, &errs); code != 0 ||
		!strings.Contains(out.String(), "SKIPPED redis: redis-server is not installed") || !strings.Contains(out.String(), "SKIPPED etcd: etcd is not installed") {
		t.Errorf("code %d, %s%s", code, errs.String(), out.String())
	}
}
