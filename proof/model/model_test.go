// Package model holds three protocols as Promela models, and the test in which spin checks them: that of the promise,
// promise.pml, that of processes of several steps, process.pml, and that of settings that come into force in stages,
// rollout.pml. Spin visits every state that their small worlds can
// reach, with every stop, delay and failure in between. It is no part of the framework. docs/promise.md tells what
// promise.pml says, what it leaves out, and what happens without each law; the others say so themselves.
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

	"github.com/millrace-go/millrace/internal/parttest"
)

// A model is a protocol with its worlds.
type model struct {
	files  []string // the first one includes the others
	page   string   // that explains the breaks
	worlds map[string]world
	flaws  map[string]string // the deliberate breaks, each with the world in which it shows
}

// A world is a size of a model, small enough for spin to visit all its states.
type world struct {
	flags string
	large bool // it takes long: only make model checks it, and never for endless runs
	wide  bool // only make model checks it for endless runs
	part  bool // of a wide one: it is checked for endless runs alone
}

func models() map[string]model {
	return map[string]model{
		"promise": {
			files: []string{"promise.pml"}, page: "../../docs/promise.md",
			worlds: promiseWorlds(), flaws: promiseFlaws(),
		},
		"process": {
			files: []string{"process.pml", "fold.pml"}, page: "process.pml",
			worlds: processWorlds(), flaws: processFlaws(),
		},
		"rollout": {
			files: []string{"rollout.pml"}, page: "rollout.pml",
			worlds: rolloutWorlds(), flaws: rolloutFlaws(),
		},
	}
}

