package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const maxVersions = 1000 // that are followed to find what to go back to

// Back puts an earlier version into force again, under a new number, and drops a change that is being checked or rolled
// out. It asks no node, because that version was in force before. A node that can't run it now keeps what it has, and
// says so in its row. A version that isn't there is storage.ErrNotFound. One that is not known to have been in force is
// [ErrNever]; set its values again instead. Of the versions before the last 50 changes only those on the line of what
// is in force are known.
//
// A negative version undoes the last change: one that is being checked or rolled out is dropped, and what was in force
// stays. Otherwise the version before that in force is. If the values of the version are in force already, Back only
// drops what is checked or rolled out, and the ending is that of the dropped version. Back also replaces a current
// document that is lost or damaged; the version must be named then.
func (l *Ledger) Back(ctx context.Context, version int64, note Note) (Ending, error) {
	r := retreat{edit{book: l.book, note: note}}
	var err error
	if r.edit.note, err = note.withDefaults(); err == nil {
		err = repeat(ctx, func(ctx context.Context) error { return r.back(ctx, version) })
	}
	if err != nil {
		return Ending{}, l.book.fail("go back in", err)
	}
	e, _ := r.edit.seen.doc.of(r.edit.number)
	return e, nil
}

// A retreat puts an earlier version into force again.
type retreat struct{ edit edit }

func (r *retreat) back(ctx context.Context, version int64) error {
	err := r.edit.book.readKnown(ctx, &r.edit.seen)
	if errors.Is(err, storage.ErrInvalid) && version >= 0 {
		return r.replace(ctx, version)
	}
	d := r.edit.seen.doc
	if err != nil {
		return err
	}
	if r.edit.made(ctx) {
		return nil
	}
	if r.edit.seen.etag == "" {
		return fmt.Errorf("%w: nobody has ever set anything", storage.ErrNotFound)
	}
	if d.Candidate != nil && version < 0 {
		return r.edit.drop(ctx)
	}
	r.edit.dropped = 0
	if version < 0 {
		if version, err = r.before(ctx, d.Stable); err != nil {
			return err
		}
	}
	known, err := r.wasInForce(ctx, d, version)
	if err == nil && !known {
		if _, err = r.edit.book.readVersion(ctx, version); err == nil || errors.Is(err, storage.ErrInvalid) {
			err = fmt.Errorf("version %d: %w", version, ErrNever)
		}
	}
	if err != nil {
		return err
	}
	return r.putBack(ctx, version)
}

// putBack makes an earlier version the one in force.
func (r *retreat) putBack(ctx context.Context, version int64) error {
	d := r.edit.seen.doc
	old, err := r.edit.book.readVersion(ctx, version)
	if err != nil {
		return err
	}
	t, err := parseTree(old.Values)
	if err != nil {
		return err
	}
	v, err := r.edit.record(ctx, t, &version)
	if errors.Is(err, ErrUnchanged) && d.Candidate != nil {
		return r.edit.drop(ctx)
	}
	if err != nil {
		return err
	}
	return r.edit.write(ctx, d.goBack(v, time.Now()))
}

// before returns the version that was in force before another one, and before those that only went back to it.
func (r *retreat) before(ctx context.Context, version int64) (int64, error) {
	for range maxVersions {
		v, err := r.edit.book.readVersion(ctx, version)
		switch {
		case errors.Is(err, storage.ErrInvalid), errors.Is(err, storage.ErrNotFound):
			return 0, fmt.Errorf("%w; so nobody knows what was in force before: name a version by --to VERSION", err)
		case err != nil:
			return 0, err
		case version == 0:
			return 0, fmt.Errorf("%w: the programs' defaults are in force, and nothing was before", storage.ErrNotFound)
		case v.BackTo == nil:
			return v.Base, nil
		}
		version = *v.BackTo
	}
	return 0, fmt.Errorf("%w: the versions go round in a circle; name one", storage.ErrInvalid)
}

// wasInForce reports that a version came into force: the document says so, or it is one of those on which the version
// in force was built.
func (r *retreat) wasInForce(ctx context.Context, d document, version int64) (bool, error) {
	if e, ok := d.of(version); ok || version == 0 {
		return version == 0 || e.came(), nil
	}
	for at, n := d.Stable, 0; at >= version && n < maxVersions; n++ {
		if at == version {
			return true, nil
		}
		v, err := r.edit.book.readVersion(ctx, at)
		if err != nil {
			return false, err
		}
		at = v.Base
	}
	return false, nil
}

// replace writes the current document again, past all epochs that versions and nodes know of.
func (r *retreat) replace(ctx context.Context, version int64) error {
	limited, cancel := storecall.Limit(ctx, callTime)
	defer cancel()
	blob, err := r.edit.book.blobs.Get(limited, r.edit.book.current(), "")
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	last, epoch, err := r.newest(ctx)
	if err != nil {
		return err
	}
	d := document{Epoch: epoch, Last: last, Values: json.RawMessage(" {}")} // as if nothing were set, and unlike all that is written
	w := newWatch(r.edit.book)
	all, err := w.look(ctx)
	if err != nil {
		return err
	}
	for _, n := range all.live() {
		d.Epoch, d.Last = max(d.Epoch, n.Epoch), max(d.Last, n.Version)
	}
	d.Epoch += mostEpochs
	r.edit.seen = sighting{doc: d, etag: blob.ETag}
	if err := r.putBack(ctx, version); err != nil {
		r.edit.seen = sighting{} // another try reads the document whole: this process must not take d for it
		return err
	}
	return nil
}

// mostEpochs is more than a version is followed by: a roll-out through the longest stages, with a write each second.
const mostEpochs = 1 << 23

// newest returns the highest number of a version, by the listing, and the epoch at which that was proposed, or a later
// one. Versions that can't be read are passed over.
func (r *retreat) newest(ctx context.Context) (last, epoch int64, err error) {
	if last, err = r.edit.book.lastVersion(ctx); err != nil {
		return 0, 0, err
	}
	for n := last; n > max(0, last-maxVersions); n-- {
		v, err := r.edit.book.readVersion(ctx, n)
		switch {
		case err == nil:
			return last, v.Epoch + epoch, nil
		case !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, storage.ErrNotFound):
			return 0, 0, err
		}
		epoch += mostEpochs
	}
	return last, epoch, nil
}
