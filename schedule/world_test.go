package schedule_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// Job is the command of all schedules of the tests.
type Job struct {
	Schedule string         `json:"schedule"`
	Due      time.Time      `json:"due"`
	From     time.Time      `json:"from"`
	Cause    schedule.Cause `json:"cause"`
	Run      schedule.RunID `json:"run"`
	By       string         `json:"by"` // the version of the program that has made it
}

// Kind is the name on the wire.
func (Job) Kind() channel.Kind { return "test.job.v1" }

// A plan is a schedule of a program.
type plan struct {
	name    string
	spec    schedule.Spec
	cfg     schedule.Config
	command func(schedule.Tick) Job // nil: a job that says all that the tick says
}

// A lab is a store on which replicas of a program run in virtual time.
type lab struct {
	t     *testing.T
	store *storage.Store
	log   *worldtest.Log
	work  func(context.Context, Job) error // what a command does; it may be nil
	began time.Time

	onPoison func(Job, handlers.Poisoned) []channel.Message // it may be nil

	mu       sync.Mutex
	started  int               // replicas; under mu
	ran      map[string]ran    // by the command's ID; under mu
	all      []string          // the IDs, in the order in which they came; under mu
	running  map[*replica]bool // under mu
	replicas sync.WaitGroup
}

// ran is a command that a handler has had.
type ran struct {
	Job
	at time.Time // the first time
}

func newLab(t *testing.T, s *storage.Store) *lab {
	l := &lab{t: t, store: s, log: worldtest.NewLog(), began: time.Now(), ran: map[string]ran{}, running: map[*replica]bool{}}
	t.Cleanup(func() {
		for r := range l.running {
			r.stop()
		}
		l.replicas.Wait()
	})
	return l
}

// A replica is a process of a program.
type replica struct {
	l     *lab
	fuse  *storagetest.Fuse
	end   context.CancelFunc
	ended chan error
}

// routes are those of the program.
func routes() (*channel.Routes, error) {
	return channel.NewRoutes(schedule.Route(), channel.Command[Job]("jobs"))
}

// start starts a replica of a version of the program, which has these schedules.
func (l *lab) start(version string, plans ...plan) *replica {
	l.t.Helper()
	r := &replica{l: l, ended: make(chan error, 1)}
	store, fuse := storagetest.Disturb(l.store, storagetest.Disturbance{})
	r.fuse = fuse
	w := worldtest.NewBare(l.t, store, handlers.Config{Logger: slog.New(l.log), Timeout: 24 * time.Hour}, schedule.Route(), channel.Command[Job]("jobs"))
	l.register(w.Registry, version, plans)
	l.mu.Lock()
	l.started++
	name := fmt.Sprintf("%s-%d", version, l.started)
	l.running[r] = true
	l.mu.Unlock()
	queues := map[string]worker.QueueConfig{}
	for _, q := range w.Registry.Queues() {
		queues[q] = worker.QueueConfig{PollInterval: 24 * time.Hour} // the store rings
	}
	wk, err := worker.New(w.Registry, worker.Config{Name: name, Queues: queues})
	if err != nil {
		l.t.Fatal(err)
	}
	var ctx context.Context
	ctx, r.end = context.WithCancel(context.WithoutCancel(l.t.Context()))
	l.replicas.Go(func() { r.ended <- wk.Run(ctx) })
	return r
}

// register registers what a version of the program has.
func (l *lab) register(h *handlers.Registry, version string, plans []plan) {
	for _, p := range plans {
		command := p.command
		if command == nil {
			command = jobOf
		}
		schedule.Every(h, p.name, p.spec, func(t schedule.Tick) Job {
			j := command(t)
			j.By = version
			return j
		}, p.cfg)
	}
	handlers.React(h, "jobs", func(ctx context.Context, j Job) error {
		e, _, _ := channel.Handled(ctx)
		l.mu.Lock()
		if _, again := l.ran[e.ID]; !again {
			l.ran[e.ID] = ran{j, time.Now()}
			l.all = append(l.all, e.ID)
		}
		l.mu.Unlock()
		if l.work != nil {
			return l.work(ctx, j)
		}
		return nil
	})
	if l.onPoison != nil {
		handlers.OnPoison(h, l.onPoison, schedule.Done{})
	}
}

