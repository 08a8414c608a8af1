package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// mood is how the service behaves in a phase of a schedule.
type mood string

const (
	well      mood = "well"
	slow      mood = "slow"
	away      mood = "away"       // refuses connections
	mute      mood = "mute"       // does what it is asked, and its answers are lost
	throttles mood = "throttles"  // asks to wait
	oneNodes  mood = "one node's" // is well, but one process can't reach it
)

// phase is a time for which the service has a mood.
type phase struct {
	mood      mood
	begin     time.Time
	end       time.Time
	wait      time.Duration // that it asks for
	processes int           // at its beginning
	started   int           // in it
	calls     []arrival     // that reached the service
}

// arrival is a call that reached the service.
type arrival struct {
	at time.Time
	by *node
}

// A drama is a service with moods, and the processes that call it.
type drama struct {
	t        *testing.T
	store    *storage.Store
	random   *rand.Rand // of the goroutine that plays
	limits   guard.Limits
	attempts int
	asked    bool    // the guards have Verify, and the service knows no repeats
	nodes    []*node // under mu, as all below

	mu      sync.Mutex
	phases  []*phase
	calls   []time.Time
	pace    *rand.Rand     // of the service
	most    int            // calls at a time of processes that live
	effects map[int]int    // by job
	jobs    map[string]int // by the ID of the message
	held    time.Duration  // the longest for which a handler waited beside its calls
	enough  int            // jobs from this one on are all good
}

// node is a process.
type node struct {
	guard   *guard.Guard
	link    *storagetest.Link
	stop    func() error
	running int  // its calls, under drama.mu, as all below
	most    int  // at a time
	alone   bool // it can't reach the service
	dead    bool
}

var errNeverDone = errors.New("the service can't do this one")

// bad reports that the service never does a job. Enough others come after it: it ends once they are done.
func (d *drama) bad(job int) bool { return job%97 == 13 && job < d.enough }

// visit is a call that a process makes. It returns, after the time that it takes, how the service takes it. The first
// one of a permit counts.
func (d *drama) visit(ctx context.Context, n *node, first bool) (mood, error) {
	d.mu.Lock()
	p := d.phases[len(d.phases)-1]
	if !n.alone && first {
		d.calls, p.calls = append(d.calls, time.Now()), append(p.calls, arrival{time.Now(), n})
	}
	n.running++
	all := 0
	for _, n := range d.nodes {
		all += n.running
	}
	d.most, n.most = max(d.most, all), max(n.most, n.running)
	took := time.Duration(5+d.pace.IntN(50)) * time.Millisecond
	d.mu.Unlock()
	if p.mood == slow {
		took += time.Second
	}
	err := worldtest.Pause(ctx, took)
	d.mu.Lock()
	defer d.mu.Unlock()
	n.running--
	switch {
	case err != nil:
		return p.mood, err
	case n.alone, p.mood == away:
		return p.mood, errDown
	case p.mood == throttles:
		return p.mood, guard.CheckStatus(answer(429, fmt.Sprintf("Retry-After: %d", int(p.wait/time.Second))))
	}
	return p.mood, nil
}

// call lets the service do a job.
func (d *drama) call(ctx context.Context, n *node, job int) error {
	m, err := d.visit(ctx, n, !d.asked)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil:
		return err
	case d.bad(job):
		return errNeverDone
	}
	d.effects[job]++
	if m == mute {
		return errReset
	}
	return nil
}

