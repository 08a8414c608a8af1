package limit

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// topic is told when a process wants more, or makes room. The data is the document's key.
const topic = "shares"

const leaveTries = 5

// member keeps a part's row. All its fields belong to its goroutine.
type member struct {
	part    *part
	doc     agree.Document[document]
	loop    *agree.Loop
	beats   map[string]sighting
	turn    int64         // of the document
	turned  time.Time     // when that was first seen
	renewed time.Time     // when the last renewal was acknowledged; other writes may have come since
	target  int64         // by that write
	share   int64         // in the row
	wish    int64         // likewise
	rang    time.Time     // when it rang last, because it wants more
	polls   int           // since then
	failed  time.Time     // when the last step began, if it failed; zero: it didn't
	away    time.Duration // for how long steps have failed
	pace
}

// pace says when the next step is due.
type pace struct {
	at    time.Time // the next step, at the latest
	gap   time.Time // not before, if only this process wants the step
	quiet time.Time // not before, if only others want the step
	rung  time.Time // the last step that others wanted
	rings bool      // others want a step
	told  time.Time // the end of the share that was told last
	races int       // lost in a row
}

// sighting is a beat, and when it was first seen.
type sighting struct {
	beat  int64
	since time.Time
}

func newMember(p *part) *member {
	return &member{
		part: p, beats: map[string]sighting{},
		doc:  agree.Document[document]{Blobs: p.store.Blobs(container), Key: p.key, Limit: p.cfg.ttl / 4, Decode: decode, Encode: encode},
		loop: agree.NewLoop(p.store, topic, func(key []byte) bool { return string(key) == p.key }, agree.NewTrouble(p.cfg.Logger), "changes of a share"),
	}
}

// run keeps the row until the part is idle.
func (m *member) run() {
	// Each call of the store has its own limit.
	m.loop.Run(context.Background(), func(ctx context.Context, rung bool) (again time.Duration, over bool) {
		for m.isDue(rung) {
			rung = false
			began := time.Now()
			err := m.step(ctx)
			m.note(ctx, began, err)
			m.part.mu.Lock()
			tried, left := m.goes(ctx)
			m.part.mu.Unlock()
			if left {
				return 0, true
			}
			if !tried {
				m.rest(err)
			}
		}
		return m.untilDue(), false
	})
}

// isDue reports that it is time for a step, or that somebody wants one: this process at most 40 times in a TTL, others
// by rings at most 8 times.
func (m *member) isDue(rung bool) bool {
	m.part.mu.Lock()
	defer m.part.mu.Unlock()
	now := time.Now()
	m.rings = m.rings || rung && !m.part.hurried
	switch {
	case !now.Before(m.at), m.part.hurried && !now.Before(m.gap):
	case m.rings && !now.Before(m.quiet):
		m.rung = now
	default:
		return false
	}
	m.rings, m.part.hurried = false, false
	return true
}

// rest says when the next step is due, after a step with that error.
func (m *member) rest(err error) {
	if m.races++; !storage.LostRace(err) {
		m.races = 0
	}
	now, pause := time.Now(), m.pause(err)
	m.at = now.Add(pause)
	m.gap = now.Add(min(pause, storecall.Spread(m.part.cfg.ttl/40)))
	if m.quiet = m.rung.Add(m.part.cfg.ttl / 8); m.quiet.Before(now) {
		m.quiet = now.Add(storecall.Spread(m.part.cfg.ttl / 200))
	}
}

// untilDue is the time until the next step. The end of the share is told to those that watch it.
func (m *member) untilDue() time.Duration {
	m.part.mu.Lock()
	defer m.part.mu.Unlock()
	now, due := time.Now(), m.at
	earlier := func(if_ bool, t time.Time) {
		if if_ && t.Before(due) {
			due = t
		}
	}
	if !now.Before(m.part.until) && m.told != m.part.until {
		m.told = m.part.until
		m.part.moved()
	}
	earlier(now.Before(m.part.until), m.part.until)
	earlier(m.part.hurried, m.gap)
	earlier(m.rings, m.quiet)
	return due.Sub(now)
}