func promiseWorlds() map[string]world {
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

func promiseFlaws() map[string]string {
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

func processWorlds() map[string]world {
	return map[string]world{
		// The worlds in which the laws are broken.
		"steps":   {flags: "-DFAULTS=1"},
		"order":   {flags: "-DALL=1 -DWAIT=1 -DUNDOS=3 -DFAILS=0 -DFAULTS=1"},
		"unknown": {flags: "-DUNKNOWN=1 -DFAULTS=1"},
		"memory":  {flags: "-DLATE=1 -DFAILS=0 -DFAULTS=1"},
		"page":    {flags: "-DPARENT=1 -DALL=1 -DFAILS=1 -DFAULTS=1"},

		"steps-faults":  {flags: "-DFAULTS=2", large: true},
		"steps-atomic":  {flags: "-DFAULTS=2 -DATOMIC=1", large: true},
		"steps-turns":   {flags: "-DSPLIT=1 -DFAILS=0 -DFAULTS=0", large: true},
		"steps-undo":    {flags: "-DUNDOS=3 -DFAULTS=1", large: true},
		"order-fails":   {flags: "-DALL=1 -DWAIT=1 -DUNDOS=3 -DFAILS=1 -DFAULTS=1", large: true},
		"unknown-order": {flags: "-DUNKNOWN=1 -DALL=1 -DUNDOS=3 -DFAILS=1 -DFAULTS=1", large: true},
		"memory-fails":  {flags: "-DLATE=1 -DFAILS=2 -DFAULTS=1", large: true},
		"page-memory":   {flags: "-DPARENT=1 -DALL=1 -DLATE=1 -DFAILS=0 -DFAULTS=1", large: true},
		"page-one":      {flags: "-DPARENT=1 -DFAULTS=1", large: true},
	}
}

func processFlaws() map[string]string {
	return map[string]string{
		"BREAK_BEGIN_BEFORE_WRITE":     "steps",
		"BREAK_REPLAY_SILENT":          "steps",
		"BREAK_END_BY_ATTEMPT":         "steps",
		"BREAK_VOUCH_FOR_BEGUN":        "steps",
		"BREAK_LATE_SUCCESS_DROPPED":   "steps",
		"BREAK_LATE_UNDONE_TWICE":      "steps",
		"BREAK_KEY_HAS_ATTEMPT":        "steps",
		"BREAK_FAILURE_GUESSED":        "steps",
		"BREAK_UNDO_CANCELLABLE":       "steps",
		"BREAK_ALARM_NOT_REARMED":      "steps",
		"BREAK_EARLIEST_FORGOTTEN":     "steps",
		"BREAK_EARLY_CANCEL_DROPPED":   "steps",
		"BREAK_EARLY_SIGNAL_DROPPED":   "order",
		"BREAK_UNDO_IN_PLAN_ORDER":     "order",
		"BREAK_UNKNOWN_KEPT":           "unknown",
		"BREAK_KEY_STAYS_OPEN":         "unknown",
		"BREAK_NOTE_UNPROVEN":          "memory",
		"BREAK_OLD_DOCUMENT_WRITTEN":   "memory",
		"BREAK_PARENT_BY_COUNT":        "page",
		"BREAK_WORD_COUNTED":           "page",
		"BREAK_CANCEL_PASSED_ON_FIRST": "page",
	}
}

func rolloutWorlds() map[string]world {
	return map[string]world{
		// The worlds in which the laws are broken.
		"dies": {flags: "-DDEATHS=1 -DCUTS=0 -DBACKS=0 -DSTALE=0", wide: true},
		"back": {flags: "-DDEATHS=0 -DCUTS=0 -DBACKS=1 -DSTALE=1", wide: true},

		"calm": {flags: "-DDEATHS=0 -DCUTS=0 -DBACKS=0 -DSTALE=0", part: true},

		"cut": {flags: "-DDEATHS=0 -DCUTS=1 -DBACKS=0 -DSTALE=0", large: true},
	}
}

func rolloutFlaws() map[string]string {
	return map[string]string{
		"BREAK_APPLY_BEFORE_LAST_VERDICT": "dies",
		"BREAK_LATE_NODE_UNASKED":         "dies",
		"BREAK_JOIN_LEFT_OUT":             "dies",
		"BREAK_JOIN_WITHOUT_WRITE":        "dies",
		"BREAK_SILENCE_IS_HEALTH":         "dies",
		"BREAK_CANARY_BURIED":             "dies",
		"BREAK_RUN_BEFORE_TOLD":           "dies",
		"BREAK_STEP_WITHOUT_HEALTH":       "dies",
		"BREAK_BACK_WITHOUT_EPOCH":        "back",
		"BREAK_BLIND_WRITE":               "back",
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
	turns := make(chan struct{}, 2) // a check takes a processor, and up to two gigabytes
	run := func(name string, slow bool, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			if slow && testing.Short() {
				t.Skip("-short: small worlds only, and no law is broken")
			}
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			test(t)
		})
	}
	all := os.Getenv("MILLRACE_WORLDS") == "all"
	part, _ := parttest.Of(t, parts)
	for of, m := range models() {
		for name, w := range m.worlds {
			if !w.large && !w.part || all {
				run(of+"/holds/"+name, w.large, func(t *testing.T) {
					parttest.InTurn(t)
					m.holds(t, w)
				})
			}
			if !w.large && (!w.wide || all) {
				run(of+"/ends/"+name, true, func(t *testing.T) {
					parttest.InTurn(t)
					m.wantComplete(t, m.check(t, endless, "-O1", w.flags))
				})
			}
		}
		for i, name := range slices.Sorted(maps.Keys(m.flaws)) {
			if all || i%parts == part {
				run(of+"/breaks/"+name, true, func(t *testing.T) { m.breaks(t, name, m.flaws[name]) })
			}
		}
	}
}

// Each run of the tests tries one of so many parts of the breaks, and make model all of them. The runs of CI take turns
// with the worlds, too.
const parts = 4

// holds demands that spin finds no fault in a world.
func (m model) holds(t *testing.T, w world) {
	out := m.check(t, faults, "-O1", w.flags)
	m.wantComplete(t, out)
	// Assertions about the end prove nothing if the end is never reached.
	_, unreached, found := strings.Cut(out, "unreached in proctype world\n")
	unreached, _, _ = strings.Cut(unreached, "unreached in ")
	if !found || strings.Contains(unreached, "assert") {
		t.Errorf("want all assertions about the end reached, got\n%s", out)
	}
}

// breaks demands that spin finds a fault in a world without one, because a law is broken.
func (m model) breaks(t *testing.T, name, in string) {
	w, ok := m.worlds[in]
	if !ok || w.large {
		t.Fatalf("the world %q is large or unknown", in)
	}
	kind, want := faults, "assertion violated"
	if name == "BREAK_ATTEMPTS_UNCOUNTED" {
		kind, want = endless, "non-progress cycle"
	}
	out := m.check(t, kind, "-O0", w.flags+" -D"+name) // the fault is found soon, so compile quickly
	if !strings.Contains(out, "errors: 1") || !strings.Contains(out, want) {
		t.Errorf("got no error that says %q:\n%s", want, out)
	}
}

// The models, this test and the pages that explain the breaks name the same ones.
func TestEveryBreakIsExplained(t *testing.T) {
	t.Parallel()
	for name, m := range models() {
		want := slices.Sorted(maps.Keys(m.flaws))
		if got := breaksIn(t, true, m.files...); !slices.Equal(got, want) {
			t.Errorf("%s: %s have the breaks\n%s\nwant those that are tested:\n%s", name, m.files, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if got := breaksIn(t, false, m.page); !slices.Equal(got, want) {
			t.Errorf("%s: %s explains\n%s\nwant those that are tested:\n%s", name, m.page, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// breaksIn returns the breaks that files name, in the preprocessor's lines or in others.
func breaksIn(t *testing.T, directives bool, files ...string) (found []string) {
	t.Helper()
	name := regexp.MustCompile(`BREAK_[A-Z_]*[A-Z]`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "#") == directives {
				found = append(found, name.FindAllString(line, -1)...)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// wantComplete demands that spin has visited all states and found no fault.
func (m model) wantComplete(t *testing.T, out string) {
	t.Helper()
	if !strings.Contains(out, "errors: 0") {
		t.Errorf("a run breaks a law; %s tells how to see it by hand:\n%s", m.files[0], out)
	}
	for _, short := range []string{"max search depth too small", "Search not completed", "MEMLIM"} {
		if strings.Contains(out, short) {
			t.Errorf("not all was looked at (%s):\n%s", short, out)
		}
	}
}

// check has spin visit all states of the model under the flags, and returns its output.
func (m model) check(t *testing.T, kind, optimize, flags string) string {
	t.Helper()
	dir := t.TempDir()
	for _, file := range m.files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command(t, dir, slices.Concat([]string{"spin", "-a"}, strings.Fields(flags), []string{m.files[0]})...)
	command(t, dir, "cc", optimize, "-w", kind, "-DMEMLIM=2000", "-o", "pan", "pan.c") // megabytes
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
