package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/guard/internal/breaker"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A breaker is open for all only if more processes report that it is than say that their calls are done.
func TestLaw4Quorum(t *testing.T) {
	t.Parallel()
	ill := func(id string) facts { return facts{id: id, ill: true, waited: true, recent: true} }
	well := func(id string) facts { return facts{id: id, well: true, recent: true} }
	for what, c := range map[string]struct {
		known []facts
		open  bool
	}{
		"one alone that has waited":        {[]facts{ill("a"), ill("a")}, true},
		"one alone that hasn't":            {[]facts{{id: "a", ill: true}, {id: "a", ill: true}}, false},
		"two":                              {[]facts{ill("a"), ill("b")}, true},
		"one of two":                       {[]facts{ill("a"), well("b"), ill("a")}, false},
		"one of three":                     {[]facts{ill("a"), well("b"), well("c"), ill("a")}, false},
		"two of three":                     {[]facts{ill("a"), well("b"), ill("c")}, true},
		"two of five":                      {[]facts{ill("a"), well("b"), well("c"), well("d"), ill("e"), ill("a")}, false},
		"one that was well before":         {[]facts{ill("a"), well("b"), ill("b")}, true},
		"one that is well again":           {[]facts{ill("a"), well("b"), {id: "a"}, ill("c")}, false},
		"what was reported long ago":       {[]facts{ill("a"), well("b"), {id: "c", ill: true}, ill("d")}, true},
		"one that was reported long ago":   {[]facts{ill("a"), {id: "b", ill: true}}, false},
		"a process that makes no calls":    {[]facts{ill("a"), {id: "b"}, ill("a")}, true},
		"more say well than can be listed": {[]facts{ill("a"), well("b"), well("b"), well("b"), ill("a")}, false},
	} {
		r := record{Epoch: 1}
		for _, k := range c.known {
			r, _ = r.with(k)
		}
		if r.Open != c.open {
			t.Errorf("%s: got %+v, want open: %v", what, r, c.open)
		}
	}
	open := record{Epoch: 1, Open: true, Ill: []string{"a", "b"}, Tries: 3}
	if after, _ := open.with(facts{id: "c", verdict: done}); after.Open || after.Tries > 0 || len(after.Ill) > 0 {
		t.Errorf("after a call was done: %+v", after)
	} else {
		again, _ := after.with(ill("a"))
		if again, _ = again.with(ill("a")); again.Open || len(again.Ill) != 1 {
			t.Errorf("one that fails again after another's call was done: %+v", again)
		}
		if again, _ = again.with(ill("c")); !again.Open {
			t.Errorf("the one whose call was done fails, too: %+v", again)
		}
	}
	if after, _ := open.with(facts{id: "b", verdict: done}); len(after.Well) > 0 {
		t.Errorf("after a call of one that had failed was done: %+v", after)
	}
	if after, changed := open.with(facts{id: "b"}); changed || !after.Open {
		t.Errorf("one that is well again closes it for all: %+v", after)
	}
}

// Earlier and later versions write documents with other members. Such documents can be read. A member that is unknown
// here has no effect, and the next write leaves it out.
func TestDocumentsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]record{
		`{"epoch":7,"ill":["a"],"well":["b"]}`:                                        {Epoch: 7, Ill: []string{"a"}, Well: []string{"b"}},
		`{"epoch":7,"doubt":{"a":{"row":3,"messages":[1,2],"x":1}},"later":{"y":[]}}`: {Epoch: 7},
		`{"epoch":7,"ill":["a"],"doubt":{"b":{"row":19},"a b":["?"]}}`:                {Epoch: 7, Ill: []string{"a"}},
	} {
		got, err := decodeRecord([]byte(body))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, %v; want %+v", body, got, err, want)
		}
		next, changed := got.with(facts{id: "c", ill: true, recent: true})
		if again, err := json.Marshal(next); !changed || err != nil || strings.Contains(string(again), "doubt") {
			t.Errorf("after a report, %s becomes %s, %v", body, again, err)
		}
	}
}

