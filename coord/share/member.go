package share

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"time"

	"github.com/millrace-go/millrace/internal/call"
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
	etag    storage.ETag // of the document; empty: there is no blob, or none was read
	seen    map[string]sighting
	turn    int64     // of the document
	turned  time.Time // when that was first seen
	renewed time.Time // when the last renewal was acknowledged; other writes may have come since
	target  int64     // by that write
	share   int64     // in the row
	wish    int64     // likewise
	rang    time.Time // when it rang last, because it wants more
	polls   int       // since then
	rung    time.Time // when it looked last because another rang

	bad      storage.ETag // of a blob that can't be read
	badSince time.Time
	failing  time.Time // since when; zero: it doesn't
	hearing  *storage.Hearing
}

// sighting is a beat, and when it was first seen.
type sighting struct {
	beat  int64
	since time.Time
}

func newMember(p *part) *member { return &member{part: p, seen: map[string]sighting{}} }

// run keeps the row until the part is idle.
func (m *member) run() {
	ctx := context.Background() // each call of the store has its own limit
	defer m.deafen()
	for tries := 0; ; {
		began := time.Now()
		err := m.step(ctx)
		m.note(ctx, began, err)
		if err == nil || !storage.LostRace(err) {
			tries = 0
		} else {
			tries++
		}
		m.mu.Lock()
		tried, left := m.goes(ctx)
		m.mu.Unlock()
		if left {
			return
		}
		if tried {
			continue
		}
		if err == nil && m.listen(ctx) {
			continue // what was told before is in the document by now
		}
		m.wait(m.pause(err, tries))
	}
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
			d := document{Members: maps.Clone(m.doc.Members), Turn: m.doc.Turn}
			if _, there := d.Members[m.id]; !there {
				return
			}
			delete(d.Members, m.id)
			var etag storage.ETag
			if etag, err = m.put(ctx, d, m.etag); err == nil {
				m.doc, m.etag, m.share = d, etag, 0
				if d.hungry() {
					m.ring(ctx)
				}
				return
			}
		}
		_ = call.Sleep(ctx, time.Duration(tries+1)*m.jitter(m.cfg.TTL/200))
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
	etag, err := m.put(ctx, p.doc, m.etag)
	if err != nil {
		return err
	}
	m.doc, m.etag, m.target, m.share, m.wish = p.doc, etag, p.target, p.row.Share, p.row.Wants
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
	d, etag, err := m.get(ctx, m.etag)
	now := time.Now() // after the read, so not before the document was written
	switch {
	case err == nil:
		m.doc, m.etag = d, etag
	case errors.Is(err, storage.ErrNotModified):
	case errors.Is(err, storage.ErrNotFound):
		m.doc, m.etag = document{}, ""
	case errors.Is(err, errUnreadable):
		if m.bad != etag {
			m.bad, m.badSince = etag, now
		}
		if now.Sub(m.badSince) < watched(maxTTL) {
			return err
		}
		m.doc, m.etag = document{}, etag
	default:
		return err
	}
	if m.turned.IsZero() || m.doc.Turn != m.turn {
		m.turn, m.turned = m.doc.Turn, now
	}
	m.read = true
	maps.DeleteFunc(m.seen, func(id string, _ sighting) bool { _, there := m.doc.Members[id]; return !there })
	for id, r := range m.doc.Members {
		if s, ok := m.seen[id]; !ok || s.beat != r.Beat {
			m.seen[id] = sighting{r.Beat, now}
		}
	}
	return nil
}

