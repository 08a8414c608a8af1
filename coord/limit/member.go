package limit

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// topic is told when a process wants more, or makes room. The data is the document's key.
const topic = "shares"

const leaveTries = 5

// Law 2 rests on these two, as package coord/lease has it: what lies between them is for clocks that run at different
// rates.
func inUse(ttl time.Duration) time.Duration   { return ttl * 5 / 6 } // of a share, after the start of its last acknowledged write
func watched(ttl time.Duration) time.Duration { return ttl * 7 / 6 } // of a row that stays the same, before others remove it

// member keeps a part's row. All its fields belong to its goroutine.
type member struct {
	*part
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
		doc:  agree.Document[document]{Blobs: p.store.Blobs(container), Key: p.key, Limit: p.cfg.TTL / 4, Decode: decode, Encode: encode},
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
			m.mu.Lock()
			tried, left := m.goes(ctx)
			m.mu.Unlock()
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
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.rings = m.rings || rung && !m.hurried
	switch {
	case !now.Before(m.at), m.hurried && !now.Before(m.gap):
	case m.rings && !now.Before(m.quiet):
		m.rung = now
	default:
		return false
	}
	m.rings, m.hurried = false, false
	return true
}

// rest says when the next step is due, after a step with that error.
func (m *member) rest(err error) {
	if m.races++; !storage.LostRace(err) {
		m.races = 0
	}
	now, pause := time.Now(), m.pause(err)
	m.at = now.Add(pause)
	m.gap = now.Add(min(pause, m.jitter(m.cfg.TTL/40)))
	if m.quiet = m.rung.Add(m.cfg.TTL / 8); m.quiet.Before(now) {
		m.quiet = now.Add(m.jitter(m.cfg.TTL / 200))
	}
}

// untilDue is the time until the next step. The end of the share is told to those that watch it.
func (m *member) untilDue() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, due := time.Now(), m.at
	earlier := func(if_ bool, t time.Time) {
		if if_ && t.Before(due) {
			due = t
		}
	}
	if !now.Before(m.until) && m.told != m.until {
		m.told = m.until
		m.moved()
	}
	earlier(now.Before(m.until), m.until)
	earlier(m.hurried, m.gap)
	earlier(m.rings, m.quiet)
	return due.Sub(now)
}

// goes ends the member if the part isn't used any more, under the mutex. It gives the mutex up only when no share is in
// use. It stays if there is a call meanwhile.
func (m *member) goes(ctx context.Context) (tried, left bool) {
	began := time.Now()
	if !m.idle(began) {
		return false, false
	}
	m.set(began, 0)
	m.safe = 0
	m.mu.Unlock()
	m.withdraw(ctx)
	m.mu.Lock()
	m.leaving = false
	close(m.left)
	m.moved()
	if m.asked.After(began) {
		m.left, m.eager = make(chan struct{}), true
		return true, false
	}
	m.running = false
	return true, true
}

