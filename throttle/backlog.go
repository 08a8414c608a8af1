package throttle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// backlogName stands for the backlog where other refusals name a quota.
const backlogName = "backlog"

const (
	leastEvery = time.Second
	mostEvery  = time.Hour
	maxWait    = 5 * time.Minute // of what a refusal advises
	logEvery   = time.Minute     // about a queue that can't be read
)

// A Backlog makes a rate limiter refuse requests while a queue is too long, with 503, or defer their work. Each request
// counts as one message.
type Backlog struct {
	// Queue is where the requests' messages wait. Defaults to none, and a rate limiter that knows no backlog.
	Queue *storage.Queue

	// Hard is the number of messages above which nothing is let through but free repeats. Defaults to no limit.
	Hard int64

	// Within is how long a message may wait. The rate limiter lets nothing through that would wait longer, as far as it
	// can tell from the rate at which the queue was served. Defaults to no limit.
	Within time.Duration

	// Defer lets requests through that would wait for longer than Within, and has their work wait until its turn is as
	// near as that: see [Deferred]. Those that would have to be deferred for longer are refused. It needs Within. At
	// most 24 hours. Defaults to 0: such requests are refused.
	Defer time.Duration

	// Every is the least time between two looks at the queue, a second to an hour. While no request comes, the
	// rate limiter doesn't look. Where no look succeeds for six times as long, the rate limiter lets everything through.
	// Defaults to 5 seconds.
	Every time.Duration
}

// trust is how long a look counts when no other succeeds.
func (b *Backlog) trust() int64 { return 6 * int64(b.Every) }

// withDefaults returns a complete copy, or all that is wrong with it.
func (b Backlog) withDefaults() (Backlog, error) {
	var faults []error
	wrong := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: Backlog: "+format, append([]any{storage.ErrInvalid}, args...)...))
	}
	limited := b.Hard != 0 || b.Within != 0
	if limited != (b.Queue != nil) {
		wrong("a limit needs a Queue, and a Queue needs Hard or Within")
	}
	if b.Hard < 0 || b.Within < 0 || b.Within > maxPer {
		wrong("Hard is %d, Within %v; want neither negative, and Within up to %v", b.Hard, b.Within, maxPer)
	}
	if b.Defer < 0 || b.Defer > maxDefer || b.Defer > 0 && b.Within == 0 {
		wrong("Defer is %v, and Within %v; want 0 to %v, and Within where there is Defer", b.Defer, b.Within, maxDefer)
	}
	if b.Every = cmp.Or(b.Every, 5*time.Second); b.Every < leastEvery || b.Every > mostEvery {
		wrong("Every is %v; want %v to %v", b.Every, leastEvery, mostEvery)
	}
	return b, together(faults...)
}

// pressure is what a rate limiter knows of its queue.
type pressure struct {
	cfg Backlog
	log *slog.Logger
	now func() int64

	begun, ended, sent atomic.Int64 // requests let through, those that ended, and those of them that may have sent
	last               atomic.Pointer[look]
	later              later

	mu       sync.Mutex
	looking  bool  // under mu
	tried    int64 // when the last look began; under mu
	complain int64 // when to log a failure again; under mu
}

// A look is what the queue was like.
type look struct {
	at    int64   // when it began
	depth int64   // messages that wait or are worked at
	ready int64   // of them, those that wait
	sent  int64   // by this rate limiter, before
	rate  float64 // messages served in a nanosecond, by what was seen
	known bool    // rate was seen while messages waited
	still bool    // messages waited since the look before, and none was served, or nobody knows
	late  bool    // messages that wait are older than they may be
}

func newPressure(cfg Backlog, log *slog.Logger, now func() int64) *pressure {
	p := &pressure{cfg: cfg, log: log, now: now, tried: -int64(cfg.Every)}
	p.later.next.Store(forever)
	return p
}

// begin lets a request through and returns 0, or returns how long it should wait. late is for how long the work of a
// request that is let through shall wait.
func (p *pressure) begin() (wait, late time.Duration) {
	now := p.now()
	p.later.ripen(now, &p.sent)
	p.refresh(now)
	ended := p.ended.Load() // before begun, so that a request that ends meanwhile is counted
	begun := p.begun.Add(1)
	l := p.last.Load()
	if l == nil || now-l.at > p.cfg.trust() {
		return 0, 0
	}
	// The look's depth has all that was sent before it. A request that is under way may have sent, or will. A request
	// that ends between these two lines is counted twice, never left out.
	mine := begun - 1 - ended
	deferred, clear := p.later.state() // before sent, to which what is due any more goes
	mine += p.sent.Load() - l.sent
	x := asked{before: l.depth + mine, deferred: deferred, since: now - l.at, clear: time.Duration(clear - now)}
	wait, late = p.cfg.wait(l, x)
	if wait > 0 {
		p.end(false)
	}
	return wait, late
}

// asked is what a request has before it.
type asked struct {
	before   int64         // messages, those served since the look included, and those deferred excluded
	deferred int64         // messages that are not due yet
	since    int64         // nanoseconds after the look
	clear    time.Duration // until those deferred are served
}

