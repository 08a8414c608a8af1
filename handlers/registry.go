package handlers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// Config is how handlers are run. The zero Config works.
type Config struct {
	// Logger gets the lines of a worker that has no logger of its own. Defaults to that of the channels.
	Logger *slog.Logger

	// Timeout bounds one run of a handler. The context of a reaction ends then. A handler of any kind that hasn't ended 10
	// seconds later is given up. That is a failed attempt, and the handler's result has no effect on its message any more.
	// Defaults to 5 minutes.
	Timeout time.Duration

	// Middleware wraps every handler, the first one outermost. Without it, messages of a fold are deleted in the fold's
	// unit of work; with it, after that. Defaults to none.
	Middleware []Middleware
}

// A Registry holds handlers. Register all of them before a worker takes it. Faults are collected, and [Registry.Err]
// reports them.
type Registry struct {
	channels *channel.Channels
	cfg      Config
	codec    wire.Codec
	handlers map[string]map[channel.Kind]*Handler // by queue
	folders  map[string]*folder                   // by the collection's name
	decided  map[channel.Kind]bool
	givenUp  compensations
	optional map[string]int        // see Optional
	turns    map[string]*turns     // by queue
	judged   map[reflect.Type]bool // see warnOfLoss
	checks   []func(context.Context) error
	clockSet []func(context.Context) error // see OnClockSet
	faults   []error
	kept     map[reflect.Type]any // see Kept
}

// noTimeout is as good as no limit, and leaves room for giveUpAfter.
const noTimeout = 100 * 365 * 24 * time.Hour

// NewRegistry returns an empty registry for messages that come through channels' routes. [Registry.Err] reports what is
// wrong with its configuration.
func NewRegistry(channels *channel.Channels, cfg Config) *Registry {
	if cfg.Logger == nil {
		cfg.Logger = channels.Logger()
	}
	cfg.Logger = GuardLogger(cfg.Logger)
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Minute
	}
	cfg.Timeout = min(cfg.Timeout, noTimeout)
	r := &Registry{
		channels: channels, cfg: cfg,
		handlers: map[string]map[channel.Kind]*Handler{}, folders: map[string]*folder{}, decided: map[channel.Kind]bool{},
		givenUp: compensations{}, optional: map[string]int{}, turns: map[string]*turns{}, judged: map[reflect.Type]bool{}, kept: map[reflect.Type]any{},
	}
	for i, m := range cfg.Middleware {
		if m == nil {
			r.fault("Middleware %d of %d is nil", i+1, len(cfg.Middleware))
		}
	}
	if cfg.Timeout < 0 {
		r.fault("Timeout is %v; want at least %v", cfg.Timeout, time.Duration(1))
	}
	return r
}

// Channels returns the channels that send the handlers' events.
func (r *Registry) Channels() *channel.Channels { return r.channels }

// Logger returns the logger of the registry's configuration.
func (r *Registry) Logger() *slog.Logger { return r.cfg.Logger }

// Timeout returns how long one run of a handler may take.
func (r *Registry) Timeout() time.Duration { return r.cfg.Timeout }

// Err returns all faults of the configuration and of the registered handlers, or nil.
func (r *Registry) Err() error {
	faults := slices.Concat(r.faults, r.givenUp.unhandled(r), unhandledOptional(r), faultyTurns(r))
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("handlers: %w", errors.Join(faults...))
}

// BeforeStart adds a check that a worker makes when its Run begins, before it receives anything. An error ends Run. It
// is for this module's own packages.
func (r *Registry) BeforeStart(_ wire.Inside, check func(context.Context) error) {
	if check == nil {
		r.fault("a check before the start is nil")
	}
	r.checks = append(r.checks, check)
}

