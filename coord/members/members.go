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
	"sync"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	table   = "members"
	silence = 3           // a row that stays the same for so many beats is a dead member's
	soon    = time.Second // from a change to the next read
	view    = 100         // the most higher rows that are read, beyond the active ones
)

// A Member belongs to a group until it leaves. Its methods may be called concurrently.
type Member struct {
	cfg   Config
	group string
	key   string // of its row; a lower key ranks higher
	rows  *storage.Table
	stop  context.CancelFunc
	ended chan struct{} // closed after the last write

	// These fields belong to the goroutine that beats and looks.
	beats            int64
	above            int                 // live members that rank higher
	others           agree.Presence[row] // the members that rank higher
	pause            time.Duration       // until the next look
	readFailingSince time.Time           // when the first of the failing looks began; zero after a success
	trouble          *agree.Trouble

	mu      sync.Mutex
	active  bool
	changed chan struct{} // closed when active changes
}

// A row is a member as stored, in JSON.
type row struct {
	Name  string `json:"name"`
	Beat  int64  `json:"beat"`  // milliseconds
	Beats int64  `json:"beats"` // since it joined
}

// decode reads a row. This version doesn't know a row as a member's that has another beat.
func decode(_ string, data []byte) (r row, dead time.Duration, ok bool) {
	ok = json.Unmarshal(data, &r) == nil && r.Beat >= minBeat.Milliseconds() && r.Beat <= maxBeat.Milliseconds()
	return r, silence * time.Duration(r.Beat) * time.Millisecond, ok
}

// Join makes the process a member of a group until it leaves. It doesn't wait for the store. The member isn't
// active before it has read the others' rows. An error is about the group's name (see storage.CheckKey) or cfg.
func Join(store *storage.Store, group string, cfg Config) (*Member, error) {
	cfg, err := cfg.withDefaults(store, group)
	if err != nil {
		return nil, fmt.Errorf("members: join %s: %w", storage.Quote(group), err)
	}
	id := rand.Text()
	rank := sha256.Sum256([]byte(group + "\x00" + id))
	m := &Member{
		cfg: cfg, group: group, key: hex.EncodeToString(rank[:8]) + "-" + id, rows: store.Table(table),
		ended: make(chan struct{}), changed: make(chan struct{}),
		trouble: agree.NewTrouble(cfg.Logger.With(slog.String("group", group))),
	}
	m.others = agree.Presence[row]{Rows: m.rows, Partition: group, Decode: decode}
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

// Leave lets others take over at their next look. After an error, they take over as after a death. Active stays as
// it is. Leave ignores the end of ctx, because ctx has often ended already. It takes at most two beats.
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

// limit bounds a call, so that a hanging one doesn't make this member look dead.
func (m *Member) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return storecall.Limit(ctx, m.cfg.Beat)
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
			look.Reset(storecall.Early(m.pause))
		}
	}
}

// beat writes the row. A live row promises to take over, so an unfit member, or one that can't read, doesn't beat.
func (m *Member) beat(ctx context.Context) {
	// The end of ctx doesn't cancel this call, so that Leave's deletion comes after it.
	call, cancel := m.limit(context.WithoutCancel(ctx))
	defer cancel()
	if !m.cfg.Fit() {
		_ = m.rows.Delete(call, m.group, m.key, storage.Condition{}) // if it fails, the others soon take the member for dead
		return
	}
	if !m.readFailingSince.IsZero() && time.Since(m.readFailingSince) >= silence*m.cfg.Beat {
		return
	}
	m.beats++
	data, err := json.Marshal(row{Name: m.cfg.Name, Beat: m.cfg.Beat.Milliseconds(), Beats: m.beats})
	if err == nil {
		_, err = m.rows.Put(call, m.group, m.key, data, storage.Condition{})
	}
	m.trouble.Note(ctx, "write the member's own row", err)
}

// look reads how many members rank higher, and so whether this member is active.
func (m *Member) look(ctx context.Context) {
	began := time.Now()
	above, err := m.read(ctx)
	m.trouble.Note(ctx, "read the rows of the other members", err)
	if err != nil {
		if m.readFailingSince.IsZero() {
			m.readFailingSince = began
		}
		m.pause = m.cfg.Beat
		return
	}
	m.readFailingSince = time.Time{}
	m.note(above < m.cfg.Active)
	// The member next in rank looks often. A member looks more seldom the more rank between it and the active ones.
	rank := time.Duration(max(1, above-m.cfg.Active+1))
	if above != m.above || m.pause == 0 {
		m.pause = rank * soon
	} else {
		m.pause = min(2*m.pause, rank*m.cfg.Beat)
	}
	m.above = above
	if rank == 1 {
		for _, s := range m.others.Seen {
			m.pause = min(m.pause, max(soon, time.Until(s.Dies)))
		}
	}
}

// read counts the live members that rank higher, and deletes the rows of the dead.
func (m *Member) read(ctx context.Context) (above int, err error) {
	ctx, cancel := m.limit(ctx)
	defer cancel()
	if err := m.others.Look(ctx, storage.RowRange{To: m.key, Limit: m.cfg.Active + view}); err != nil {
		return 0, err
	}
	for key, s := range m.others.Seen {
		if s.Alive {
			above++
		} else {
			m.others.Bury(ctx, key)
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