// wait returns how long a request should wait, or 0 for one that needn't, and for how long its work shall wait.
func (b *Backlog) wait(l *look, x asked) (wait, late time.Duration) {
	if all := x.before + x.deferred; b.Hard > 0 && all >= b.Hard {
		wait = max(b.Every, l.takes(float64(all-b.Hard+1)))
	}
	if b.Within > 0 && x.before+x.deferred > 0 {
		takes := max(x.clear, l.takes(float64(x.before)-l.rate*float64(x.since)))
		late = max(takes-b.Within, 0)
		if late > b.Defer {
			wait = max(wait, b.Every, late-b.Defer)
		}
		if l.late && (l.still || !l.known) {
			wait = max(wait, b.Every) // until the next look tells the rate
		}
	}
	if wait > 0 {
		late = 0
	}
	return min(wait, maxWait), late
}

// takes returns how long the queue takes for so many messages; 0 if nobody knows.
func (l *look) takes(messages float64) time.Duration {
	if !l.known || messages <= 0 {
		return 0
	}
	return time.Duration(min(messages/max(l.rate, 1e-18), forever))
}

// reserve notes that the work of a request is deferred, and returns by how much the work after it is later.
func (p *pressure) reserve(late time.Duration) (ahead int64) {
	if l := p.last.Load(); l != nil {
		ahead = int64(l.takes(1))
	}
	now := p.now()
	return p.later.reserve(now+int64(late), int64(p.cfg.Within), ahead, now+int64(p.cfg.Within+2*p.cfg.Defer)) // whatever the rate was, the rate limiter is open again after Defer
}

// end counts the end of a request.
func (p *pressure) end(sent bool) {
	if sent {
		p.sent.Add(1)
	}
	p.ended.Add(1)
}

// endOf counts the end of a request whose work is deferred for late, and that of others by ahead.
func (p *pressure) endOf(how Ending, late, ahead int64) {
	if how != Accepted { // nothing was sent, as far as this rate limiter knows
		p.later.giveBack(ahead)
	}
	switch {
	case how == Void:
	case late > 0:
		p.later.add(p.now() + late)
	default:
		p.end(true)
		return
	}
	p.end(false)
}

// refresh begins a look if the last one is old.
func (p *pressure) refresh(now int64) {
	if l := p.last.Load(); l != nil && now-l.at < int64(p.cfg.Every) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.looking || now-p.tried < int64(p.cfg.Every) {
		return
	}
	p.looking, p.tried = true, now
	go p.look(now)
}

// look asks the queue once. A call that never returns stays the only one, and the rate limiter lets everything through.
func (p *pressure) look(now int64) {
	defer func() {
		p.mu.Lock()
		p.looking = false
		p.mu.Unlock()
	}()
	p.later.ripen(p.now(), &p.sent)
	next := &look{at: now, sent: p.sent.Load()}
	deferred, _ := p.later.state()
	ctx, cancel := context.WithTimeout(context.Background(), p.cfg.Every)
	defer cancel()
	st, err := p.cfg.Queue.Stats(ctx)
	if err == nil && st.Ready < 0 && st.InFlight < 0 {
		err = errors.New("the store can't tell how long the queue is")
	}
	if err != nil {
		p.fail(now, err)
		return
	}
	next.ready = max(st.Ready, 0)
	// A store that can't tell delayed messages counts them as ready, or doesn't count them while few are ready.
	if st.Delayed < 0 && next.ready >= deferred {
		next.ready -= deferred
	}
	next.depth = next.ready + max(st.InFlight, 0)
	next.late = next.ready > 1 && st.Oldest > p.cfg.Within // a single old one may be there for another try
	next.after(p.last.Load(), &p.cfg)
	p.last.Store(next)
}

// after works out the rate from two looks.
func (l *look) after(before *look, cfg *Backlog) {
	if before == nil || l.at <= before.at {
		return
	}
	l.rate, l.known = before.rate, before.known
	if l.at-before.at > cfg.trust() {
		l.still = true
		return // nobody knows what was in between
	}
	served := max(0, before.depth+l.sent-before.sent-l.depth)
	rate := float64(served) / float64(l.at-before.at)
	// Messages were ready all the time if fewer were served than were ready at first: then this is what the queue can
	// do. Else it can do that at least, and perhaps more if it was emptied.
	busy := l.ready > 0 && served < before.ready
	l.still = busy && served == 0
	switch {
	case l.still: // the queue is paused, say; that tells nothing of what it can do
	case busy && l.known:
		l.rate = (l.rate + rate) / 2
	case busy:
		l.rate, l.known = rate, true
	case l.ready == 0:
		l.rate = max(l.rate, 2*rate)
	default:
		l.rate = max(l.rate, rate)
	}
}

// fail logs that the queue can't be read, now and then.
func (p *pressure) fail(now int64, err error) {
	p.mu.Lock()
	say := now >= p.complain
	if say {
		p.complain = now + int64(logEvery)
	}
	p.mu.Unlock()
	if say {
		p.log.LogAttrs(context.Background(), slog.LevelWarn, "the backlog of a queue can't be read; the rate limiter goes on with the last look, then without", slog.Any("error", err))
	}
}
