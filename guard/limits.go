package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/coord/limit"
	"github.com/millrace-go/millrace/guard/internal/breaker"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// Rate is a number of calls a second.
type Rate float64

// PerSecond is n calls a second.
func PerSecond(n float64) Rate { return Rate(n) }

// PerMinute is n calls a minute.
func PerMinute(n float64) Rate { return Rate(n / 60) }

// Limits are the numbers of a [Config] that can change while a guard works. A zero has the same meaning as there.
type Limits struct {
	Rate  Rate  `json:"rate,omitzero"`
	Slots int   `json:"slots,omitzero"`
	Break Break `json:"break,omitzero"`
	Probe Probe `json:"probe,omitzero"`

	Adaptive Adaptive `json:"adaptive,omitzero"`
}

// ErrLimit is wrapped by the error of a call that was not made, because Rate, Slots or Adaptive are used up.
var ErrLimit = errors.New("the limit of calls is reached")

// Limits returns the numbers that are in force in this process.
func (g *Guard) Limits() Limits {
	g.setting.Lock()
	defer g.setting.Unlock()
	rate, slots, adaptive := g.quota.numbers()
	v := g.breaker.view()
	return Limits{Rate: rate, Slots: slots, Adaptive: adaptive, Break: Break(v.Break), Probe: Probe(v.Probe)}
}

// Check says what is wrong with limits, as [Guard.Set] would: for a program's settings that hold them.
func (l Limits) Check() error {
	_, err := Config{Rate: l.Rate, Slots: l.Slots, Adaptive: l.Adaptive, Break: l.Break, Probe: l.Probe}.withDefaults("limits")
	return err
}

// Set puts other numbers in force, from the next call on. A number that is lower holds at once in this process, and in
// the others when they have set it, too; see package coord/limit. If Break changes, calls are counted anew. The error
// names everything that is wrong; then the old numbers stay in force.
func (g *Guard) Set(l Limits) error {
	if g.fault != nil {
		return g.fault
	}
	g.setting.Lock()
	defer g.setting.Unlock()
	cfg := g.cfg
	cfg.Rate, cfg.Slots, cfg.Adaptive, cfg.Break, cfg.Probe = l.Rate, l.Slots, l.Adaptive, l.Break, l.Probe
	cfg, err := cfg.withDefaults(g.name)
	if err == nil {
		err = g.quota.set(cfg.Rate, cfg.Slots, cfg.Adaptive)
	}
	if err != nil {
		return err
	}
	g.breaker.Update(func(m *breaker.Machine, _ time.Time) { m.Set(breaker.Break(cfg.Break), breaker.Probe(cfg.Probe)) })
	return nil
}

// quota is what the limits of all processes leave to this one.
type quota struct {
	cfg  *Config
	name string
	log  func() *slog.Logger
	tell func() // that the room has changed; it is called under a mutex of package limit

	mu    sync.Mutex
	store *storage.Store // nil: not known
	given struct {
		rate     Rate
		slots    int
		adaptive Adaptive
	}
	made     parts                     // all that were made with the store, also of limits that are in force no more
	timer    *time.Timer               // until there is room again
	limiters int                       // that are open
	taking   sync.RWMutex              // for reading while a call takes a place that others could use
	stay     atomic.Pointer[stay]      // of the limiters; nil: there was none yet
	short    atomic.Pointer[time.Time] // when a call found all slots in use

	parts   atomic.Pointer[parts] // nil: there is no limit
	calling atomic.Int64          // calls under way, while there is a limit
	tight   atomic.Int64          // consumers that are limited; they are told when a call ends
}

// parts are this process's parts of the limits; nil: there is no such limit. They never change.
type parts struct {
	rate     *limit.Rate
	slots    *limit.Slots
	adaptive *adaptive
}

// shortFor is how long a consumer has no more in hand than there are slots, after a call found all in use.
const shortFor = time.Minute

// fineRoom is the room up to which it is told exactly.
const fineRoom = 64

// leastTell is the least time until a consumer without room looks again.
const leastTell = 10 * time.Millisecond

func newQuota(name string, cfg *Config, log func() *slog.Logger, tell func()) *quota {
	return &quota{cfg: cfg, name: name, log: log, tell: tell, store: cfg.Store}
}

