package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/inbox"
	"github.com/millrace-go/millrace/throttle"
	"github.com/millrace-go/millrace/worker"
)

// Live are the settings that the host itself reads while the program runs. A program embeds them in its own; see
// [Settings].
type Live struct {
	// Log is the least level that is logged: debug, info, warn or error. Defaults to that of the flag -log.
	Log string `json:"log"`

	// Level says how much the program leaves out: 0 nothing, up to 3. The queues of handlers.Optional wait, and the
	// program's own code asks App.Level. Defaults to 0.
	Level int `json:"level"`

	// Queues has limits of single queues, by queue. Defaults to none.
	Queues map[string]LiveQueue `json:"queues"`

	// Guards has the numbers of the guards in [Program].Guards, by the name of the guard. Defaults to none.
	Guards map[string]LiveGuard `json:"guards"`
}

// A LiveQueue says how each worker consumes a queue. A field that is zero leaves the program's own in force, which is
// that of the flags and of [Program].Worker.
type LiveQueue struct {
	// Concurrency is how many handlers run at a time, 10,000 at most. When it falls, running handlers finish.
	Concurrency int `json:"concurrency,omitzero"`

	// Poll is the longest time between two looks of an idle worker, such as 5s: from 20ms to 24h.
	Poll string `json:"poll,omitzero"`

	// Weights are the parts of the turns that messages of each priority get, 1 to 100, in a queue of channel.Priorities.
	// One that is zero is the default: high 8, normal 4, low 1.
	Weights channel.Weights `json:"weights,omitzero"`
}

const (
	maxConcurrency = 10_000
	maxPoll        = 24 * time.Hour
)

// ours lets the host find its own settings in those of a program.
func (l *Live) ours() *Live { return l }

