package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/storage"
)

// ledger is the record in the store. But for store, rung and bad, its fields belong to whoever may make a request.
type ledger struct {
	name  string
	log   func() *slog.Logger
	store atomic.Pointer[storage.Store] // nil: not known, or left
	rung  atomic.Bool                   // the record has changed just now
	bad   atomic.Bool                   // the blob can't be read; doc is what replaces it

	seen    agree.Sighting[record] // of the blob
	doc     record                 // what the blob says, or what replaces a blob that can't be read
	looked  time.Time              // at the record, last
	changed time.Time              // when it changed last; zero: that isn't known
	wrote   time.Time              // when the last write that was answered with success began
	moved   time.Time              // when it was seen first with its prober and its tries
	failing time.Time              // since when the store fails; zero: it doesn't
	pause   time.Time              // until when doc asks all to wait; zero: it doesn't, or its age isn't known
}

var errLeft = errors.New("the last worker has left")

// document is the blob in a store.
func (l *ledger) document(store *storage.Store) agree.Document[record] {
	return agree.Document[record]{
		Blobs: store.Blobs(guards), Key: l.name, Limit: callTime, Decode: decodeRecord, Encode: func(r record) ([]byte, error) { return json.Marshal(r) },
	}
}

// look brings the record up to date.
func (l *ledger) look(ctx context.Context) error {
	store := l.store.Load()
	if store == nil {
		return errLeft
	}
	before := l.seen
	err := l.document(store).Read(ctx, &l.seen)
	now := time.Now()
	rung := l.rung.Swap(false)
	fresh := rung || now.Sub(l.looked) < caseAge // else nobody knows how old a change is
	if err != nil && !errors.Is(err, errRecord) {
		if rung { // the next look is to know it, too
			l.rung.Store(true)
		}
		return err
	}
	l.looked = now
	if l.seen.ETag == before.ETag {
		if rung && l.changed.IsZero() { // a look came between the change and its ring
			l.dated(now)
		}
		return nil
	}
	old := l.doc
	if l.doc = l.seen.Doc; err != nil {
		l.log().LogAttrs(ctx, slog.LevelError, err.Error(), slog.String("guard", l.name))
		l.doc = old.instead(l.pause.Sub(now), now)
	}
	l.bad.Store(err != nil)
	if l.doc.Prober != old.Prober || l.doc.Tries != old.Tries {
		l.moved = now
	}
	l.changed, l.pause = time.Time{}, time.Time{}
	if fresh {
		l.dated(now)
	}
	return nil
}

// dated notes that the record has changed just now.
func (l *ledger) dated(now time.Time) {
	l.changed = now
	if l.doc.Pause > 0 {
		l.pause = now.Add(time.Duration(l.doc.Pause) * time.Millisecond)
	}
}

// waits reports that the record asks all to wait for about as long as the service asks this process.
func (l *ledger) waits(k facts, now time.Time) bool {
	if l.doc.Pause > 0 && k.pause < pauseStep { // it is over, or nearly
		return true
	}
	if l.pause.IsZero() { // of a record whose age isn't known, the whole may be left
		return l.doc.Pause >= k.milliseconds()
	}
	return l.pause.After(now) && k.asked.Sub(l.pause) < pauseStep
}

// stuck reports that the probe of a process other than id has gone on for longer than it should. It may beat for ever
// without an end.
func (l *ledger) stuck(id string, most time.Duration) bool {
	return l.doc.Prober != "" && l.doc.Prober != id && time.Since(l.moved) >= most
}

// write replaces the record that was seen last, or one that can't be read.
func (l *ledger) write(ctx context.Context, r record) error {
	store := l.store.Load()
	if store == nil {
		return errLeft
	}
	r.Epoch = l.doc.Epoch%mostEpoch + 1
	start := time.Now()
	err := l.document(store).Write(ctx, &l.seen, r)
	if err == nil {
		now := time.Now()
		if r.Prober != l.doc.Prober || r.Tries != l.doc.Tries {
			l.moved = now
		}
		l.doc, l.changed, l.pause = r, now, time.Time{}
		l.bad.Store(false)
		l.wrote = start
	}
	return err
}

// ring lets the others look.
func (l *ledger) ring(ctx context.Context) {
	store := l.store.Load()
	if store == nil || !store.Rings() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _ = store.Publish(ctx, guards, []byte(l.name), false)
}

// note logs the first failure, and the first success after it.
func (l *ledger) note(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil, errors.Is(err, errLeft), (err != nil) == !l.failing.IsZero():
		return
	case err != nil:
		l.failing = time.Now()
		l.log().LogAttrs(ctx, slog.LevelWarn, "can't agree with other processes on a breaker; it goes on by itself", slog.String("guard", l.name), slog.Any("error", err))
	default:
		l.failing = time.Time{}
		l.log().LogAttrs(ctx, slog.LevelInfo, "can agree with other processes on a breaker again", slog.String("guard", l.name))
	}
}