// goes ends the member if the part isn't used any more, under the mutex. It gives the mutex up only when no share is in
// use. It stays if there is a call meanwhile.
func (m *member) goes(ctx context.Context) (tried, left bool) {
	began := time.Now()
	if !m.part.idle(began) {
		return false, false
	}
	m.part.set(began, 0)
	m.part.safe = 0
	m.part.mu.Unlock()
	m.withdraw(ctx)
	m.part.mu.Lock()
	m.part.leaving = false
	close(m.part.left)
	m.part.moved()
	if m.part.asked.After(began) {
		m.part.left, m.part.eager = make(chan struct{}), true
		return true, false
	}
	m.part.running = false
	return true, true
}

// withdraw removes the row. If that fails, others do it later.
func (m *member) withdraw(ctx context.Context) {
	for tries := range leaveTries {
		err := m.look(ctx)
		if err == nil {
			d := document{Members: maps.Clone(m.part.seen.Doc.Members), Turn: m.part.seen.Doc.Turn}
			if _, there := d.Members[m.part.id]; !there {
				return
			}
			delete(d.Members, m.part.id)
			if m.doc.Write(ctx, &m.part.seen, d) == nil {
				if m.share = 0; d.hungry() {
					m.ring(ctx)
				}
				return
			}
		}
		_ = storecall.Sleep(ctx, time.Duration(tries+1)*storecall.Spread(m.part.cfg.ttl/200))
	}
}

// step looks at the document, and writes it if the member's row must change.
func (m *member) step(ctx context.Context) error {
	if err := m.look(ctx); err != nil {
		return err
	}
	p, must := m.plan(time.Now())
	if !must {
		return nil
	}
	start := time.Now()
	if err := m.doc.Write(ctx, &m.part.seen, p.doc); err != nil {
		return err
	}
	m.target, m.share, m.wish = p.target, p.row.Share, p.row.Wants
	m.acknowledge(p, start)
	if now := time.Now(); matters(p.target-p.row.Share, p.target) && now.Sub(m.rang) >= m.part.cfg.ttl/3 {
		m.rang, m.polls = now, 0
		m.ring(ctx)
	}
	return nil
}

// look brings the document up to date. A blob that can't be read is taken for an empty one when all that could hold a
// share by it have stopped: they write it, or their shares end.
func (m *member) look(ctx context.Context) error {
	err := m.doc.Read(ctx, &m.part.seen)
	now := time.Now() // after the read, so not before the document was written
	if err != nil && (m.part.seen.Fault == nil || now.Before(agree.DeadFrom(m.part.seen.Since, maxTTL))) {
		return err
	}
	d := m.part.seen.Doc
	if m.turned.IsZero() || d.Turn != m.turn {
		m.turn, m.turned = d.Turn, now
	}
	maps.DeleteFunc(m.beats, func(id string, _ sighting) bool { _, there := d.Members[id]; return !there })
	for id, r := range d.Members {
		if s, ok := m.beats[id]; !ok || s.beat != r.Beat {
			m.beats[id] = sighting{r.Beat, now}
		}
	}
	return nil
}

// dies returns when a row can be removed, unless it changes.
func (m *member) dies(id string) time.Time {
	return agree.DeadFrom(m.beats[id].since, time.Duration(m.part.seen.Doc.Members[id].TTL)*time.Millisecond)
}

// plan is what a write would make of the document.
type plan struct {
	doc    document
	row    row
	use    int64 // when it is acknowledged
	target int64
	fresh  bool // it is a renewal
}

// plan decides what to write, and whether that is needed. It lowers the share in use before it is written.
func (m *member) plan(now time.Time) (p plan, must bool) {
	p.doc.Members, p.doc.Turn = map[string]row{}, m.part.seen.Doc.Turn
	for id, r := range m.part.seen.Doc.Members {
		if id == m.part.id || now.Before(m.dies(id)) {
			p.doc.Members[id] = r
		}
	}
	must = len(p.doc.Members) < len(m.part.seen.Doc.Members)
	old, there := p.doc.Members[m.part.id]
	p.fresh = !there || now.Sub(m.renewed) >= m.part.cfg.ttl/3

	m.part.mu.Lock()
	defer m.part.mu.Unlock()
	m.part.set(now, min(m.part.use, old.Share)) // a process that removes a row of ours has watched it for long
	if !now.Before(m.part.until) {
		m.part.set(now, 0)
	}
	m.part.beat++
	p.row = row{Limit: m.part.limit, Wants: m.part.wants(now, old.Wants, p.fresh, m.part.seen.Doc.hungryBut(m.part.id)), Beat: m.part.beat, TTL: m.part.cfg.ttl.Milliseconds()}
	p.doc.Members[m.part.id] = p.row
	if p.fresh && p.doc.scarce() && now.Sub(m.turned) >= m.part.cfg.ttl {
		p.doc.Turn = (p.doc.Turn + 1) % maxUnits // no member stays without a share
	}
	p.target = p.doc.targets()[m.part.id]
	free := p.doc.limit() - p.doc.given(m.part.id)
	p.use = min(p.target, max(m.part.use, free))
	if less := m.part.use - p.use; !p.fresh && m.part.use <= free && (less > 0 && !p.doc.short(m.part.id, m.part.use) || !matters(max(less, -less), p.target)) {
		p.use = m.part.use // at the next renewal
	}
	if p.use < m.part.use {
		m.part.set(now, p.use)
	}
	p.row.Share = max(p.use, min(m.part.busy, old.Share))
	p.doc.Members[m.part.id] = p.row
	must = must || p.fresh || p.use != m.part.use || p.row.Share != old.Share || p.row.Wants != old.Wants || p.row.Limit != old.Limit
	return p, must
}

