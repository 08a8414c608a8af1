package keylock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	minTTL = 3 * time.Second
	maxTTL = time.Minute

	mostDoubts = 4 // IDs of writes without an answer that a process remembers of a key
)

// These errors tell why a turn can't be had, or is over.
var (
	ErrHeld = errors.New("another process has the turn, or may have it")
	ErrLost = errors.New("the turn is lost")
)

// Config is how turns are held. The zero Config works.
type Config struct {
	// TTL is how long a turn lasts without a renewal, 3 seconds to 1 minute. Others get the turn of a dead process 7/6 of
	// that time after they have seen its last sign. All processes may have different ones. Defaults to 30 seconds.
	TTL time.Duration

	// Holder tells an operator who has a turn, in at most 256 bytes. Defaults to host and process ID.
	Holder string

	// Now is the present by which rows are old enough to be deleted. Defaults to time.Now.
	Now func() time.Time
}

// Turns are the turns of a group, one for each key. Its methods may be called concurrently.
type Turns struct {
	store *storage.Store
	table *storage.Table
	group string
	cfg   Config
	seen  *memory
	sweep sweeper
}

// New returns the turns of a group; see storage.CheckKey for names.
func New(store *storage.Store, group string, cfg Config) (*Turns, error) {
	faults := []error{storecall.CheckStore(store), storage.CheckKey(group), storecall.CheckText("Holder", cfg.Holder, maxText), checkTTL(cfg.TTL)}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("keylock: %w", err)
	}
	if cfg.TTL == 0 {
		cfg.TTL = maxTTL / 2
	}
	if cfg.Holder == "" {
		cfg.Holder = storecall.ProcessName()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Turns{store: store, table: store.Table(tableName), group: group, cfg: cfg, seen: newMemory(sights), sweep: newSweeper()}, nil
}

// checkTTL refuses what Config.TTL can't be. Zero is the default.
func checkTTL(ttl time.Duration) error {
	if ttl != 0 && (ttl < minTTL || ttl > maxTTL || ttl%time.Millisecond != 0) {
		return fmt.Errorf("%w: TTL is %v; want %v to %v, in whole milliseconds", storage.ErrInvalid, ttl, minTTL, maxTTL)
	}
	return nil
}

// sight is what a process knows of a key.
type sight struct {
	agree.Sighting[document]           // Fault: the row is no turn
	asked                    time.Time // when somebody asked for the key the last time
	wait                     Wait      // of the messages of the key, for the same
	mine                     []string  // IDs of turns that this process tried to take or to end, without an answer: nothing runs under them
}

// saw returns what a process knows after it has seen a row in another state.
func (s *sight) saw(doc document, etag storage.ETag, fault error) sight {
	next := sight{Sighting: agree.Sighting[document]{Doc: doc, ETag: etag, Since: time.Now(), Fault: fault}, mine: s.mine}
	if s.Doc.State.waitsAs(doc.State) {
		next.wait = s.wait
	}
	return next
}

// doubt returns what a process knows after a write under an ID had no answer. The slice of s may be others', too.
func (s sight) doubt(id string) sight {
	s.mine = append(slices.Clone(s.mine[max(0, len(s.mine)-mostDoubts+1):]), id)
	return s
}

// takenFor is how long a turn must be left to its holder.
func (s *sight) takenFor() time.Duration {
	switch {
	case errors.Is(s.Fault, errNewer):
		return maxTTL
	case s.Fault != nil:
		return s.TakenFor(maxTTL) // as if a process held it
	case s.Doc.ID == "" || slices.Contains(s.mine, s.Doc.ID):
		return 0
	}
	return s.TakenFor(time.Duration(s.Doc.TTL) * time.Millisecond)
}

