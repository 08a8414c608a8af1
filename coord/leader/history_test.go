package leader_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/doorbell"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// An event is a call in a history of leaders, or what came of it.
type event struct {
	op     string // "begin", "act", "end", "lose" or "read"
	holder string // "": nobody
	term   int64
}

// terms is the model of the leader of one name.
type terms struct {
	term    int64
	holder  string // as the store has it
	leading bool   // a context is alive
}

// step returns the states that an event may leave.
func step(s terms, a storagetest.Answer[string, event]) []terms {
	e := a.Out
	ok := false
	switch e.op {
	case "begin": // terms grow by one, and nobody else leads
		ok = !s.leading && e.term == s.term+1
		s = terms{e.term, e.holder, true}
	case "act":
		ok = s == terms{e.term, e.holder, true}
	case "end":
		ok = s == terms{e.term, e.holder, true}
		s.holder, s.leading = "", false
	case "lose": // the store doesn't know of it
		ok = s == terms{e.term, e.holder, true}
		s.leading = false
	case "read":
		ok = s.term == e.term && s.holder == e.holder
	}
	if !ok {
		return nil
	}
	return []terms{s}
}

// A mover is a client of a history: it leads a number of times, and acts while it leads.
type mover struct {
	client int
	holder string
	rand   *rand.Rand
	link   *storagetest.Link
	ttl    time.Duration
	h      *storagetest.History[string, event]
}

func (m *mover) record(op string, do func() (int64, bool)) {
	m.h.Record(m.client, func() []storagetest.Answer[string, event] {
		term, ok := do()
		if !ok {
			return nil
		}
		return []storagetest.Answer[string, event]{{Key: name, In: op, Out: event{op, m.holder, term}}}
	})
}

// lead leads once. A mover that dies is cut off from the store until its context has ended.
func (m *mover) lead(t *testing.T, dies bool) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	began, over := make(chan *reign, 1), make(chan error, 1)
	go func() {
		over <- leader.Run(ctx, m.link.Store, name, leader.Config{TTL: m.ttl, Holder: m.holder}, func(ctx context.Context, term leader.Term) error {
			r := &reign{ctx: ctx, term: term.Number, end: make(chan error, 1)}
			began <- r
			return <-r.end
		})
	}()
	var r *reign
	m.record("begin", func() (int64, bool) { r = <-began; return r.term, true })
	for range 1 + m.rand.IntN(3) {
		m.record("act", func() (int64, bool) { runtime.Gosched(); return r.term, r.ctx.Err() == nil })
		pause(ctx, time.Duration(m.rand.Int64N(int64(m.ttl/10))))
	}
	end := "end"
	if dies {
		end = "lose"
	}
	m.record(end, func() (int64, bool) {
		if dies {
			m.link.Cut()
			<-r.ctx.Done()
		}
		stop()
		r.end <- nil
		if err := <-over; err != nil {
			t.Error(err)
		}
		m.link.Restore()
		return r.term, true
	})
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// play lets movers lead in turn while others read, and checks the history.
func play(t *testing.T, s *storage.Store, ttl time.Duration, seed uint64, movers, rounds int, deaths bool) {
	t.Helper()
	h := new(storagetest.History[string, event])
	var leading, reading sync.WaitGroup
	for i := range movers {
		m := &mover{client: i, holder: fmt.Sprintf("m%d", i), rand: rand.New(rand.NewPCG(seed, uint64(i))), link: storagetest.NewLink(s), ttl: ttl, h: h}
		leading.Go(func() {
			for range rounds {
				m.lead(t, deaths && m.rand.IntN(3) == 0)
			}
		})
	}
	over := make(chan struct{})
	for i := range 2 {
		r := rand.New(rand.NewPCG(seed, uint64(movers+i)))
		reading.Go(func() {
			for done := false; !done; {
				h.Record(movers+i, func() []storagetest.Answer[string, event] {
					who, err := leader.Current(t.Context(), s, name)
					if err != nil {
						t.Error(err)
						return nil
					}
					return []storagetest.Answer[string, event]{{Key: name, In: "read", Out: event{"read", who.Holder, who.Term}}}
				})
				select {
				case <-over:
					done = true
				case <-time.After(time.Duration(r.Int64N(int64(ttl / 10)))):
				}
			}
		})
	}
	leading.Wait()
	close(over)
	reading.Wait()
	if err := storagetest.CheckHistory(h, step, t.TempDir()); err != nil {
		t.Error(err)
	}
}

