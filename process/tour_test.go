package process_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

// A tour is a state for the tests of tools: what it says decides how its plan goes.
type tour struct {
	ID    string   `json:"id"`
	Fail  string   `json:"fail,omitempty"` // the step that fails
	Stick string   `json:"stick,omitempty"`
	Stops []string `json:"stops,omitempty"`
	Seen  int      `json:"seen"`
}

type (
	stop struct {
		Name  string `json:"name"`
		Stick bool   `json:"stick,omitempty"`
		Fail  bool   `json:"fail,omitempty"`
		Seen  int    `json:"seen"`
	}
	inquire struct{ Tour string }
	shown   struct{ Tour string }
	ready   struct {
		By string `json:"by"`
	}
)

func (inquire) Kind() channel.Kind { return "test.ask.v1" }
func (shown) Kind() channel.Kind   { return "test.shown.v1" }
func (ready) Kind() channel.Kind   { return "test.ready.v1" }

// A guide is the agents of a tour.
type guide struct {
	fail func(step string) error
}

func (g *guide) walk(step string) func(context.Context, tour) (int, error) {
	return func(_ context.Context, s tour) (int, error) {
		if s.Fail == step {
			return 0, process.Refuse(errors.New(step + " is closed"))
		}
		if g.fail != nil {
			return 1, g.fail(step)
		}
		return 1, nil
	}
}

func (g *guide) visit(_ context.Context, s stop) (string, error) {
	if s.Fail {
		return "", process.Refuse(errors.New(s.Name + " is closed"))
	}
	return s.Name, nil
}

func back(context.Context, tour, int) error { return nil }

func (s tour) saw(n int) tour {
	s.Seen += n
	return s
}

func (s tour) names() []string { return s.Stops }
func (s tour) stops() (all []stop) {
	for _, name := range s.Stops {
		all = append(all, stop{Name: name, Stick: name == s.Stick, Fail: name == s.Fail})
	}
	return all
}

// plan has all verbs.
func (g *guide) plan(p *process.Plan[tour]) {
	p.Tags(func(s tour) map[string]string { return map[string]string{"guide": "ada", "fail": s.Fail} })
	process.Do(p, "book", g.walk("book"), tour.saw).Undo(back)
	process.Ask(p, "ask", func(s tour) inquire { return inquire{s.ID} }, func(s tour, _ shown) tour { return s })
	process.All(p, "pack", func(p *process.Plan[tour]) {
		process.Do(p, "bags", g.walk("bags"), tour.saw).Undo(back)
		process.Then(p, "weigh", func(s tour) tour { return s })
	}, func(p *process.Plan[tour]) {
		process.Sleep(p, "rest", time.Minute)
		process.Do(p, "maps", g.walk("maps"), tour.saw).By("library").Else(func(p *process.Plan[tour]) {
			process.Do(p, "guess", g.walk("guess"), tour.saw)
		})
	})
	process.Any(p, "ride", func(p *process.Plan[tour]) {
		process.Wait[tour, ready](p, "driver", nil)
	}, func(p *process.Plan[tour]) {
		process.Sleep(p, "bus", time.Hour)
	})
	process.If(p, "many", func(s tour) bool { return len(s.Stops) > 1 }, func(p *process.Plan[tour]) {
		process.Split(p, "visit", tour.stops, func(s stop) stop { return s }, g.visiting, func(s tour, x stop) tour { return s.saw(x.Seen) }).Tolerate(1)
	}, nil)
	process.Each(p, "photos", tour.names, func(context.Context, string) (int, error) { return 1, nil }, tour.saw)
	process.Child(p, "home", func(s tour) stop { return stop{Name: s.ID} }, g.visiting, nil)
}

// visiting is the plan of a stop.
func (g *guide) visiting(p *process.Plan[stop]) {
	process.Do(p, "look", g.visit, func(s stop, _ string) stop { s.Seen++; return s })
	process.Then(p, "remember", func(s stop) stop {
		if s.Stick {
			panic("no memory")
		}
		return s
	})
}