// matters reports that a difference is worth a write of its own.
func matters(difference, of int64) bool { return difference > 0 && difference*20 >= of }

// acknowledge puts a write in force that the store has acknowledged.
func (m *member) acknowledge(p plan, start time.Time) {
	m.part.mu.Lock()
	defer m.part.mu.Unlock()
	now := time.Now()
	m.part.settle(now)
	m.part.safe, m.part.until, m.part.wanted = 0, agree.ProvedUntil(start, m.part.cfg.ttl), p.row.Wants
	m.part.set(now, min(p.use, m.part.limit)) // the limit may have been lowered meanwhile
	if p.fresh {
		m.part.eager, m.part.used, m.part.since, m.renewed = false, 0, now, now
	}
}

// note logs the first failure, and the first success after it. When calls have failed for a while, and one more that
// began after the end of the share, the store is away: the process goes on with its safe share. A process that stood
// still knows nothing of that time. So steps that are a TTL apart begin anew, and two of them never are a while.
func (m *member) note(ctx context.Context, began time.Time, err error) {
	if err == nil || storage.LostRace(err) {
		if !m.failed.IsZero() {
			m.part.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "can keep a share again")
		}
		m.failed = time.Time{}
		return
	}
	if m.failed.IsZero() {
		m.part.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't keep a share; trying again", slog.Any("error", err))
	}
	if apart := began.Sub(m.failed); apart < m.part.cfg.ttl {
		m.away += min(apart, m.part.cfg.ttl/6)
	} else {
		m.away = 0
	}
	m.failed = began
	m.part.mu.Lock()
	defer m.part.mu.Unlock()
	if errors.Is(err, storage.ErrTooLarge) { // the store is there, and all of the number is in use by others
		m.part.settle(time.Now())
		m.part.safe = 0
		return
	}
	if m.part.cfg.Strict || m.part.seen.Since.IsZero() || m.part.seen.Fault != nil || m.part.leaving || began.Before(m.part.until) || m.away < m.part.cfg.ttl/3 {
		return
	}
	members := int64(len(m.part.seen.Doc.Members))
	if _, there := m.part.seen.Doc.Members[m.part.id]; !there {
		members++
	}
	if safe := min(m.part.limit, m.part.seen.Doc.limit()) / members; safe != m.part.safe {
		m.part.settle(time.Now())
		m.part.safe = safe
		m.part.moved()
	}
}

// pause is the time until the next step.
func (m *member) pause(err error) time.Duration {
	ttl := m.part.cfg.ttl
	switch {
	case storage.LostRace(err):
		return storecall.Spread(ttl/1000) * time.Duration(min(m.races, 20))
	case err != nil:
		return storecall.Spread(ttl / 12)
	}
	d := time.Until(m.renewed.Add(ttl / 3))
	if m.share < m.target {
		d = min(d, storecall.Spread(storecall.Doubled(ttl/40, ttl/6, m.polls))) // others make room soon after a ring
		m.polls++
	}
	if m.share < m.wish {
		for id := range m.part.seen.Doc.Members {
			if id != m.part.id {
				d = min(d, time.Until(m.dies(id)))
			}
		}
	}
	return max(d, 0)
}

// ring lets the others look. Where that fails, they look with their next renewal.
func (m *member) ring(ctx context.Context) {
	_ = agree.Ring(ctx, m.part.store, topic, []byte(m.part.key))
}
