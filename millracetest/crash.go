package millracetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/faulttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// faultTime is how late a late call is. A message in the hand of a worker that dies comes back after 30 seconds.
const faultTime = 20 * time.Second

// CrashEverywhere runs a test of a program once without faults, and then once for each storage call of its worker and
// each fault that the call can have. In each run it must end with the same documents, whatever their times and the
// numbers of attempts are. The IDs that the program makes (channel.NewID) count by their order, which is that of their
// times, to the millisecond.
//
//	millracetest.CrashEverywhere(t, func(t *testing.T, start func(millracetest.Program) *millracetest.App) {
//		bank := new(fakeBank) // each run has its own
//		app := start(program(bank))
//		orders := process.Open[Order](app.Channels(), "fulfil")
//		…                     // as in Run
//	})
//
// The faults are: the call fails before its effect, or after it; it reaches the store 20 seconds late; the worker loses
// the messages in its hand; it dies before the call, or after it. Another worker takes its place at once. All is run on
// a store that takes a unit of work as a whole, and on one that takes its steps one by one. With go test -short, only
// every second call has a fault, and one of these only; with the race detector, every sixth. MILLRACE_SEEDS in the
// environment brings them all back.
//
// A fault costs up to a minute. A plan or a timer with a shorter limit may end otherwise then, which is a difference.
// So is the order of messages that are under way at the same time: the gathering function of an Each is to be
// order-free; see [Shuffled]. The test itself must hold in each run, too.
func CrashEverywhere(t *testing.T, test func(t *testing.T, start func(Program) *App)) {
	t.Helper()
	for store, name := range []string{"whole", "in steps"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &crashes{test: test, plain: name == "in steps"}
			history := ""
			c.want, history = c.run(t, func(name string, op storagetest.Op) storagetest.Fault {
				c.calls = append(c.calls, call{name, op})
				return storagetest.NoFault
			})
			if t.Failed() || len(c.calls) == 0 {
				t.Fatalf("the run without faults fails, or has no storage call; its history:\n%s", history)
			}
			all := everyFault()
			first, step := 0, 1
			switch {
			case os.Getenv("MILLRACE_SEEDS") != "":
			case worldtest.RaceDetector:
				first, step = 3*store*len(all), 6*len(all)
			case testing.Short():
				first, step = store*len(all), 2*len(all)
			}
			for i, fault := range all {
				t.Run(fault.String(), func(t *testing.T) {
					t.Parallel()
					c.each(t, fault, (first+i)%step, step)
				})
			}
		})
	}
}

// everyFault lists the faults that a call may have.
func everyFault() []storagetest.Fault {
	return []storagetest.Fault{
		storagetest.FailBefore, storagetest.FailAfter, storagetest.DelayBefore, storagetest.Release, storagetest.CrashBefore, storagetest.CrashAfter,
	}
}

// crashes are the runs of a test on a kind of store.
type crashes struct {
	test  func(*testing.T, func(Program) *App)
	plain bool
	calls []call            // without faults
	want  map[string]string // what each document is in the end, without faults
}

// call is a storage call. Its name tells the operation, the resource, and how often both were there before.
type call struct {
	name string
	op   storagetest.Op
}

// each runs the test with a fault in each call that may have it, or in one of so many.
func (c *crashes) each(t *testing.T, fault storagetest.Fault, first, step int) {
	tried, hits := 0, 0
	for i := first; i < len(c.calls); i += step {
		if !fault.Fits(c.calls[i].op) {
			continue
		}
		tried++
		hit := false
		got, history := c.run(t, func(name string, op storagetest.Op) storagetest.Fault {
			if hit || name != c.calls[i].name {
				return storagetest.NoFault
			}
			hit = true
			return fault
		})
		if hit {
			hits++
		}
		for _, key := range slices.Sorted(maps.Keys(union(got, c.want))) {
			if got[key] != c.want[key] {
				t.Errorf("%s (- without faults, + with this one)\n%s", key, diff(lines(c.want[key]), lines(got[key])))
			}
		}
		if t.Failed() {
			t.Fatalf("the fault: %s in %s; the history:\n%s", fault, c.calls[i].name, history)
		}
	}
	if hits < tried/2 { // a call may not come again
		t.Errorf("only %d of %d calls came again and had the fault", hits, tried)
	}
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// run runs the test with the faults of a schedule, and returns what each document is in the end.
func (c *crashes) run(t *testing.T, schedule func(name string, op storagetest.Op) storagetest.Fault) (end map[string]string, history string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := faulttest.New(worldtest.OpenStore(t, worldtest.Virtual), faulttest.Plan{Plain: c.plain})
		a := newApp(t, w.Store)
		a.guard, a.log, a.faults = true, w.Log("worker"), disturbance(w, schedule)
		defer func() {
			a.end()
			history = w.History(300)
		}()
		c.test(t, func(p Program) *App {
			if a.channels != nil {
				t.Fatal("millracetest: CrashEverywhere: start was called twice")
			}
			a.begin(p)
			return a
		})
		if a.channels == nil {
			t.Fatal("millracetest: CrashEverywhere: start was not called")
		}
		a.Drain()
		a.Stop()
		end = a.documents()
	})
	return end, history
}