// fault says what is wrong with settings for the program.
func (l *live) fault(now *Live) error {
	var faults []error
	if _, err := now.level(); err != nil {
		faults = append(faults, err)
	}
	if err := throttle.CheckLevel(now.Level); err != nil {
		faults = append(faults, err)
	}
	for _, name := range slices.Sorted(maps.Keys(now.Queues)) {
		faults = append(faults, l.faultOf(name, now.Queues[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(now.Guards)) {
		faults = append(faults, l.guards.fault(name, now.Guards[name]))
	}
	return errors.Join(faults...)
}

// faultOf says what is wrong with the settings of a queue.
func (l *live) faultOf(name string, q LiveQueue) error {
	var faults []error
	if queues := l.channels.Routes().Queues(); !slices.Contains(queues, name) {
		faults = append(faults, fmt.Errorf("queues: the program has no queue %s; want one of %s", storage.Quote(name), strings.Join(queues, ", ")))
	}
	if q.Concurrency < 0 || q.Concurrency > maxConcurrency {
		faults = append(faults, fmt.Errorf("queues.%s.concurrency is %d; want 1 to %d, or 0 for the program's own", name, q.Concurrency, maxConcurrency))
	}
	if poll, err := time.ParseDuration(q.Poll); q.Poll != "" && (err != nil || poll < inbox.FirstLook || poll > maxPoll) {
		faults = append(faults, fmt.Errorf("queues.%s.poll is %s; want a time from 20ms to 24h, such as 5s", name, storage.Quote(q.Poll)))
	}
	if err := q.Weights.Check(); err != nil {
		faults = append(faults, fmt.Errorf("queues.%s.weights: %w", name, err))
	}
	if q.Weights != (channel.Weights{}) && !l.channels.Routes().Lanes()[name].Priorities {
		faults = append(faults, fmt.Errorf("queues.%s.weights: the queue has no priorities; want a queue of channel.Priorities", name))
	}
	return errors.Join(faults...)
}

// level returns the least level that is logged.
func (l *Live) level() (level slog.Level, err error) {
	if level.UnmarshalText([]byte(l.Log)) != nil {
		return level, fmt.Errorf("log is %s; want debug, info, warn or error", storage.Quote(l.Log))
	}
	return level, nil
}

// limits returns the limits of a queue.
func (l *Live) limits(queue string) worker.Limits {
	q := l.Queues[queue]
	poll, _ := time.ParseDuration(q.Poll) // which was checked; none is 0
	return worker.Limits{Concurrency: q.Concurrency, PollInterval: poll}
}

// Settings opens the settings of the program that change while it runs, under the program's name; see package settings.
// Call it in Start, once. T is a struct that embeds [Live] and has the program's own settings besides. defaults are
// theirs, mostly from flags; the host sets those of Live. The host puts Live into force, and closes the settings. cfg
// gets the program's logger and metrics, and a name such as worker@MACHINE-PROCESS, unless it has others.
//
// The flag -bake lets a change come in stages: 10, 50 and 100 percent of the programs, or those of cfg.Stages. One
// that runs the change is ill if cfg.Health returns an error, or if a breaker of [Program].Guards has opened there
// since, and not for the others. Work is what the worker does: messages that are done; failed attempts, or failed calls
// of the guard where those are more; and poisoned messages. cfg.Work is added to that.
//
//	type Shop struct {
//		host.Live
//		Seats int `json:"seats"`
//	}
//
//	func (p *program) start(ctx context.Context, a *host.App) (err error) {
//		p.live, err = host.Settings(ctx, a, Shop{Seats: *p.seats}, settings.Config{})
//		return err
//	}
//
// Operators use "shop settings set seats=60 log=debug queues.mails.concurrency=64 guards.smtp.rate=80". A program that
// doesn't call it has no live settings, and they cost it nothing. With -spool, the settings in force are kept beside
// the spool, in a file with the ending .settings, for a start while the store is away; Config.Cache names another file.
func Settings[T any, L interface {
	*T
	ours() *Live
}](ctx context.Context, a *App, defaults T, cfg settings.Config) (*settings.Settings[T], error) {
	if a.live != nil {
		return nil, errors.New("host: Settings is called twice; want one struct with all settings")
	}
	if L(&defaults).ours() == nil {
		return nil, errors.New("host: the settings embed *host.Live; want host.Live")
	}
	*L(&defaults).ours() = Live{Log: strings.ToLower(a.level.Level().String()), Queues: map[string]LiveQueue{}, Guards: map[string]LiveGuard{}}
	if cfg.Logger == nil {
		cfg.Logger = a.Log
	}
	if cfg.Metrics == nil {
		cfg.Metrics = a.Metrics
	}
	cfg.Cache = cmp.Or(cfg.Cache, a.cache)
	var opened atomic.Pointer[settings.Settings[T]]
	cfg.Stages = withBake(cfg.Stages, a.bake)
	cfg.Work = a.work(cfg.Work)
	cfg.Health = a.health(cfg.Health, func() settings.State {
		if s := opened.Load(); s != nil {
			return s.State()
		}
		return settings.State{}
	})
	if me := a.role() + "@" + storecall.ProcessName(); cfg.Name == "" && len(me) <= 100 {
		cfg.Name = me
	}
	if err := a.showLevel(); err != nil {
		return nil, err
	}
	s, err := settings.Open(ctx, a.Store, a.name, defaults, cfg)
	if err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	opened.Store(s)
	a.OnClose(func() error {
		if err := s.Close(context.WithoutCancel(ctx)); err != nil { // its row ends by itself
			a.Log.WarnContext(ctx, "the settings could not be closed in order", "error", err)
		}
		return nil
	})
	a.live = &live{level: a.level, work: a.Level, log: a.Log, channels: a.Channels, guards: byName(a.guards), changed: make(chan struct{})}
	s.Changing(func(_ context.Context, _, to T) error { return a.live.fault(L(&to).ours()) })
	Follow(s, func(now T) { a.live.put(*L(&now).ours()) })
	return s, nil
}

// Follow calls f with the settings in force, and again after each change. The calls don't overlap, and the last one has
// the newest. f must not change what it gets.
func Follow[T any](s *settings.Settings[T], f func(now T)) {
	var mu sync.Mutex
	tell := func(T, T) {
		mu.Lock()
		defer mu.Unlock()
		f(*s.Now()) // under mu: of two calls, the later one has the newer
	}
	s.Changed(tell)
	var none T
	tell(none, none)
}

// role is what the process does.
func (a *App) role() string {
	switch {
	case a.Web && a.Worker:
		return "all"
	case a.Web:
		return "web"
	}
	return "worker"
}

// live puts the host's own settings into force.
type live struct {
	level    *slog.LevelVar  // of the log
	work     *throttle.Level // that is left out
	log      *slog.Logger
	channels *channel.Channels
	guards   guards // of the program

	mu      sync.Mutex
	now     Live          // in force; under mu
	changed chan struct{} // closed when now changes; under mu
}

// usable returns settings with those of before in place of each part that this program can't use.
func (l *live) usable(now Live) Live {
	if _, err := now.level(); err != nil {
		now.Log = l.now.Log
	}
	if throttle.CheckLevel(now.Level) != nil {
		now.Level = l.now.Level
	}
	now.Queues = usable(now.Queues, l.now.Queues, l.faultOf)
	now.Guards = usable(now.Guards, l.now.Guards, l.guards.fault)
	return now
}

func usable[T any](now, before map[string]T, fault func(name string, part T) error) map[string]T {
	parts := map[string]T{}
	for name, part := range now {
		if fault(name, part) == nil {
			parts[name] = part
		} else if was, ok := before[name]; ok {
			parts[name] = was
		}
	}
	return parts
}

// put puts settings into force. A change that was forced, or that came while this program did not run, may have what
// this program can't use. Such a part stays as it is.
func (l *live) put(now Live) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.fault(&now); err != nil {
		l.log.Error("some settings in force can't be used by this program; in their place those from before hold", "error", err)
		now = l.usable(now)
	}
	if level, err := now.level(); err == nil {
		l.level.Set(level)
	}
	if before := l.now.Level; now.Level != before && l.work.Set(now.Level) == nil {
		l.log.Info("the level of what is left out changes", "from", before, "to", now.Level)
	}
	for queue, x := range l.channels.Routes().Lanes() {
		before, next := l.now.Queues[queue].Weights, now.Queues[queue].Weights
		if !x.Priorities || before == next {
			continue
		}
		if err := channel.Weigh(l.channels, queue, next); err != nil {
			l.log.Error("a queue keeps its weights", "queue", queue, "error", err)
			continue
		}
		l.log.Info("the weights of a queue change", "queue", queue, "high", next.High, "normal", next.Normal, "low", next.Low)
	}
	l.guards.put(now.Guards, l.log)
	l.now = now
	close(l.changed)
	l.changed = make(chan struct{})
}

// concurrency returns the setting of a queue, or 0.
func (l *live) concurrency(queue string) int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now.limits(queue).Concurrency
}

// limiter returns the limiter by which the settings limit a queue.
func (l *live) limiter(queue string) worker.OpenLimiter {
	return func(context.Context, worker.Consumer) (worker.Limiter, error) { return liveLimiter{l, queue}, nil }
}

type liveLimiter struct {
	*live
	queue string
}

func (t liveLimiter) Now() (worker.Limits, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now.limits(t.queue), t.changed
}

func (liveLimiter) Leave(context.Context) error { return nil }
