package guard

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/guard/internal/breaker"
	"github.com/millrace-go/millrace/guard/internal/fleet"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/right"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/worker"
)

// A Guard stands around the calls of one outside service. All its methods may be called concurrently.
type Guard struct {
	name     string
	cfg      Config
	fault    error // of the configuration
	breaker  *localBreaker
	fleet    *fleet.Fleet
	quota    *quota
	division division // of the quota's room and the breaker's, among queues
	limiters sync.Map // of bool by queue: that a worker has the limiter, or that it was told to
	tally    tally
	log      atomic.Pointer[slog.Logger] // of the first worker that asks for a limiter
	inPlace  time.Duration               // for which a handler waits at most
	setting  sync.Mutex                  // held while the numbers change, so that all are those of one Set

	transports atomic.Bool // there is one that notes what was sent
	unsure     bool        // a call that never returns may have been done, and may not be made again
}

// New returns a guard. The name is that of the service, in logs and in the poison queue. A service that can fail in
// parts, such as by host or by kind of request, has a guard for each part. [Guard.Err] reports what is wrong with the
// name or the Config. A worker with a limiter of such a guard doesn't start, and no call is made.
func New(name string, cfg Config) *Guard {
	g := &Guard{name: name, inPlace: inPlace}
	g.cfg, g.fault = cfg.withDefaults(name)
	g.unsure = g.fault == nil && leavesUnsure(&g.cfg)
	g.breaker = newBreaker(&g.cfg, g.say)
	g.fleet = fleet.New(name, g.breaker, g.breaker.place, g.logger)
	g.division.tell = g.breaker.tell
	g.quota = newQuota(name, &g.cfg, g.logger, g.division.tell)
	if g.fault == nil {
		g.fault = g.quota.set(g.cfg.Rate, g.cfg.Slots, g.cfg.Adaptive)
	}
	if g.fault == nil {
		register(g, g.cfg.Metrics)
	}
	if g.fault == nil && g.cfg.Store != nil {
		g.fleet.Open(context.Background(), g.cfg.Store, false)
	}
	return g
}

// Err returns all faults of the name and of the configuration, or nil.
func (g *Guard) Err() error { return g.fault }

// Open reports that this process lets no call through, or a probe at most, because the service is away.
func (g *Guard) Open() bool {
	return g.breaker.view().State.Away()
}

// Around returns a reaction whose whole run is one call.
//
//	handlers.ReactOnce(h, "mails", guard.Around(smtp, mailer.Confirm))
func Around[M any](g *Guard, f func(context.Context, M) error) func(context.Context, M) error {
	if f == nil {
		return nil // handlers.React reports it
	}
	return func(ctx context.Context, m M) error {
		return g.Do(ctx, func(ctx context.Context) error { return f(ctx, m) })
	}
}

// Do makes a call of the service, or refuses to while the breaker is open. f is the call: one request or, for SMTP, one
// mail. It may run twice. It gets a context that ends after Config.Timeout. Let nothing within f repeat calls: turn off
// the retries of an SDK. Don't call Do of the same guard within f.
//
// The error is nil if the service has done it. Any other is the verdict on the message; return it from the handler, or
// wrap it:
//
//   - a message that spends an attempt, or waits, or goes to the poison queue, has an [Error]
//   - a call that panics makes such an error, too; outside of a handler the panic goes on
//   - an error of f that is a verdict of package handlers is returned as it is, and so is one that comes after the end
//     of ctx, unless the outcome of the call is unknown
//
// Outside of a handler it works, too. Its [Error] wraps [ErrOpen] or [ErrLimit] if no call was made.
func (g *Guard) Do(ctx context.Context, f func(context.Context) error) error {
	if g.fault != nil {
		return handlers.Later(time.Minute, g.fault.Error())
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m := messageOf(ctx)
	if m.Handling != nil {
		g.division.called(m.Queue)
		defer g.division.ended(&g.quota.tight)
	}
	p, refused := g.begin(ctx, m.id, g.inPlace)
	if refused != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		g.settle(ctx, m, refused)
		warnWithoutLimiter(g, m)
		return refused
	}
	if ctx.Err() != nil { // it ended before the call began
		g.breaker.end(p, breaker.Neutral, nil, 0)
		g.quota.give(p.seat)
		return context.Cause(ctx)
	}
	fault, err := g.call(ctx, m, p, f)
	if fault.Kind == Done {
		return nil
	}
	if g.mayRepeat(ctx, fault, p.seat.waited) {
		if p, refused := g.begin(ctx, m.id, 0); refused == nil {
			p.again = true
			if fault, err = g.call(ctx, m, p, f); fault.Kind == Done {
				return nil
			}
		}
	}
	err = g.verdict(m, fault, err)
	g.settle(ctx, m, nil)
	return err
}

