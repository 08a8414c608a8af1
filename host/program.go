package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/ops/alert"
	"github.com/millrace-go/millrace/spool"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/throttle"
	"github.com/millrace-go/millrace/worker"
)

// A Program is what a program consists of. Name is required; a program that does work has Routes and Register, too.
type Program struct {
	// Name is 1 to 40 lower-case letters, digits and hyphens, and begins with a letter. Its uses:
	//
	//   - data/NAME.db is the store when -store names no other one
	//   - NAME_ in upper case begins the environment variables of the program's own flags
	//   - /NAME is the source of the messages that it sends
	//
	// So programs that share a store and flags, such as a web and a worker, have the same name.
	Name string

	// About is the beginning of -help. Defaults to the name.
	About string

	// Version is the version of the program. Defaults to that of the build: the module's version, or the revision.
	Version string

	// Drivers are the kinds of store that -store may name beside a SQLite file, a line for each kind:
	//
	//	Drivers: storage.Drivers{azure.Driver},
	//
	// A program links what its drivers need, such as the SDK of a cloud, and nothing of other kinds. Defaults to none.
	Drivers storage.Drivers

	// Routes returns where messages go. Defaults to none; then the program has neither a web nor a worker.
	Routes func() (*channel.Routes, error)

	// Register registers the handlers. It may be called where no handler ever runs, and then before Start. Defaults to
	// none, and a program without a worker.
	Register func(*handlers.Registry) error

	// Web returns the handler of HTTP requests. The host answers /healthz, /readyz and /metrics itself, and refuses
	// what a page of another origin sends (403), except by the safe methods: GET, HEAD and OPTIONS. -origins names
	// origins that are trusted. Defaults to none, and a program without a web.
	Web func(*App) (http.Handler, error)

	// Flags defines settings of the program's own. Defaults to none.
	Flags func(*Flags)

	// Start opens what the program needs beside the store, and gives its closing and loops to the App. It is called
	// before Register and Web. ctx ends when the program begins to stop. Defaults to nothing.
	Start func(ctx context.Context, a *App) error

	// Alert returns what tells people what is wrong with the store: once when it begins, and once when it is over. One
	// process of the program calls it; see package ops/alert, which says what that costs. Alert is called once, after
	// Start. Nil, or a hook that is nil, asks nothing of the store. Defaults to nil.
	Alert func(*App) alert.Hook

	// Rebuild rebuilds views for the verb views rebuild, by the view's name. Defaults to none.
	Rebuild map[string]Rebuild

	// Alias returns other IDs and keys that a person may mean by a word, such as those of the messages and documents of
	// an order. The operator's verbs take the word for each of them. Defaults to none.
	Alias func(word string) []string

	// Handlers is how handlers are run. Defaults to the zero Config, with the program's logger.
	Handlers handlers.Config

	// Worker is how the worker works, with settings for single queues in Queues. Defaults to the zero Config, with the
	// program's logger and metrics. The flag -concurrency wins over its Concurrency, and a queue's setting in [Live]
	// over all. The flag -active applies to the queues that have no Limiter here; worker.Limiters() stands for
	// "always". No queue is consumed that an operator has paused, whatever its Limiter; see package worker/limiters.
	Worker worker.Config

	// Spool is how the web keeps messages while the store is away, where -spool names a file; see package spool.
	// Defaults to the zero Config, with the program's logger and metrics.
	Spool spool.Config
	// Guards has the guards of queues, by queue. Each handler of such a queue calls the service of the guard. The queue
	// pauses while that service is away, besides its own Limiter. Defaults to none.
	Guards map[string]*guard.Guard

	// Raise raises App.Level while queues are longer than its Bounds, in each process; see throttle.Level.Follow. The
	// level in the settings of Live is the least. A queue that waits at the level of its own bound would never get
	// shorter, so a worker refuses that at its start. Defaults to none, and the level is that of the settings.
	Raise throttle.Raise

	// ReportEvery is how often the worker publishes what it has done, for the rates of the verb top; see package
	// ops/catalog. It is at least 10 seconds, or catalog.NoReports. Defaults to a minute.
	ReportEvery time.Duration
}

var goodName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// check reports all faults of a program.
func (p *Program) check() error {
	var faults []error
	if !goodName.MatchString(p.Name) {
		faults = append(faults, fmt.Errorf("host: Program.Name is %s; want 1 to 40 lower-case letters, digits and hyphens, a letter first", storage.Quote(p.Name)))
	}
	if p.Routes == nil && (p.Register != nil || p.Web != nil) {
		faults = append(faults, errors.New("host: Program.Routes is nil; Register and Web need the routes of their messages"))
	}
	if err := p.drivers().Check(); err != nil {
		faults = append(faults, fmt.Errorf("host: Program.Drivers: %w", err))
	}
	return errors.Join(faults...)
}

// drivers are the kinds of store that the program can open.
func (p *Program) drivers() storage.Drivers {
	return append(storage.Drivers{sqlite.Driver}, p.Drivers...)
}

// version returns the program's version, "devel" when nothing tells it.
func (p *Program) version() string {
	if p.Version != "" {
		return p.Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return buildVersion(info)
}

func buildVersion(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+dirty"
		}
	}
	return cmp.Or(revision, "devel") + changed
}
