package row

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/millrace-go/millrace/coord/limit/internal/bucket"
	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// topic is told when a process wants more, or makes room. The data is the document's key.
const topic = "shares"

const leaveTries = 5

// A Config is how a process takes part.
type Config struct {
	TTL    time.Duration // of the row, from LeastTTL to a minute
	Strict bool          // make no call while the store is away
	Logger *slog.Logger
}

// A Keeper keeps the row of one process in the document of a number. It stays while members come and go, one at a time.
type Keeper struct {
	store   *storage.Store
	key     string // of the document
	id      string // of the row
	cfg     Config
	doc     agree.Document[document]
	trouble *agree.Trouble

	seen agree.Sighting[document] // of the document, by this member or an earlier one
	beat int64                    // of the last write; it goes on when the process joins again, so no two of its rows have the same
}

// NewKeeper returns a keeper, and makes no request.
func NewKeeper(store *storage.Store, key string, cfg Config) *Keeper {
	return &Keeper{
		store: store, key: key, id: rand.Text(), cfg: cfg, trouble: agree.NewTrouble(cfg.Logger),
		doc: agree.Document[document]{Blobs: store.Blobs(container), Key: key, Limit: cfg.TTL / 4, Decode: decode, Encode: encode},
	}
}

// Join starts to keep a bucket, until it isn't used any more. It returns how to wake what keeps it.
func (k *Keeper) Join(b *bucket.Bucket) (wake func()) {
	m := k.join(b)
	go m.run()
	return m.loop.Wake
}

// member is a keeper from joining to leaving. All its fields, and those of the keeper, belong to its goroutine.
type member struct {
	*Keeper
	bucket  *bucket.Bucket
	loop    *agree.Loop
	sight   sight
	pace    pace
	outage  outage
	renewed time.Time // when the last renewal was acknowledged; other writes may have come since
	target  int64     // by that write
	share   int64     // in the row
	wish    int64     // likewise
	rang    time.Time // when it rang last, because it wants more
	polls   int       // since then
	races   int       // lost in a row
}

func (k *Keeper) join(b *bucket.Bucket) *member {
	return &member{
		Keeper: k, bucket: b, sight: sight{beats: map[string]sighting{}}, pace: pace{ttl: k.cfg.TTL},
		loop: agree.NewLoop(k.store, topic, func(key []byte) bool { return string(key) == k.key }, k.trouble, "changes of a share"),
	}
}

// run keeps the row until the bucket isn't used any more.
func (m *member) run() {
	// Each call of the store has its own limit.
	m.loop.Run(context.Background(), func(ctx context.Context, rung bool) (again time.Duration, over bool) {
		for m.pace.isDue(time.Now(), rung, m.bucket.Hurried()) {
			rung = false
			m.bucket.Heed()
			began := time.Now()
			err := m.step(ctx)
			m.note(ctx, began, err)
			tried, left := m.goes(ctx)
			if left {
				return 0, true
			}
			if !tried {
				m.pace.rest(time.Now(), m.pause(err))
			}
		}
		return m.untilDue(time.Now()), false
	})
}

// untilDue is the time until the next step, or until the end of the share, which is told to those that watch it.
func (m *member) untilDue(now time.Time) time.Duration {
	due := m.pace.next(m.bucket.Hurried())
	if until := m.bucket.Until(now); now.Before(until) && until.Before(due) {
		due = until
	}
	return due.Sub(now)
}

// goes ends the member if the bucket isn't used any more. It stays if there is a call meanwhile.
func (m *member) goes(ctx context.Context) (tried, left bool) {
	began := time.Now()
	if !m.bucket.Retire(began) {
		return false, false
	}
	m.withdraw(ctx)
	return true, m.bucket.Retired(began)
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
		_ = storecall.Sleep(ctx, time.Duration(tries+1)*storecall.Spread(m.cfg.TTL/200))
	}
}

