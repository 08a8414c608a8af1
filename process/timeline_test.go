package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/process"
)

// bars are a timeline in words: a line for each line of the stream, with * for the critical path, and for each bar what
// it is, and from when to when.
func bars(s *process.Stream, t *process.Timeline) string {
	var b strings.Builder
	for i, row := range t.Rows {
		mark := " "
		if row.Critical {
			mark = "*"
		}
		fmt.Fprintf(&b, "%s %s", mark, s.Lines[i].Name)
		for _, x := range row.Bars {
			fmt.Fprintf(&b, " %s %v-%v", x.Is, x.From.Sub(t.From).Round(time.Second), x.To.Sub(t.From).Round(time.Second))
			if x.Attempt > 1 || x.Failed != "" {
				fmt.Fprintf(&b, " #%d%s", x.Attempt, x.Failed)
			}
			if x.Open {
				b.WriteString("+")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func wantBars(t *testing.T, s *process.Stream, now time.Time, want ...string) *process.Timeline {
	t.Helper()
	line := s.Timeline(now)
	if got := bars(s, line); got != strings.Join(want, "\n")+"\n" {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	return line
}

// takes is an agent that takes its time.
func takes(d time.Duration, fail func(attempt int) error) func(context.Context, tour) (int, error) {
	return func(ctx context.Context, _ tour) (int, error) {
		pause(ctx, d)
		return 1, fail(process.Attempt(ctx))
	}
}

// pause lets time pass.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func well(int) error { return nil }

// A timeline tells waiting from working, for each attempt, and finds the critical path.
func TestTimeline(t *testing.T) {
	onTour(t, func(p *process.Plan[tour]) {
		process.Do(p, "slow", takes(10*time.Second, func(n int) error {
			if n == 1 {
				return handlers.Retry(20*time.Second, errors.New("busy"))
			}
			return nil
		}), tour.saw).Undo(func(ctx context.Context, _ tour, _ int) error { pause(ctx, 5*time.Second); return nil })
		process.All(p, "both", func(p *process.Plan[tour]) {
			process.Sleep(p, "nap", 20*time.Second)
			process.Do(p, "long", takes(40*time.Second, well), tour.saw)
		}, func(p *process.Plan[tour]) {
			process.Do(p, "short", takes(15*time.Second, well), tour.saw)
		})
		process.Wait[tour, ready](p, "end", nil).Within(time.Minute)
	}, func(b *booklet) {
		began := time.Now()
		if err := b.tours.Start(b.Context(), "t1", tour{ID: "t1"}); err != nil {
			t.Fatal(err)
		}
		pause(b.Context(), 35*time.Second)
		wantBars(t, b.stream("t1"), time.Now(), "* tour holds 0s-35s+", "* slow works 0s-10s #1retry after 20s: busy waits 10s-30s asks 30s-35s #2+")
		pause(b.Context(), 75*time.Second)
		line := wantBars(t, b.stream("t1"), time.Now(), "* tour holds 0s-1m50s+", "* slow works 0s-10s #1retry after 20s: busy waits 10s-30s works 30s-40s #2",
			"* both holds 40s-1m40s", "* nap waits 40s-1m0s", "* long works 1m0s-1m40s", "  short works 40s-55s", "* end waits 1m40s-1m50s+")
		if line.Working.Round(time.Second) != time.Minute || line.Waiting.Round(time.Second) != 50*time.Second || line.Asking != 0 {
			t.Errorf("the critical path: got %v of work, %v of waiting, %v of asking; want 1m, 50s and none", line.Working, line.Waiting, line.Asking)
		}
		pause(b.Context(), time.Minute)
		line = wantBars(t, b.stream("t1"), time.Now(), "* tour holds 0s-2m45s", "* slow works 0s-10s #1retry after 20s: busy waits 10s-30s works 30s-40s #2 undoes 2m40s-2m45s",
			"* both holds 40s-1m40s", "* nap waits 40s-1m0s", "* long works 1m0s-1m40s", "  short works 40s-55s", "* end waits 1m40s-2m40s")
		if !line.From.Equal(began) || line.To.Sub(began).Round(time.Second) != 165*time.Second {
			t.Errorf("got a timeline from %v to %v", line.From, line.To)
		}
	})
}

// The critical path of an Any is the branch that has won, of an All that has failed the one that has, and of parts the
// last one.
func TestCriticalPath(t *testing.T) {
	nap := func(name string, d time.Duration) func(*process.Plan[tour]) {
		return func(p *process.Plan[tour]) { process.Sleep(p, name, d) }
	}
	onTour(t, func(p *process.Plan[tour]) {
		process.Any(p, "any", nap("never", time.Hour), nap("first", time.Minute))
		process.All(p, "all", nap("on", time.Hour), func(p *process.Plan[tour]) {
			process.Do(p, "fails", takes(time.Second, func(int) error { return process.Refuse(errors.New("no")) }), nil)
		}).Else(nap("instead", time.Minute))
		process.Split(p, "parts", func(tour) []int { return []int{20, 30, 10} }, func(n int) tour { return tour{Seen: n} }, func(p *process.Plan[tour]) {
			process.SleepUntil(p, "sleep", func(s tour) time.Time { return time.Date(2000, 1, 1, 0, s.Seen, 0, 0, time.UTC) })
		}, nil)
		process.Each(p, "each", func(tour) []int { return []int{1, 2} }, func(ctx context.Context, _ int) (int, error) { pause(ctx, time.Second); return 0, nil }, nil)
	}, func(b *booklet) {
		b.start(tour{ID: "t1"})
		b.app.Advance(time.Hour)
		wantBars(t, b.stream("t1"), time.Now(), "* tour holds 0s-30m1s",
			"* any holds 0s-1m0s", "  never waits 0s-1m0s", "* first waits 0s-1m0s",
			"* all holds 1m0s-1m1s", "* instead waits 1m1s-2m1s", "  on waits 1m0s-1m1s", "* fails works 1m0s-1m1s #1refused: no",
			"* parts holds 2m1s-30m0s", "  parts 0 holds 2m1s-20m0s", "  sleep waits 2m1s-20m0s", "* parts 1 holds 2m1s-30m0s", "* sleep waits 2m1s-30m0s", "  parts 2 holds 2m1s-10m0s", "  sleep waits 2m1s-10m0s",
			"* each works 30m0s-30m1s")
	})
}

// Clocks that differ can't turn a timeline round.
func TestTimelineOfWrongClocks(t *testing.T) {
	g := &guide{}
	onTour(t, g.plan, func(b *booklet) {
		b.start(tour{ID: "t0"})
		b.put("t1", `{"value":{"plan":"tour","version":3,"status":"completed","created":"2000-01-01T00:00:10Z","ended":"2000-01-01T00:00:20Z","events":[
			{"id":"01","name":"early","status":"completed","attempt":9,"created":"2000-01-01T00:00:10Z","began":"1999-01-01T00:00:00Z","ended":"2000-01-01T00:00:15Z","failures":[{"n":1,"at":"1998-01-01T00:00:00Z","msg":"x"},{"n":8,"at":"2000-01-01T00:00:12Z","msg":"y"}]},
			{"id":"02","name":"late","status":"completed","attempt":1,"created":"2000-01-01T00:00:15Z","began":"2001-01-01T00:00:00Z","ended":"2000-01-01T00:00:05Z"},
			{"id":"03.01.01","name":"ahead","status":"completed","attempt":1,"created":"2000-01-01T00:00:15Z","began":"2001-01-01T00:00:00Z","ended":"2000-01-01T00:00:20Z"},
			{"id":"03.02.02","name":"forgotten","status":"inprocess","created":"2002-01-01T00:00:15Z","due":"1999-01-01T00:00:15Z"}]}}`)
		wantBars(t, b.stream("t1"), time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC), "* tour holds 0s-10s", "* early asks 0s-0s #1x asks 0s-2s #8y works 2s-5s #9", "* late asks 5s-5s",
			"* ahead waits 5s-10s works 10s-10s", "* forgotten asks 17544h0m5s-17544h0m5s+")
		for _, s := range []*process.Stream{{}, {Lines: []process.Line{{ID: "00", Name: "x"}}}} {
			s.Timeline(time.Now()) // must not panic
		}
	})
}

// A trace has a thread for each line, in which the slices follow one another, and a process for each document.
func TestTrace(t *testing.T) {
	g := &guide{}
	onTour(t, g.plan, func(b *booklet) {
		b.start(tour{ID: "t1", Stops: []string{"a", "b"}, Fail: "maps"})
		b.app.Advance(2 * time.Minute)
		if _, err := b.by("ada", "slow").Nudge(b.Context(), "t1"); err != nil {
			t.Fatal(err)
		}
		b.signal("t1")
		s := b.stream("t1")
		var form bytes.Buffer
		if err := s.WriteTrace(&form, time.Now()); err != nil {
			t.Fatal(err)
		}
		var trace struct {
			Events []struct {
				Name, Ph, Cat, S string
				Ts, Dur          int64
				Pid, Tid         int
				Args             map[string]any
			} `json:"traceEvents"`
			DisplayTimeUnit string
			OtherData       map[string]any
		}
		dec := json.NewDecoder(&form)
		dec.DisallowUnknownFields()
		if err := dec.Decode(&trace); err != nil {
			t.Fatal(err)
		}
		type thread struct{ pid, tid int }
		threads, processes, until, acts := map[thread]string{}, map[int]string{}, map[thread]int64{}, 0
		for _, e := range trace.Events {
			at := thread{e.Pid, e.Tid}
			switch e.Ph {
			case "M":
				switch name, _ := e.Args["name"].(string); e.Name {
				case "thread_name":
					threads[at] = name
				case "process_name":
					processes[e.Pid] = name
				}
			case "X":
				if threads[at] == "" || processes[e.Pid] == "" || e.Ts < until[at] || e.Dur < 0 || e.Cat == "" || e.Args["id"] == nil {
					t.Errorf("slice %+v of %q comes before %d", e, threads[at], until[at])
				}
				until[at] = e.Ts + e.Dur
			case "i":
				if acts++; e.Name != "nudge" || e.Args["by"] != "ada" || e.Args["why"] != "slow" || e.S != "p" {
					t.Errorf("act %+v", e)
				}
			default:
				t.Errorf("event %+v", e)
			}
		}
		if len(threads) != len(s.Lines) || len(until) != len(s.Lines) || len(processes) != 4 || acts != 1 || processes[2] != "tour/t1/05.01.01.00000" {
			t.Errorf("got %d threads, %d with slices, processes %v, %d acts; want %d threads", len(threads), len(until), processes, acts, len(s.Lines))
		}
		if trace.OtherData["id"] != "t1" || trace.DisplayTimeUnit != "ms" {
			t.Errorf("got %v in units of %s", trace.OtherData, trace.DisplayTimeUnit)
		}
		if err := s.WriteTrace(failingWriter{}, time.Now()); err == nil {
			t.Error("a writer that fails: got no error")
		}
	})
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("full") }
