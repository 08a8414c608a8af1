package valet

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet/internal/key"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// A book has what is known of files and keys, and the log of what was done with them.
type book struct {
	channels *channel.Channels
	files    *values.Collection[File]
	revoked  *values.Collection[revocation]
	log      *audit.Log
	audited  bool // whoever orders notes that
	noted    seldomNoted
}

func newBook(c *channel.Channels, audited bool) *book {
	return &book{
		channels: c, log: Log(c.Store()), audited: audited,
		files:   values.NewKept(wire.Inside{}, c, grants, values.Config[File]{}),
		revoked: values.NewKept(wire.Inside{}, c, revocations, values.Config[revocation]{}),
	}
}

// file returns what is known of a file.
func (b *book) file(ctx context.Context, id string) (File, error) {
	if err := storage.CheckKey(id); err != nil {
		return File{}, err
	}
	s, err := b.files.Get(ctx, id, "")
	if err == nil && s.Value.State == "" {
		err = fmt.Errorf("valet: file %s: %w", storage.Quote(id), storage.ErrNotFound)
	}
	return s.Value, err
}

// list yields files; see [Valet.List].
func (b *book) list(ctx context.Context, prefix, after string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for id, err := range b.files.Keys(ctx, prefix, after) {
			if err != nil {
				yield(File{}, err)
				return
			}
			f, err := b.file(ctx, id)
			if errors.Is(err, storage.ErrNotFound) {
				continue // just now
			}
			if f.ID = id; !yield(f, err) {
				return
			}
		}
	}
}

// ended says why the keys count no more that an owner or a folder's key has had from some time, or "".
func (b *book) ended(ctx context.Context, whose string, made time.Time) (string, error) {
	s, err := b.revoked.Get(ctx, whose, "")
	if err != nil || made.After(s.Value.Before) {
		return "", err
	}
	return "all keys of the owner were revoked", nil
}

// order sends a command, once a row of the log says so.
func (b *book) order(ctx context.Context, act, on, why string, m channel.Message, err error) error {
	if err == nil {
		err = b.orderNote(ctx, act, on, why)
	}
	if err == nil {
		err = b.channels.Send(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("valet: %s: %w", act, err)
	}
	return nil
}

// orderNote writes a row of what the program orders.
func (b *book) orderNote(ctx context.Context, act, on, why string) error {
	if b.audited {
		return nil
	}
	return b.note(ctx, entry{act: act, on: on, who: program, why: why, result: "asked"})
}

// An entry is a row of the log. None of its texts has a key.
type entry struct {
	act, on, who, why, result string
	from                      string // a client's address; "": the program acts
	refused                   bool
}

// note writes a row.
func (b *book) note(ctx context.Context, e entry) error {
	return b.log.Note(ctx, e.audited())
}

func (e entry) audited() audit.Entry {
	return audit.Entry{ID: audit.NewID(), Who: e.who, From: e.from, Act: "files " + e.act, On: e.on, Why: e.why, Result: e.result, Failed: e.refused}
}

// row is the row for a unit of work.
func (b *book) row(e entry) (wire.Row, error) {
	name, partition, key, data, err := b.log.Row(e.audited())
	return wire.Row{Table: name, Partition: partition, Key: key, Data: data}, err
}

// Log is the log of what was done with the keys of a store. The acts of operators are in [audit.Of].
func Log(s *storage.Store) *audit.Log { return audit.In(s, logName) }

// A seldomNoted remembers what was noted lately, so that a client that asks again and again doesn't fill the log.
type seldomNoted struct {
	mu   sync.Mutex
	last map[string]time.Time
}

const (
	noteEvery = time.Minute
	mostNoted = 10_000
)

// first reports whether something has to be noted.
func (r *seldomNoted) first(what string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.last[what]; ok && now.Sub(at) < noteEvery {
		return false
	}
	if r.last == nil || len(r.last) >= mostNoted {
		r.last = map[string]time.Time{}
	}
	r.last[what] = now
	return true
}

// again lets the next one be noted: this one wasn't.
func (r *seldomNoted) again(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, what)
}

// The keys of revocations.
func ownerKey(digest [8]byte) string { return hex.EncodeToString(digest[:]) }
func folderKey(id string) string     { return ownerKey(key.DigestOf("\x00" + id)) }
