package millracetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/values"
)

// The programs of this file are journeys: a process, each with one break.

type journey struct {
	Bags   []string `json:"bags"`
	Packed int      `json:"packed"`
	Seat   string   `json:"seat,omitempty"`
	Legs   int      `json:"legs"`
}

type leg struct {
	From   string `json:"from"`
	Walked bool   `json:"walked,omitempty"`
}

type whistle struct{ N int }

func (whistle) Kind() channel.Kind { return "kit.whistle.v1" }

// travel is a plan with parts that a test replaces.
type travel struct {
	book func(context.Context, journey) (string, error)
	bags func(journey) []string
	seat func(journey, string) journey
	keep time.Duration // retention
}

func soundTravel() travel {
	return travel{
		book: func(ctx context.Context, _ journey) (string, error) {
			if process.Attempt(ctx) < 2 {
				return "", errors.New("no answer")
			}
			return "seat " + process.ID(ctx), nil
		},
		bags: func(j journey) []string { return j.Bags },
		seat: func(j journey, seat string) journey { j.Seat = seat; return j },
		keep: 30 * 24 * time.Hour,
	}
}

func (x travel) plan(p *process.Plan[journey]) {
	pack := func(_ context.Context, bag string) (string, error) { return bag, nil }
	p.Retention(x.keep)
	process.Do(p, "book", x.book, x.seat).Undo(func(context.Context, journey, string) error { return nil })
	process.Each(p, "pack", x.bags, pack, func(j journey, _ string) journey { j.Packed++; return j })
	process.Wait(p, "whistle", func(j journey, w whistle) journey { return j }).Within(time.Hour)
	process.Sleep(p, "rest", 3*time.Hour)
	from := func(bag string) leg { return leg{From: bag} }
	process.Split(p, "legs", x.bags, from, func(p *process.Plan[leg]) {
		walk := func(context.Context, leg) (bool, error) { return true, nil }
		process.Do(p, "walk", walk, func(l leg, ok bool) leg { l.Walked = ok; return l })
	}, func(j journey, l leg) journey { j.Legs++; return j })
}

func (x travel) program() Program {
	return Program{
		Routes: func() (*channel.Routes, error) { return channel.NewRoutes(process.Route("travel")) },
		Register: func(h *handlers.Registry) error {
			return process.Register(h, "travel", process.Version(1, x.plan))
		},
	}
}

// depart starts journeys. To every third nobody whistles.
func depart(s *Sim) (all []string) {
	journeys := process.Open[journey](s.Channels(), "travel")
	ctx := s.t.Context()
	for i := range 6 {
		id, j := fmt.Sprint("j", i), journey{Bags: []string{"red", "green"}}
		all = append(all, id)
		err := error(nil)
		if i%2 == 0 {
			err = journeys.StartNew(ctx, id, j)
		} else {
			s.Send(journeys.Starting(id, j))
		}
		if i%3 != 0 {
			err = errors.Join(err, journeys.Signal(ctx, id, whistle{i}))
		}
		if err != nil {
			s.t.Fatal(err)
		}
		s.Advance(time.Duration(s.Rand.IntN(40)) * time.Second)
	}
	return all
}

// A sound process keeps the laws under all faults, and so does one of whose instances only tombstones are left.
func TestSimulateProcesses(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{"at once": 0, "after their retention": 8 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Simulate(t, func(t *testing.T, s *Sim) {
				x := soundTravel()
				if after > 0 {
					x.keep = time.Hour
				}
				s.Start(x.program())
				all := depart(s)
				s.Advance(after)
				s.Settle()
				journeys := process.Open[journey](s.Channels(), "travel")
				for i, id := range all {
					x, err := journeys.Get(t.Context(), id)
					want := process.Completed
					if i%3 == 0 {
						want = process.Aborted
					}
					if err != nil || x.Status != want || i%3 != 0 && after == 0 && x.State.Legs != 2 || after > 0 && x.State.Bags != nil {
						t.Errorf("%s: got %+v, %v; want %s", id, x, err, want)
					}
				}
			}, 1, 2)
		})
	}
}

// note is a value that is to recognise its repeats by itself.
type note struct {
	Last  int `json:"last"`
	Count int `json:"count"`
}

// noting is a program of a value without a record. fold is its decision.
func noting(fold func(note, whistle) (note, error)) Program {
	return Program{
		Routes: func() (*channel.Routes, error) { return channel.NewRoutes(channel.Command[whistle]("notes")) },
		Register: func(h *handlers.Registry) error {
			c := values.New(h.Channels(), "notes", values.Config[note]{Idempotent: func(*channel.Envelope) bool { return true }})
			handling.Fold(h.Inside(), handling.As{}, "note a whistle", "notes", c, func(*channel.Envelope, whistle) (string, bool) { return "all", true },
				func(v note, _ *channel.Envelope, w whistle) (note, []channel.Message, error) {
					v, err := fold(v, w)
					return v, nil, err
				})
			return nil
		},
	}
}