// A booklet is what the tests of tools work with.
type booklet struct {
	*testing.T
	app   *millracetest.App
	look  *process.Looker
	tours *process.Instances[tour]
}

// onTour runs a test of tools.
func onTour(t *testing.T, build func(*process.Plan[tour]), test func(b *booklet)) {
	t.Helper()
	t.Parallel()
	p := millracetest.Program{
		Routes: func() (*channel.Routes, error) {
			return channel.NewRoutes(process.Route("tour", "library"), channel.Command[inquire]("answers"), channel.Event[shown]("tour"))
		},
		Register: func(h *handlers.Registry) error {
			handlers.Reply(h, "answers", func(_ context.Context, a inquire) ([]channel.Message, error) {
				return []channel.Message{shown(a)}, nil
			}, shown{})
			return process.Register(h, "tour", process.Version(3, build))
		},
	}
	millracetest.Run(t, p, func(t *testing.T, app *millracetest.App) {
		l, err := process.Look(app.Store(), "tour", "/test")
		if err != nil {
			t.Fatal(err)
		}
		test(&booklet{t, app, l, process.Open[tour](app.Channels(), "tour")})
	})
}

func (b *booklet) start(s tour) {
	b.Helper()
	if err := b.tours.Start(b.Context(), s.ID, s); err != nil {
		b.Fatal(err)
	}
	b.app.Drain()
}

// put writes what somebody else has written.
func (b *booklet) put(id, body string) {
	b.Helper()
	if _, err := b.app.Store().Blobs("tour").Put(b.Context(), id, []byte(body), storage.Condition{}); err != nil {
		b.Fatal(err)
	}
}

func (b *booklet) signal(id string) {
	b.Helper()
	if err := b.tours.Signal(b.Context(), id, ready{"bob"}); err != nil {
		b.Fatal(err)
	}
	b.app.Drain()
}

// stream reads a stream and checks that its lines are a tree.
func (b *booklet) stream(id string) *process.Stream {
	b.Helper()
	s, err := b.look.Stream(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	checkTree(b.T, s)
	return s
}

// checkTree checks that Prev and Next say the same, that all lines hang together, and that all fields are there that
// every line has.
func checkTree(t *testing.T, s *process.Stream) {
	t.Helper()
	depth := map[string]int{}
	next := map[string][]string{}
	for i, x := range s.Lines {
		_, twice := depth[x.ID]
		above, known := depth[x.Prev]
		switch {
		case twice:
			t.Errorf("line %s is there twice", x.ID)
		case i == 0 && (x.ID != "00" || x.Prev != "" || x.Depth != 0):
			t.Errorf("the first line: got %+v", x)
		case i > 0 && (!known || x.Depth != above+1):
			t.Errorf("line %s of depth %d belongs to %q, which comes later or never", x.ID, x.Depth, x.Prev)
		case x.Key != s.ID || x.Name == "" || x.Status == "" || x.Created.IsZero() || !strings.HasPrefix(x.Ref, s.Plan+"/"+s.ID):
			t.Errorf("line %s: got %+v, want a key, a name, a status, a time and its document", x.ID, x)
		case x.Status.Final() == x.Timestamp.IsZero():
			t.Errorf("line %s, %s, ended at %v", x.ID, x.Status, x.Timestamp)
		}
		depth[x.ID] = x.Depth
		next[x.Prev] = append(next[x.Prev], x.ID)
	}
	for _, x := range s.Lines {
		if got := strings.Join(next[x.ID], "|"); got != x.Next {
			t.Errorf("line %s: next is %q, want %q", x.ID, x.Next, got)
		}
	}
}

// drawn is a stream in short: a line for each line, indented, with its ID, name, status and what it belongs to.
func drawn(s *process.Stream) string {
	var b strings.Builder
	for _, x := range s.Lines {
		fmt.Fprintf(&b, "%s%s %s %s", strings.Repeat("  ", x.Depth), x.ID, x.Name, x.Status)
		for _, u := range x.Undos {
			fmt.Fprintf(&b, " [%s]", u.Status)
		}
		b.WriteString("\n")
	}
	return b.String()
}
