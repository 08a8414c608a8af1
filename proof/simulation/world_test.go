package simulation

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/faulttest"
	"github.com/millrace-go/millrace/storage"
)

// world is one run.
type world struct {
	*faulttest.World
	plan plan

	succeeds atomic.Bool // stubborn commands succeed from now on

	mu        sync.Mutex
	first     map[string]time.Time // of a decision, by command; under mu
	notes     map[string]int       // effects outside, by command; under mu
	acked     map[string]bool      // acknowledged sends, by ID and sort; under mu
	sent      map[string]book      // attempted sends, by ID and sort; under mu
	discarded map[string]bool      // by the operator, by ID; under mu
	ordered   map[string]bool      // attempted orders; whether they were acknowledged; under mu
	dues      map[string]time.Time // of deliveries, by ID; under mu
}

// process is a process of a worker or of the web: its memory ends with it.
type process struct {
	*faulttest.Process
	world    *world
	old      bool // runs the previous version
	channels *channel.Channels
}

func newWorld(s *storage.Store, p plan) *world {
	return &world{
		World: faulttest.New(s, p.Plan), plan: p,
		first: map[string]time.Time{}, notes: map[string]int{},
		acked: map[string]bool{}, sent: map[string]book{}, discarded: map[string]bool{}, ordered: map[string]bool{}, dues: map[string]time.Time{},
	}
}

func (w *world) firstSeen(command string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first[command].IsZero() {
		w.first[command] = time.Now()
	}
	return w.first[command]
}

func (w *world) noted(command string) {
	w.Tell("the world outside hears of %s", command)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes[command]++
}

// client makes the memory of a process without a worker.
func (w *world) newClient(name string) *process { return &process{Process: w.Client(name), world: w} }

// keeper returns a function that registers the handlers of a slot's processes. The first ones may run the previous
// version.
func (w *world) keeper(slot int) func(*faulttest.Process) (*handlers.Registry, error) {
	r := rand.New(rand.NewPCG(w.plan.Seed, 200+uint64(slot)))
	upgrade := w.Began.Add(time.Duration(r.IntN(600)) * time.Second)
	return func(p *faulttest.Process) (*handlers.Registry, error) {
		own := &process{Process: p, world: w, old: w.plan.upgrades && time.Now().Before(upgrade)}
		if own.old {
			p.Until = upgrade
		}
		return own.register()
	}
}