func whistles(s *Sim) {
	for i := range 12 {
		s.Send(whistle{i + 1})
		s.Advance(time.Minute)
	}
}

// A value that recognises its repeats by itself keeps the laws.
func TestSimulateAValueThatKnowsItsRepeats(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	Simulate(t, func(_ *testing.T, s *Sim) {
		s.Start(noting(func(v note, w whistle) (note, error) {
			if w.N <= v.Last {
				return v, values.ErrUnchanged
			}
			return note{w.N, v.Count + 1}, nil
		}))
		whistles(s)
	}, 1, 2, 3)
}

// Each break of a process, and of a value that knows its repeats, is found under its name.
func TestBreaksOfProcessesAreFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		law, says string
		run       func(s *Sim)
	}{
		"a result that depends on the clock": {PureDecisions, `"seat": "2`, func(s *Sim) {
			x := soundTravel()
			x.seat = func(j journey, _ string) journey { j.Seat = time.Now().Format(time.DateOnly); return j }
			s.Start(x.program())
			depart(s)
		}},
		"items that depend on the clock": {PureDecisions, "emission", func(s *Sim) {
			x := soundTravel()
			x.bags = func(j journey) []string { return []string{time.Now().Format(time.DateOnly)} }
			s.Start(x.program())
			depart(s)
		}},
		"a function that panics": {ProcessesEnd, `"j1" is stuck: 01 book: panic: no such seat`, func(s *Sim) {
			x := soundTravel()
			x.seat = func(journey, string) journey { panic("no such seat") }
			s.Start(x.program())
			s.ExpectStuck(func(_, id string) bool { return id != "j1" })
			depart(s)
		}},
		"a value that forgets": {DecidedOnce, "not recognised", func(s *Sim) {
			s.Start(noting(func(v note, w whistle) (note, error) { return note{w.N, v.Count + 1}, nil }))
			whistles(s)
		}},
		"a value that overlooks": {DecidedOnce, "no document has applied it", func(s *Sim) {
			var once sync.Map
			s.Start(noting(func(v note, w whistle) (note, error) {
				if _, again := once.LoadOrStore(w.N, true); !again || w.N <= v.Last {
					return v, values.ErrUnchanged
				}
				return note{w.N, v.Count + 1}, nil
			}))
			whistles(s)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most = 12
			for seed := range uint64(most) {
				var s *Sim
				simulate(t, &s, seed+1, func(_ *testing.T, s *Sim) { c.run(s) })
				if says(s, c.law, c.says) {
					return
				}
				t.Logf("seed %d: %.3000v", s.Seed, s.evidence.found)
			}
			t.Errorf("%d seeds found nothing that breaks %q and says %q", most, c.law, c.says)
		})
	}
}

// An instance that has ended has no open step, and no step is open past its deadline.
func TestCheckStream(t *testing.T) {
	t.Parallel()
	at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	open := process.Line{ID: "02", Name: "ship", Status: process.InProcess}
	late := open
	late.Timeout = at
	for name, c := range map[string]struct {
		stream process.Stream
		says   string // empty: nothing is wrong
	}{
		"ended":    {process.Stream{Status: process.Completed}, ""},
		"waits":    {process.Stream{Status: process.InProcess, Lines: []process.Line{open}}, ""},
		"open":     {process.Stream{Status: process.Completed, Lines: []process.Line{open}}, "its step 02 ship is open"},
		"late":     {process.Stream{Status: process.InProcess, Lines: []process.Line{late}}, "nothing is left that would end it"},
		"expected": {process.Stream{ID: "expected", Status: process.Stuck}, ""},
		"stuck": {process.Stream{Status: process.Stuck, Lines: []process.Line{{ID: "01", Name: "pay", Status: process.Undone, Undos: []process.UndoRow{{Status: process.Stuck, Msg: "no bank"}}}}},
			"is stuck: undo of 01 pay: no bank"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s Sim
			s.ExpectStuck(func(_, id string) bool { return id == "expected" })
			found := checkStream(&c.stream, s.stuck)
			bad := slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, c.says) })
			if bad != (c.says != "") || len(found) > 1 {
				t.Errorf("got %q; want a finding that says %q", found, c.says)
			}
		})
	}
}
