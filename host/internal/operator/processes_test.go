package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/processes"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/worker"
)

// trip is the state of a stranger's plan.
type trip struct {
	ID    string `json:"id"`
	Stick string `json:"stick,omitempty"` // the step that is stuck
	Days  int    `json:"days"`
	Car   string `json:"car,omitempty"`
}

// arrived is a signal.
type arrived struct {
	Car string `json:"car"`
}

func (arrived) Kind() channel.Kind { return "stranger.arrived.v1" }

func (s trip) stuckAt(step string) trip {
	if s.Stick == step {
		panic("no " + step)
	}
	return s
}

// days are parts of a trip.
func (s trip) days() (all []trip) {
	for i := range s.Days {
		stick := ""
		if s.Stick == fmt.Sprint("day ", i) {
			stick = "walk"
		}
		all = append(all, trip{ID: fmt.Sprint(i), Stick: stick})
	}
	return all
}

// A traveller is a stranger whose program has a plan.
type traveller struct {
	*stranger
	book func(context.Context) error // the first step's agent
}

func (x *traveller) plan(p *process.Plan[trip]) {
	p.Tags(func(s trip) map[string]string { return map[string]string{"who": "ada"} })
	process.Do(p, "book", func(ctx context.Context, s trip) (string, error) { return "booked", x.book(ctx) }, nil).
		Undo(func(context.Context, trip, string) error { return nil })
	process.Then(p, "think", func(s trip) trip { return s.stuckAt("think") })
	process.All(p, "pack", func(p *process.Plan[trip]) { process.Sleep(p, "wash", time.Second) }, func(p *process.Plan[trip]) {
		process.Do(p, "maps", func(context.Context, trip) (string, error) { return "maps", nil }, nil)
	})
	process.Wait(p, "car", func(s trip, e arrived) trip { s.Car = e.Car; return s })
	process.Split(p, "days", trip.days, func(s trip) trip { return s }, func(p *process.Plan[trip]) {
		process.Then(p, "walk", func(s trip) trip { return s.stuckAt("walk") })
	}, nil)
}

func newTraveller(t *testing.T, s *storage.Store) *traveller {
	t.Helper()
	x := &traveller{book: func(context.Context) error { return nil }}
	x.stranger = &stranger{World: worldtest.NewBare(t, s, handlers.Config{}, process.Route("trip"))}
	if err := process.Register(x.Registry, "trip", process.Version(2, x.plan)); err != nil {
		t.Fatal(err)
	}
	if err := catalog.Publish(t.Context(), x.Registry, catalog.Program{Name: "traveller", Version: "v1"}); err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *traveller) start(t *testing.T, s trip) {
	t.Helper()
	if err := process.Open[trip](x.Channels, "trip").Start(t.Context(), s.ID, s); err != nil {
		t.Fatal(err)
	}
}

// until waits until the list of the arguments has this line.
func (x *traveller) until(t *testing.T, line string, args ...string) {
	t.Helper()
	worldtest.Eventually(t, func() error {
		_, out, _ := x.do(t, "", append([]string{"processes", "list"}, args...)...)
		if !strings.Contains(strings.Join(strings.Fields(out), " "), line) {
			return fmt.Errorf("got\n%s\nwant %s", out, line)
		}
		return nil
	})
}

var often = worker.QueueConfig{PollInterval: 100 * time.Millisecond}