// Take takes the turn of a key, unless another process may have it: [ErrHeld]. begin may be nil. Otherwise it is called
// with the state, and with what this process has seen of the key while it waits for the same, before anything is
// written; it may be called twice. Its error ends Take. A state that it changes is written with the turn.
//
// After another error the turn isn't held. ctx bounds Take alone: the turn lasts until End, or until it is lost.
func (ts *Turns) Take(ctx context.Context, key string, begin func(s *State, w *Wait) error) (*Turn, error) {
	s, known := ts.seen.get(key)
	read := !known || s.Fault != nil || s.takenFor() > 0
	for tries := 1; ; tries++ {
		before := s.wait
		// Each try has an ID of its own: one that had no answer must not name the turn that a later try gets.
		t, err := ts.try(ctx, key, rand.Text(), &s, read, begin)
		switch {
		case err == nil:
			return t, nil
		case storage.LostRace(err):
			err = ErrHeld // others are quicker, if they are so again
		case !read && errors.As(err, new(refusal)):
			s.wait = before
			read, tries = true, tries-1 // what this process remembers may be outdated, and a turn that is held counts nothing
			continue
		case !isTrouble(err) || errors.Is(err, ErrHeld) || errors.As(err, new(refusal)):
			return nil, ts.fail("take", key, err)
		}
		if read = true; tries == 3 || ctx.Err() != nil || storecall.Sleep(ctx, time.Duration(tries)*20*time.Millisecond) != nil {
			return nil, ts.fail("take", key, err)
		}
	}
}

// refusal is an error of begin.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func (ts *Turns) fail(op, key string, err error) error {
	if r := (refusal{}); errors.As(err, &r) {
		return r.error
	}
	return fmt.Errorf("keylock: %s %s of group %s: %w", op, storage.Quote(key), storage.Quote(ts.group), err)
}

// try reads the row where that is needed, and writes it if the turn may be taken.
func (ts *Turns) try(ctx context.Context, key, id string, s *sight, read bool, begin func(*State, *Wait) error) (*Turn, error) {
	if read {
		if err := ts.look(ctx, key, s); err != nil {
			return nil, err
		}
	}
	if s.takenFor() > 0 {
		if s.Fault != nil {
			return nil, errors.Join(ErrHeld, s.Fault)
		}
		return nil, fmt.Errorf("%w: %s", ErrHeld, storage.Quote(s.Doc.Holder))
	}
	next := document{ID: id, Holder: ts.cfg.Holder, Fence: agree.NextFence(ts.store, s.Doc.Fence), TTL: ts.cfg.TTL.Milliseconds(), State: s.Doc.State}
	if s.ETag == "" || s.Fault != nil {
		next.Fence = agree.NextFence(ts.store, max(0, time.Now().UnixMilli()-1))
	}
	if begin != nil {
		if err := begin(&next.State, &s.wait); err != nil {
			if read {
				ts.seen.put(key, *s)
			}
			return nil, refusal{err}
		}
	}
	start := time.Now()
	etag, err := ts.put(ctx, key, next, s.ETag)
	switch {
	case storage.LostRace(err):
		return nil, err
	case err != nil:
		*s = s.doubt(id)
		ts.seen.put(key, *s)
		return nil, err
	}
	t := hold(ts, key, next, etag, start)
	if t == nil { // the answer came so late that others may have taken over
		now := s.saw(next, etag, nil)
		ts.seen.put(key, now.doubt(id))
		return nil, ErrHeld
	}
	return t, nil
}

// State reads what the key's next turn begins with; nothing, if the key has no row or none that can be read.
func (ts *Turns) State(ctx context.Context, key string) (State, error) {
	d, _, err := ts.get(ctx, key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return State{}, ts.fail("read", key, err)
	}
	return d.State, nil
}

// look reads the row of a key, and keeps since when the process has seen it like that.
func (ts *Turns) look(ctx context.Context, key string, s *sight) error {
	doc, etag, err := ts.get(ctx, key)
	absent := errors.Is(err, storage.ErrNotFound)
	broken := errors.Is(err, errUnreadable) || errors.Is(err, errNewer)
	if err != nil && !absent && !broken {
		return err
	}
	if etag != s.ETag || s.Since.IsZero() {
		if !broken {
			err = nil
		}
		*s = s.saw(doc, etag, err)
	}
	ts.seen.put(key, *s)
	return nil
}