// jobOf makes a job that says all that the tick says.
func jobOf(t schedule.Tick) Job {
	return Job{Schedule: t.Schedule, Due: t.Due, From: t.From, Cause: t.Cause, Run: t.Run}
}

// stop stops a replica in order.
func (r *replica) stop() {
	r.l.mu.Lock()
	delete(r.l.running, r)
	r.l.mu.Unlock()
	r.end()
	if err := <-r.ended; err != nil && !r.fuse.Fired() {
		r.l.t.Errorf("a replica ends: %v", err)
	}
	r.ended <- nil
}

// kill ends a replica as a power failure does.
func (r *replica) kill() {
	r.l.mu.Lock()
	delete(r.l.running, r)
	r.l.mu.Unlock()
	r.fuse.Fire()
	r.end()
}

// sleep lets time pass.
func (l *lab) sleep(d time.Duration) { _ = worldtest.Pause(l.t.Context(), d) }

// until lets time pass until a time of day, given as 15:04:05, of a day after the first one.
func (l *lab) until(day int, clock string) {
	l.t.Helper()
	at, err := time.Parse(time.TimeOnly, clock)
	if err != nil {
		l.t.Fatal(err)
	}
	midnight := l.began.Truncate(24*time.Hour).AddDate(0, 0, day)
	l.sleep(time.Until(midnight.Add(at.Sub(at.Truncate(24 * time.Hour)))))
}

// jobs returns the commands of a schedule that have come, in the order of their due times.
func (l *lab) jobs(name string) (all []ran) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range l.all {
		if j := l.ran[id]; j.Schedule == name {
			all = append(all, j)
		}
	}
	slices.SortStableFunc(all, func(a, b ran) int { return a.Due.Compare(b.Due) })
	return all
}

// dues tells the due times of a schedule's commands in short: "02 03:15" is on the second, at 03:15.
func (l *lab) dues(name string) string {
	var all []string
	for _, j := range l.jobs(name) {
		text := j.Due.UTC().Format("02 15:04")
		if j.Due.Second() != 0 {
			text = j.Due.UTC().Format("02 15:04:05")
		}
		if !j.From.Equal(j.Due) {
			text += " from " + j.From.UTC().Format("02 15:04")
		}
		if j.Cause != schedule.Scheduled {
			text += " " + string(j.Cause)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func (l *lab) wantDues(name, want string) {
	l.t.Helper()
	if got := l.dues(name); got != want {
		l.t.Errorf("%s: got\n  %s\nwant\n  %s", name, got, want)
	}
}

// wantOnce fails the test unless each due time of a range has come once, and nothing else has.
func (l *lab) wantOnce(name string, spec schedule.Spec, from, to time.Time) {
	l.t.Helper()
	got := map[time.Time]int{}
	for _, j := range l.jobs(name) {
		if got[j.Due.UTC()]++; got[j.Due.UTC()] > 1 {
			l.t.Errorf("%s: %v came %d times", name, j.Due, got[j.Due.UTC()])
		}
	}
	n := 0
	for t := spec.Next(from); !t.After(to); t = spec.Next(t) {
		n++
		if got[t.UTC()] == 0 {
			l.t.Errorf("%s: %v never came", name, t)
		}
		delete(got, t.UTC())
	}
	for t := range got {
		l.t.Errorf("%s: %v came and was not due", name, t)
	}
	if n == 0 {
		l.t.Errorf("%s: nothing was due, so nothing is shown", name)
	}
}

// info returns what is known of a schedule.
func (l *lab) info(name string) schedule.Info {
	l.t.Helper()
	x, err := schedule.At(l.store, name).Info(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return x
}

// wantNoPoison fails the test if something is in a poison queue.
func (l *lab) wantNoPoison() {
	l.t.Helper()
	r, err := routes()
	if err != nil {
		l.t.Fatal(err)
	}
	c, err := channel.New(l.store, r, "/test")
	if err != nil {
		l.t.Fatal(err)
	}
	for _, q := range r.Queues() {
		for e, err := range poison.At(c, q).List(l.t.Context()) {
			l.t.Errorf("queue %s: poisoned: %+v, error %v", q, e, err)
		}
	}
}

// ok returns a result that has no error.
func ok[T any](x T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}
