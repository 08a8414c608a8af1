package millracetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/faulttest"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// A Sim is one run of a program under the faults of a seed. The test's goroutine uses it.
type Sim struct {
	// Seed is the seed of this run, and Rand the randomness of the workload that follows from it.
	Seed uint64
	Rand *rand.Rand

	t        *testing.T
	world    *faulttest.World
	recorder *recorder
	program  Program
	web      *channel.Channels // disturbed
	channels *channel.Channels // without faults
	queues   []string          // that the program handles
	handled  map[handledKey]wire.Handled
	n        int // messages sent so far
	expected []func(poison.Entry) bool
	stuck    []func(plan, id string) bool
	endless  []string
	always   []invariant

	stop    context.CancelFunc // of the workers
	workers sync.WaitGroup
	settled bool
	ended   time.Time      // when it had settled
	poison  []poison.Entry // at the end

	evidence *evidence

	checking sync.Mutex      // held while invariants are checked
	broken   map[string]bool // invariants that have failed; under checking
}

type handledKey struct {
	queue string
	kind  channel.Kind
}

// An invariant is what the test says that always holds.
type invariant struct {
	name  string
	check func() error
}

// newSim begins a run within its bubble.
func newSim(t *testing.T, seed uint64) *Sim {
	t.Helper()
	_ = worldtest.Pause(t.Context(), eve)
	r := rand.New(rand.NewPCG(seed, 1))
	s := &Sim{
		Seed: seed, Rand: rand.New(rand.NewPCG(seed, 2)), t: t,
		evidence: &evidence{reacted: map[reactionKey]*runs{}, troubled: map[string]int{}}, broken: map[string]bool{},
	}
	s.world = faulttest.New(worldtest.OpenStore(t, worldtest.Virtual), faulttest.Draw(seed, r))
	s.world.Store, s.recorder = record(s.world.Store)
	s.recorder.wrote = s.check
	s.evidence.world, s.world.Watch = s.world, s.evidence.watchCall
	return s
}

// eve is how long a run begins after the bubble's first moment. The laws repeat the decisions of a run at that first
// moment, so a decision that reads the clock decides otherwise.
const eve = 400 * 24 * time.Hour