// begin returns the right to make one call, or why there is none now. It waits for a place in the limits for a time at
// most. A breaker that is shut uses no permit.
func (g *Guard) begin(ctx context.Context, id string, most time.Duration) (permit, *Error) {
	if g.quota.limited() {
		if wait, shut := g.breaker.shutFor(); shut {
			return permit{}, g.refuse(byBreaker, wait)
		}
	}
	shared := g.fleet.Active()
	if shared { // before it has a permit, which nobody else could use while the store answers
		if wait, ok := g.fleet.Claim(ctx); !ok {
			return permit{}, g.refuse(byBreaker, wait)
		}
	}
	s, wait, short := g.quota.take(ctx, most)
	if short != byBreaker {
		if shared {
			g.fleet.Free()
		}
		return permit{}, g.refuse(short, wait)
	}
	if shared && g.fleet.StoodStill() {
		g.quota.give(s)
		g.fleet.Free()
		return permit{}, g.refuse(byBreaker, fleet.AgainSoon)
	}
	p, wait, ok := g.breaker.begin(id)
	if shared {
		g.fleet.Free()
	}
	if !ok {
		g.quota.give(s)
		return permit{}, g.refuse(byBreaker, wait)
	}
	p.seat = s
	return p, nil
}

// settle keeps the handler until its worker has seen that the breaker is shut, or that there is no room. Otherwise the
// worker would take another message in its place, which would be refused, and so on.
func (g *Guard) settle(ctx context.Context, m message, refused *Error) {
	d := g.breaker.settles()
	if refused != nil && refused.Err == ErrLimit {
		d = settling
	}
	if d > 0 && m.Handling != nil {
		pause(ctx, d)
	}
}

// pause waits, or until ctx ends. It reports that ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// message is what a call is made for. Without a handler it is empty, but for a key of the program's own.
type message struct {
	*wire.Handling
	id  string // the same in all of its attempts
	key string // of the call: see Keyed
}

func messageOf(ctx context.Context) message {
	key, _ := ctx.Value(keyedKey{}).(string)
	h, ok := wire.HandlingUnder(ctx)
	if !ok {
		return message{key: key}
	}
	return message{h, h.Key(), cmp.Or(key, h.Key())}
}

type keyedKey struct{}

// Keyed returns a context under which calls have a key of the program's own. [Guard.Transport] sends the key as
// Idempotency-Key, and Config.Verify gets it. A message that makes several calls needs a key for each call, made of
// what is the same in all attempts: the message's content or ID or, in an agent of a process, process.Key. Verify sees
// the key that is around [Guard.Do], and the transport also the key of the request alone. An empty key is none.
func Keyed(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyedKey{}, key)
}

// age returns for how long a message could have been handled.
func (m message) age() time.Duration {
	if m.Handling == nil {
		return 0
	}
	from := m.Envelope.Born()
	if m.Envelope.Due.After(from) {
		from = m.Envelope.Due
	}
	if from.IsZero() {
		return 0
	}
	return time.Since(from)
}

// doubts tells the handler of a call that may have been done if it never returns.
func (m message) doubts(unsure bool, by int32) {
	if unsure && m.Handling != nil {
		m.Doubt(by)
	}
}

// call runs a call with a permit, and ends the permit even if the call panics or ends its goroutine. Then the call has
// failed.
func (g *Guard) call(ctx context.Context, m message, p permit, f func(context.Context) error) (fault Fault, err error) {
	var sent *exchanges
	if g.transports.Load() {
		sent = &exchanges{again: p.again || m.Handling != nil && m.Again()}
	}
	within, cancel := g.cfg.within(ctx)
	defer cancel()
	returned := false
	m.doubts(g.unsure, 1)
	defer func() {
		after := int32(-1)
		if !returned {
			how := contain.Caught(nil) // outside of a handler the panic goes on
			if m.Handling != nil {
				how = contain.Caught(recover())
			}
			if how.Exited && sent.mayBeDone() {
				after = 0
			}
			fault, err = judgePanic(ctx, within, sent, g.unsure), panicked(ctx, g, m, how)
		}
		if fault.outcome() == breaker.Failure && g.cfg.hurried(ctx, within) {
			fault.cutOff = true
		}
		m.doubts(g.unsure, after)
		g.tally.calls[fault.Kind].Add(1)
		g.breaker.end(p, fault.outcome(), err, fault.After)
		p.teach(g.breaker, fault.outcome())
		g.quota.give(p.seat)
	}()
	p.seat.until(within, g.quota.tell)
	defer p.seat.returned() // before its context is cancelled
	fault, err = ask(ctx, within, g, m, sent, f)
	returned = true
	return fault, err
}

// ask makes a call whose context is within, and judges how it ended.
func ask(ctx, within context.Context, g *Guard, m message, sent *exchanges, f func(context.Context) error) (Fault, error) {
	if g.cfg.Verify != nil && m.key != "" {
		done, err := g.cfg.Verify(within, m.key)
		if err = contain.Sound(err); done || err != nil {
			return g.judge(ctx, err, true), err
		}
	}
	if sent != nil {
		within = context.WithValue(within, exchangesKey{g}, sent)
	}
	err := sent.restored(contain.Sound(f(within)))
	fault := g.judge(ctx, err, false)
	if fault.Kind == Transient && fault.NotInPlace && sent.mayBeDone() {
		fault = Fault{Kind: Unknown}
	}
	return fault, err
}

