// Package model holds the protocol of the promise as a Promela model, promise.pml, and the test in which spin checks
// it. Spin visits every state that its small worlds can reach, with every stop, delay and failure in between. It is
// no part of the framework. docs/promise.md tells what the model says, what it leaves out, and what happens without
// each law.
package model_test

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A world is a size of the model, small enough for spin to visit all its states.
type world struct {
	flags string
	large bool // it takes long: -short leaves it out, and only the other worlds are checked for endless runs
}

func worlds() map[string]world {
	return map[string]world{
		// The worlds in which the laws are broken.
		"fold":   {flags: "-DBATCH=2 -DDUP=1 -DFAILS=1 -DLATE=0"},
		"window": {flags: "-DWINDOW=1 -DDUP=1 -DAGING=1 -DKEYED=2"},
		"memory": {flags: "-DNC=3 -DWINDOW=1 -DCACHE=1 -DBEHIND=1 -DLATE=0"},
		"stages": {flags: "-DSTAGES=2"},
		"poison": {flags: "-DNC=1 -DFAILS=2 -DACTS=2"},
		"timer":  {flags: "-DPROCESS=1 -DLATE=0"},
		"groups": {flags: "-DPROCESS=1 -DTIMERS=0 -DGROUPS=2 -DLATE=0"},

		"fold-late":        {flags: "-DBATCH=2 -DDUP=1 -DFAILS=1", large: true},
		"fold-three":       {flags: "-DNC=3 -DBATCH=2 -DWINDOW=1", large: true},
		"window-three":     {flags: "-DNC=3 -DWINDOW=1 -DDUP=1", large: true},
		"window-ages":      {flags: "-DNC=3 -DWINDOW=1 -DDUP=1 -DAGING=1 -DKEYED=1 -DLATE=0", large: true},
		"memory-late":      {flags: "-DNC=3 -DWINDOW=1 -DCACHE=1 -DBEHIND=1", large: true},
		"stages-fold":      {flags: "-DSTAGES=2 -DBATCH=2", large: true},
		"stages-stops":     {flags: "-DSTAGES=2 -DSTOPS=2", large: true},
		"stages-window":    {flags: "-DSTAGES=2 -DWINDOW=1 -DDUP=1", large: true},
		"poison-stops":     {flags: "-DNC=1 -DFAILS=2 -DACTS=3 -DSTOPS=2", large: true},
		"poison-two":       {flags: "-DFAILS=1 -DACTS=2", large: true},
		"poison-duplicate": {flags: "-DNC=1 -DFAILS=2 -DACTS=2 -DDUP=1", large: true},
		"timer-late":       {flags: "-DPROCESS=1 -DSTOPS=0", large: true},
		"timer-fold":       {flags: "-DPROCESS=1 -DLATE=0 -DBATCH=2", large: true},
		"timer-window":     {flags: "-DPROCESS=1 -DLATE=0 -DWINDOW=1", large: true},
		"groups-late":      {flags: "-DPROCESS=1 -DTIMERS=0 -DGROUPS=2", large: true},
		"groups-stops":     {flags: "-DPROCESS=1 -DTIMERS=0 -DGROUPS=2 -DLATE=0 -DSTOPS=2 -DWINDOW=1", large: true},
	}
}

// flaws are the model's deliberate breaks, each with the world in which it shows.
func flaws() map[string]string {
	return map[string]string{
		"BREAK_BLIND_WRITE":         "fold",
		"BREAK_SEND_FIRST":          "fold",
		"BREAK_DELETE_FIRST":        "fold",
		"BREAK_NO_PENDING":          "fold",
		"BREAK_REPLAY_SILENT":       "fold",
		"BREAK_DROP_STALE":          "fold",
		"BREAK_FOLD_RECORDS_FIRST":  "fold",
		"BREAK_FOLD_JUDGES_LOADED":  "fold",
		"BREAK_FOLD_ENDS_FAILED":    "fold",
		"BREAK_ATTEMPTS_UNCOUNTED":  "fold",
		"BREAK_WINDOW_ONLY":         "window",
		"BREAK_ROWS_AFTER_WRITE":    "window",
		"BREAK_KEY_HAS_TIME":        "window",
		"BREAK_GUESS_TOO_OLD":       "window",
		"BREAK_EVICT_UNCOMMITTED":   "memory",
		"BREAK_ROW_UNPROVEN":        "memory",
		"BREAK_EVENT_ID_FRESH":      "stages",
		"BREAK_VIEW_WITHOUT_RECORD": "stages",
		"BREAK_POISON_DELETE_FIRST": "poison",
		"BREAK_POISON_UNPROVEN":     "poison",
		"BREAK_RETRY_NEW_ID":        "poison",
		"BREAK_RETRY_REMOVE_FIRST":  "poison",
		"BREAK_RETRY_REMOVE_BLIND":  "poison",
		"BREAK_TIMER_AT_ONCE":       "timer",
		"BREAK_TIMER_DUE_AGAIN":     "timer",
		"BREAK_ONLY_EVENTS_PENDING": "timer",
		"BREAK_ON_WITHOUT_RECORD":   "groups",
		"BREAK_GROUPS_SHARE_RECORD": "groups",
	}
}

