package main

import (
	"encoding/json"
	"math"
	"os"
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
	add("lease", ours, []float64{100, 10, 40}, []float64{300, 10, 40})
	add("lease", normal, []float64{1000, 1, 2})
	add("lease", "redsync", []float64{500, 2, 4})
	add("lease", "etcd", []float64{50, 20, 20})
	add("handover", ours, []float64{5, 10})
	r.Samples = append(r.Samples, Sample{Work: "handover", System: "etcd", Rep: 1, Err: "no luck"})
	r.Requests = []Requests{{"one thing", 2}}
	var b strings.Builder
	if err := r.markdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| Millrace | strict | 200 [100, 300] | – | 10.0 [10.0, 10.0] | – | 40.0 [40.0, 40.0] | – |\n" +
			"| Millrace, sync=normal | relaxed | 1,000 [1,000, 1,000] | – | 1.00 [1.00, 1.00] | – | 2.00 [2.00, 2.00] | – |\n" +
			"| redsync, everysec | relaxed | 500 [500, 500] | 2.00 × | 2.00 [2.00, 2.00] | 2.00 × | 4.00 [4.00, 4.00] | 2.00 × |\n" +
			"| etcd | strict | 50.0 [50.0, 50.0] | 4.00 × | 20.0 [20.0, 20.0] | 2.00 × | 20.0 [20.0, 20.0] | 0.500 × |\n",
		"|---|---|---|---|---|---|---|---|\n",
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