// A pause that a service asks for is written once, by the first process that was asked or by the one that probes, and
// ends when one claims the right to probe.
func TestLaw9APauseIsWrittenOnce(t *testing.T) {
	t.Parallel()
	asked := func(id string) facts { return facts{id: id, pause: time.Minute} }
	r, changed := record{Epoch: 1}.with(asked("a"))
	if want := (record{Epoch: 1, Open: true, Pause: 60_000}); !changed || !reflect.DeepEqual(r, want) {
		t.Fatalf("the first that is asked makes it %+v, want %+v", r, want)
	}
	for _, id := range []string{"a", "b"} {
		if _, changed := r.with(facts{id: id, pause: time.Minute, waits: true}); changed {
			t.Errorf("%s writes it again", id)
		}
	}
	if longer, changed := r.with(facts{id: "b", pause: time.Hour}); !changed || longer.Pause != 3_600_000 || !longer.Open {
		t.Errorf("a process that must wait for longer makes it %+v", longer)
	}
	r, _ = r.claimed("b", false)
	if r.Pause != 0 {
		t.Errorf("the pause goes on during the probe: %+v", r)
	}
	if _, changed := r.with(asked("a")); changed {
		t.Error("a process writes its pause while another probes")
	}
	r, changed = r.with(facts{id: "b", verdict: failed, pause: 2 * time.Hour})
	if want := (record{Epoch: 1, Open: true, Pause: 3_600_000, Tries: 1}); !changed || !reflect.DeepEqual(r, want) {
		t.Errorf("a probe that was asked makes it %+v, want %+v", r, want)
	}
	r, _ = r.claimed("b", false)
	if r, _ = r.with(facts{id: "b", verdict: failed}); r.Pause != 0 || r.Tries != 2 || !r.Open {
		t.Errorf("a probe that failed makes it %+v", r)
	}
	if r, _ = r.with(asked("c")); r.Pause != 60_000 || r.Tries != 3 {
		t.Errorf("a call that is asked in an outage makes it %+v", r)
	}
	if r, _ = r.with(facts{id: "d", verdict: done}); r.Open || r.Pause != 0 {
		t.Errorf("a call that is done makes it %+v", r)
	}
}

// step is a change of who has the right to probe.
type step struct {
	op string // "claim" or "end"
	by int
}

// holder is the process that may probe, from 1; 0: nobody.
type holder int

func (h holder) next(a storagetest.Answer[step, bool]) []holder {
	me := holder(a.In.by)
	switch {
	case a.In.op == "claim" && a.Out && h == 0:
		return []holder{me}
	case a.In.op == "claim" && !a.Out:
		return []holder{h}
	case a.In.op == "end" && h == me:
		return []holder{0}
	}
	return nil
}