// One order explains all that is seen of leaders: terms grow by one, a leader acts in its own term alone,
// and a read returns the present state.
func TestLawHistoriesOfLeaders(t *testing.T) {
	t.Parallel()
	for seed := range storagetest.Seeds(t, 0, 6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				r := rand.New(rand.NewPCG(seed, 99))
				var mu sync.Mutex
				play(t, storagetest.Intercept(s, func(_ context.Context, _ storagetest.Op, do func() error) error {
					mu.Lock()
					before, after := r.Int64N(200), r.Int64N(200)
					mu.Unlock()
					time.Sleep(time.Duration(before) * time.Millisecond)
					defer func() { time.Sleep(time.Duration(after) * time.Millisecond) }()
					return do()
				}), ttl, seed, 5, 6, seed%2 == 1)
			})
		})
	}
}

// The model refuses what must not happen.
func TestTheModelRefuses(t *testing.T) {
	t.Parallel()
	led := terms{3, "a", true}
	for _, c := range []struct {
		why string
		s   terms
		e   event
	}{
		{"a second leader", led, event{"begin", "b", 4}},
		{"a term that is left out", terms{3, "", false}, event{"begin", "b", 5}},
		{"a term that comes again", terms{3, "", false}, event{"begin", "b", 3}},
		{"a deed after the end", terms{3, "", false}, event{"act", "a", 3}},
		{"a deed after a loss", terms{3, "a", false}, event{"act", "a", 3}},
		{"a deed in another's term", led, event{"act", "b", 3}},
		{"an end of another's term", led, event{"end", "b", 3}},
		{"an old read", led, event{"read", "", 2}},
	} {
		if got := step(c.s, storagetest.Answer[string, event]{Out: c.e}); len(got) > 0 {
			t.Errorf("%s is possible: %+v", c.why, got)
		}
	}
}

// This test uses real requests and real time.
func TestOnAzure(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a TTL to pass")
	}
	t.Parallel()
	s, err := azure.Open(t.Context(), azuretest.Place(t, azurite, azure.Wipe))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	began := time.Now()
	play(t, s, 3*time.Second, 1, 2, 3, false)
	t.Logf("six terms with hand-overs took %v", time.Since(began).Round(time.Millisecond))
	dead := real(t, s, "dead")
	if dead.r = <-dead.began; dead.r.term != 7 {
		t.Errorf("it leads with term %d, want 7", dead.r.term)
	}
	heir := real(t, s, "heir")
	dead.link.Cut()
	cut := time.Now()
	heir.r = <-heir.began
	t.Logf("a leader that was cut off was followed after %v", time.Since(cut).Round(time.Millisecond))
	if dead.r.ctx.Err() == nil || heir.r.term != 8 {
		t.Errorf("the next leads with term %d, while the context of the one before ended with %v", heir.r.term, dead.r.ctx.Err())
	}
	for _, c := range []*contender{dead, heir} {
		c.stop()
		c.r.end <- nil
		if err := <-c.over; err != nil {
			t.Error(err)
		}
	}
}

var azurite = sync.OnceValues(azuretest.Launch)

// A contender is a candidate in real time.
type contender struct {
	link  *storagetest.Link
	stop  context.CancelFunc
	began chan *reign
	r     *reign
	over  chan error
}

func real(t *testing.T, s *storage.Store, holder string) *contender {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := &contender{link: storagetest.NewLink(s), stop: stop, began: make(chan *reign, 1), over: make(chan error, 1)}
	go func() {
		c.over <- leader.Run(ctx, c.link.Store, name, leader.Config{TTL: 3 * time.Second, Holder: holder}, func(ctx context.Context, term leader.Term) error {
			r := &reign{ctx: ctx, term: term.Number, end: make(chan error, 1)}
			c.began <- r
			return <-r.end
		})
	}()
	return c
}

// Over the doorbells of two stores, as two processes have them, a leader that stops is followed as soon as its function
// has returned. How soon depends on the machine.
func TestADoorbellCarriesTheHandOver(t *testing.T) {
	t.Parallel()
	place := azuretest.Place(t, azurite, azure.Wipe)
	var calls storagetest.Calls
	open := func(hook storagetest.Hook) *storage.Store {
		s, err := azure.Open(t.Context(), place)
		if err != nil {
			t.Fatal(err)
		}
		d, err := doorbell.Over(storagetest.Intercept(s, hook), doorbell.Config{Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d.Store
	}
	a := real(t, open(func(_ context.Context, _ storagetest.Op, do func() error) error { return do() }), "a")
	a.r = <-a.began
	b := real(t, open(calls.Hook), "b")
	for tick, limit := time.NewTicker(20*time.Millisecond), time.After(time.Minute); calls.Count("put row") < 2; { // its doorbell's and its row as a waiter
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("after a minute it doesn't wait")
		}
	}
	a.stop()
	a.r.end <- nil
	left := time.Now()
	b.r = <-b.began
	t.Logf("handed over after %v", time.Since(left).Round(time.Millisecond))
	if b.r.term != 2 {
		t.Errorf("the next leads with term %d, want 2", b.r.term)
	}
	b.stop()
	b.r.end <- nil
	if err := errors.Join(<-a.over, <-b.over); err != nil {
		t.Error(err)
	}
}