// withdraw removes the row. If that fails, others do it later.
func (m *member) withdraw(ctx context.Context) {
	for tries := range leaveTries {
		err := m.look(ctx)
		if err == nil {
			d := document{Members: maps.Clone(m.seen.Doc.Members), Turn: m.seen.Doc.Turn}
			if _, there := d.Members[m.id]; !there {
				return
			}
			delete(d.Members, m.id)
			if m.doc.Write(ctx, &m.seen, d) == nil {
				if m.share = 0; d.hungry() {
					m.ring(ctx)
				}
				return
			}
		}
		_ = storecall.Sleep(ctx, time.Duration(tries+1)*m.jitter(m.cfg.TTL/200))
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
	if err := m.doc.Write(ctx, &m.seen, p.doc); err != nil {
		return err
	}
	m.target, m.share, m.wish = p.target, p.row.Share, p.row.Wants
	m.acknowledge(p, start)
	if now := time.Now(); matters(p.target-p.row.Share, p.target) && now.Sub(m.rang) >= m.cfg.TTL/3 {
		m.rang, m.polls = now, 0
		m.ring(ctx)
	}
	return nil
}

// look brings the document up to date. A blob that can't be read is taken for an empty one when all that could hold a
// share by it have stopped: they write it, or their shares end.
func (m *member) look(ctx context.Context) error {
	err := m.doc.Read(ctx, &m.seen)
	now := time.Now() // after the read, so not before the document was written
	if err != nil && (m.seen.Fault == nil || now.Sub(m.seen.Since) < watched(maxTTL)) {
		return err
	}
	d := m.seen.Doc
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
	return m.beats[id].since.Add(watched(time.Duration(m.seen.Doc.Members[id].TTL) * time.Millisecond))
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
	p.doc.Members, p.doc.Turn = map[string]row{}, m.seen.Doc.Turn
	for id, r := range m.seen.Doc.Members {
		if id == m.id || now.Before(m.dies(id)) {
			p.doc.Members[id] = r
		}
	}
	must = len(p.doc.Members) < len(m.seen.Doc.Members)
	old, there := p.doc.Members[m.id]
	p.fresh = !there || now.Sub(m.renewed) >= m.cfg.TTL/3

	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(now, min(m.use, old.Share)) // a process that removes a row of ours has watched it for long
	if !now.Before(m.until) {
		m.set(now, 0)
	}
	m.beat++
	p.row = row{Limit: m.limit, Wants: m.wants(now, old.Wants, p.fresh, m.seen.Doc.hungryBut(m.id)), Beat: m.beat, TTL: m.cfg.TTL.Milliseconds()}
	p.doc.Members[m.id] = p.row
	if p.fresh && p.doc.scarce() && now.Sub(m.turned) >= m.cfg.TTL {
		p.doc.Turn = (p.doc.Turn + 1) % maxUnits // no member stays without a share
	}
	p.target = p.doc.targets()[m.id]
	free := p.doc.limit() - p.doc.given(m.id)
	p.use = min(p.target, max(m.use, free))
	if less := m.use - p.use; !p.fresh && m.use <= free && (less > 0 && !p.doc.short(m.id, m.use) || !matters(max(less, -less), p.target)) {
		p.use = m.use // at the next renewal
	}
	if p.use < m.use {
		m.set(now, p.use)
	}
	p.row.Share = max(p.use, min(m.busy, old.Share))
	p.doc.Members[m.id] = p.row
	must = must || p.fresh || p.use != m.use || p.row.Share != old.Share || p.row.Wants != old.Wants || p.row.Limit != old.Limit
	return p, must
}

// matters reports that a difference is worth a write of its own.
func matters(difference, of int64) bool { return difference > 0 && difference*20 >= of }

// acknowledge puts a write in force that the store has acknowledged.
func (m *member) acknowledge(p plan, start time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.settle(now)
	m.safe, m.until, m.wanted = 0, start.Add(inUse(m.cfg.TTL)), p.row.Wants
	m.set(now, min(p.use, m.limit)) // the limit may have been lowered meanwhile
	if p.fresh {
		m.eager, m.used, m.since, m.renewed = false, 0, now, now
	}
}

// note logs the first failure, and the first success after it. When calls have failed for a while, and one more that
// began after the end of the share, the store is away: the process goes on with its safe share. A process that stood
// still knows nothing of that time. So steps that are a TTL apart begin anew, and two of them never are a while.
func (m *member) note(ctx context.Context, began time.Time, err error) {
	if err == nil || storage.LostRace(err) {
		if !m.failed.IsZero() {
			m.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "can keep a share again")
		}
		m.failed = time.Time{}
		return
	}
	if m.failed.IsZero() {
		m.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't keep a share; trying again", slog.Any("error", err))
	}
	if apart := began.Sub(m.failed); apart < m.cfg.TTL {
		m.away += min(apart, m.cfg.TTL/6)
	} else {
		m.away = 0
	}
	m.failed = began
	m.mu.Lock()
	defer m.mu.Unlock()
	if errors.Is(err, storage.ErrTooLarge) { // the store is there, and all of the number is in use by others
		m.settle(time.Now())
		m.safe = 0
		return
	}
	if m.cfg.Strict || m.seen.Since.IsZero() || m.seen.Fault != nil || m.leaving || began.Before(m.until) || m.away < m.cfg.TTL/3 {
		return
	}
	members := int64(len(m.seen.Doc.Members))
	if _, there := m.seen.Doc.Members[m.id]; !there {
		members++
	}
	if safe := min(m.limit, m.seen.Doc.limit()) / members; safe != m.safe {
		m.settle(time.Now())
		m.safe = safe
		m.moved()
	}
}

// pause is the time until the next step.
func (m *member) pause(err error) time.Duration {
	ttl := m.cfg.TTL
	switch {
	case storage.LostRace(err):
		return m.jitter(ttl/1000) * time.Duration(min(m.races, 20))
	case err != nil:
		return m.jitter(ttl / 12)
	}
	d := time.Until(m.renewed.Add(ttl / 3))
	if m.share < m.target {
		d = min(d, m.jitter(min(ttl/40<<min(m.polls, 5), ttl/6))) // others make room soon after a ring
		m.polls++
	}
	if m.share < m.wish {
		for id := range m.seen.Doc.Members {
			if id != m.id {
				d = min(d, time.Until(m.dies(id)))
			}
		}
	}
	return max(d, 0)
}

// jitter returns half of d to d.
func (m *member) jitter(d time.Duration) time.Duration { return d/2 + mathrand.N(d/2+1) }

// ring lets the others look. Where that fails, they look with their next renewal.
func (m *member) ring(ctx context.Context) { _ = agree.Ring(ctx, m.store, topic, []byte(m.key)) }
