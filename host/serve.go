package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/cost"
	"github.com/millrace-go/millrace/spool"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/throttle"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/limiters"
)

// off as an address means none.
const off = "off"

// A service is a run of a program that serves HTTP, works, or both.
type service struct {
	Program
	process Process
	command string
	stdout  io.Writer

	settings    boot.Settings
	prices      **cost.Prices
	address     *string            // of the web; nil where there is none
	origins     *string            // that are trusted beside the web's own; nil where there is no web
	admin       *string            // of the server for operators
	login       *loginFlags        // who may see the pages of operators
	spool       *string            // the file of the web's spool; nil where there is no web, empty for none
	worker      *bool              // whether a worker runs beside the web; nil where there is no choice
	concurrency *int               // nil where no worker can run
	active      *int               // nil where no worker can run
	bake        *time.Duration     // nil where there are no live settings
	registry    *handlers.Registry // of the worker; nil where none runs
}

// serve runs the verbs "", web and worker.
func serve(ctx context.Context, x Process, p Program, verb string, args []string) int {
	s := &service{Program: p, process: x, command: x.Command, stdout: x.Stdout}
	flags := boot.NewFlags(strings.TrimSpace(x.Command+" "+verb), p.about(x.Command), x.Getenv)
	s.settings, s.prices = boot.AddSettings(flags, "data/"+p.Name+".db", p.drivers()), boot.AddPrices(flags)
	admin := "127.0.0.1:9090"
	if verb != "worker" && p.Web != nil {
		admin = off
		s.address = flags.String("addr", ":8080", "the `ADDRESS` to serve, HOST:PORT or :PORT; port 0 takes a free port")
		s.spool = flags.String("spool", "", "the `FILE` that keeps messages while the store is away, on a disk of this machine; no two programs share one.\n"+
			"Defaults to none: then a request that the store can't take is refused")
		s.origins = addOrigins(flags)
		if p.Register != nil {
			s.worker = flags.Bool("worker", verb == "", "run a worker in this process; -worker=false leaves the work to other processes")
		}
	}
	s.admin = flags.String("admin", admin, "the `ADDRESS` to serve /healthz, /readyz, /metrics, /processes, /scale, and the pages at /ops/, HOST:PORT; port 0 takes a free port, "+off+" disables it")
	s.login = addLogin(flags)
	if p.Register != nil {
		s.concurrency = flags.Int("concurrency", 0, 0, 10_000, "the number of `HANDLERS` that run at a time, for each queue; 0 means the worker's default")
		s.active = flags.Int("active", 0, 0, 1000, "the number of `WORKERS` that consume a queue at a time; the others stand by. All processes that run a worker\n"+
			"use the same. 0 means all workers. A queue to which the program gives a limiter of its own is excepted")
	}
	if p.Start != nil { // which alone opens settings
		s.bake = addBake(flags)
	}
	if p.Flags != nil {
		p.Flags(&Flags{flags.Of(boot.Prefix(p.Name))})
	}
	return boot.Main(ctx, boot.Process{Args: args, Getenv: x.Getenv, Stdout: x.Stdout, Stderr: x.Stderr}, flags, s.run)
}

// run opens everything, runs the parts until ctx ends, and closes everything.
func (s *service) run(ctx context.Context, log *slog.Logger, level *slog.LevelVar) (err error) {
	// The port comes first, so that a taken one leaves no files behind.
	var web, admin net.Listener
	for _, x := range []struct {
		flag    string
		address *string
		ln      *net.Listener
	}{{"addr", s.address, &web}, {"admin", s.admin, &admin}} {
		if x.address == nil || x.flag == "admin" && *x.address == off {
			continue
		}
		ln, err := boot.Listen(ctx, x.flag, *x.address)
		if err != nil {
			return err
		}
		defer func() { _ = ln.Close() }() // fails only where the server has closed it already
		*x.ln = ln
	}
	routes, err := s.Routes()
	if err != nil {
		return err
	}
	a := &App{name: s.Name, level: level, Level: new(throttle.Level), Log: log, Stopping: ctx.Done(), Web: web != nil, listener: web, admin: admin, healthy: func() error { return nil }}
	a.Worker, a.guards = s.Register != nil && (!a.Web || *s.worker), s.Guards
	if s.bake != nil {
		a.bake = *s.bake
	}
	defer func() {
		closing := a.close()
		if boot.StoppedBy(ctx, err) && closing != nil {
			err = nil // the stop is no failure, but this is
		}
		err = errors.Join(err, closing)
	}()
	if err := s.open(ctx, a, routes); err != nil {
		return err
	}
	parts, err := s.parts(ctx, a)
	if err := errors.Join(append(a.faults, err)...); err != nil {
		return err
	}
	boot.BeforeExit(ctx, func() { _ = a.summary() })
	_, _ = io.WriteString(s.stdout, a.greeting(s.whereWorkerRuns(a))) // nobody could read an error either
	return boot.Run(ctx, parts...)
}

