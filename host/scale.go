package host

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/seldom"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/throttle"
	"github.com/millrace-go/millrace/worker"
)

const (
	scaleWithin = 30 * time.Second // in which what waits should be done
	scaleBatch  = 200              // messages that a worker is thought to do in that time, until more is known
	scaleFor    = 5 * time.Second  // how long a look at the store counts
	scaleTime   = 4 * time.Second  // for a look
)

// A demand is what is known of a queue, and what workers could do about it.
type demand struct {
	waiting     int64   // messages that could be received now
	handled     int64   // messages that workers have received, and not ended
	rate        float64 // messages a second of the worker that did most of late; 0: nobody knows
	running     float64 // seconds that a handler runs, the median; 0: nobody knows
	concurrency int     // handlers at a time of one worker
	active      int     // workers at a time; 0: no limit
	held        string  // why the queue isn't consumed; empty: it is
	shut        bool    // the guard of the queue lets at most a probe through
	calls       float64 // a second, which the guard lets all workers make together; 0: no limit
	slots       int     // at a time, likewise
}

// useful returns how many workers have something to do, and why. Messages that are being handled count like those that
// wait, so that no worker is ended in the middle of its last ones.
func (d demand) useful() (n int64, why string) {
	todo, what := max(0, d.waiting)+max(0, d.handled), "wait"
	if d.handled > 0 {
		what = "wait or are being handled"
	}
	if d.held != "" || d.shut {
		todo, what = max(0, d.handled), "are still being handled" // no other one begins
	}
	switch {
	case todo > 0:
	case d.held != "":
		return 0, d.held
	case d.waiting <= 0:
		return 0, "nothing waits"
	default:
		return 1, "the service behind the queue is away, or asks to wait: one worker asks whether it is back"
	}
	rate := scaleBatch / scaleWithin.Seconds()
	if d.running > 0 {
		rate = min(rate, float64(d.concurrency)/d.running) // of handlers that take long a worker does fewer
	}
	rate = max(rate, d.rate)
	why = fmt.Sprintf("%d messages %s, and a worker does %.3g a second", todo, what, rate)
	n = int64(math.Ceil(min(float64(todo)/(rate*scaleWithin.Seconds()), math.MaxInt32)))
	if most := (todo-1)/int64(d.concurrency) + 1; n > most {
		n, why = most, fmt.Sprintf("%d messages %s, and a worker runs %d at a time", todo, what, d.concurrency)
	}
	could := rate // a second, of one worker that no limit holds back
	if d.running > 0 {
		could = max(rate, float64(d.concurrency)/d.running)
	}
	for _, limit := range []struct {
		most float64
		why  string
	}{
		{float64(d.active), fmt.Sprintf("%d workers consume the queue at a time", d.active)},
		{math.Ceil(d.calls / could), fmt.Sprintf("all workers together make %.3g calls a second, and one could make %.3g", d.calls, could)},
		{math.Ceil(float64(d.slots) / float64(d.concurrency)), fmt.Sprintf("all workers together make %d calls at a time, and one runs %d", d.slots, d.concurrency)},
	} {
		if limit.most > 0 && float64(n) > limit.most {
			n, why = int64(limit.most), limit.why
		}
	}
	return max(n, 1), why
}

// A scaler answers how many workers of a queue are useful.
type scaler struct {
	log      *slog.Logger
	lines    seldom.Lines // of log
	store    *storage.Store
	pauses   *pause.Pauses
	registry *handlers.Registry
	level    *throttle.Level
	guards   map[string]*guard.Guard
	limits   func(queue string) (concurrency, active int)

	mu     sync.Mutex // held during a look, so that one serves all requests that wait
	fleet  look[fleet]
	queues map[string]look[storage.Stats]
}

// A look is what a request to the store brought, for a while.
type look[T any] struct {
	at  time.Time
	got T
	err error
}

// A fleet is what is known of all workers and queues together.
type fleet struct {
	reports []catalog.Report
	paused  map[string]pause.Pause
	away    map[string]bool // the guards that are open for all processes, by name
}

// again looks if the last look is too old.
func (l *look[T]) again(f func(context.Context) (T, error)) (T, error) {
	if l.at.IsZero() || time.Since(l.at) >= scaleFor {
		// The request's context doesn't fit: other requests wait for this answer, too.
		ctx, cancel := context.WithTimeout(context.Background(), scaleTime)
		defer cancel()
		l.got, l.err = f(ctx)
		l.at = time.Now()
	}
	return l.got, l.err
}