// step looks at the document, and writes it if the member's row must change.
func (m *member) step(ctx context.Context) error {
	if err := m.look(ctx); err != nil {
		return err
	}
	p := m.plan(time.Now())
	if !p.must {
		return nil
	}
	start := time.Now()
	if err := m.doc.Write(ctx, &m.seen, p.doc); err != nil {
		return err
	}
	now := time.Now()
	m.bucket.Grant(now, bucket.Grant{Use: p.use, Until: agree.ProvedUntil(start, m.cfg.TTL), Wants: p.row.Wants, Fresh: p.fresh})
	if m.target, m.share, m.wish = p.target, p.row.Share, p.row.Wants; p.fresh {
		m.renewed = now
	}
	if matters(p.target-p.row.Share, p.target) && now.Sub(m.rang) >= m.cfg.TTL/3 {
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
	if err != nil && (m.seen.Fault == nil || now.Before(agree.DeadFrom(m.seen.Since, maxTTL))) {
		return err
	}
	m.sight.see(now, m.seen.Doc)
	return nil
}

// plan decides what to write, and whether that is needed. It lowers the share in force before that is written.
func (m *member) plan(now time.Time) plan {
	d := m.sight.alive(now, m.seen.Doc, m.id)
	old, there := d.Members[m.id]
	removes := len(d.Members) < len(m.seen.Doc.Members)
	fresh := !there || now.Sub(m.renewed) >= m.cfg.TTL/3
	has := m.bucket.Weigh(now, bucket.Known{Share: old.Share, Wants: old.Wants, Fresh: fresh, Hungry: m.seen.Doc.hungryBut(m.id)})
	m.beat++
	d.Members[m.id] = row{Limit: has.Limit, Wants: has.Wants, Beat: m.beat, TTL: m.cfg.TTL.Milliseconds()}
	if fresh && d.scarce() && now.Sub(m.sight.turned) >= m.cfg.TTL {
		d.Turn = (d.Turn + 1) % maxUnits // no member stays without a share
	}
	p := divide(d, m.id, has.Use, fresh)
	p.hold(m.id, m.bucket.Lower(now, p.use), old.Share)
	p.must = removes || fresh || p.use > has.Use || p.row.Share != old.Share || p.row.Wants != old.Wants || p.row.Limit != old.Limit
	return p
}

// note notes the first failure, and the first success after it. When calls have failed for a while, and one more that
// began after the end of the share, the store is away: the process goes on with its safe share.
func (m *member) note(ctx context.Context, began time.Time, err error) {
	if err == nil || storage.LostRace(err) {
		m.trouble.Note(ctx, "keep a share", nil)
		m.outage = outage{}
		return
	}
	m.trouble.Note(ctx, "keep a share", err)
	m.outage.fail(began, m.cfg.TTL)
	switch {
	case errors.Is(err, storage.ErrTooLarge): // the store is there, and all of the number is in use by others
		m.bucket.Stop()
	case !m.cfg.Strict && m.outage.lasts(m.cfg.TTL) && !m.seen.Since.IsZero() && m.seen.Fault == nil:
		members := int64(len(m.seen.Doc.Members))
		if _, there := m.seen.Doc.Members[m.id]; !there {
			members++
		}
		m.bucket.GoOn(began, m.seen.Doc.limit(), members)
	}
}

// pause is the time until the next step.
func (m *member) pause(err error) time.Duration {
	ttl := m.cfg.TTL
	if m.races++; !storage.LostRace(err) {
		m.races = 0
	}
	switch {
	case m.races > 0:
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
		for id, r := range m.seen.Doc.Members {
			if id != m.id {
				d = min(d, time.Until(m.sight.dies(id, r)))
			}
		}
	}
	return max(d, 0)
}

// ring lets the others look. Where that fails, they look with their next renewal.
func (m *member) ring(ctx context.Context) { _ = agree.Ring(ctx, m.store, topic, []byte(m.key)) }