// open opens the store and what every program has beside it. [App.OnClose] gets all that must be closed.
func (s *service) open(ctx context.Context, a *App, routes *channel.Routes) error {
	if err := s.checkStoreOfSpool(ctx); err != nil {
		return err
	}
	store, rings, err := s.settings.OpenStore(ctx, a.Log)
	if err != nil {
		return err
	}
	a.plain = store
	// The summary is the last closing, because closing the store makes requests, too.
	a.summary = sync.OnceValue(func() error { return s.summary(a) })
	a.OnClose(a.summary)
	a.OnClose(func() (err error) {
		boot.Close(store, &err)
		return err
	})
	a.notes = boot.Standstill(s.settings.File())
	a.metrics = boot.NewMetrics()
	a.Metrics = a.metrics
	a.metrics.MustRegister(cost.Collector(store))
	if rings != nil {
		a.metrics.MustRegister(boot.DoorbellMetrics(rings)...)
	}
	if a.Channels, err = channel.New(store, routes, "/"+s.Name); err != nil {
		return err
	}
	a.Channels = a.Channels.LogTo(a.Log)
	a.Store = a.Channels.Store() // where a queue has lanes, it counts them together
	if s.spool != nil && *s.spool != "" {
		if err := s.openSpool(ctx, a); err != nil {
			return err
		}
	}
	s.openTraces(ctx, a)
	return nil
}

