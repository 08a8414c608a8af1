package process_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
)

// note is the state of most plans of these tests: what was done, in the order in which it was taken.
type note struct {
	Did []string `json:"did"`
}

func (n note) add(what string) note { return note{append(slices.Clone(n.Did), what)} }

// goOn is the signal that most plans wait for.
type goOn struct {
	By string `json:"by"`
}

func (goOn) Kind() channel.Kind { return "test.goon.v1" }

func (n note) goOn(g goOn) note { return n.add("go on " + g.By) }

// crew are the agents of a test. All that they do stands in the journal, whether it is taken or not.
type crew struct {
	sound atomic.Bool // the functions of the plan work now

	mu      sync.Mutex
	on      map[string]func(ctx context.Context) (string, error) // instead of doing it; under mu
	journal []string                                             // under mu
}

func newCrew() *crew { return &crew{on: map[string]func(context.Context) (string, error){}} }

// when has a function do the work of an agent, or of an undo.
func (c *crew) when(name string, f func(ctx context.Context) (string, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on[name] = f
}

func (c *crew) work(ctx context.Context, name string) (string, error) {
	c.mu.Lock()
	c.journal = append(c.journal, name)
	f := c.on[name]
	c.mu.Unlock()
	if f != nil {
		return f(ctx)
	}
	return name, nil
}

// took returns the journal, and begins another one.
func (c *crew) took() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := strings.Join(c.journal, ", ")
	c.journal = nil
	return all
}

// do adds a step to a plan. Its result goes into the note.
func (c *crew) do(p *process.Plan[note], name string) *process.Step[note, note, string] {
	return process.Do(p, name, func(ctx context.Context, _ note) (string, error) { return c.work(ctx, name) }, note.add)
}

// undoable adds a step with an undo.
func (c *crew) undoable(p *process.Plan[note], name string) *process.Step[note, note, string] {
	return c.do(p, name).Undo(func(ctx context.Context, _ note, _ string) error {
		_, err := c.work(ctx, "undo "+name)
		return err
	})
}

// lab is a plan under test with its program.
type lab struct {
	*crew
	t     *testing.T
	steps bool // the store takes the steps of a unit of work one by one
	of    millracetest.Program
	app   *millracetest.App
	notes *process.Instances[note]
}

// planName is the name of the plans under test.
const planName = "plan"

// each runs a test of a plan on a store that takes a unit of work as a whole, and on one that takes its steps one by
// one.
func each(t *testing.T, plan func(c *crew, p *process.Plan[note]), test func(l *lab)) {
	t.Helper()
	eachOf(t, func(c *crew) millracetest.Program {
		return millracetest.Plan(planName, func(p *process.Plan[note]) { plan(c, p) }, nil)
	}, test)
}

// eachOf is each for a whole program.
func eachOf(t *testing.T, program func(c *crew) millracetest.Program, test func(l *lab)) {
	t.Helper()
	t.Parallel()
	for _, steps := range []bool{false, true} {
		t.Run(fmt.Sprintf("in steps=%v", steps), func(t *testing.T) {
			t.Parallel()
			c := newCrew()
			p := program(c)
			p.InSteps = steps
			millracetest.Run(t, p, func(t *testing.T, app *millracetest.App) {
				test(&lab{c, t, steps, p, app, process.Open[note](app.Channels(), planName)})
			})
		})
	}
}

func (l *lab) ok(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// start starts an instance and lets it work.
func (l *lab) start(id string) {
	l.t.Helper()
	l.ok(l.notes.Start(l.t.Context(), id, note{Did: []string{}}))
	l.app.Drain()
}

// signal lets an instance go on.
func (l *lab) signal(id, by string) {
	l.t.Helper()
	l.ok(l.notes.Signal(l.t.Context(), id, goOn{by}))
	l.app.Drain()
}

func (l *lab) get(id string) process.Snapshot[note] {
	l.t.Helper()
	s, err := l.notes.Get(l.t.Context(), id)
	l.ok(err)
	return s
}

// want compares the status of an instance, and what was taken.
func (l *lab) want(id string, status process.Status, did string) {
	l.t.Helper()
	s := l.get(id)
	if got := strings.Join(s.State.Did, ", "); s.Status != status || got != did {
		l.t.Errorf("%s: got %s with %q, want %s with %q\n%s", id, s.Status, got, status, did, l.timeline(id))
	}
}

func (l *lab) wantError(id, part string) {
	l.t.Helper()
	if s := l.get(id); !strings.Contains(s.Error, part) {
		l.t.Errorf("%s: got the error %q, want one with %q", id, s.Error, part)
	}
}

func (l *lab) wantJournal(want string) {
	l.t.Helper()
	if got := l.took(); got != want {
		l.t.Errorf("the agents: got %q, want %q", got, want)
	}
}

func (l *lab) timeline(id string) string {
	l.t.Helper()
	return millracetest.Timeline(l.t, l.app.Store(), planName, id)
}

// wantPoison compares the reasons of what is in the poison queues.
func (l *lab) wantPoison(want ...string) {
	l.t.Helper()
	var got []string
	for _, e := range l.app.Poison() {
		got = append(got, e.Queue+": "+e.Reason)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		l.t.Errorf("poison queues: got %q, want %q", got, want)
	}
}

// pass lets time pass, and doesn't wait for what is at work then.
func (l *lab) pass(d time.Duration) {
	time.Sleep(d) // in a bubble
}

// pause lets a long time pass while no worker runs.
func (l *lab) pause(d time.Duration) {
	l.t.Helper()
	l.app.Stop()
	time.Sleep(d) // in a bubble
	l.app.Start()
	l.app.Drain()
}

func (l *lab) looker() *process.Looker {
	l.t.Helper()
	x, err := process.Look(l.app.Store(), planName, "/test")
	l.ok(err)
	return x
}

func (l *lab) operator(by, why string) process.Operator { return l.looker().Operator(by, why) }

// asked expects that an act was sent.
func (l *lab) asked(_ process.Asked, err error) {
	l.t.Helper()
	l.ok(err)
}
