package members

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	table   = "members"
	silence = 3           // beats after which a member counts as dead
	soon    = time.Second // from a change to the next look
	view    = 100         // rows above those that are active
)

// A Member is one of a group until it leaves. Its methods may be called concurrently.
type Member struct {
	cfg   Config
	group string
	key   string // of its row; lower ones rank higher
	rows  *storage.Table
	stop  context.CancelFunc
	ended chan struct{} // closed when nothing is written any more

	// Of the goroutine that beats and looks.
	beats int64
	above int                 // who rank higher and are alive
	seen  map[string]sighting // those who rank higher, by key, and dead ones whose rows are still there
	pause time.Duration       // to the next look
	deaf  time.Time           // since when looks fail
	dumb  bool                // the last beat failed

	mu      sync.Mutex
	active  bool
	changed chan struct{} // closed when active changes
}

// A sighting is a state of a member's row, and when it was first seen.
type sighting struct {
	etag  storage.ETag
	since time.Time
	row   row
}

// A row is what is stored of a member, as JSON.
type row struct {
	Name  string `json:"name"`
	Beat  int64  `json:"beat"`  // milliseconds
	Beats int64  `json:"beats"` // since it joined
}

// dies is when the member counts as dead, unless its row changes.
func (s sighting) dies() time.Time {
	return s.since.Add(silence * time.Duration(s.row.Beat) * time.Millisecond)
}

// Join makes the process a member of a group until it leaves. It doesn't wait for the store, and the member isn't active
// before it has seen the others. An error is about the group's name (see storage.CheckKey) or cfg.
func Join(store *storage.Store, group string, cfg Config) (*Member, error) {
	cfg, err := cfg.withDefaults(group)
	if err != nil {
		return nil, fmt.Errorf("members: join %s: %w", storage.Quote(group), err)
	}
	id := rand.Text()
	rank := sha256.Sum256([]byte(group + "\x00" + id))
	m := &Member{
		cfg: cfg, group: group, key: hex.EncodeToString(rank[:8]) + "-" + id, rows: store.Table(table),
		ended: make(chan struct{}), changed: make(chan struct{}),
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go m.stay(ctx)
	return m, nil
}

// Active reports whether this member is active, and returns a channel that is closed when that changes.
func (m *Member) Active() (active bool, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.active, m.changed
}

// Leave lets others take over at their next look. After an error they do as if this member had died. Active stays as it
// is. Since ctx has often ended already, its end is ignored; Leave takes two beats at most.
func (m *Member) Leave(ctx context.Context) error {
	m.stop()
	<-m.ended
	ctx, cancel := m.limit(context.WithoutCancel(ctx))
	defer cancel()
	if err := m.rows.Delete(ctx, m.group, m.key, storage.Condition{}); err != nil && !errors.Is(err, storage.ErrNotFound) {
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
	look := time.NewTimer(0)
	defer look.Stop()
	m.beat(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			m.beat(ctx)
		case <-look.C:
			m.look(ctx)
			look.Reset(m.pause*4/5 + mathrand.N(m.pause/5))
		}
	}
}

// beat says that the member is alive, which is a promise to take over: only who can look and is fit may give it.
func (m *Member) beat(ctx context.Context) {
	// Not cut off, so that Leave comes after it.
	call, cancel := m.limit(context.WithoutCancel(ctx))
	defer cancel()
	if !m.cfg.Fit() {
		_ = m.rows.Delete(call, m.group, m.key, storage.Condition{}) // else the others miss it soon
		return
	}
	if !m.deaf.IsZero() && time.Since(m.deaf) >= silence*m.cfg.Beat {
		return
	}
	m.beats++
	data, err := json.Marshal(row{Name: m.cfg.Name, Beat: m.cfg.Beat.Milliseconds(), Beats: m.beats})
	if err == nil {
		_, err = m.rows.Put(call, m.group, m.key, data, storage.Condition{})
	}
	m.tell(ctx, "tell the other members", m.dumb, err)
	m.dumb = err != nil
}

// look finds out how many rank higher, and so whether this member is active.
func (m *Member) look(ctx context.Context) {
	began := time.Now()
	above, err := m.read(ctx)
	m.tell(ctx, "hear of the other members", !m.deaf.IsZero(), err)
	if err != nil {
		if m.deaf.IsZero() {
			m.deaf = began
		}
		m.pause = m.cfg.Beat
		return
	}
	m.deaf = time.Time{}
	m.note(above < m.cfg.Active)
	// The next one in the row looks often, others the more seldom the more are before them.
	rank := time.Duration(max(1, above-m.cfg.Active+1))
	if above != m.above || m.pause == 0 {
		m.pause = rank * soon
	} else {
		m.pause = min(2*m.pause, rank*m.cfg.Beat)
	}
	m.above = above
	if rank == 1 {
		for _, s := range m.seen {
			m.pause = min(m.pause, max(soon, time.Until(s.dies())))
		}
	}
}

// read counts those alive who rank higher, and deletes the rows of the dead.
func (m *Member) read(ctx context.Context) (above int, err error) {
	ctx, cancel := m.limit(ctx)
	defer cancel()
	began := time.Now()
	seen := map[string]sighting{}
	for r, err := range m.rows.Query(ctx, m.group, storage.RowRange{To: m.key, Limit: m.cfg.Active + view}) {
		if err != nil {
			return 0, err
		}
		s := m.seen[r.Key]
		if s.etag != r.ETag {
			s = sighting{etag: r.ETag, since: time.Now()} // after the call: not before it was written
			if json.Unmarshal(r.Data, &s.row) != nil || s.row.Beat < minBeat.Milliseconds() || s.row.Beat > maxBeat.Milliseconds() {
				continue // no member, as far as this version can tell
			}
		}
		if s.dies().After(began) {
			above++
		}
		seen[r.Key] = s
	}
	m.seen = seen
	for key, s := range seen {
		if !s.dies().After(began) {
			// Others do so too, and one succeeds. Who was only slow comes back with its next beat.
			_ = m.rows.Delete(ctx, m.group, key, storage.Condition{IfMatch: s.etag})
		}
	}
	return above, nil
}

func (m *Member) note(active bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if active == m.active {
		return
	}
	m.active = active
	close(m.changed)
	m.changed = make(chan struct{})
}

// tell logs the beginning and the end of trouble.
func (m *Member) tell(ctx context.Context, what string, before bool, err error) {
	switch {
	case ctx.Err() != nil: // it leaves
	case err != nil && !before:
		m.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't "+what+"; will go on trying", slog.String("group", m.group), slog.Any("error", err))
	case err == nil && before:
		m.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "can "+what+" again", slog.String("group", m.group))
	}
}
