package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/coord/limit"
	"github.com/millrace-go/millrace/guard/internal/breaker"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/storage"
)

// Config is how calls of a service are judged, and when they pause. The zero Config works.
type Config struct {
	// Fault says what kind of fault an error of a call is: [HTTP], [SMTP], [SQL], or a function of your own. It must be
	// pure. Where it panics, the default judges. Defaults to [Usual], which tries all of them.
	Fault func(error) Fault

	// Repeatable says that the service recognises a repeated call by its key, such as the Idempotency-Key that
	// [Guard.Transport] sets, or that a repeat does no harm. Calls whose outcome is unknown are then repeated. Defaults
	// to false: their messages go to the poison queue.
	Repeatable bool

	// Verify asks the service whether the call for a message was done. The key is the one that [Guard.Transport] sends:
	// the message's ID, in an agent of a process its process.Key, or that of [Keyed]. It runs before each call,
	// in the place of the call, because nobody knows of all copies of a message. After done the call is left out. After
	// an error the message waits, also if the service refuses the question. Where the service knows no such call, return
	// false without an error. With Verify, messages whose outcome is unknown are delivered again. Defaults to none.
	Verify func(ctx context.Context, key string) (done bool, err error)

	// Timeout bounds one call. Its context ends then, and a call that gives up because of that counts as one without an
	// answer. Where the handler has less time left (handlers.Config.Timeout), that is after nineteen twentieths of it:
	// the end of the handler's own context tells nothing about the service. Neither does the end of a deadline that a
	// caller has set itself, if it leaves the call less than a quarter of Timeout, or of all that the handler has.
	// [NoTimeout] leaves it to the handler's context, so a service that hangs never opens the breaker. Defaults to 1
	// minute.
	Timeout time.Duration

	// Rate bounds the calls of all processes together; their guards have the same name. A call that finds no permit
	// waits for 250 milliseconds at most, and then its message is handed back. A queue with the guard's Limiter takes
	// only messages that have a permit. [PerSecond] and [PerMinute] make one; at least 12 a minute. Defaults to no
	// limit.
	Rate Rate

	// Slots bounds the calls of all processes at a time, likewise. Defaults to no limit.
	Slots int

	// Adaptive bounds the calls of this process at a time by what the service can usefully do, likewise. Rate and Slots
	// hold beside it. Adaptive is for calls of one kind: it takes a call that needs longer for a call that waits.
	// Defaults to no limit.
	Adaptive Adaptive

	// Store is where processes divide Rate and Slots; see package coord/limit. Defaults to that of the first worker
	// that asks for a limiter. Without one, and until then, both limits are this process's own.
	Store *storage.Store

	// Strict makes no calls when this process can't reach the store for a while, if Rate or Slots are set. Defaults to
	// false: it goes on with the limit divided by the number of processes that it saw last.
	Strict bool

	// Break says when the breaker opens.
	Break Break

	// Probe says when an open breaker lets a call through.
	Probe Probe

	// MaxAge is the age from which a message spends an attempt by each call that fails, even if the service is down for
	// everybody. So it bounds how long a message is handed back. Defaults to 168 hours.
	MaxAge time.Duration

	// Metrics shows the guard's metrics (millrace_guard_…), and so does that of each worker that asks for a limiter.
	// Defaults to none.
	Metrics prometheus.Registerer

	// Logger gets a line when the breaker opens and when it closes. Defaults to that of the first worker that asks for
	// a limiter, and before that to slog.Default().
	Logger *slog.Logger
}

// NoTimeout as Config.Timeout bounds no call.
const NoTimeout = time.Duration(-1)

// Break is when a breaker opens: when Rate of the calls in Window failed, of Of calls at least, or when Of calls failed
// in a row. In both cases at least Distinct messages must have failed: within Window, or in the row of failures that
// lasts. A call outside of a handler counts as a message of its own.
type Break struct {
	Rate     float64       `json:"rate,omitzero"`     // above 0, at most 1. Defaults to 0.5.
	Of       int           `json:"of,omitzero"`       // calls. Defaults to 20.
	Distinct int           `json:"distinct,omitzero"` // messages, 2 to 1000. Defaults to 5.
	Window   time.Duration `json:"window,omitzero"`   // at least 10 milliseconds. Defaults to 10 seconds.
}