// testProcesses walks through the verbs of processes.
func testProcesses(t *testing.T, s *storage.Store) {
	x := newTraveller(t, s)
	stop := x.Start(worker.Config{Queues: map[string]worker.QueueConfig{ // Azurite doesn't ring
		"trip": often, "trip-do": often, "trip-alarms": often, "trip-record": often,
	}})
	contains(t, "list", x.want(t, 0, "", "processes", "list"), "No instances that have not ended. --since 24h")
	contains(t, "list of ended ones", x.want(t, 0, "", "processes", "list", "-since", "1h"), "No instances.")
	contains(t, "show", x.want(t, 3, "", "processes", "show", "-reveal", "-why=x", "t1"), `no instance "t1" of trip`)
	x.start(t, trip{ID: "t1", Stick: "think", Days: 2})
	x.until(t, "trip t1 02 think ", "-stuck")
	contains(t, "versions", x.want(t, 0, "", "processes", "versions"), "PLAN VERSION SINCE OPEN STUCK trip 2 ")
	contains(t, "rerun of no step", x.want(t, 1, "", "processes", "rerun", "t1", "99"), "no step 99: version 2 of the plan has none")
	contains(t, "skip of a step that is not stuck", x.want(t, 1, "", "processes", "skip", "t1", "book"), "step 01 book is not stuck: it is completed")
	contains(t, "stuck", x.want(t, 0, "", "processes", "list", "-reveal", "-why=x", "-stuck"), "panic: no think millrace processes show t1 shows all")
	contains(t, "show", x.want(t, 0, "", "processes", "show", "-reveal", "-why=x", "t1"), "trip t1: stuck, version 2", "02 think stuck", "Step 02 think is stuck. millrace processes retry t1 02 tries it again")
	contains(t, "doctor", x.want(t, 4, "", "doctor"), `WRONG plan trip: 1 instance is stuck: "t1" millrace processes list --plan trip --stuck shows why.`)
	contains(t, "retry", x.want(t, 0, "", "processes", "retry", "t1", "-wait", "2m"), `"t1" of trip: retry 02 is done.`)
	contains(t, "refused", x.want(t, 1, "", "processes", "skip", "t1", "book", "-wait", "2m"), "step 01 book is not stuck: it is completed")
	contains(t, "skip", x.want(t, 0, "", "processes", "skip", "t1", "-by", "ada", "-why", "never mind", "-wait", "2m"), `"t1" of trip: skip 02 is done.`)
	x.until(t, "t1 inprocess ")
	x.until(t, " car who=ada", "-waits", "car")
	contains(t, "notes", x.want(t, 0, "", "processes", "show", "-reveal", "-why=x", "t1"), " ada: skip 02, because: never mind", "02 think skipped", "fails at 2")
	contains(t, "a signal of another form", x.want(t, 2, `{"car":7,"color":"red"}`, "processes", "signal", "t1", "stranger.arrived.v1", "-"), `unknown member "color"`, "car: want string, got number")
	contains(t, "signal", x.want(t, 0, `{"car":"red"}`, "processes", "signal", "t1", "stranger.arrived.v1", "-", "-wait", "2m"), `"t1" of trip: signal stranger.arrived.v1 is done.`)
	x.until(t, "t1 completed ", "-status", "completed")
	var stream process.Stream
	_, out, _ := x.do(t, "", "processes", "show", "-reveal", "-why=x", "t1", "-json")
	if err := json.Unmarshal([]byte(out), &stream); err != nil || !strings.Contains(string(stream.State), `"car":"red"`) || len(stream.Lines) != 12 || stream.Lines[5].Tag != "who=ada" {
		t.Errorf("show -json: got %s (%v)", out, err)
	}
	trace := x.want(t, 0, "", "processes", "show", "-reveal", "-why=x", "t1", "-trace")
	line := oneLine[map[string]any](t, x.want(t, 0, "", "processes", "show", "-reveal", "-why=x", "t1", "-trace", "-json"))
	if events, _ := line["traceEvents"].([]any); len(events) == 0 || !json.Valid([]byte(trace)) || !strings.Contains(trace, `"traceEvents": [`) {
		t.Errorf("trace: got %s and the line %v", trace, line)
	}
	contains(t, "rerun", x.want(t, 0, "", "processes", "rerun", "t1", "days", "-wait", "2m"), `"t1" of trip: rerun 05 is done.`)

	x.start(t, trip{ID: "t2"})
	x.until(t, "t2 inprocess ", "-waits", "car")
	contains(t, "nudge", x.want(t, 0, "", "processes", "nudge", "t2", "-wait", "2m"), "nudge is done")
	if got := oneLine[acts.InstanceAct](t, x.want(t, 0, "", "processes", "cancel", "t2", "-json", "-wait", "2m")); got != (acts.InstanceAct{Plan: "trip", ID: "t2", Do: "cancel", Result: "done"}) {
		t.Errorf("cancel: got %+v", got)
	}
	x.until(t, "t2 canceled ", "-since", "1h")
	contains(t, "cancelled", x.want(t, 0, "", "processes", "show", "-reveal", "-why=x", "t2"), "01 book undone", "undo undone")
	contains(t, "cancel again", x.want(t, 0, "", "processes", "cancel", "t2", "-wait", "2m"), "cancel is done: it was canceled before, by ")

	x.start(t, trip{ID: "t3", Stick: "day 1", Days: 2})
	x.until(t, "t3 inprocess ")
	x.want(t, 0, `{"car":"blue"}`, "processes", "signal", "t3", "stranger.arrived.v1", "-", "-wait", "2m")
	x.until(t, "trip t3 05.00001/01 walk ", "-stuck")
	contains(t, "parts are no instances", x.want(t, 0, "", "processes", "list", "-json"), `{"plan":"trip","id":"t3",`)
	contains(t, "skip of a part", x.want(t, 0, "", "processes", "skip", "t3", "-wait", "2m"), `"t3/05.00001" of trip: skip 01 is done.`)
	x.until(t, "t3 completed ", "-status", "completed")
	for _, id := range []string{"m1", "m2"} {
		x.start(t, trip{ID: id, Stick: "think", Days: 2})
		x.until(t, "trip "+id+" 02 think ", "-stuck")
	}
	contains(t, "retry of many, dry", x.want(t, 0, "", "processes", "retry", "-prefix", "m", "-dry-run"), "trip m1 – selected", "trip m2 – selected")
	contains(t, "retry of many", x.want(t, 0, "", "processes", "retry", "-stuck", "-since", "1h", "-wait", "2m"), "trip m1 02 done", "trip m2 02 done")
	contains(t, "retry of none", x.want(t, 0, "", "processes", "retry", "-prefix", "x"), "No instances.")
	contains(t, "rerun of many", x.want(t, 0, "", "processes", "rerun", "-status", "canceled", "-since", "1h", "-wait", "2m"), "trip t2 01 done")
	x.until(t, "t2 inprocess ", "-waits", "car")
	contains(t, "neither", x.want(t, 2, "", "processes", "retry"), "want ID, and STEP if need be, or what selects instances, such as --since")
	contains(t, "both", x.want(t, 2, "", "processes", "retry", "t1", "-stuck"), "want one instance by ID, or those that are selected, such as by --since, not both")
	contains(t, "dry run of one", x.want(t, 2, "", "processes", "rerun", "t1", "01", "-dry-run"), "--dry-run is for what selects instances")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	contains(t, "without a worker", x.want(t, 1, "", "processes", "rerun", "t2", "01", "-wait", "10ms"), "no answer within 10ms: it is kept, and a worker of plan trip takes it")
	contains(t, "without -wait", x.want(t, 0, "", "processes", "nudge", "t2"), `Asked "t2" of trip to nudge. millrace processes show t2 tells`)
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, testProcesses)
}

