package handlers

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling"
)

// Config is how handlers are run. The zero Config works.
type Config struct {
	// Logger gets the lines of a worker that has no logger of its own. Defaults to that of the channels.
	Logger *slog.Logger

	// Timeout bounds one run of a handler. The context of a reaction ends then. A handler of any kind that hasn't ended
	// 10 seconds later is given up. That is a failed attempt, and the handler's result has no effect on its message any
	// more. Defaults to 5 minutes.
	Timeout time.Duration

	// Middleware wraps every handler, the first one outermost. Without it, messages of a fold are deleted in the fold's
	// unit of work; with it, after that. Defaults to none.
	Middleware []Middleware
}

// A Registry holds handlers. Register all of them before a worker takes it. Faults are collected, and [Registry.Err]
// reports them.
type Registry struct {
	in      *handling.Registry
	decided map[channel.Kind]bool // commands that have a decision
}

// NewRegistry returns an empty registry for messages that come through channels' routes. [Registry.Err] reports what is
// wrong with its configuration.
func NewRegistry(channels *channel.Channels, cfg Config) *Registry {
	r := &Registry{in: handling.New(channels, cfg.Logger, cfg.Timeout), decided: map[channel.Kind]bool{}}
	r.in.Wrap = wrap(cfg.Middleware, r.in.Faults)
	if cfg.Timeout < 0 {
		r.fault("Timeout is %v; want at least %v", cfg.Timeout, time.Duration(1))
	}
	return r
}

// Channels returns the channels that send the handlers' events.
func (r *Registry) Channels() *channel.Channels { return r.in.Channels }

// Queues returns the queues that have handlers, sorted.
func (r *Registry) Queues() []string { return r.in.Handlers.Queues() }

// Kinds returns the kinds that a queue has handlers for, sorted.
func (r *Registry) Kinds(queue string) (kinds []channel.Kind) {
	for _, h := range r.in.Handlers.Of(queue) {
		kinds = append(kinds, h.Kind())
	}
	return kinds
}

// Err returns all faults of the configuration and of the registered handlers, or nil.
func (r *Registry) Err() error { return r.in.Err() }

// Inside is for this module's own packages. Its type is internal.
func (r *Registry) Inside() *handling.Registry { return r.in }

func (r *Registry) fault(format string, args ...any) { r.in.Faults.Add(fmt.Errorf(format, args...)) }