// verify asks the service whether it has done a job.
func (d *drama) verify(ctx context.Context, n *node, id string) (done bool, err error) {
	m, err := d.visit(ctx, n, true)
	if err == nil && m == mute {
		err = errReset
	}
	if err != nil {
		return false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.effects[d.jobs[id]] > 0, nil
}

// handle is the handler of a process. It notes how long it waits beside its calls.
func (d *drama) handle(ctx context.Context, n *node, j job) error {
	e, _, _ := channel.Handled(ctx)
	d.mu.Lock()
	d.jobs[e.ID] = j.N
	d.mu.Unlock()
	begin, calls := time.Now(), time.Duration(0)
	ctx = context.WithValue(ctx, callsKey{}, &calls)
	err := n.guard.Do(ctx, func(ctx context.Context) error {
		defer spend(ctx, time.Now())
		return d.call(ctx, n, j.N)
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if !n.dead {
		d.held = max(d.held, time.Since(begin)-calls)
	}
	return err
}

type callsKey struct{}

// spend adds the time since then to that of the handler's calls.
func spend(ctx context.Context, since time.Time) {
	*ctx.Value(callsKey{}).(*time.Duration) += time.Since(since)
}

// start starts a process.
func (d *drama) start() {
	n := &node{link: storagetest.NewLink(d.store)}
	cfg := guard.Config{Rate: d.limits.Rate, Slots: d.limits.Slots, Adaptive: d.limits.Adaptive, Repeatable: true, Logger: quietLogger()}
	if d.asked {
		cfg.Repeatable, cfg.Verify = false, func(ctx context.Context, id string) (bool, error) {
			defer spend(ctx, time.Now())
			return d.verify(ctx, n, id)
		}
	}
	n.guard = guard.New("bank", cfg)
	w := worldtest.NewBare(d.t, n.link.Store, handlers.Config{}, channel.Command[job]("jobs"))
	handlers.React(w.Registry, "jobs", func(ctx context.Context, j job) error { return d.handle(ctx, n, j) })
	n.stop = w.Start(worker.Config{Visibility: 10 * time.Second, Queues: map[string]worker.QueueConfig{
		"jobs": {Concurrency: 8, MaxAttempts: d.attempts, Limiter: n.guard.Limiter},
	}})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes = append(d.nodes, n)
	if len(d.phases) > 0 {
		d.phases[len(d.phases)-1].started++
	}
}

// kill ends a process without a word: its store is gone, and with it what it would have said.
func (d *drama) kill() {
	d.mu.Lock()
	i := d.random.IntN(len(d.nodes))
	n := d.nodes[i]
	n.dead = true
	d.nodes = slices.Delete(d.nodes, i, i+1)
	d.mu.Unlock()
	n.link.Cut()
	go func() { _ = n.stop() }() // it fails to give back what it has
}

// enter begins a phase.
func (d *drama) enter(m mood) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.phases) > 0 {
		d.phases[len(d.phases)-1].end = time.Now()
	}
	d.phases = append(d.phases, &phase{mood: m, begin: time.Now(), processes: len(d.nodes), wait: time.Duration(10+d.random.IntN(30)) * time.Second})
	for i, n := range d.nodes {
		n.alone = m == oneNodes && i == 0
	}
}

// play goes through the moods, with jobs all the time, and returns how many there were.
func (d *drama) play(sender *worldtest.World) (jobs int) {
	moods := []mood{away, mute, throttles, slow, oneNodes}
	for range 5 {
		for _, m := range []mood{well, moods[d.random.IntN(len(moods))]} {
			d.enter(m)
			for end := time.Now().Add(time.Duration(10+d.random.IntN(110)) * time.Second); time.Now().Before(end); {
				time.Sleep(time.Duration(d.random.ExpFloat64() * float64(400*time.Millisecond)))
				worldtest.Send(sender, job{N: jobs})
				if jobs++; d.random.IntN(150) == 0 {
					d.kill()
					d.start()
				}
			}
		}
	}
	d.enter(well)
	d.mu.Lock()
	d.enough = jobs
	d.mu.Unlock()
	for range 150 { // a job that always fails ends once others are done
		time.Sleep(2 * time.Second)
		worldtest.Send(sender, job{N: jobs})
		jobs++
	}
	return jobs
}

// jobOf returns the job of a message in the poison queue.
func jobOf(t *testing.T, body []byte) (j job) {
	t.Helper()
	m, err := wire.Decode(body)
	if err == nil {
		err = json.Unmarshal(m.Data, &j)
	}
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// audit checks the laws by what the service has seen.
func (d *drama) audit(sender *worldtest.World, jobs int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	poisoned := map[int]bool{}
	for _, e := range sender.Poisoned("jobs") {
		j := jobOf(d.t, e.Body)
		poisoned[j.N] = true
		if !d.bad(j.N) {
			d.t.Errorf("law 1: job %d is poisoned, and the service can do it: %s: %s", j.N, e.Reason, e.Error)
		}
	}
	for n := range jobs {
		if !d.bad(n) && d.effects[n] == 0 || d.bad(n) && !poisoned[n] {
			d.t.Errorf("law 6: job %d has not ended", n)
		}
		if d.asked && d.effects[n] > 1 {
			d.t.Errorf("law 11: job %d was done %d times, and the service can be asked", n, d.effects[n])
		}
	}
	for _, window := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		if most := mostOf(d.calls, window); d.limits.Rate > 0 && float64(most) > float64(d.limits.Rate)*(window.Seconds()+0.2)+processes+3 {
			d.t.Errorf("law 8: %d calls in %v, at a rate of %v", most, window, d.limits.Rate)
		}
	}
	if d.limits.Slots > 0 && d.most > d.limits.Slots {
		d.t.Errorf("law 8: %d calls at a time; want at most %d", d.most, d.limits.Slots)
	}
	if d.held > inPlace+settling {
		d.t.Errorf("law 2: a handler waited %v beside its calls", d.held)
	}
	for i, n := range d.nodes {
		if most := d.limits.Adaptive.Most; most > 0 && n.most > most {
			d.t.Errorf("law 12: process %d had %d calls at a time, with an adaptive limit of at most %d", i, n.most, most)
		}
		if s := n.guard.Status(); s.Open || n.running > 0 {
			d.t.Errorf("law 7: long after the last job process %d has %d calls under way, and a breaker of status %+v", i, n.running, s)
		}
	}
	for i, p := range d.phases {
		d.auditPhase(p)
		if p.mood == oneNodes {
			d.auditOthers(d.phases[i-1], p)
		}
	}
}

// auditPhase checks the laws of a service that is in trouble.
func (d *drama) auditPhase(p *phase) {
	switch p.mood {
	case away, mute:
		// Each process makes a few calls before it knows of the others' failures, if there are no rings.
		most := 12*(p.processes+p.started) + 55
		if !d.store.Rings() {
			most += 10
		}
		if len(p.calls) > most {
			d.t.Errorf("law 1: %d calls while the service was %s; want at most %d", len(p.calls), p.mood, most)
		}
	case throttles:
		// A process whose breaker is closed and that isn't rung learns of it by calls of its own: those of one moment.
		first := map[*node]time.Time{}
		for _, c := range p.calls {
			if first[c.by].IsZero() {
				first[c.by] = c.at
			}
			if late := c.at.Sub(first[c.by]); late > moment && c.at.Before(p.calls[0].at.Add(p.wait)) {
				d.t.Errorf("law 9: a process that was asked to wait %v calls again after %v", p.wait, late)
			}
		}
	}
}

// auditOthers checks that processes that can reach the service go on while one can't. They may begin with the trouble
// of a phase before, but for a long time in which all was well.
func (d *drama) auditOthers(before, p *phase) {
	if before.end.Sub(before.begin) < time.Minute || p.end.Sub(p.begin) < 20*time.Second {
		return
	}
	const few = 10 // of some fifty jobs
	if len(p.calls) < few {
		d.t.Errorf("law 4: in %v in which one process couldn't reach the service, the others made %d calls", p.end.Sub(p.begin), len(p.calls))
	}
}

// inPlace is how long a handler may wait for a permit, or before it repeats a call.
const inPlace = 250 * time.Millisecond

// settling is how long a handler stays afterwards, until its worker has seen that no call is let through.
const settling = 15 * time.Millisecond

// moment is how long calls take that begin together.
const moment = 200 * time.Millisecond

const processes = 3

// Laws 1, 2, 4, 6, 7, 8, 9, 11 and 12 by random schedules: processes die, and the service is away, loses its answers,
// asks to wait, is slow, or can't be reached by one process.
func TestLawsInRandomSchedules(t *testing.T) {
	for seed := range storagetest.Seeds(t, 1, 2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				d := &drama{t: t, store: worldtest.OpenStore(t, worldtest.Virtual), random: rand.New(rand.NewPCG(seed, 1)), pace: rand.New(rand.NewPCG(seed, 2)), effects: map[int]int{}, jobs: map[string]int{}, enough: math.MaxInt}
				if seed%2 == 0 {
					d.store = storagetest.Plain(d.store)
				}
				d.attempts = 3 + d.random.IntN(3)
				if d.random.IntN(2) == 0 {
					d.limits = guard.Limits{Rate: guard.PerSecond(20), Slots: 12}
				}
				if d.random.IntN(2) == 0 {
					d.limits.Adaptive = guard.Adaptive{Most: 1 + d.random.IntN(8)}
				}
				d.asked = d.random.IntN(2) == 0
				for range processes {
					d.start()
				}
				sender := worldtest.NewBare(t, d.store, handlers.Config{}, channel.Command[job]("jobs"))
				jobs := d.play(sender)
				time.Sleep(10 * time.Minute)
				d.audit(sender, jobs)
				for _, n := range d.nodes {
					if err := n.stop(); err != nil { // those that live
						t.Error(err)
					}
				}
				time.Sleep(time.Minute)
			})
		})
	}
}