// dies returns when a row can be removed, unless it changes.
func (m *member) dies(id string) time.Time {
	return m.seen[id].since.Add(watched(time.Duration(m.doc.Members[id].TTL) * time.Millisecond))
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
	p.doc.Members, p.doc.Turn = map[string]row{}, m.doc.Turn
	for id, r := range m.doc.Members {
		if id == m.id || now.Before(m.dies(id)) {
			p.doc.Members[id] = r
		}
	}
	must = len(p.doc.Members) < len(m.doc.Members)
	old, there := p.doc.Members[m.id]
	p.fresh = !there || now.Sub(m.renewed) >= m.cfg.TTL/3

	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(now, min(m.use, old.Share)) // a process that removes a row of ours has watched it for long
	if !now.Before(m.until) {
		m.set(now, 0)
	}
	m.beat++
	p.row = row{Limit: m.limit, Wants: m.wants(now, old.Wants, p.fresh, m.doc.hungryBut(m.id)), Beat: m.beat, TTL: m.cfg.TTL.Milliseconds()}
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
// began after the end of the share, the store is away: the process goes on with its safe share.
func (m *member) note(ctx context.Context, began time.Time, err error) {
	if err == nil || storage.LostRace(err) {
		if !m.failing.IsZero() {
			m.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "can keep a share again")
		}
		m.failing = time.Time{}
		return
	}
	if m.failing.IsZero() {
		m.failing = began
		m.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't keep a share; trying again", slog.Any("error", err))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if errors.Is(err, storage.ErrTooLarge) { // the store is there, and all of the number is in use by others
		m.settle(time.Now())
		m.safe = 0
		return
	}
	if m.cfg.Strict || !m.read || m.leaving || began.Before(m.until) || began.Sub(m.failing) < m.cfg.TTL/3 {
		return
	}
	members := int64(len(m.doc.Members))
	if _, there := m.doc.Members[m.id]; !there {
		members++
	}
	if safe := min(m.limit, m.doc.limit()) / members; safe != m.safe {
		m.settle(time.Now())
		m.safe = safe
		m.moved()
	}
}

// pause is the time until the next step.
func (m *member) pause(err error, tries int) time.Duration {
	ttl := m.cfg.TTL
	switch {
	case storage.LostRace(err):
		return m.jitter(ttl/1000) * time.Duration(min(tries, 20))
	case err != nil:
		return m.jitter(ttl / 12)
	}
	d := time.Until(m.renewed.Add(ttl / 3))
	if m.share < m.target {
		d = min(d, m.jitter(min(ttl/40<<min(m.polls, 5), ttl/6))) // others make room soon after a ring
		m.polls++
	}
	if m.share < m.wish {
		for id := range m.doc.Members {
			if id != m.id {
				d = min(d, time.Until(m.dies(id)))
			}
		}
	}
	return max(d, 0)
}

// jitter returns half of d to d.
func (m *member) jitter(d time.Duration) time.Duration { return d/2 + mathrand.N(d/2+1) }

// wait waits until it is time for the next step, or until somebody wants one: this process at most 40 times in a TTL,
// others by rings at most 8 times. The end of the share is told to those that watch it.
func (m *member) wait(d time.Duration) {
	gap := time.NewTimer(min(d, m.jitter(m.cfg.TTL/40)))
	defer gap.Stop()
	rings := time.NewTimer(max(time.Until(m.rung.Add(m.cfg.TTL/8)), m.jitter(m.cfg.TTL/200)))
	defer rings.Stop()
	next := time.NewTimer(d)
	defer next.Stop()
	m.mu.Lock()
	end := time.NewTimer(time.Until(m.until))
	m.mu.Unlock()
	defer end.Stop()
	var wake, told <-chan struct{}
	for {
		var lost <-chan struct{}
		if m.hearing != nil {
			lost = m.hearing.Lost()
		}
		select {
		case <-gap.C:
			wake = m.wake
		case <-rings.C:
			told = m.told
		case <-next.C:
			return
		case <-wake:
			return
		case <-told:
			m.rung = time.Now()
			return
		case <-end.C:
			m.mu.Lock()
			m.moved()
			m.mu.Unlock()
		case <-lost:
			m.deafen()
		}
	}
}

// listen begins to listen where the store rings, and reports that it has begun just now.
func (m *member) listen(ctx context.Context) bool {
	if m.hearing != nil || !m.store.Rings() {
		return false
	}
	ctx, cancel := call.Limit(ctx, m.cfg.TTL/12)
	defer cancel()
	h, err := m.store.Hear(ctx, topic, m.hear)
	if err != nil {
		return false // it looks every TTL/3, and tries again then
	}
	m.hearing = h
	return true
}

// hear is the member's ear.
func (m *member) hear(key []byte, most int) int {
	if string(key) != m.key {
		return 0
	}
	if most != 0 {
		select {
		case m.told <- struct{}{}:
		default: // one waits already
		}
	}
	return 1
}

func (m *member) deafen() {
	if m.hearing != nil {
		m.hearing.Close()
		m.hearing = nil
	}
}

// ring lets the others look. Where that fails, they look with their next renewal.
func (m *member) ring(ctx context.Context) {
	if !m.store.Rings() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(m.cfg.TTL/12, time.Second))
	defer cancel()
	_, _ = m.store.Tell(ctx, topic, []byte(m.key), false)
}