// Start starts the workers of a program. A run has one program. Make what its handlers touch outside of the store (a
// mail server, a bank) within the run, so that each seed has its own.
func (s *Sim) Start(p Program) {
	s.t.Helper()
	if s.stop != nil {
		s.t.Fatal("millracetest: Start: the run has its program already")
	}
	h, err := p.register(s.world.Store, s.world.Log("test"), watches{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.recorder.divide(h.Channels())
	s.program, s.channels, s.queues, s.handled = p, h.Channels(), h.Queues(), map[handledKey]wire.Handled{}
	for _, x := range h.Inside().Handlers.About() {
		s.handled[handledKey{x.Queue, x.Kind}] = x
	}
	if s.web, err = p.channels(s.world.Client("web").Store); err != nil {
		s.t.Fatal(err)
	}
	s.keep(s.world.Plan.Workers)
}

// keep keeps workers running until s.stop is called.
func (s *Sim) keep(n int) {
	ctx, stop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	s.stop = stop
	for i := range n {
		s.workers.Go(func() {
			s.world.Keep(ctx, i, func(p *faulttest.Process) (*handlers.Registry, error) {
				return s.program.register(p.Store, s.world.Log(p.Name), watches{reaction: s.evidence.watchReaction, fold: s.recorder.noteFolded})
			}, s.program.Queues)
		})
	}
}

// Channels returns channels on the store, without faults.
func (s *Sim) Channels() *channel.Channels {
	s.started()
	return s.channels
}

// Store returns the store, without faults.
func (s *Sim) Store() *storage.Store { return s.world.Store }

func (s *Sim) started() {
	s.t.Helper()
	if s.stop == nil {
		s.t.Fatal("millracetest: call Start first")
	}
}

// Send sends messages as one unit of work, from a client whose calls fail, too. It sends them again until they are
// acknowledged, and now and then once more. Each message keeps its ID, so it is one message however often it is sent.
func (s *Sim) Send(messages ...channel.Message) {
	s.t.Helper()
	s.started()
	envelopes := make([]channel.Envelope, len(messages))
	for i, m := range messages {
		e, err := wire.Compose(m, source, time.Now())
		if err != nil {
			s.t.Fatal(err)
		}
		if x, ok := wire.Unwrap(m).(channel.Identified); !ok || x.MessageID() == "" {
			s.n++
			e.ID = worldtest.IDAt(e.Born(), s.n) // the same in each run of the seed
		}
		envelopes[i] = e
	}
	for more := 1 + s.Rand.IntN(10)/9; more > 0; {
		if err := s.try(envelopes); err != nil {
			_ = worldtest.Pause(s.t.Context(), 5*time.Second)
			continue
		}
		more--
	}
}

// try sends envelopes once.
func (s *Sim) try(envelopes []channel.Envelope) error {
	p, err := s.web.Outbox().Pack(s.t.Context(), envelopes...)
	if err == nil {
		err = s.web.Outbox().SendPacked(s.t.Context(), p)
	}
	for i := range envelopes {
		e := &envelopes[i]
		s.world.Tell("test sends %s %s %.200s: %v", e.Kind, e.ID, e.Data, err)
	}
	return err
}

// Advance lets time pass, while the program works and things fail.
func (s *Sim) Advance(d time.Duration) {
	s.t.Helper()
	s.started()
	_ = worldtest.Pause(s.t.Context(), d)
}

// Always gives an invariant: check returns an error while it doesn't hold. It is called after each write of a document
// and at the end, on any goroutine. It reads the store through Channels, and sends nothing. Its reads are no snapshot,
// so let it look at one document, or at parts that others can't change meanwhile.
func (s *Sim) Always(name string, check func() error) {
	s.checking.Lock()
	defer s.checking.Unlock()
	s.always = append(s.always, invariant{name, check})
}

// ExpectPoison says which messages may be in a poison queue at the end.
func (s *Sim) ExpectPoison(expected func(poison.Entry) bool) {
	s.expected = append(s.expected, expected)
}

// Endless names queues in which messages may stay that are not due at the end: timers that the program always renews.
// Those of schedules and processes are known.
func (s *Sim) Endless(queues ...string) { s.endless = append(s.endless, queues...) }

// Tell adds a line to the history that a failing run prints. It may be called from any goroutine.
func (s *Sim) Tell(format string, args ...any) { s.world.Tell(format, args...) }

// Settle lets the faults go on for ten minutes, ends them, and waits until nothing is left to do, however late it is
// due. Then it stops the workers, so that nothing changes any more. The laws are checked when the test has returned.
func (s *Sim) Settle() {
	s.t.Helper()
	s.started()
	if s.settled {
		return
	}
	s.settled = true
	_ = worldtest.Pause(s.t.Context(), 10*time.Minute)
	s.world.EndFaults()
	s.stop()
	s.workers.Wait()
	s.keep(1)
	s.drain()
	s.stop()
	s.workers.Wait()
	s.recorder.read()
	s.check()
	if left := s.left(); left != "" {
		s.fault(QueuesAreEmpty, "%s", left)
	}
	s.ended = time.Now()
	s.poison = poisoned(s.t, s.channels)
	for _, f := range unended(s.t.Context(), s.world.Store, plansIn(s.recorder.docs, s.handled), s.stuck) {
		s.fault(ProcessesEnd, "%s", f)
	}
}

// longest is how long Settle waits for what is due later.
const longest = 400 * 24 * time.Hour

// drain waits until the queues are empty, but for timers of endless queues. It gives up a program that goes on and on.
// A worker sends, too, while it starts, so drain looks at the queues only where all goroutines wait for time to pass.
func (s *Sim) drain() {
	first, _ := s.recorder.counts()
	step := 10 * time.Second
	for end := time.Now().Add(longest); time.Now().Before(end); step = min(step*5/4, 24*time.Hour) {
		synctest.Wait()
		seen, sent := s.recorder.counts()
		if s.left() == "" || seen-first > 1000+100*sent {
			return
		}
		_ = worldtest.Pause(s.t.Context(), step)
	}
}

// left tells which queues are not empty.
func (s *Sim) left() string {
	var all []string
	for _, q := range s.queues {
		lanes := lanesOf(s.channels, q)
		now, later, err := s.world.Left(s.t.Context(), lanes)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, lane := range lanes {
			later -= s.recorder.waiting(lane, func(e *wire.Envelope) bool {
				standing := s.handled[handledKey{q, e.Kind}].Standing
				return slices.Contains(s.endless, q) || standing != nil && standing(e)
			})
		}
		if now > 0 || later > 0 {
			all = append(all, fmt.Sprintf("queue %s: %d messages, and %d that are due later", q, now, later))
		}
	}
	return strings.Join(all, "; ")
}

// end stops what runs, whatever the test did.
func (s *Sim) end() {
	if s.stop != nil {
		if s.world.Disturbed() {
			s.world.EndFaults()
		}
		s.stop()
		s.workers.Wait()
	}
}

// fault notes a finding.
func (s *Sim) fault(law, format string, args ...any) {
	f := finding{law, fmt.Sprintf(format, args...)}
	if s.ended.IsZero() {
		s.world.Tell("%v", f)
	}
	s.evidence.mu.Lock()
	defer s.evidence.mu.Unlock()
	s.evidence.found = append(s.evidence.found, f)
}

// check checks the invariants.
func (s *Sim) check() {
	s.checking.Lock()
	defer s.checking.Unlock()
	for _, x := range s.always {
		if s.broken[x.name] {
			continue
		}
		if err := usercode.Contain(x.check); err != nil {
			s.broken[x.name] = true
			s.fault(Invariant, "%s: %v", x.name, err)
		}
	}
}
