package members

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	table   = "members"
	silence = 3                // beats after which a member counts as dead
	soon    = time.Second      // from a change to the next look
	perRow  = time.Millisecond // all members of a group together read a row as seldom as this
)

// A Member is one of a group until it leaves. Its methods may be called concurrently.
type Member struct {
	cfg   Config
	group string
	rows  storage.Table
	stop  context.CancelFunc
	ended chan struct{} // closed when nothing is written any more

	// Of the goroutine that beats and looks.
	beats   int64
	seen    map[string]sighting // the others, by name; also dead ones whose rows are still there
	pause   time.Duration       // to the next look
	trouble bool

	mu      sync.Mutex
	live    int
	active  bool
	changed chan struct{} // closed when one of these has changed
}

// A sighting is a state of a member's row, and when it was first seen.
type sighting struct {
	etag  storage.ETag
	since time.Time
	row   row
}

// A row is what is stored of a member, as JSON.
type row struct {
	Active int   `json:"active"`
	Beat   int64 `json:"beat"`  // milliseconds
	Beats  int64 `json:"beats"` // since it joined
}

func (s sighting) dead(now time.Time) bool {
	return now.Sub(s.since) >= silence*time.Duration(s.row.Beat)*time.Millisecond
}

// Join makes the process a member of a group, and returns when it is one and has seen the others. It is until it leaves,
// whatever becomes of ctx. An error is about the group's name, cfg, or a store that can't be written or read.
func Join(ctx context.Context, store storage.Store, group string, cfg Config) (*Member, error) {
	cfg, err := cfg.withDefaults(group)
	m := &Member{
		cfg: cfg, group: group, rows: store.Table(table), ended: make(chan struct{}),
		seen: map[string]sighting{}, changed: make(chan struct{}),
	}
	if err == nil {
		err = m.beat(ctx)
	}
	if err == nil {
		err = m.look(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("members: join %s: %w", storage.Quote(group), err)
	}
	ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	go m.stay(ctx)
	return m, nil
}

// Active reports whether this member is active, and returns a channel that is closed when that may have changed.
func (m *Member) Active() (active bool, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.active, m.changed
}

// Live is how many members the group has, as far as this one knows, which is one of them.
func (m *Member) Live() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live
}

// Leave lets others take over at their next look. After an error they do as if this member had died. Active stays as it
// is. Since ctx has often ended already, its end is ignored; Leave takes two beats at most. It is to be called once.
func (m *Member) Leave(ctx context.Context) error {
	m.stop()
	<-m.ended
	ctx, cancel := m.limit(context.WithoutCancel(ctx))
	defer cancel()
	if err := m.rows.Delete(ctx, m.group, m.cfg.Name, storage.Condition{}); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("members: leave %s: %w", storage.Quote(m.group), err)
	}
	return nil
}

// limit bounds a call, so that one that hangs doesn't make this member look dead.
func (m *Member) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, m.cfg.Beat, fmt.Errorf("%w: no answer within %v", storage.ErrUnavailable, m.cfg.Beat))
}

// stay beats and looks until ctx ends.
func (m *Member) stay(ctx context.Context) {
	defer close(m.ended)
	beat := time.NewTicker(m.cfg.Beat)
	defer beat.Stop()
	look := time.NewTimer(m.pause)
	defer look.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			err = m.beat(ctx)
		case <-look.C:
			err = m.look(ctx)
			look.Reset(m.pause*4/5 + rand.N(m.pause/5))
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !m.trouble:
			m.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't reach the other members; will go on trying", slog.String("group", m.group), slog.Any("error", err))
		case err == nil && m.trouble:
			m.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "can reach the other members again", slog.String("group", m.group))
		}
		m.trouble = err != nil
	}
}

func (m *Member) beat(ctx context.Context) error {
	ctx, cancel := m.limit(ctx)
	defer cancel()
	m.beats++
	data, err := json.Marshal(row{Active: m.cfg.Active, Beat: m.cfg.Beat.Milliseconds(), Beats: m.beats})
	if err != nil {
		return err
	}
	_, err = m.rows.Put(ctx, m.group, m.cfg.Name, data, storage.Condition{})
	return err
}

// look reads all rows, and decides anew whether this member is active.
func (m *Member) look(ctx context.Context) error {
	ctx, cancel := m.limit(ctx)
	defer cancel()
	began := time.Now()
	seen := map[string]sighting{}
	live, most, above := 1, m.cfg.Active, 0
	for r, err := range m.rows.Query(ctx, m.group, storage.RowRange{}) {
		if err != nil {
			return err
		}
		if r.Key == m.cfg.Name {
			continue
		}
		s := m.seen[r.Key]
		if s.etag != r.ETag {
			s = sighting{etag: r.ETag, since: time.Now()} // after the call: not before it was written
			if json.Unmarshal(r.Data, &s.row) != nil || s.row.Beat < minBeat.Milliseconds() || s.row.Beat > maxBeat.Milliseconds() {
				continue // no member, as far as this version can tell
			}
		}
		seen[r.Key] = s
		if s.dead(began) {
			continue
		}
		live++
		most = max(most, s.row.Active)
		if m.weight(r.Key) > m.weight(m.cfg.Name) {
			above++
		}
	}
	m.seen = seen
	changed := m.note(live, above < most)
	for name, s := range seen {
		if s.dead(began) {
			// Others do so too, and one succeeds. Who was only slow comes back with its next beat.
			_ = m.rows.Delete(ctx, m.group, name, storage.Condition{IfMatch: s.etag})
		}
	}
	m.pause *= 2
	if changed {
		m.pause = 0
	}
	all := time.Duration(live*live) * perRow
	m.pause = min(max(m.pause, soon, all), max(m.cfg.Beat, all))
	return nil
}

// note keeps what a look has found, and reports whether it is news.
func (m *Member) note(live int, active bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if live == m.live && active == m.active {
		return false
	}
	m.live, m.active = live, active
	close(m.changed)
	m.changed = make(chan struct{})
	return true
}

// weight is what a member weighs in this group.
func (m *Member) weight(name string) uint64 {
	sum := sha256.Sum256([]byte(m.group + "\x00" + name))
	return binary.BigEndian.Uint64(sum[:])
}
