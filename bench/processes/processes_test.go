package main

import (
	"context"
	"database/sql"
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

// runAll makes a brief run and returns its output.
func runAll(t *testing.T, args ...string) (r Report, table, log string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "processes.json")
	var out, errs strings.Builder
	args = append([]string{"-for", "1ms", "-instances", "4", "-json", file}, args...)
	if code := run(t.Context(), args, &out, &errs); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r, out.String(), errs.String()
}

// checkRows reports works that have no row of a system.
func checkRows(t *testing.T, r Report, table, system string, names ...string) {
	t.Helper()
	for _, w := range works() {
		if !slices.Contains(names, w.name) {
			continue
		}
		i := slices.IndexFunc(r.Samples, func(s Sample) bool { return s.Work == w.name && s.System == system })
		if i < 0 || !strings.Contains(table, "### "+w.title+"\n") {
			t.Errorf("%s: no row of %s", system, w.name)
		} else if got := r.Samples[i].Values; len(got) != len(w.metrics) || slices.ContainsFunc(got, math.IsNaN) {
			t.Errorf("%s, %s: got %v, want a value for each of %v", system, w.name, got, w.metrics)
		}
	}
}

// A run leaves nothing behind, and has stores of its own for each repetition.
func TestGoWorkflows(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	names := []string{"steps16", "fanout100", "idle"}
	r, table, log := runAll(t, "-systems", "go-workflows", "-works", strings.Join(names, ","), "-reps", "2")
	checkRows(t, r, table, "go-workflows", names...)
	if got := strings.Count(log, "2/2"); got != len(names) {
		t.Errorf("%d second repetitions, want %d\n%s", got, len(names), log)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDBOS(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	names := []string{"steps64", "fanout100", "idle", "recover", "stored"}
	r, table, _ := runAll(t, "-systems", "dbos", "-works", strings.Join(names, ","), "-reps", "1")
	if why := r.Skipped["dbos"]; why != "" {
		if !strings.Contains(table, "\nSKIPPED dbos: "+why+"\n") {
			t.Errorf("the report doesn't tell that DBOS was skipped\n%s", table)
		}
		t.Skip(why)
	}
	checkRows(t, r, table, "dbos", names...)
}

// A measurement that takes too long is stopped, and those that would take longer are not begun.
func TestLate(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	args := "-systems go-workflows -works fanout10000,fanout100000 -limit 300ms -reps 2"
	r, table, log := runAll(t, strings.Fields(args)...)
	if len(r.Samples) != 1 || strings.Count(log, "not ended after 300ms") != 1 {
		t.Errorf("got %v, want one sample\n%s", r.Samples, log)
	}
	for _, want := range []string{
		"| system | until its end, s | children, /s |\n|---|---|---|\n| go-workflows, SQLite | not ended after 300ms | – |\n",
		"| go-workflows, SQLite | not tried: fanout10000 not ended after 300ms | – |\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("not in the report:\n%s", want)
		}
	}
	if t.Failed() {
		t.Log(table)
	}
}

// go-workflows' file syncs with our settings, as it does by default.
func TestGoWorkflowsSyncs(t *testing.T) {
	t.Parallel()
	for _, settings := range []string{sqliteSettings, ""} {
		place := filepath.Join(t.TempDir(), "store")
		openInTest(t, place)
		db, err := sql.Open("sqlite", "file:"+place+settings)
		if err != nil {
			t.Fatal(err)
		}
		var mode, synchronous string
		const query = "SELECT journal_mode, synchronous FROM pragma_journal_mode, pragma_synchronous"
		err = db.QueryRow(query).Scan(&mode, &synchronous)
		if err != nil || mode != "wal" || synchronous != "2" { // FULL
			t.Errorf("%q: mode %s, synchronous %s, %v, want wal and 2", settings, mode, synchronous, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestGoWorkflowsStored(t *testing.T) {
	t.Parallel()
	g := openInTest(t, filepath.Join(t.TempDir(), "store"))
	before, err := g.Stored(t.Context())
	if err == nil {
		err = g.Sequence(t.Context(), 2, 20, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	after, err := g.Stored(t.Context())
	if least := int64(2 * 20 * 100); err != nil || after-before < least {
		t.Errorf("from %d to %d bytes, %v, want %d more", before, after, err, least)
	}
}

// An instance that ends without success is an error. Nobody waits for one in vain.
func TestGoWorkflowsFailure(t *testing.T) {
	t.Parallel()
	g := openInTest(t, filepath.Join(t.TempDir(), "store")).(*goWorkflows)
	if err := g.run(t.Context(), "no such workflow", 1); err == nil || t.Context().Err() != nil {
		t.Errorf("got %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := g.Sequence(ended, 1, 1, 1); err == nil {
		t.Error("no error after the end of the context")
	}
}

// openInTest opens go-workflows until the end of the test.
func openInTest(t *testing.T, place string) contestant {
	t.Helper()
	g, err := openGoWorkflows(t.Context(), place, func(string, int) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// A child that fails tells why.
func TestChildFails(t *testing.T) {
	t.Parallel()
	for system, want := range map[string]string{"go-workflows": "go-workflows: ", "dbos": "database"} {
		place := filepath.Join(t.TempDir(), "none", "store")
		var errs strings.Builder
		what := spec{Role: "tries", Work: "idle", System: system, Place: place}
		_, err := tryInChild(t.Context(), &round{errs: &errs}, what)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q\n%s", system, err, want, errs.String())
		}
	}
}

func TestRecoveryNeedsNoStepAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		last, next int
		want       string
	}{
		{7, 7, ""}, {7, 8, ""}, {7, 6, "step 6 ran again although step 7 had begun"},
	} {
		got := ""
		if err := checkNext(saying{Step: c.last}, saying{Step: c.next}); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%d after %d: got %q, want %q", c.next, c.last, got, c.want)
		}
	}
}

func TestJournal(t *testing.T) {
	t.Parallel()
	var j journal
	for _, m := range []mark{{"a", 0}, {"b", 0}, {"a", 1}, {"a", 1}, {"b", 2}} {
		j.note(m.instance, m.step)
	}
	if _, err := j.take(5); err == nil {
		t.Error("a step that ran again counts twice")
	}
	if _, err := j.take(0); err != nil {
		t.Errorf("after take: %v, want an empty journal", err)
	}
	now := time.Now()
	got := latencies(map[mark]time.Time{
		{"a", 0}: now, {"a", 1}: now.Add(2 * time.Millisecond), {"b", 0}: now, {"b", 2}: now.Add(time.Second),
	})
	if want := []float64{2}; !slices.Equal(got, want) {
		t.Errorf("latencies %v, want %v: b's step 1 is missing", got, want)
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	p := plan{}
	if err := p.choose([]string{"steps64", "recover", "fanout1000"}, nil); err != nil {
		t.Fatal(err)
	}
	r := &Report{Machine: "2 × a processor", Loads: []string{"1.00", "2.00"}, Reps: 2, Systems: p.systems, works: p.works,
		Versions: map[string]string{"dbos": "PostgreSQL 15"}, Skipped: map[string]string{"other": "not installed"}}
	add := func(work, system string, values ...[]float64) {
		for i, v := range values {
			r.Samples = append(r.Samples, Sample{Work: work, System: system, Rep: i + 1, Values: v})
		}
	}
	add("steps64", "dbos", []float64{1000, 4, 8}, []float64{3000, 4, 8})
	add("steps64", "go-workflows", []float64{100, 80, 90})
	add("recover", "go-workflows", []float64{120})
	r.Samples = append(r.Samples, Sample{Work: "recover", System: "dbos", Rep: 1, Err: "no luck"})
	var b strings.Builder
	if err := r.markdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| system | steps, /s | × | a step, p50, ms | × | a step, p99, ms | × |\n|---|---|---|---|---|---|---|\n" +
			"| DBOS, PostgreSQL | 2,000 [1,000, 3,000] | – | 4.00 [4.00, 4.00] | – | 8.00 [8.00, 8.00] | – |\n" +
			"| go-workflows, SQLite | 100 [100, 100] | 20.0 × | 80.0 [80.0, 80.0] | 20.0 × | 90.0 [90.0, 90.0] | 11.2 × |\n",
		"| system | from the kill to the next step, s |\n|---|---|\n| go-workflows, SQLite | 120 [120, 120] |\n",
		"The load average was 1.00 and 2.00 before and after.",
		"| DBOS, PostgreSQL | PostgreSQL 15 | ",
		"SKIPPED other: not installed\n",
		"FAILED dbos, recover, repetition 1: no luck\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("not in the report:\n%s", want)
		}
	}
	if strings.Contains(b.String(), "fan-out of") {
		t.Error("a table without samples")
	}
	if t.Failed() {
		t.Log(b.String())
	}
}

func TestWrongFlags(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"-systems none", "-works none", "-reps 0", "-for -1s", "-instances 0", "-limit 0s", "word", "-nonsense",
	} {
		var out, errs strings.Builder
		if code := run(t.Context(), strings.Fields(args), &out, &errs); code != 2 || errs.Len() == 0 || out.Len() > 0 {
			t.Errorf("%s: code %d, %q, %q", args, code, out.String(), errs.String())
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	if code := run(t.Context(), []string{"-list", "-works", "idle"}, &out, &errs); code != 0 {
		t.Fatal(errs.String())
	}
	for _, want := range []string{"idle ", "DBOS, PostgreSQL (needs postgres): ", "go-workflows, SQLite: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("not listed: %s\n%s", want, out.String())
		}
	}
}