func (q *quota) numbers() (Rate, int, Adaptive) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.given.rate, q.given.slots, q.given.adaptive
}

// set puts limits in force. Calls under way keep what they have.
func (q *quota) set(rate Rate, slots int, adaptive Adaptive) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.build(rate, slots, adaptive)
}

// open lets a worker's store divide the limits, unless another does.
func (q *quota) open(s *storage.Store) error {
	if s == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.limiters == 0 {
		q.stay.Store(newStay())
	}
	if q.limiters++; q.store != nil {
		return nil
	}
	q.store, q.made = s, parts{adaptive: q.made.adaptive}
	return q.build(q.given.rate, q.given.slots, q.given.adaptive)
}

// leave gives the parts back when the last consumer leaves. Calls that would begin later are refused. Then it calls
// closing, unless another consumer has come meanwhile.
func (q *quota) leave(ctx context.Context, closing func()) (err error) {
	q.mu.Lock()
	q.limiters--
	made, last := q.made, q.limiters == 0
	if last {
		q.stay.Load().end()
	}
	q.mu.Unlock()
	if last {
		q.awaitTaken()
	}
	if last && made.rate != nil {
		err = made.rate.Leave(ctx)
	}
	if last && made.slots != nil {
		err = errors.Join(err, made.slots.Leave(ctx))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if last && q.limiters == 0 {
		closing()
		if q.cfg.Store == nil {
			q.store, q.made = nil, parts{adaptive: q.made.adaptive} // the next worker may have another store
		}
	}
	return err
}

// awaitTaken waits until no call that began before takes a place: it would keep the parts.
func (q *quota) awaitTaken() {
	q.taking.Lock()
	defer q.taking.Unlock()
}

// build makes the parts of new limits, under the mutex. Parts that are left out leave by themselves after a while.
func (q *quota) build(rate Rate, slots int, adaptive Adaptive) (err error) {
	made := q.made
	switch {
	case rate == 0:
	case made.rate != nil:
		err = made.rate.Set(float64(rate))
	case q.store == nil:
		made.rate, err = limit.LocalRate(float64(rate))
	default:
		made.rate, err = limit.NewRate(q.store, q.name, float64(rate), q.shareConfig())
	}
	if err != nil {
		return fmt.Errorf("guard: %s: %w", q.name, err)
	}
	switch {
	case slots == 0:
	case made.slots != nil:
		err = made.slots.Set(slots)
	case q.store == nil:
		made.slots, err = limit.LocalSlots(slots)
	default:
		made.slots, err = limit.NewSlots(q.store, q.name, slots, q.shareConfig())
	}
	if err != nil {
		return fmt.Errorf("guard: %s: %w", q.name, err)
	}
	if err := q.adapt(&made, adaptive); err != nil {
		return err
	}
	q.given.rate, q.given.slots, q.given.adaptive, q.made = rate, slots, adaptive, made
	next := made
	if adaptive.Most == 0 {
		next.adaptive = nil
	}
	if rate == 0 {
		next.rate = nil
	}
	if slots == 0 {
		next.slots = nil
	}
	if next == (parts{}) {
		q.parts.Store(nil)
	} else {
		q.parts.Store(&next)
	}
	q.tell()
	return nil
}

func (q *quota) shareConfig() limit.Config {
	return limit.Config{Strict: q.cfg.Strict, Logger: q.log(), Changed: q.tell}
}

func (q *quota) limited() bool { return q.parts.Load() != nil }

// take takes a place of all limits. It waits for one for a time at most. Without one it returns when to try again, and
// which limit is reached.
func (q *quota) take(ctx context.Context, most time.Duration) (s seat, wait time.Duration, short why) {
	p := q.parts.Load()
	if p == nil {
		return seat{}, 0, byBreaker
	}
	var stay *stay // nil: the call takes nothing that another process could use
	if p.rate != nil || p.slots != nil {
		q.taking.RLock()
		defer q.taking.RUnlock()
		if stay = q.stay.Load(); stay.over() {
			return seat{}, 0, byRate // another process makes the call
		}
	}
	s.parts = p
	if p.adaptive != nil {
		if wait, ok := p.adaptive.slots.Take(); !ok && !stay.hold(ctx, most, &s.waited, p.adaptive.slots.Wait) {
			return seat{}, wait, byAdaptive
		}
		defer func() { p.adaptive.took(&s) }()
	}
	if p.slots != nil {
		if wait, ok := p.slots.Take(); !ok {
			if p.slots.Share() > 0 { // else the process joins the others
				now := time.Now()
				q.short.Store(&now)
			}
			q.tell()
			if !stay.hold(ctx, most, &s.waited, p.slots.Wait) {
				return seat{}, wait, bySlots
			}
		}
	}
	if p.rate != nil {
		if wait, ok := p.rate.Take(); !ok {
			q.tell()
			// Where it is known that no permit comes in time, there is nothing to wait for.
			if wait > most && p.rate.Share() > 0 || !stay.hold(ctx, most, &s.waited, p.rate.Wait) {
				if p.slots != nil {
					p.slots.Give()
				}
				return seat{}, wait, byRate
			}
		}
	}
	q.calling.Add(1)
	return s, 0, byBreaker
}

// stay lasts from the first consumer to the last.
type stay struct {
	ctx context.Context
	end context.CancelFunc
}

func newStay() *stay {
	ctx, end := context.WithCancel(context.Background())
	return &stay{ctx, end}
}

// over reports that all consumers have left.
func (s *stay) over() bool { return s != nil && s.ctx.Err() != nil }

// hold waits for a place for what is left of a time, or until the last consumer leaves. It counts how long that takes.
func (s *stay) hold(ctx context.Context, most time.Duration, waited *time.Duration, wait func(context.Context) error) bool {
	if most <= *waited {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, most-*waited)
	defer cancel()
	if s != nil {
		defer context.AfterFunc(s.ctx, cancel)()
	}
	began := time.Now()
	defer func() { *waited += time.Since(began) }()
	return wait(ctx) == nil
}

// give ends what a call has. The slot is given back, the permit is used.
func (q *quota) give(s seat) {
	if s.parts != nil {
		q.calling.Add(-1)
		if s.parts.slots != nil {
			s.parts.slots.Give()
		}
		s.parts.adaptive.gave(s)
	}
	if q.tight.Load() > 0 {
		q.tell()
	}
}

// room returns how many messages the consumers may hold, so that nothing is fetched to be refused: as many as there are
// calls under way and permits within a time that a call may wait for. If there are none, it may return when there will
// be one. A consumer runs so many handlers at a time as most, or as few; 0: that isn't known. With a slot for each it
// may have more in hand, unless a call found all in use lately.
func (q *quota) room(most int) (room int, wait time.Duration) {
	p := q.parts.Load()
	if p == nil {
		return math.MaxInt, 0
	}
	room = math.MaxInt
	if n := p.adaptive.allowed(); n < most || most == 0 {
		room = n
	}
	if p.slots != nil {
		n, _ := p.slots.Room()
		if at := q.short.Load(); n < most || most == 0 || at != nil && time.Since(*at) < shortFor {
			room = min(room, n)
		}
	}
	if p.rate != nil {
		within := inPlace * 3 / 4 // else the last ones would wait for a little too long
		permits, next, _ := p.rate.Room(within)
		if permits += int(q.calling.Load()); permits < room {
			room, wait = permits, max(next-within, leastTell)
		}
	}
	if room > 0 {
		wait = 0
	}
	return room, wait
}

// limits returns what a consumer may take that has room for so many messages.
func (q *quota) limits(room int, wait time.Duration, concurrency, inHand int) worker.Limits {
	if room == math.MaxInt {
		return worker.Limits{}
	}
	if inHand > 0 && room >= inHand {
		return worker.Limits{}
	}
	if room > fineRoom { // else a worker's limits would change with each call
		room = 1 << (bits.Len(uint(room)) - 1)
	}
	if room == 0 {
		if wait > 0 {
			q.tellAfter(wait)
		}
		return worker.Limits{Pause: true, Brief: true}
	}
	l := worker.Limits{MaxInHand: room}
	if concurrency == 0 || room < concurrency {
		l.Concurrency = room
	}
	return l
}

// tellAfter tells after a while that there is room again.
func (q *quota) tellAfter(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.timer == nil {
		q.timer = time.AfterFunc(d, q.tell)
		return
	}
	q.timer.Reset(d)
}