func TestOnAzuriteProcesses(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	s, err := azure.Open(t.Context(), azuretest.Place(t, azuretest.Launch, azure.Wipe))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	testProcesses(t, s)
}

// inBubble runs a test in virtual time, with a worker.
func inBubble(t *testing.T, test func(t *testing.T, x *traveller)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTraveller(t, worldtest.OpenStore(t, worldtest.Virtual))
		stop := x.Start(worker.Config{})
		test(t, x)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// table is what show prints between its head and its end.
func table(out string) string {
	_, out, _ = strings.Cut(out, "\n\n")
	if i := strings.LastIndex(out, "Critical path:"); i >= 0 {
		out = out[:i]
	}
	return out
}

// The drawing tells what each step did and when, and fits its width.
func TestDrawing(t *testing.T) {
	inBubble(t, func(t *testing.T, x *traveller) {
		x.book = func(ctx context.Context) error {
			pass(t, 10*time.Second)
			if process.Attempt(ctx) == 1 {
				return handlers.Retry(10*time.Second, errors.New("the line is busy"))
			}
			return nil
		}
		x.start(t, trip{ID: "t1", Days: 2})
		pass(t, 40*time.Second)
		if _, err := mustLook(t, x).Operator("ada", "rain").Cancel(t.Context(), "t1"); err != nil {
			t.Fatal(err)
		}
		pass(t, 5*time.Second)
		got := table(x.want(t, 0, "", "processes", "show", "-reveal", "-why=x", "t1"))
		want := strings.TrimPrefix(`
ID        STEP    STATUS     TOOK   0s                                      40s
01        book    undone      30s * |==========x---------===========          |
            after 1 failed attempt: retry after 10s: the line is busy
            undo  undone       0s   |                                        <|
02        think   completed    0s * |                              =          |
03        pack    completed    1s * |                              ..         |
03.01.01    wash  completed    1s * |                              --         |
03.02.01    maps  completed    0s   |                              =          |
04        car     canceled     9s * |                               ----------|

. other steps run, - waits, = works, < is undone, x attempt failed, * critical
path

`, "\n")
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func mustLook(t *testing.T, x *traveller) *process.Looker {
	t.Helper()
	l, err := process.Look(x.Store, "trip", "/test")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// No line is wider than the terminal, whatever is in it, and nothing moves the cursor.
func TestDrawingFits(t *testing.T) {
	inBubble(t, func(t *testing.T, x *traveller) {
		const nasty = "a\x1b[2Jb\u202e" + "long long long long long long long long long long long long long long long long long long"
		x.book = func(context.Context) error { return errors.New(nasty) }
		x.start(t, trip{ID: "t1"})
		pass(t, time.Minute)
		for _, by := range []string{"ada", "bob\x1b[31m"} {
			if _, err := mustLook(t, x).Operator(by, nasty).Cancel(t.Context(), "t1"); err != nil {
				t.Fatal(err)
			}
		}
		pass(t, time.Minute)
		s, err := mustLook(t, x).Stream(t.Context(), "t1")
		if err != nil {
			t.Fatal(err)
		}
		if out := x.want(t, 0, "", "processes", "show", "-reveal", "-why=x", "t1"); strings.ContainsAny(out, "\x1b\u202e") || !strings.Contains(out, `ada: cancel, because: a\x1b[2Jb\u202elong`) {
			t.Errorf("got %q", out)
		}
		s.Lines[1].Name = strings.Repeat(nasty, 3)
		for i := range 8 { // deep
			x := s.Lines[1]
			x.ID, x.Depth = fmt.Sprint(i, "0.00000/01.00001/01"), i+2
			s.Lines = append(s.Lines, x)
		}
		s.Missing = append(s.Missing, nasty)
		for _, width := range []int{20, 40, 60, 80, 120, 300} {
			bars := false
			for _, line := range processes.Draw(s, time.Now(), "millrace", width, boot.Clean) {
				bars = bars || strings.HasSuffix(line, "|")
				if n := utf8.RuneCountInString(line); n > max(width, 20) && (width >= 60 || n > 60) {
					t.Errorf("width %d: a line of %d: %s", width, n, line)
				}
				if strings.ContainsAny(line, "\x1b\u202e\n") {
					t.Errorf("width %d: %q reaches the terminal", width, line)
				}
			}
			if bars != (width >= 80) {
				t.Errorf("width %d: bars are drawn: %v", width, bars)
			}
		}
	})
}

// The search of list has filters, a bound, and says what can't be right.
func TestProcessesList(t *testing.T) {
	inBubble(t, func(t *testing.T, x *traveller) {
		for _, id := range []string{"a1", "a2", "b1"} {
			x.start(t, trip{ID: id})
		}
		x.start(t, trip{ID: "c1", Stick: "think"})
		pass(t, 10*time.Second)
		x.want(t, 0, "", "processes", "cancel", "a2", "-wait", "1m")
		pass(t, 10*time.Second)
		for _, c := range []struct{ args, want string }{
			{"", "a1 b1 c1"},
			{"-since 1h", "a1 b1 c1 a2"},
			{"-since 5s", "a1 b1 c1"},
			{"-status canceled", "a2"},
			{"-status completed", ""},
			{"-status inprocess -since 1h", "a1 b1"},
			{"-stuck", "c1"},
			{"-waits car", "a1 b1"},
			{"-waits book", ""},
			{"-tag who=ada -prefix a", "a1"},
			{"-tag who=bob", ""},
			{"-tag what=ada", ""},
			{"-limit 2", "a1 b1"},
			{"-plan trip -limit 3", "a1 b1 c1"},
		} {
			code, out, told := x.do(t, "", append([]string{"processes", "list", "-json"}, strings.Fields(c.args)...)...)
			var got []string
			for line := range strings.Lines(out) {
				var i acts.Instance
				if err := json.Unmarshal([]byte(line), &i); err != nil {
					t.Fatal(err)
				}
				got = append(got, i.ID)
			}
			if strings.Join(got, " ") != c.want || code != 0 || strings.Contains(told, "There are more") != (c.args == "-limit 2") {
				t.Errorf("list %s: got exit code %d, %q and %q, want %s", c.args, code, got, told, c.want)
			}
		}
		for args, want := range map[string]string{
			"list -plan nope": `unknown plan "nope"; want one of trip`, "list -status nope": "want one of init, inprocess", "list -stuck -status completed": "not both", "list -tag x": "want K=V",
			"list -since -1h": "--since: invalid value \"-1h\": want a time such as 90s, 30m or 12h, from 0s to 400 days", "show a#1": "ID: it has a #", "skip a1 01 -result done": "--result: invalid value \"done\": it is not JSON",
			"signal a1 nope.v1 -": "no step of plan trip waits for \"nope.v1\"; want one of stranger.arrived.v1", "signal a1 NOPE -": "processes signal: KIND: kind \"NOPE\": want", "rerun a1": "want ID and STEP",
		} {
			contains(t, args, x.want(t, 2, "{}", append([]string{"processes"}, strings.Fields(args)...)...), want)
		}
		contains(t, "a signal that is no JSON", x.want(t, 2, "{", "processes", "signal", "a1", "stranger.arrived.v1", "-"), "standard input: it is not JSON")
		contains(t, "nothing stuck", x.want(t, 3, "", "processes", "retry", "a1"), `no step of "a1" is stuck`)
		contains(t, "no such step", x.want(t, 3, "", "processes", "retry", "a1", "nope"), `no step "nope" has begun in "a1"`)
		contains(t, "refused as JSON", x.want(t, 1, "", "processes", "rerun", "a1", "01", "-wait", "1m", "-json"), `{"plan":"trip","id":"a1","do":"rerun","step":"01","result":"refused","text":"it has not ended and is not stuck"}`)

		for line, want := range map[string]string{"show ": "a1 b1 c1", "show b": "b1", "list -plan ": "trip", "skip a1 --plan t": "trip", "list -status un": "undoing"} {
			_, out, _ := x.do(t, "", append([]string{"__complete", "processes"}, strings.Split(line, " ")...)...)
			if got := strings.Join(strings.Fields(strings.TrimSuffix(out, ":4\n")), " "); got != want {
				t.Errorf("completion of %q: got %q, want %q", line, got, want)
			}
		}
	})
}

// Of many instances each is asked. Where one refuses or is silent, the others are asked all the same, and the exit code
// tells.
func TestActsOnManyThatFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTraveller(t, worldtest.OpenStore(t, worldtest.Virtual))
		stop := x.Start(worker.Config{})
		x.start(t, trip{ID: "a"})
		x.start(t, trip{ID: "b", Stick: "think"})
		pass(t, 10*time.Second)
		contains(t, "refused", x.want(t, 1, "", "processes", "rerun", "car", "-status", "inprocess", "-wait", "1m"), "trip a 04 refused it has not ended and is not stuck", "1 of 1 are not done")
		x.start(t, trip{ID: "c", Stick: "day 0", Days: 1})
		pass(t, 10*time.Second)
		x.want(t, 0, `{"car":"blue"}`, "processes", "signal", "c", "stranger.arrived.v1", "-", "-wait", "1m")
		pass(t, 10*time.Second)
		contains(t, "a step that has not begun in one", x.want(t, 1, "", "processes", "rerun", "car", "-stuck", "-wait", "1m"),
			`trip b – refused no step "car" has begun in "b"; millrace processes show b shows those that have trip c 04 done`, "1 of 2 are not done")
		contains(t, "as JSON", x.want(t, 1, "", "processes", "rerun", "car", "-stuck", "-prefix", "b", "-json"), `{"plan":"trip","id":"b","do":"","result":"refused","text":"no step \"car\" has begun`, "1 of 1 are not done")
		contains(t, "by the step's name", x.want(t, 0, "", "processes", "rerun", "think", "-stuck", "-wait", "1m"), "trip b 02 done")
		pass(t, 10*time.Second)
		contains(t, "retry", x.want(t, 0, "", "processes", "retry", "-prefix", "b", "-wait", "1m", "-why", "again"), "trip b 02 done")
		pass(t, 10*time.Second)
		contains(t, "fail", x.want(t, 1, "", "processes", "fail", "b", "-wait", "1m"), "refused: ")
		for args, want := range map[string]string{
			"rerun b 02 -stuck":       "want one instance by ID, or those that are selected, such as by --since, not both",
			"rerun -dry-run -yes":     "unknown flag --yes",
			"retry -prefix b b":       "not both",
			"cancel b -prefix b":      "unknown flag --prefix",
			"retry":                   "want ID, and STEP if need be, or what selects instances, such as --since",
			"retry -stuck -status x":  "want one of init, inprocess",
			"signal b stranger.wish ": "want ID KIND FILE",
		} {
			contains(t, args, x.want(t, 2, "", append([]string{"processes"}, strings.Fields(args)...)...), want)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		contains(t, "without a worker", x.want(t, 1, "", "processes", "retry", "-stuck", "-wait", "1s"), "trip b 02 unanswered –", "1 of 1 are not done")
	})
}

// An instance is found in whichever plan has it. Where several have, the operator is asked.
func TestProcessesOfSeveralPlans(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	contains(t, "nothing published", x.want(t, 2, "", "processes", "list"), "name the plan by --plan; no program has published")
	contains(t, "by name", x.want(t, 0, "", "processes", "list", "-plan", "trip"), "No instances that have not ended.")
	contains(t, "no name of a plan", x.want(t, 2, "", "processes", "list", "-plan", "T"), "plan")
	x.publish(t)
	contains(t, "no plan", x.want(t, 2, "", "processes", "versions"), "the programs of this store have no plan")

	w := worldtest.NewBare(t, x.Store, handlers.Config{}, process.Route("trip"), process.Route("tour"))
	if err := catalog.Publish(t.Context(), w.Registry, catalog.Program{Name: "traveller", Version: "v1"}); err != nil {
		t.Fatal(err)
	}
	for plan, ids := range map[string][]string{"trip": {"a", "both"}, "tour": {"b", "both"}} {
		for _, id := range ids {
			putBlob(t, x.Store, plan, id, fmt.Sprintf(`{"value":{"plan":%q,"status":"inprocess","created":"2026-01-02T03:04:05Z"}}`, plan))
			if _, err := x.Store.Table(plan+"-index").Put(t.Context(), "open", id, fmt.Appendf(nil, `{"id":%q,"status":"inprocess","due":"2026-01-02T03:04:05Z"}`, id), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	contains(t, "list", x.want(t, 0, "", "processes", "list"), "PLAN ID STATUS", "tour both inprocess", "trip both inprocess")
	contains(t, "show", x.want(t, 0, "", "processes", "show", "-reveal", "-why=x", "b"), "tour b: inprocess")
	contains(t, "show", x.want(t, 2, "", "processes", "show", "-reveal", "-why=x", "both"), `the plans tour and trip have an instance "both"`)
	contains(t, "show", x.want(t, 0, "", "processes", "show", "-reveal", "-why=x", "both", "-plan", "trip"), "trip both: inprocess")
	contains(t, "show", x.want(t, 3, "", "processes", "show", "-reveal", "-why=x", "c"), `no instance "c" of tour or trip`)
	contains(t, "doctor", x.want(t, 4, "", "doctor"), `WRONG plan tour: 2 instances are overdue: the alarm of each was due more than 20m0s ago: "b", "both"`)
	if _, err := x.Store.Table("trip-index").Put(t.Context(), "open", "bad", []byte("junk"), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	contains(t, "a row that can't be read", x.want(t, 1, "", "processes", "list"), `process: index of trip: "bad"`)
	contains(t, "doctor", x.want(t, 4, "", "doctor"), "plan trip: 2 instances are overdue")
}