// newScaler returns the scaler of a program that has handlers.
func (s *service) newScaler(a *App) (*scaler, error) {
	pauses, err := pause.New(a.Store, pause.Config{})
	if err != nil {
		return nil, err
	}
	registry := s.registry
	if registry == nil { // no handler runs here, but the registry knows the queues
		registry = handlers.NewRegistry(a.Channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
		if err := s.Register(registry); err != nil {
			return nil, err
		}
	}
	limits := func(queue string) (concurrency, active int) {
		own := s.Worker.Queues[queue]
		concurrency = cmp.Or(a.live.concurrency(queue), own.Concurrency, *s.concurrency, s.Worker.Concurrency, worker.DefaultConcurrency)
		if own.Limiter == nil {
			active = *s.active
		}
		return concurrency, active
	}
	return &scaler{log: a.Log, store: a.Store, pauses: pauses, registry: registry, level: a.Level, guards: s.Guards, limits: limits, queues: map[string]look[storage.Stats]{}}, nil
}

// ServeHTTP answers GET /scale?queue=NAME.
func (s *scaler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	queue, known := r.URL.Query().Get("queue"), s.registry.Queues()
	if !slices.Contains(known, queue) {
		problem(w, http.StatusNotFound, fmt.Sprintf("This program consumes no queue %s. Want /scale?queue= with one of %s.", storage.Quote(queue), strings.Join(known, ", ")))
		return
	}
	d, err := s.look(queue)
	if err != nil {
		s.lines.Log(r, s.log, slog.LevelWarn, "can't tell how many workers are useful", queue, slog.Any("error", err))
		unavailable(w)
		return
	}
	n, why := d.useful()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(struct { // the client may have gone
		Queue   string `json:"queue"`
		Value   int64  `json:"value"` // useful workers
		Waiting int64  `json:"waiting"`
		Why     string `json:"why"`
	}{queue, n, d.waiting, why})
}

// look finds out what is to be known of a queue.
func (s *scaler) look(queue string) (d demand, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.fleet.again(s.lookAtFleet)
	if err != nil {
		return d, err
	}
	last := s.queues[queue]
	st, err := last.again(s.store.Queue(queue).Stats)
	s.queues[queue] = last
	d.concurrency, d.active = s.limits(queue)
	var inHand int64
	d.rate, d.running, inHand = speed(all.reports, queue)
	if d.waiting, d.handled = st.Ready, st.InFlight; st.InFlight < 0 { // the store doesn't tell
		d.handled = max(0, inHand-d.waiting) // it may have counted them among those that wait
	}
	if from := s.registry.Inside().Optional[queue]; from > 0 && s.level.Off(from) {
		d.held = fmt.Sprintf("the queue is optional from level %d on", from)
	}
	if _, paused := all.paused[queue]; paused {
		d.held = "the queue is paused by hand"
	}
	if g := s.guards[queue]; g != nil {
		limits := g.Limits()
		d.shut = g.Open() || all.away[g.Status().Name] // a web without a worker calls no service itself
		d.calls, d.slots = float64(limits.Rate), limits.Slots
	}
	return d, err
}

func (s *scaler) lookAtFleet(ctx context.Context) (f fleet, err error) {
	if f.paused, err = s.pauses.List(ctx); err == nil {
		f.reports, err = catalog.ReadReports(ctx, s.store)
	}
	if err != nil || len(s.guards) == 0 {
		return f, err
	}
	outages, err := guard.Outages(ctx, s.store)
	f.away = map[string]bool{}
	for _, o := range outages {
		f.away[o.Name] = o.All
	}
	return f, err
}

// speed returns how many messages of a queue the fastest worker does in a second, how long handlers run, and how many
// messages all workers had in hand, by what they have published.
func speed(all []catalog.Report, queue string) (rate, running float64, inHand int64) {
	byWorker := map[string][]catalog.Report{}
	for _, p := range all {
		byWorker[p.ID] = append(byWorker[p.ID], p)
		running = max(running, p.Queues[queue].P50/1000)
	}
	for _, its := range byWorker {
		rate = max(rate, catalog.Rates(its, catalog.Window)[queue].Out)
		if last := its[len(its)-1]; !last.Last {
			inHand += last.Queues[queue].InHand
		}
	}
	return rate, running, inHand
}