// checkStoreOfSpool refuses to make a new store for what waits in a spool: its own one was moved away, and would never
// get that.
func (s *service) checkStoreOfSpool(ctx context.Context) error {
	file := s.settings.File()
	if s.spool == nil || *s.spool == "" || file == "" {
		return nil
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	st, err := spool.Look(ctx, *s.spool)
	switch {
	case errors.Is(err, storage.ErrInvalid): // before the folder of the store is made
		return wrongSpool(err)
	case err != nil, st.Store == "", st.Waiting+st.Refused == 0:
		return nil // opening the spool tells what is wrong with it
	}
	return fmt.Errorf("%s is not there, and messages for it wait in %s: put it back. Or let them go to a new store: %s spool release %s", file, *s.spool, s.command, boot.ShellWord(*s.spool))
}

// openSpool opens the spool, and lets the program send through it.
func (s *service) openSpool(ctx context.Context, a *App) error {
	path := *s.spool
	if file := s.settings.File(); file != "" && sameFile(file, path) {
		return &boot.UsageError{Err: errors.New("-spool: it is the file of -store; want another one")}
	}
	cfg := s.Spool
	if cfg.Logger == nil {
		cfg.Logger = a.Log
	}
	if cfg.Metrics == nil {
		cfg.Metrics = a.Metrics
	}
	kept, err := spool.Open(ctx, path, a.Channels, cfg)
	if errors.Is(err, storage.ErrInvalid) {
		return wrongSpool(err)
	}
	if err != nil {
		return err
	}
	a.OnClose(kept.Close)
	a.Channels, a.spool, a.cache = kept.Channels(), kept, path+".settings"
	a.Say("While the store is away, messages are kept in %s.", path)
	return nil
}

func wrongSpool(err error) error { return &boot.UsageError{Err: fmt.Errorf("-spool: %w", err)} }

// sameFile reports that two paths lead to one file.
func sameFile(a, b string) bool {
	one, errA := os.Stat(a)
	other, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(one, other)
}

// parts makes the parts of the program, in the order in which they stop: senders before those that they send to, and
// the server that reports health last.
func (s *service) parts(ctx context.Context, a *App) (parts []boot.Part, err error) {
	if s.Start != nil {
		if err := s.Start(ctx, a); err != nil {
			return nil, boot.AsTyped(err, s.command)
		}
		if a.bake > 0 && a.live == nil {
			return nil, &boot.UsageError{Err: errors.New("-bake: this program has no settings that change while it runs; leave the flag out")}
		}
	}
	s.addAlerts(a)
	var work []boot.Part
	if a.Worker {
		w, err := s.newWorker(a)
		if err != nil {
			return nil, err
		}
		p, err := catalog.NewReporter(a.Store, w, catalog.ReporterConfig{Program: s.Name, Version: s.version(), Every: s.ReportEvery, Logger: a.Log, WaitsFrom: a.waitsFrom(s.registry)})
		if err != nil {
			return nil, err
		}
		work = append(work, boot.Part{Name: "worker", Run: w.Run}, boot.Part{Name: "reporter", Run: p.Run})
	}
	if err := s.follow(a); err != nil { // it knows the queues of the worker
		return nil, err
	}
	if a.Web {
		handler, err := s.handler(a)
		if err != nil {
			return nil, err
		}
		parts = append(parts, a.server("server", a.listener, handler))
	}
	if err := values.Faults(wire.Inside{}, a.Store); err != nil {
		return nil, err
	}
	parts = append(parts, a.parts...)
	if a.spool != nil {
		parts = append(parts, boot.Part{Name: "spool", Run: a.spool.Run})
	}
	parts = append(parts, work...)
	if a.admin != nil {
		admin, err := s.operators(a)
		if err != nil {
			return nil, err
		}
		parts = append(parts, admin...)
	}
	return parts, nil
}

// newWorker returns the worker of the program's handlers.
func (s *service) newWorker(a *App) (*worker.Worker, error) {
	registry := handlers.NewRegistry(a.Channels, s.Handlers)
	if err := s.Register(registry); err != nil {
		return nil, err
	}
	s.registry = registry
	for _, name := range slices.Sorted(maps.Keys(s.Guards)) {
		if s.Guards[name] == nil || !slices.Contains(registry.Queues(), name) {
			return nil, fmt.Errorf("host: Program.Guards has queue %s; want a guard, and a queue that has a handler", storage.Quote(name))
		}
		registry.Inside().Guards[name] = s.Guards[name].Status().Name
	}
	cfg := s.workerConfig(a, registry.Queues())
	for name, q := range cfg.Queues {
		if from := registry.Inside().Optional[name]; from > 0 {
			q.Limiter = worker.Limiters(q.Limiter, limiters.Level(a.Level, from))
			cfg.Queues[name] = q
		}
	}
	w, err := worker.New(registry, cfg)
	if err != nil {
		return nil, err
	}
	a.Go("catalog", func(ctx context.Context) error {
		catalog.Keep(ctx, registry, catalog.Program{Name: s.Name, Version: s.version()})
		return nil
	})
	a.working.Store(w)
	standstill := a.notes
	a.healthy, a.notes = w.Healthy, func() string { return standstill() + servicesAway(s.Guards) }
	a.unit = "command handled"
	counted := commandQueues(a.Channels.Routes(), registry.Queues())
	if len(counted) == 0 {
		a.unit, counted = "message handled", registry.Queues()
	}
	a.handled = func() (n int64) {
		for _, q := range counted {
			n += w.Handled(q)
		}
		return n
	}
	return w, nil
}

// workerConfig returns the program's settings with what the flags and the host add.
func (s *service) workerConfig(a *App, queues []string) worker.Config {
	cfg := s.Worker
	if cfg.Logger == nil {
		cfg.Logger = a.Log
	}
	if cfg.Metrics == nil {
		cfg.Metrics = a.Metrics
	}
	if *s.concurrency > 0 {
		cfg.Concurrency = *s.concurrency
	}
	cfg.Queues = maps.Clone(cfg.Queues)
	if cfg.Queues == nil {
		cfg.Queues = map[string]worker.QueueConfig{}
	}
	byHand := limiters.Pauses(limiters.PausesConfig{Metrics: cfg.Metrics, Logger: cfg.Logger})
	for _, q := range queues {
		one, limiters := cfg.Queues[q], []worker.OpenLimiter{byHand}
		if limiter := s.limiter(one); limiter != nil {
			limiters = append(limiters, limiter)
		}
		if g := s.Guards[q]; g != nil {
			limiters = append(limiters, g.Limiter)
		}
		if a.live != nil {
			limiters = append(limiters, a.live.limiter(q))
		}
		one.Limiter = worker.Limiters(limiters...)
		cfg.Queues[q] = one
	}
	return cfg
}

// limiter returns the limiter of a queue besides pauses by hand: the program's own one, or that of -active. nil is
// none.
func (s *service) limiter(q worker.QueueConfig) worker.OpenLimiter {
	if q.Limiter == nil && *s.active > 0 {
		return limiters.Workers(*s.active)
	}
	return q.Limiter
}

// commandQueues returns those of some queues that take commands of the program. Those by which schedules run are the
// framework's own.
func commandQueues(routes *channel.Routes, queues []string) (all []string) {
	for _, q := range queues {
		for _, kind := range routes.Kinds(q) {
			if _, err := routes.CommandQueue(kind); err == nil && !strings.HasPrefix(string(kind), "millrace.") {
				all = append(all, q)
				break
			}
		}
	}
	return all
}

// handler combines the program's web with the operators' addresses.
func (s *service) handler(a *App) (http.Handler, error) {
	web, err := s.Web(a)
	if err != nil {
		return nil, err
	}
	if web == nil {
		return nil, errors.New("host: Program.Web returned no handler")
	}
	if web, err = s.guardOrigins(a, web); err != nil {
		return nil, err
	}
	if a.traces != nil {
		web = withSpans(a.traces, web)
	}
	ops := a.ops()
	mux := http.NewServeMux()
	mux.Handle("/", web)
	mux.Handle("/healthz", ops)
	mux.Handle("/readyz", ops)
	mux.Handle("/metrics", ops)
	return mux, nil
}

func (a *App) ops() http.Handler {
	healthy := func() error { return a.healthy() }
	if a.spool == nil {
		return boot.Ops(a.Store, a.metrics, a.Stopping, a.Log, healthy, nil, a.notes)
	}
	return boot.Ops(a.Store, a.metrics, a.Stopping, a.Log, healthy, a.spool, a.notes)
}

// operators are the parts that serve operators: their addresses, with the number of useful workers and the pages, and
// the acts behind the pages. Pages show what is not for everybody, so the program's web doesn't serve them.
func (s *service) operators(a *App) (parts []boot.Part, err error) {
	mux := http.NewServeMux()
	mux.Handle("/", a.ops())
	if s.Register != nil {
		scale, err := s.newScaler(a)
		if err != nil {
			return nil, err
		}
		mux.Handle("GET /scale", scale)
	}
	mux.HandleFunc("/processes", func(w http.ResponseWriter, r *http.Request) { moved(w, r, opsPath+"/processes") })
	mux.HandleFunc("/processes/{plan}/{id...}", func(w http.ResponseWriter, r *http.Request) {
		moved(w, r, opsPath+"/processes/"+url.PathEscape(r.PathValue("id"))+"?plan="+url.QueryEscape(r.PathValue("plan")))
	})
	all := http.NewServeMux()
	all.Handle("/", byAddressAlone(a.admin, mux))
	pages, err := s.pages(a)
	if err != nil {
		return nil, err
	}
	if pages != nil {
		all.Handle(opsPath, pages) // they know to which names they answer
		all.Handle(opsPath+"/", pages)
		all.Handle("GET /{$}", pages) // it leads there
		parts = append(parts, boot.Part{Name: "bulk acts", Run: pages.Run})
	}
	return append(parts, a.server("admin server", a.admin, all)), nil
}

// moved leads to another path of this server, by a relative address: a proxy may serve the port under any path.
func moved(w http.ResponseWriter, r *http.Request, path string) {
	w.Header().Set("Location", "."+strings.Repeat("/..", strings.Count(r.URL.EscapedPath(), "/")-1)+path)
	w.WriteHeader(http.StatusMovedPermanently)
}

func (a *App) server(name string, ln net.Listener, h http.Handler) boot.Part {
	return boot.Part{Name: name, Run: func(ctx context.Context) error { return boot.Serve(ctx, ln, h, a.Log) }}
}

// whereWorkerRuns says it in words for people.
func (s *service) whereWorkerRuns(a *App) string {
	switch {
	case s.Register == nil:
		return ""
	case a.Worker:
		return "The worker runs in this process."
	}
	return fmt.Sprintf("The worker does not run here; start one with the same -store: %s worker.", s.command)
}

// summary prints the requests to the store for each command that was handled, or sent where no worker runs.
func (s *service) summary(a *App) error {
	switch {
	case a.handled != nil:
		return cost.Summary(s.stdout, a.Store, a.handled(), a.unit, *s.prices)
	case a.Channels != nil:
		return cost.Summary(s.stdout, a.Store, a.Channels.Sent(), "command sent", *s.prices)
	}
	return nil
}
