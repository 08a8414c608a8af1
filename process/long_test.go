package process_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/process/internal/flow"
)

// An instance may go on for longer than package values remembers messages. Signals, acts and the words of parts that
// come after months are taken as on the first day.
func TestChainOlderThanAMonth(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		for i := range 4 {
			process.Sleep(p, fmt.Sprint("sleep ", i), 20*day)
			c.do(p, fmt.Sprint("a", i))
		}
		process.Split(p, "split", func(note) []string { return []string{"x", "y"} }, func(i string) note { return note{[]string{i}} },
			func(p *process.Plan[note]) {
				c.undoable(p, "part")
				process.Wait(p, "wait", note.goOn).Within(40 * day)
			}, nil).Within(60 * day)
	}, func(l *lab) {
		l.start("i")
		for range 4 {
			l.signal("i", "early")
			l.pause(20*day + time.Minute)
		}
		l.want("i", process.InProcess, "a0, a1, a2, a3")
		l.pause(35 * day)
		l.ok(l.notes.Cancel(l.t.Context(), "i", "ada", "enough"))
		l.app.Drain()
		l.want("i", process.Canceled, "a0, a1, a2, a3")
		l.wantJournal("a0, a1, a2, a3, part, part, undo part, undo part")
	})
}

// The deadline of a step of parts may be months away. The acts that its alarm brings about are as young as it. So the
// parts hear that they are cancelled, and take back their work, whatever else has come to them meanwhile.
func TestDeadlineOfPartsAfterMonths(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		process.Split(p, "split", func(note) []string { return []string{"x", "y"} }, func(i string) note { return note{[]string{i}} },
			func(p *process.Plan[note]) {
				c.undoable(p, "part")
				process.Wait(p, "wait", note.goOn).Within(200 * day)
			}, nil).Within(100 * day)
	}, func(l *lab) {
		l.start("i")
		l.pause(60 * day)
		for i := range 2 * 70 { // more than the record of a document holds, so that it can't judge what is older
			l.app.Send(flow.Signal{Plan: planName, ID: fmt.Sprintf("i/01.0000%d", i%2), Sort: "test.noise.v1", Body: jsontext.Value(fmt.Sprint(i))})
		}
		l.app.Drain()
		l.pause(40*day + time.Minute)
		l.want("i", process.Aborted, "")
		l.wantJournal("part, part, undo part, undo part")
		l.wantPoison()
	})
}

// An agent that has handed its begin back for more than a month begins what follows like any other: parts, which get
// acts, and commands.
func TestAgentThatWaitsForMonths(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.do(p, "a").Forever()
		process.Each(p, "each", func(note) []string { return numbers(1025) }, func(context.Context, string) (string, error) { return "", nil }, nil)
		process.Child(p, "sub", func(n note) note { return n }, func(p *process.Plan[note]) {
			c.undoable(p, "part")
			process.Wait(p, "wait", note.goOn).Within(10 * day)
		}, func(n, _ note) note { return n }).Within(20 * day)
	}, func(l *lab) {
		l.when("a", func(context.Context) (string, error) {
			if !l.sound.Load() {
				return "", handlers.Later(12*time.Hour, "closed")
			}
			return "a", nil
		})
		l.ok(l.notes.Start(l.t.Context(), "i", note{Did: []string{}}))
		time.Sleep(time.Minute) // in a bubble
		for range 4 {
			l.app.Stop()
			time.Sleep(10 * day)
			l.app.Start()
			time.Sleep(time.Minute)
		}
		l.sound.Store(true)
		time.Sleep(day)
		l.app.Drain()
		l.want("i", process.InProcess, "a")
		l.ok(l.notes.Cancel(l.t.Context(), "i", "ada", "enough"))
		l.app.Drain()
		l.want("i", process.Canceled, "a")
		l.wantPoison()
	})
}

// A wait of 400 days ends at its time, or by its signal before.
func TestWaitOfFourHundredDays(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		process.Wait(p, "wait", note.goOn).Within(400 * day)
		process.Sleep(p, "sleep", 400*day)
		c.do(p, "a")
	}, func(l *lab) {
		l.start("heard")
		l.start("unheard")
		l.pause(399 * day)
		l.want("unheard", process.InProcess, "")
		l.signal("heard", "ada")
		l.want("heard", process.InProcess, "go on ada")
		l.pause(day + time.Minute)
		l.want("unheard", process.Aborted, "")
		l.wantError("unheard", "no end within 9600h0m0s")
		l.pause(398 * day)
		l.want("heard", process.InProcess, "go on ada")
		l.pause(2 * day)
		l.want("heard", process.Completed, "go on ada, a")
	})
}

// A plan of 200 steps keeps a small document, and its timeline is whole.
func TestTwoHundredSteps(t *testing.T) {
	const n = 200
	each(t, func(c *crew, p *process.Plan[note]) {
		for i := range n {
			process.Do(p, fmt.Sprint("step ", i), func(ctx context.Context, _ note) (string, error) { return c.work(ctx, "step") }, nil)
		}
	}, func(l *lab) {
		l.start("i")
		l.want("i", process.Completed, "")
		if got := strings.Count(l.took(), "step"); got != n {
			l.t.Errorf("%d steps, want %d", got, n)
		}
		blob, err := l.app.Store().Blobs(planName).Get(l.t.Context(), "i", "")
		l.ok(err)
		if len(blob.Body) > 32<<10 {
			l.t.Errorf("the document has %d bytes, want few", len(blob.Body))
		}
		lines := stream(l, "i").Lines[1:]
		for i, x := range lines {
			if want := fmt.Sprint("step ", i); x.Name != want || x.Status != process.Completed {
				l.t.Fatalf("line %d: got %s %s, want %s completed", i, x.Name, x.Status, want)
			}
		}
		if len(lines) != n {
			l.t.Errorf("the timeline has %d steps, want %d", len(lines), n)
		}
	})
}