// The two checks of spin: for assertions that fail and deadlocks, or for endless runs.
const (
	faults  = "-DSAFETY"
	endless = "-DNP"
)

func TestModel(t *testing.T) {
	t.Parallel()
	needSpin(t)
	turns := make(chan struct{}, 2) // a check takes a processor and some hundred megabytes
	run := func(name string, slow bool, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			if slow && testing.Short() {
				t.Skip("-short: only small worlds are looked at, and no law is broken")
			}
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			test(t)
		})
	}
	for name, w := range worlds() {
		run("holds/"+name, w.large, func(t *testing.T) { holds(t, w) })
		if !w.large {
			run("ends/"+name, true, func(t *testing.T) { wantComplete(t, check(t, endless, "-O1", w.flags)) })
		}
	}
	for name, in := range flaws() {
		run("breaks/"+name, true, func(t *testing.T) { breaks(t, name, in) })
	}
}

// holds demands that spin finds no fault in a world.
func holds(t *testing.T, w world) {
	out := check(t, faults, "-O1", w.flags)
	wantComplete(t, out)
	// Assertions about the end prove nothing if the end is never reached.
	_, unreached, found := strings.Cut(out, "unreached in proctype world\n")
	unreached, _, _ = strings.Cut(unreached, "unreached in ")
	if !found || strings.Contains(unreached, "assert") {
		t.Errorf("want all assertions about the end reached, got\n%s", out)
	}
}

// breaks demands that spin finds a fault in a world without one, because a law is broken.
func breaks(t *testing.T, name, in string) {
	w, ok := worlds()[in]
	if !ok || w.large {
		t.Fatalf("the world %q is large or unknown", in)
	}
	kind, want := faults, "assertion violated"
	if name == "BREAK_ATTEMPTS_UNCOUNTED" {
		kind, want = endless, "non-progress cycle"
	}
	out := check(t, kind, "-O0", w.flags+" -D"+name) // the fault is found soon, so compile quickly
	if !strings.Contains(out, "errors: 1") || !strings.Contains(out, want) {
		t.Errorf("got no error that says %q:\n%s", want, out)
	}
}

// The model, this test and the page that explains the breaks name the same ones.
func TestEveryBreakIsExplained(t *testing.T) {
	t.Parallel()
	want := slices.Sorted(maps.Keys(flaws()))
	for _, name := range []string{"promise.pml", "../../docs/promise.md"} {
		if got := breaksIn(t, name); !slices.Equal(got, want) {
			t.Errorf("%s names the breaks\n%s\nwant those that are tested:\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func breaksIn(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`BREAK_[A-Z_]*[A-Z]`).FindAllString(string(text), -1)
	slices.Sort(found)
	return slices.Compact(found)
}

// wantComplete demands that spin has visited all states and found no fault.
func wantComplete(t *testing.T, out string) {
	t.Helper()
	if !strings.Contains(out, "errors: 0") {
		t.Errorf("a run breaks the promise; promise.pml tells how to see it by hand:\n%s", out)
	}
	for _, short := range []string{"max search depth too small", "Search not completed", "MEMLIM"} {
		if strings.Contains(out, short) {
			t.Errorf("not all was looked at (%s):\n%s", short, out)
		}
	}
}

// check has spin visit all states of the model under the flags, and returns its output.
func check(t *testing.T, kind, optimize, flags string) string {
	t.Helper()
	model, err := os.ReadFile("promise.pml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "promise.pml"), model, 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, dir, slices.Concat([]string{"spin", "-a"}, strings.Fields(flags), []string{"promise.pml"})...)
	command(t, dir, "cc", optimize, "-w", kind, "-DCOLLAPSE", "-DMEMLIM=800", "-o", "pan", "pan.c") // megabytes
	run := []string{"./pan", "-m10000"}
	if kind == endless {
		run = append(run, "-l")
	}
	return command(t, dir, run...)
}

// command runs a program at a low priority, because other tests may have deadlines.
func command(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "nice", append([]string{"-n", "10"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// needSpin looks for the programs that a check needs. Without them the test is skipped, unless MILLRACE_REQUIRE (a
// list with commas) demands them.
func needSpin(t *testing.T) {
	t.Helper()
	version, err := exec.CommandContext(t.Context(), "spin", "-V").Output()
	if err == nil && !strings.HasPrefix(string(version), "Spin Version") {
		err = errors.New("the program spin in PATH is not the model checker") // another program has the same name
	}
	for _, name := range []string{"cc", "nice"} {
		if err == nil {
			_, err = exec.LookPath(name)
		}
	}
	switch {
	case err == nil:
	case slices.Contains(strings.Split(os.Getenv("MILLRACE_REQUIRE"), ","), "spin"):
		t.Fatalf("MILLRACE_REQUIRE has spin, and the model can't be checked: %v", err)
	default:
		t.Skipf("the model can't be checked: %v", err)
	}
}