// within returns the context of a call.
func (c *Config) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.Timeout == NoTimeout {
		return ctx, func() {}
	}
	limit := c.limit(ctx)
	return right.WithTimeoutCause(ctx, limit, late(limit))
}

// limit returns how long a call may take. It ends a little before its handler does: a service that doesn't answer is
// no fault of the handler.
func (c *Config) limit(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		return min(c.Timeout, left-left/20)
	}
	return c.Timeout
}

// fairPart is so small a part of the time that a call may take, that the service isn't to blame where a caller leaves
// it less.
const fairPart = 4

// hurried reports that the time of a call ran out that its caller had left too little of. Where no caller has set a
// time of its own, it is all that a run of the handler may take.
func (c *Config) hurried(ctx, within context.Context) bool {
	had, out := context.Cause(within).(late)
	if !out || ctx.Err() != nil {
		return false
	}
	whole := c.Timeout
	if h, ok := wire.HandlingUnder(ctx); ok && h.Limit > 0 {
		whole = min(whole, h.Limit)
	}
	return time.Duration(had) < whole/fairPart
}

// late is the cause of a call's end by its time.
type late time.Duration

func (l late) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(l)) }

// Unwrap makes it match context.DeadlineExceeded.
func (l late) Unwrap() error { return context.DeadlineExceeded }

func (f Fault) outcome() breaker.Outcome {
	switch {
	case f.cutOff:
		return breaker.Neutral
	case f.decided:
		return breaker.Decided
	case f.busy:
		return breaker.Success
	}
	switch f.Kind {
	case Done, Permanent:
		return breaker.Success
	case Transient, Unknown:
		return breaker.Failure
	case Throttled:
		if f.Alone {
			return breaker.Success
		}
		return breaker.Throttled
	}
	return breaker.Neutral
}

// mayRepeat reports that a call may be repeated within its handler, and waits until then. Nothing is held meanwhile but
// the handler's own place, and that for inPlace at most, together with the wait for the call's permit.
func (g *Guard) mayRepeat(ctx context.Context, fault Fault, waited time.Duration) bool {
	left := g.inPlace - waited
	if left <= 0 || fault.NotInPlace || fault.Kind != Transient && (fault.Kind != Unknown || !g.cfg.Repeatable) {
		return false
	}
	wait := left/2 + rand.N(left/2+1)
	if end, ok := ctx.Deadline(); ok && time.Until(end) < 2*wait || !g.breaker.repeat() {
		return false
	}
	if !pause(ctx, wait) {
		return false
	}
	return !g.breaker.spreads()
}

// refuse is the verdict on a message whose call is not made.
func (g *Guard) refuse(by why, wait time.Duration) *Error {
	g.tally.refused[by].Add(1)
	why := ErrLimit
	if by == byBreaker {
		why = ErrOpen
	}
	return &Error{Name: g.name, Fault: Fault{Kind: Throttled}, Err: why, verdict: handlers.Later(upward(wait), g.name+": "+why.Error())}
}

// upward spreads a delay, and only makes it longer. So messages come back when the breaker lets a call through, and not
// all at once.
func upward(d time.Duration) time.Duration { return d + rand.N(d/2+time.Second) }

// verdict says what follows for a message.
func (g *Guard) verdict(m message, fault Fault, err error) error {
	e := &Error{Name: g.name, Fault: fault, Err: err}
	switch {
	case fault.Kind == Mine:
		return err
	case fault.Kind == Permanent:
		reason := fault.Reason
		if reason == "" {
			reason = "refused by " + g.name
		}
		e.verdict = handlers.Poison(reason, err)
	case fault.Kind == Unknown && !g.cfg.Repeatable && g.cfg.Verify == nil:
		e.verdict = handlers.Poison(ReasonUnknown, err)
	case g.spends(m, fault):
		e.verdict = handlers.Retry(fault.After, err)
	default:
		e.verdict = handlers.Later(g.delay(m, fault), e.Error())
	}
	return e
}

// spends reports that a call that failed is an attempt of its message.
func (g *Guard) spends(m message, fault Fault) bool {
	if m.Handling == nil {
		return false // there is no message
	}
	if m.age() > g.cfg.MaxAge || fault.busy {
		return true
	}
	waited := time.Duration(0)
	if m.Attempts() > 0 {
		waited = worker.RetryDelay(m.Attempts(), m.id)
	}
	return g.breaker.spend(m.id, m.Attempts(), waited) && fault.Kind != Throttled
}

// delay returns when a message comes again that spends no attempt. While the breaker is open it comes after the probe,
// so that the next probe is another message where there is one. Else it waits longer each time that its call has failed
// here. Its hand-backs count only where the service has said that the message alone must wait: most were an outage's.
func (g *Guard) delay(m message, fault Fault) time.Duration {
	rest, failures := g.breaker.rest(m.id)
	if wait := max(fault.After, rest); wait > 0 {
		return upward(wait)
	}
	if m.Handling == nil {
		return time.Second
	}
	if fault.Alone {
		return worker.RetryDelay(m.HandBacks()+m.Attempts()+1, m.id)
	}
	return worker.RetryDelay(m.Attempts()+failures, m.id)
}
