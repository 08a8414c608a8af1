package millracetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
)

// The programs of this file are a shop, each with one break.

type cancelBuy struct {
	Item string `json:"item"`
	N    int    `json:"n"`
}

func (cancelBuy) Kind() channel.Kind { return "kit.cancel.v1" }

// shelf is a value object.
type shelf struct {
	Sold  int       `json:"sold"`
	Last  time.Time `json:"last,omitzero"`
	Lucky bool      `json:"lucky,omitempty"`
}

func (s shelf) buy(c buy) (shelf, []channel.Message, error) {
	s.Sold += c.N
	return s, []channel.Message{bought{c.Item, c.N}}, nil
}

func (s shelf) cancel(c cancelBuy) (shelf, []channel.Message, error) {
	s.Sold -= c.N
	return s, nil, nil
}

// shop is a program with parts that a test replaces.
type shop struct {
	buy    func(shelf, buy) (shelf, []channel.Message, error)
	cancel func(shelf, cancelBuy) (shelf, []channel.Message, error)
	fold   func([]int, bought) []int
	react  func(context.Context, bought) error
	once   func(context.Context, bought) error
}

func sound() shop {
	return shop{
		buy: shelf.buy, cancel: shelf.cancel,
		fold:  func(v []int, e bought) []int { v = append(v, e.N); slices.Sort(v); return v },
		react: func(context.Context, bought) error { return nil },
		once:  func(context.Context, bought) error { return nil },
	}
}

func (s shop) program() Program {
	return Program{
		Routes: func() (*channel.Routes, error) {
			return channel.NewRoutes(channel.Command[buy]("shop"), channel.Command[cancelBuy]("shop"), channel.Event[bought]("sales", "counts", "mails"))
		},
		Register: func(h *handlers.Registry) error {
			c := shelves(h.Channels())
			handlers.Decide(h, c, func(c buy) string { return c.Item }, s.buy, bought{})
			handlers.Decide(h, c, func(c cancelBuy) string { return c.Item }, s.cancel)
			views.Project(h, sales(h.Channels()), func(e bought) string { return e.Item }, s.fold)
			handlers.React(h, "counts", s.react)
			handlers.ReactOnce(h, "mails", s.once)
			return nil
		},
	}
}

func shelves(c *channel.Channels) *values.Collection[shelf] {
	return values.New(c, "shelves", values.Config[shelf]{Window: 2})
}

func sales(c *channel.Channels) *views.View[[]int] {
	return views.New(c, "sales", views.Config[[]int]{})
}

// busy sends a workload.
func busy(s *Sim) {
	for i := range 12 {
		s.Send(buy{Item: []string{"tea", "mug"}[i%2], N: 1 + i})
		s.Advance(time.Duration(s.Rand.IntN(40)) * time.Second)
	}
}

// Each break of a program is found under its name, in a few seeds.
func TestBreaksAreFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		law, says string
		run       func(s *Sim)
	}{
		"a decision that reads the clock": {PureDecisions, `"last"`, func(s *Sim) {
			p := sound()
			p.buy = func(v shelf, c buy) (shelf, []channel.Message, error) {
				v.Last = time.Now().Truncate(24 * time.Hour)
				return v.buy(c)
			}
			s.Start(p.program())
			busy(s)
		}},
		"a decision that throws dice": {PureDecisions, "emission", func(s *Sim) {
			p := sound()
			p.buy = func(v shelf, c buy) (shelf, []channel.Message, error) {
				return v, []channel.Message{bought{c.Item, rand.IntN(1000)}}, nil
			}
			s.Start(p.program())
			busy(s)
		}},
		"a decision that counts its calls": {PureDecisions, `"sold"`, func(s *Sim) {
			p, calls := sound(), atomic.Int64{}
			p.buy = func(v shelf, c buy) (shelf, []channel.Message, error) {
				v.Sold = int(calls.Add(1))
				return v, nil, nil
			}
			s.Start(p.program())
			busy(s)
		}},
		"a decision that fails now and then": {PureDecisions, "it fails", func(s *Sim) {
			p := sound()
			p.buy = func(v shelf, c buy) (shelf, []channel.Message, error) {
				if time.Now().Year() == 2000 {
					return v, nil, errNone
				}
				return v.buy(c)
			}
			s.Start(p.program())
			busy(s)
		}},
		"a projection that keeps the order": {OrderFree, "sales", func(s *Sim) {
			p := sound()
			p.fold = func(v []int, e bought) []int { return append(v, e.N) }
			s.Start(p.program())
			busy(s)
		}},
		"a projection that counts its calls": {ViewsAreFolds, "sales", func(s *Sim) {
			p, calls := sound(), atomic.Int64{}
			p.fold = func([]int, bought) []int { return []int{int(calls.Add(1))} }
			s.Start(p.program())
			busy(s)
		}},
		"a reaction that counts twice what comes twice": {Invariant, "counted", func(s *Sim) {
			var counted, decided atomic.Int64
			p, seen := sound(), sync.Map{}
			p.react = func(ctx context.Context, e bought) error {
				if id, _, _ := channel.Handled(ctx); id.ID != "" {
					if _, again := seen.LoadOrStore(id.ID, true); !again {
						decided.Add(1)
					}
				}
				counted.Add(1)
				return nil
			}
			s.Start(p.program())
			s.Always("each sale is counted once", func() error {
				if d, n := decided.Load(), counted.Load(); n > d {
					return fmt.Errorf("counted %d of %d", n, d)
				}
				return nil
			})
			busy(s)
		}},
		"a cancellation that must not come first": {Invariant, "sold", func(s *Sim) {
			p := sound()
			p.cancel = func(v shelf, c cancelBuy) (shelf, []channel.Message, error) {
				v.Sold = max(0, v.Sold-c.N) // lost if it overtakes its purchase
				return v, nil, nil
			}
			s.Start(p.program())
			c, over := shelves(s.Channels()), atomic.Bool{}
			s.Always("what is cancelled is not sold", func() error {
				v, err := c.Get(context.Background(), "tea", "")
				if over.Load() && err == nil && v.Value.Sold > 0 {
					return fmt.Errorf("%d sold, want none", v.Value.Sold)
				}
				return err
			})
			for range 12 {
				s.Send(buy{Item: "tea", N: 1})
				s.Send(cancelBuy{Item: "tea", N: 1})
			}
			s.Settle()
			over.Store(true)
			s.check()
		}},
		"an invariant that panics": {Invariant, "no such shelf", func(s *Sim) {
			s.Start(sound().program())
			s.Always("it never ends by itself", func() error { panic("no such shelf") })
			busy(s)
		}},
		"a command that can't be decided": {PoisonExpected, "not for sale", func(s *Sim) {
			p := sound()
			p.buy = func(v shelf, c buy) (shelf, []channel.Message, error) {
				return v, nil, handlers.Poison("not for sale", nil)
			}
			s.Start(p.program())
			s.ExpectPoison(func(e poison.Entry) bool { return e.Queue != "shop" })
			busy(s)
		}},
		"a reaction that never ends": {QueuesAreEmpty, "queue counts", func(s *Sim) {
			p := sound()
			p.react = func(context.Context, bought) error { return handlers.Later(time.Second, "not yet") }
			s.Start(p.program())
			s.Send(buy{Item: "tea", N: 1})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most = 12
			for seed := range uint64(most) {
				var s *Sim
				simulate(t, &s, seed+1, func(_ *testing.T, s *Sim) { c.run(s) })
				if says(s, c.law, c.says) {
					t.Logf("seed %d: %v", s.Seed, s.found[0])
					return
				}
			}
			t.Errorf("%d seeds found nothing that breaks %q and says %q", most, c.law, c.says)
		})
	}
}