// Probe is how long a breaker stays open before a call is let through: First, then twice as long after each probe that
// fails, up to Most. Each is spread by up to a fifth either way.
type Probe struct {
	First time.Duration `json:"first,omitzero"` // Defaults to 1 second.
	Most  time.Duration `json:"most,omitzero"`  // Defaults to 30 seconds, or First where that is more.
}

const (
	inPlace     = 250 * time.Millisecond // for which a handler waits at most, for a permit and before it repeats a call
	maxTimeout  = 24 * time.Hour         // of a call
	maxAge      = 720 * time.Hour        // a reaction can't judge older messages
	maxDistinct = 1000
	minWindow   = breaker.LeastWindow
)

// withDefaults returns a complete copy, or an error with every fault.
func (c Config) withDefaults(name string) (Config, error) {
	if c.Fault == nil {
		c.Fault = Usual
	}
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	c.Break.Rate = cmp.Or(c.Break.Rate, 0.5)
	c.Break.Of = cmp.Or(c.Break.Of, 20)
	c.Break.Distinct = cmp.Or(c.Break.Distinct, 5)
	c.Break.Window = cmp.Or(c.Break.Window, 10*time.Second)
	c.Probe.First = cmp.Or(c.Probe.First, time.Second)
	c.Probe.Most = cmp.Or(c.Probe.Most, max(30*time.Second, c.Probe.First))
	c.MaxAge = cmp.Or(c.MaxAge, 168*time.Hour)
	if c.Adaptive.Most > 0 {
		c.Adaptive.Least = cmp.Or(c.Adaptive.Least, 1)
	}
	if c.Logger != nil {
		c.Logger = contain.Logger(c.Logger)
	}
	return c, c.validate(name)
}

func (c *Config) validate(name string) error {
	var faults []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	want(name != "" && len(name) <= 100, "the name has %d bytes; want 1 to 100", len(name))
	want(storage.CheckKey(name) == nil, "the name can't be that of a document by which processes act as one; want UTF-8 without control characters")
	want(c.Timeout == NoTimeout || c.Timeout > 0 && c.Timeout <= maxTimeout, "Timeout is %v; want a time up to %v, or NoTimeout", c.Timeout, maxTimeout)
	want(c.Break.Rate > 0 && c.Break.Rate <= 1, "Break.Rate is %v; want a share up to 1", c.Break.Rate)
	want(c.Break.Of > 0, "Break.Of is %d; want a positive number", c.Break.Of)
	want(c.Break.Distinct >= 2 && c.Break.Distinct <= maxDistinct, "Break.Distinct is %d; want 2 to %d: one message alone must not open a breaker", c.Break.Distinct, maxDistinct)
	want(c.Break.Window >= minWindow && c.Break.Window <= time.Hour, "Break.Window is %v; want %v to %v", c.Break.Window, minWindow, time.Hour)
	want(c.Probe.First > 0 && c.Probe.Most <= time.Hour, "Probe is %v to %v; want positive times up to %v", c.Probe.First, c.Probe.Most, time.Hour)
	want(c.Probe.First <= c.Probe.Most, "Probe.First is %v and Probe.Most %v; want First to be the shorter one", c.Probe.First, c.Probe.Most)
	want(c.MaxAge > 0 && c.MaxAge <= maxAge, "MaxAge is %v; want a time up to %v", c.MaxAge, maxAge)
	if c.Rate != 0 {
		want(limit.CheckRate(float64(c.Rate)) == nil, "Rate is %v calls a second; want at least %v, or 0 for no limit", float64(c.Rate), limit.LeastRate)
	}
	if c.Slots != 0 {
		want(limit.CheckSlots(c.Slots) == nil, "Slots is %d; want a positive number, or 0 for no limit", c.Slots)
	}
	if a := c.Adaptive; a.Most == 0 {
		want(a.Least == 0, "Adaptive.Least is %d without Most; want Most, too, or neither for no limit", a.Least)
	} else {
		want(a.Most > 0 && a.Most <= mostAdaptive, "Adaptive.Most is %d; want 1 to %d, or 0 for no limit", a.Most, mostAdaptive)
		want(a.Least > 0 && a.Least <= max(a.Most, 1), "Adaptive.Least is %d; want 1 to Most, which is %d", a.Least, a.Most)
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("guard: %s: %w", name, err)
	}
	return nil
}