// disturbance disturbs the first worker of a world by a schedule.
func disturbance(w *faulttest.World, schedule func(name string, op storagetest.Op) storagetest.Fault) storagetest.Disturbance {
	var mu sync.Mutex
	n, ids := map[string]int{}, newNaming(anyID)
	return storagetest.Disturbance{
		Delay: faultTime,
		Schedule: func(op storagetest.Op) storagetest.Fault {
			mu.Lock()
			defer mu.Unlock()
			call := op.Name + " " + ids.in(op.Resource)
			n[call]++
			return schedule(fmt.Sprintf("%s, number %d", call, n[call]), op)
		},
		Trace: func(op storagetest.Op, f storagetest.Fault, err error) {
			switch {
			case f != storagetest.NoFault:
				w.Tell("%s %s: %s (%v)", op.Name, op.Resource, f, err)
			case op.Name != "receive" && op.Name != "stats" && op.Name != "extend":
				w.Tell("%s %s: %v", op.Name, op.Resource, err)
			}
		},
	}
}

// documents describes all documents, without their times and attempts, and with names for the IDs that the program has
// made.
func (a *App) documents() map[string]string {
	a.t.Helper()
	all, ids := map[string]string{}, newNaming(ownID)
	a.recorder.read()
	places := slices.SortedFunc(maps.Keys(a.recorder.docs), func(x, y docPlace) int {
		return cmp.Or(cmp.Compare(x.container, y.container), cmp.Compare(x.key, y.key)) // IDs by their times
	})
	for _, at := range places {
		name := at.container + " " + ids.in(at.key)
		switch {
		case !a.channels.Routes().Has(channel.Kind("process." + at.container + ".start")):
			all[name] = ids.in(timeless(indented(a.recorder.docs[at].last.Value)))
		case !strings.Contains(at.key, "/"): // parts belong to it
			all[name] = ids.in(describeInstance(a.t, a.store, at.container, at.key))
		}
	}
	return all
}

var aTime = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`)

func timeless(s string) string { return aTime.ReplaceAllString(s, `"(a time)"`) }

// describeInstance describes an instance of a plan and its row in the index.
func describeInstance(t *testing.T, s *storage.Store, plan, id string) string {
	t.Helper()
	l, err := process.Look(s, plan, source)
	if err != nil {
		t.Fatal(err)
	}
	x, err := l.Stream(t.Context(), id)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s\n", x.Status, because(x.Msg))
	state, err := json.Marshal(x.State)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(&b, timeless(indented(state)))
	for _, line := range x.Lines[1:] {
		fmt.Fprintf(&b, "%s %s %s", line.ID, line.Name, line.Status)
		if line.Items > 0 {
			fmt.Fprintf(&b, ", %d items, %d left, %d failed", line.Items, line.Left, line.Failed)
		}
		for _, u := range line.Undos {
			fmt.Fprintf(&b, ", %s", u.Status)
		}
		fmt.Fprintln(&b)
	}
	for _, n := range x.Notes {
		fmt.Fprintln(&b, strings.Join(nonempty(n.Do, n.Path, n.By, n.Why), " "))
	}
	for e, err := range l.Open(t.Context()) {
		describeEntry(&b, id, e, err)
	}
	if !x.Ended.IsZero() {
		for e, err := range l.Ended(t.Context(), x.Ended) {
			describeEntry(&b, id, e, err)
		}
	}
	return b.String()
}

func describeEntry(b *strings.Builder, id string, e process.Entry, err error) {
	switch {
	case err != nil:
		fmt.Fprintln(b, err)
	case e.ID == id:
		fmt.Fprintf(b, "index: %s%s, waits for %q, tags %v\n", e.Status, because(e.Error), e.Waits, e.Tags)
	}
}