// says reports that a run has a finding of a law with a text.
func says(s *Sim, law, text string) bool {
	return slices.ContainsFunc(s.found, func(f finding) bool { return f.law == law && strings.Contains(f.what, text) })
}

// A program that is sound breaks no law. If what is known about its run is changed, the law that it is about is broken.
func TestEvidence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		law    string
		change func(s *Sim)
	}{
		"nothing": {"", func(*Sim) {}},
		"a command was applied twice": {DecidedOnce, func(s *Sim) {
			h := s.doc("shelves", "tea")
			h.order = append(h.order, h.order[0])
		}},
		"a command was not applied": {DecidedOnce, func(s *Sim) {
			h := s.doc("shelves", "tea")
			h.order = h.order[1:]
		}},
		"an event was not applied": {DecidedOnce, func(s *Sim) {
			h := s.doc("sales", "tea")
			h.order = h.order[1:]
		}},
		"a message was applied that was never sent": {DecidedOnce, func(s *Sim) {
			h := s.doc("shelves", "tea")
			h.order = append(h.order, applied{1})
		}},
		"an emission got lost": {EmittedOnce, func(s *Sim) {
			s.recorder.sent = slices.DeleteFunc(s.recorder.sent, func(m *sent) bool { return m.queue == "counts" && m.e.Sequence == 2 })
		}},
		"an emission came from nowhere": {EmittedOnce, func(s *Sim) {
			for _, m := range s.recorder.sent {
				if m.e.Sequence == 2 {
					m.e.Sequence = 99
				}
			}
		}},
		"a view shows something else": {ViewsAreFolds, func(s *Sim) { s.doc("sales", "tea").last.Value = []byte(`{"view":[7]}`) }},
		"a reaction has not run":      {ReactionsRun, func(s *Sim) { clear(s.reacted) }},
		"an effect was repeated": {EffectsOnce, func(s *Sim) {
			for _, r := range s.reacted {
				r.successes = 50
			}
		}},
		"an effect was repeated after its note": {EffectsOnce, func(s *Sim) {
			for _, r := range s.reacted {
				r.again = true
			}
		}},
		"a worker ended":                 {WorkersRun, func(s *Sim) { s.world.Fail("it has ended") }},
		"a message is in a poison queue": {PoisonExpected, func(s *Sim) { s.poison = append(s.poison, poison.Entry{Queue: "shop", Reason: "odd"}) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *Sim
			synctest.Test(t, func(t *testing.T) {
				s = newSim(t, 3)
				defer s.end()
				s.Start(sound().program())
				busy(s)
				s.Settle()
			})
			c.change(s)
			synctest.Test(t, func(t *testing.T) { s.laws(newReplay(t, s)) })
			if c.law == "" && len(s.found) > 0 || c.law != "" && !says(s, c.law, "") {
				t.Errorf("got %v, want a break of %q", s.found, c.law)
			}
		})
	}
}

func (s *Sim) doc(container, key string) *history {
	return s.recorder.docs[docPlace{container, key}]
}
