package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/seldom"
	"github.com/millrace-go/millrace/spool"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/throttle"
	"github.com/millrace-go/millrace/worker"
)

// An App is a program that is starting, or runs. [Program].Start, Web and Alert get it. Its methods are for these
// functions only, while they run.
type App struct {
	Channels *channel.Channels // sends the program's messages
	Store    *storage.Store
	Log      *slog.Logger
	Metrics  prometheus.Registerer // /metrics shows what is registered here
	Stopping <-chan struct{}       // closed when the program begins to stop; ends streams, which a stop would wait for
	Level    *throttle.Level       // how much is left out, by the setting of Live; the queues of handlers.Optional wait
	Web      bool                  // whether this process serves Program.Web
	Worker   bool                  // whether this process runs a worker

	lines    seldom.Lines // of what requests bring about
	parts    []boot.Part  // the program's own loops
	closings []func() error
	faults   []error // of how the program uses the App
	said     []string

	name     string
	level    *slog.LevelVar // that is logged
	live     *live          // nil: the program has no live settings
	bake     time.Duration  // of the stages of a change of settings, by the flag; 0: the program's own
	guards   map[string]*guard.Guard
	working  atomic.Pointer[worker.Worker] // nil while none runs
	listener net.Listener                  // of the web; nil for none
	admin    net.Listener                  // for operators; nil for none
	plain    *storage.Store                // as it was opened: Store counts the lanes of a queue together
	traces   *sdk.TracerProvider           // nil for none
	metrics  *prometheus.Registry
	handled  func() int64  // counts messages; nil where no worker runs
	unit     string        // names what handled counts
	healthy  func() error  // health of the worker
	notes    func() string // what is worth to know of a program that is ready
	spool    *spool.Spool  // nil for none
	cache    string        // the file for the settings in force, for a start while the store is away; empty for none
	summary  func() error  // prints what the program has asked of the store, once
}

// Go adds a loop that runs until its context ends, and then stops in order and returns. An error, or an end before its
// time, stops the program. Loops stop after the web and before the worker, in the order in which they were added.
func (a *App) Go(name string, run func(ctx context.Context) error) {
	if run == nil {
		a.faults = append(a.faults, fmt.Errorf("host: App.Go(%q, nil): want a function", name))
		return
	}
	a.parts = append(a.parts, boot.Part{Name: name, Run: run})
}

// OnClose adds what closes a thing that the program has opened. Closings are called when everything else has stopped,
// the latest first, also when the program fails to start. The store is closed after them.
func (a *App) OnClose(closing func() error) {
	if closing == nil {
		a.faults = append(a.faults, errors.New("host: App.OnClose(nil): want a function"))
		return
	}
	a.closings = append(a.closings, closing)
}

// Say adds a sentence to what the program prints when it has started.
func (a *App) Say(format string, args ...any) {
	a.said = append(a.said, boot.Clean(fmt.Sprintf(format, args...)))
}

// close calls the closings. A closing that panics keeps no other closing from being called.
func (a *App) close() error {
	var faults []error
	for _, closing := range slices.Backward(a.closings) {
		faults = append(faults, contain.Apart(closing))
	}
	return errors.Join(faults...)
}

// greeting is what the program prints when it has started. A program that reads this line by line finds the address at
// the end of the first line.
func (a *App) greeting(worker string) string {
	first := "The worker is starting"
	switch {
	case a.Web:
		first = "Serving at " + boot.URL(a.listener)
	case a.admin != nil:
		first += ": health and metrics at " + boot.URL(a.admin)
	}
	all := a.said
	if a.Web && a.admin != nil {
		all = append(all, "Operators have "+boot.URL(a.admin)+".")
	}
	if a.Web && worker != "" {
		all = append(all, worker)
	}
	return first + "\n" + strings.Join(append(all, "Stop with Ctrl-C."), " ") + "\n"
}