// Processes claim the right to probe, keep it for a while, and give it up, or die. The store fails now and then. There
// is one at a time.
func TestLaw1TheHistoryOfProbers(t *testing.T) {
	t.Parallel()
	for seed := range storagetest.Seeds(t, 0, 3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "test.db") + "?wake=off&sync=normal"
			synctest.Test(t, func(t *testing.T) {
				s, err := sqlite.Open(t.Context(), path)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = s.Close() }()
				if _, err := s.Blobs(guards).Put(t.Context(), "bank", []byte(`{"epoch":1,"open":true,"ill":["x","y"]}`), storage.Condition{}); err != nil {
					t.Fatal(err)
				}
				h := &storagetest.History[step, bool]{}
				var all sync.WaitGroup
				for n := range 4 {
					r := rand.New(rand.NewPCG(seed, uint64(n)))
					all.Go(func() { probes(t, h, s, n+1, r) })
				}
				all.Wait()
				claims := 0
				for _, a := range h.Answers() {
					if a.In.op == "claim" && a.Out {
						claims++
					}
				}
				if claims < 5 {
					t.Errorf("only %d claims", claims)
				}
				if err := storagetest.CheckHistory(h, holder.next, t.ArtifactDir()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// process is a process whose breaker has no alarms.
type process struct {
	*Fleet
	own sync.Mutex
	m   *breaker.Machine // under own
}

func newMachine() *breaker.Machine {
	return breaker.New(breaker.Break{Rate: 0.5, Of: 20, Distinct: 5, Window: 10 * time.Second}, breaker.Probe{First: time.Second, Most: 30 * time.Second}, time.Minute, func() float64 { return 0.5 })
}

func (p *process) Update(f func(*breaker.Machine, time.Time)) {
	p.own.Lock()
	f(p.m, time.Now())
	did := p.m.Take()
	p.own.Unlock()
	if did == nil {
		return
	}
	for _, e := range did.Events {
		p.On(e)
	}
}

// due makes the next call the probe.
func (p *process) due() {
	m := newMachine()
	m.OpenedByOthers(breaker.Outage{Part: 90}, time.Now())
	m.Wake(m.Take().Wake)
	p.own.Lock()
	defer p.own.Unlock()
	p.m = m
}

// newFleetOn returns the part of a process whose store fails now and then. Nothing runs by itself.
func newFleetOn(s *storage.Store, r *rand.Rand) (*process, *storagetest.Link) {
	var mu sync.Mutex
	roll := func(n int) int { mu.Lock(); defer mu.Unlock(); return r.IntN(n) }
	link := storagetest.NewLink(storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		time.Sleep(time.Duration(roll(50)) * time.Millisecond)
		switch roll(15) {
		case 0:
			return op.Fail(storage.ErrUnavailable)
		case 1:
			_ = do()
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	}))
	f := &process{m: newMachine()}
	f.Fleet = New("bank", f, time.Minute, func() *slog.Logger { return slog.New(slog.DiscardHandler) })
	f.ledger.store.Store(link.Store)
	f.wake, f.io = make(chan struct{}, 1), make(chan struct{}, 1)
	f.active.Store(true) // there is no goroutine
	return f, link
}

func probes(t *testing.T, h *storagetest.History[step, bool], s *storage.Store, n int, r *rand.Rand) {
	ctx := t.Context()
	f, link := newFleetOn(s, rand.New(rand.NewPCG(r.Uint64(), 1)))
	note := func(op string, do func() bool) (ok bool) {
		h.Record(n, func() []storagetest.Answer[step, bool] {
			ok = do()
			return []storagetest.Answer[step, bool]{{Key: "probe", In: step{op, n}, Out: ok}}
		})
		return ok
	}
	for range 40 {
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		f.due()
		f.ledger.failing = time.Time{} // else it would probe by itself at last
		if !note("claim", func() bool { _, ok := f.Claim(ctx); return ok }) {
			continue
		}
		f.Update(func(m *breaker.Machine, now time.Time) { m.Begin("", now) })
		if r.IntN(4) == 0 { // it dies, and begins anew as another
			note("end", func() bool { return true })
			link.Cut()
			f, link = newFleetOn(s, rand.New(rand.NewPCG(r.Uint64(), 1)))
			continue
		}
		for range r.IntN(4) {
			_, _ = f.step(ctx)
			time.Sleep(probeTTL / 3)
		}
		note("end", func() bool { return true }) // it makes no call any more
		f.mu.Lock()
		f.probing, f.verdict = false, freed
		f.mu.Unlock()
		for f.verdict != none {
			_, _ = f.step(ctx)
		}
	}
}

// A prober that says nothing loses the right after 7/6 of its time, and not before.
func TestLaw7TheProberDies(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db") + "?wake=off&sync=normal"
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		if _, err := s.Blobs(guards).Put(t.Context(), "bank", []byte(`{"epoch":1,"open":true}`), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		claim := func(f *process) bool {
			f.due()
			_, ok := f.Claim(t.Context())
			return ok
		}
		dead, _ := newFleetOn(s, rand.New(rand.NewPCG(1, 1)))
		other, _ := newFleetOn(s, rand.New(rand.NewPCG(1, 2)))
		for _, f := range []*process{dead, other} {
			f.ledger.store.Store(s) // nothing fails
		}
		if !claim(dead) {
			t.Fatal("nobody else has the right to probe")
		}
		begin := time.Now()
		for !claim(other) {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(begin); took < probeTTL*7/6 || took > probeTTL*7/6+time.Second {
			t.Errorf("it was taken over after %v", took)
		}
		if claim(dead) {
			t.Error("two have the right to probe")
		}
	})
}

// A blob of any content is refused or in bounds. Any process makes of it a record that can be read. The record that
// replaces a blob is open.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"epoch":1,"open":true,"ill":["a"],"well":["b"],"tries":3,"prober":"a"}`))
	f.Add([]byte(`{"epoch":-1}`))
	f.Add([]byte(`{"epoch":1,"open":true,"pause":3600000}`))
	f.Add([]byte(`{"epoch":1,"open":true,"pause":3600001}`))
	f.Add([]byte(`{"epoch":1,"ill":[""]}`))
	f.Add([]byte(`{"epoch":1,"ill":["a"],"doubt":{"b":{"row":3,"messages":[1,4294967295]},"c":{"row":1048576}}}`))
	f.Add([]byte(`{"epoch":9007199254740992,"open":true,"prober":"-","since":"9999-12-31T23:59:59-23:59","why":"\u2028<"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := decodeRecord(body)
		if err != nil && !errors.Is(err, errRecord) {
			t.Error(err)
		}
		readable := func(next record) {
			t.Helper()
			next.Epoch = r.Epoch%mostEpoch + 1 // as write does
			again, err := json.Marshal(next)
			if err != nil {
				t.Fatalf("%+v can't be written: %v", next, err)
			}
			if _, err := decodeRecord(again); err != nil {
				t.Errorf("%s is written, and can't be read", again)
			}
		}
		mended := r.instead(time.Hour, time.Now())
		if readable(mended); !mended.Open || mended.Prober == "" {
			t.Errorf("%+v is replaced by %+v", r, mended)
		}
		if err != nil {
			return
		}
		for _, k := range []facts{
			{id: "a", ill: true, waited: true}, {id: "b", well: true}, {id: r.Prober, verdict: failed}, {id: "c", pause: 2 * time.Hour},
			{id: r.Prober, verdict: failed, pause: time.Nanosecond}, {id: "d", probing: true}, {id: "e", gone: true}, {id: "f", verdict: freed},
		} {
			next, _ := r.with(k)
			readable(next)
			if next.Tries < 0 || next.Pause < 0 || next.Pause > LongestPause.Milliseconds() || next.Pause > 0 && !next.Open && r.Pause == 0 {
				t.Errorf("%+v becomes %+v", r, next)
			}
		}
	})
}