// CheckStart makes the checks of [Registry.BeforeStart], in their order, up to the first that fails. A worker calls it.
func (r *Registry) CheckStart(ctx context.Context) error {
	for _, check := range r.checks {
		if err := Contain(func() error { return check(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// Queues returns the queues that have handlers, sorted.
func (r *Registry) Queues() []string { return slices.Sorted(maps.Keys(r.handlers)) }

// Handlers returns the handlers of a queue, by kind.
func (r *Registry) Handlers(queue string) []*Handler {
	return slices.SortedFunc(maps.Values(r.handlers[queue]), func(a, b *Handler) int {
		if a.kind < b.kind {
			return -1
		}
		return 1
	})
}

func (r *Registry) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf(format, args...))
}

// A Handler handles one kind of message from a queue.
type Handler struct {
	name     string
	queue    string
	kind     channel.Kind
	channels *channel.Channels // that the messages come through
	run      Next              // the reaction, or the waiting for the fold, with the middleware around it
	wrapped  bool              // there is middleware

	key        func(*channel.Envelope, any) (key string, ok bool) // of handlers that fold or take turns
	collection string
	view       bool
	form       string                       // see wire.Inside
	value      reflect.Type                 // of the collection's values
	standing   func(*channel.Envelope) bool // see wire.Inside
	clock      bool                         // its fold reads the clock
	once       bool
	folder     *folder
	turns      *turns
	decode     func(*channel.Envelope) (any, error)
	group      string // of On: see values.Change
	fold       any    // func(V, *channel.Envelope, any) (V, []channel.Message, error), for the folder's V

	timeout time.Duration // of a delivery that is handled alone
	late    error         // the cause when timeout has passed
}

// Name names the handler for people: "decide capacity", "react mails".
func (h *Handler) Name() string { return h.name }

// Kind is the kind it handles.
func (h *Handler) Kind() channel.Kind { return h.kind }

// React registers a reaction of a subscriber group to a kind. The group's queue must be among the kind's
// routes.
//
// It remembers no message. So it runs for every copy of one, and it doesn't check whether two messages with one ID have
// the same content: it runs for both. [ReactOnce] checks that, and is for effects that should not be repeated.
func React[E channel.Message](r *Registry, group string, f func(context.Context, E) error) {
	reaction(r, group, watched(r, false, f))
}

// reaction registers a reaction without an answer.
func reaction[E channel.Message](r *Registry, group string, f func(context.Context, E) error) {
	react[E](r, "react "+group, group, channel.KindOf[E](), f == nil, func(ctx context.Context, d *Delivery) error {
		return f(ctx, d.Message.(E))
	})
}

// react registers a reaction, or reports that there is none. It returns the handler, or nil after a fault.
func react[M channel.Message](r *Registry, name, queue string, kind channel.Kind, none bool, f Next) *Handler {
	h := register[M](r, name, queue, kind)
	if h == nil {
		return nil
	}
	if none {
		r.fault("%s: the reaction to %s is nil", h.name, h.kind)
	}
	h.run = r.wrap(h.name, func(ctx context.Context, d *Delivery) error {
		// A middleware may run it again. Each run counts the sends for itself, so they get the same IDs.
		return f(d.handling(ctx), d)
	})
	return h
}

// handling returns the context of a delivery's handler.
func (d *Delivery) handling(ctx context.Context) context.Context {
	return wire.WithDelivery(ctx, d.Envelope, d.Queue, d.Handler.channels, d.Number, &d.doubts)
}

// ReactOnce registers a reaction whose effect should not be repeated: an e-mail, a payment. It notes each message that
// the group has handled, by its ID, before and after f.
//
//   - A copy of a message that is done is skipped.
//   - A copy of a message that is being handled waits.
//   - Another message with the same ID is refused, as values.ErrContentDiffers.
//   - When f fails, the note is taken back, and the next attempt begins at once.
//   - When f returns [Poison] with [ReasonOutcomeUnknown], as package guard does, the note says so. Each copy goes to
//     the poison queue, too, until an operator sends one back. That copy runs f again.
//   - While that note, or the note that f is done, can't be written, the process knows so of its last 4096 such
//     messages, and goes on trying.
//
// While f runs, the note begun is renewed every 10 seconds, until f's context ends. That ends when 25 seconds have
// passed without a renewal. The success of an f that goes on counts when it comes. A copy takes over when its worker
// has seen the note unchanged for 35 seconds. The copy is delivered every 10 seconds, and takes no handler's place in
// between. Each worker that it is delivered to counts for itself, so with several workers it may take some more
// deliveries. Both times are elapsed time on one machine; no wall clock decides.
//
// One gap remains that no guard can close from this side. If the process dies after the effect and before the note, the
// effect is repeated when a copy takes over. Give the outside world the message's ID where it can recognise a repeat;
// channel.Handled returns it.
//
// Notes are kept for 30 days after the times of their messages, and for 60 days if a time is not the ID's own but
// stands beside it. An older message can't be judged and goes to the poison queue, as values.ErrTooOld.
// channel.Identified says what that means for an ID that you choose.
func ReactOnce[E channel.Message](r *Registry, group string, f func(context.Context, E) error) {
	if f != nil { // else React reports it
		f = guardOnce(r.channels.Store(), group, watched(r, true, f))
	}
	before := r.handlers[group][channel.KindOf[E]()]
	reaction(r, group, f)
	if h := r.handlers[group][channel.KindOf[E]()]; h != before {
		h.once = true
	}
}

// Upgrade registers an older type of message, which becomes a newer one when it is received. Register the newer one's
// handlers first.
func Upgrade[Old, New channel.Message](r *Registry, f func(Old) New) {
	if err := wire.Upgrade(&r.codec, f); err != nil {
		r.faults = append(r.faults, err)
	}
}

func errLate(timeout time.Duration) error {
	return fmt.Errorf("the handler took longer than %v", timeout)
}

func register[M channel.Message](r *Registry, name, queue string, kind channel.Kind) *Handler {
	if err := wire.RegisterAs[M](&r.codec, kind); err != nil {
		r.fault("%s: %w", name, err)
		return nil
	}
	if err := storage.CheckName(queue); err != nil {
		r.fault("%s: %w", name, err)
		return nil
	}
	if !slices.Contains(r.channels.Routes().Kinds(queue), kind) {
		r.fault("%s: no route takes %s to queue %s: add it to the routes", name, kind, queue)
		return nil
	}
	if r.handlers[queue] == nil {
		r.handlers[queue] = map[channel.Kind]*Handler{}
	}
	if old := r.handlers[queue][kind]; old != nil {
		r.fault("%s: queue %s has a handler for %s already: %s", name, queue, kind, old.name)
		return nil
	}
	r.warnOfLoss(reflect.TypeFor[M]())
	h := &Handler{
		name: name, queue: queue, kind: kind, channels: r.channels, wrapped: len(r.cfg.Middleware) > 0,
		timeout: r.cfg.Timeout, late: errLate(r.cfg.Timeout),
	}
	r.handlers[queue][kind] = h
	return h
}
