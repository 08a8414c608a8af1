package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	container = "settings"
	table     = "settings"
	topic     = "settings"       // is rung with a name when its settings have changed
	callTime  = 10 * time.Second // for one call of the store
)

// A book is where the settings of one name are stored.
type book struct {
	store *storage.Store
	blobs *storage.Blobs
	rows  *storage.Table
	name  string
}

func newBook(store *storage.Store, name string) (book, error) {
	if store == nil {
		return book{}, fmt.Errorf("settings: %w: there is no store", storage.ErrInvalid)
	}
	if err := storage.CheckName(name); err != nil {
		return book{}, fmt.Errorf("settings: %w", err)
	}
	return book{store: store, blobs: store.Blobs(container), rows: store.Table(table), name: name}, nil
}

func (b book) fail(op string, err error) error {
	return fmt.Errorf("settings: %s %s: %w", op, b.name, err)
}

func (b book) current() string { return b.name + "/current" }

func (b book) version(n int64) string { return fmt.Sprintf("%s/versions/%010d", b.name, n) }

// A sighting is a state of the current document. The zero sighting is one that is not there.
type sighting struct {
	doc  document
	etag storage.ETag // empty: there is no blob
}

// errLost is the error of a current document that is missing, though there are versions.
var errLost = fmt.Errorf("%w: the current document is missing, though there are versions", storage.ErrInvalid)

// read brings a sighting up to date.
func (b book) read(ctx context.Context, seen *sighting) error {
	ctx, cancel := storecall.Limit(ctx, callTime)
	defer cancel()
	blob, err := b.blobs.Get(ctx, b.current(), seen.etag)
	switch {
	case errors.Is(err, storage.ErrNotModified):
		return nil
	case errors.Is(err, storage.ErrNotFound):
		*seen = sighting{}
		return nil
	case err != nil:
		return err
	}
	d, err := parseDocument(blob.Body)
	if err != nil {
		return fmt.Errorf("blob %s in container %s: %w; go back by \"settings back --of %s\" with --to VERSION, which replaces it", storage.Quote(b.current()), container, err, b.name)
	}
	*seen = sighting{d, blob.ETag}
	return nil
}

// readKnown is read, and refuses a document that has been lost: the first version is written after it.
func (b book) readKnown(ctx context.Context, seen *sighting) error {
	if err := b.read(ctx, seen); err != nil || seen.etag != "" {
		return err
	}
	last, err := b.lastVersion(ctx)
	if err == nil && last > 0 {
		err = fmt.Errorf("%w; go back by \"settings back --of %s\" with --to VERSION, which writes it again", errLost, b.name)
	}
	return err
}

// readOrCreate is readKnown, and writes the first document, so that a version without one tells that it was lost.
func (b book) readOrCreate(ctx context.Context, seen *sighting) error {
	if err := b.readKnown(ctx, seen); err != nil || seen.etag != "" {
		return err
	}
	return b.write(ctx, seen, document{})
}

// write replaces what was seen, if it is still there.
func (b book) write(ctx context.Context, seen *sighting, d document) error {
	ctx, cancel := storecall.Limit(ctx, callTime)
	defer cancel()
	d.Epoch++
	if d.Values == nil {
		d.Values = json.RawMessage("{}")
	}
	body, err := json.Marshal(d)
	for err == nil && len(body) > maxDocument && len(d.Ended) > 1 {
		d.Ended = d.Ended[:len(d.Ended)/2] // their reasons are long; the newest stay
		body, err = json.Marshal(d)
	}
	if err == nil {
		err = d.check(len(body))
	}
	if err != nil {
		return err
	}
	etag, err := b.blobs.Put(ctx, b.current(), body, storage.Condition{IfMatch: seen.etag, IfAbsent: seen.etag == ""})
	if err != nil {
		return err
	}
	*seen = sighting{d, etag}
	return nil
}

// addVersion writes a version under the first number that is free from v.Number on.
func (b book) addVersion(ctx context.Context, v Version) (Version, error) {
	for {
		body, err := json.Marshal(v)
		if err != nil {
			return Version{}, err
		}
		limited, cancel := storecall.Limit(ctx, callTime)
		_, err = b.blobs.Put(limited, b.version(v.Number), body, storage.Condition{IfAbsent: true})
		cancel()
		if !storage.LostRace(err) {
			return v, err
		}
		v.Number++ // somebody else has this number, or this process had it and did not learn of it
	}
}

// readVersion reads a version. Version 0 is that of the programs' defaults.
func (b book) readVersion(ctx context.Context, n int64) (Version, error) {
	if n == 0 {
		return Version{Values: json.RawMessage("{}")}, nil
	}
	ctx, cancel := storecall.Limit(ctx, callTime)
	defer cancel()
	blob, err := b.blobs.Get(ctx, b.version(n), "")
	if errors.Is(err, storage.ErrNotFound) {
		return Version{}, fmt.Errorf("%w: there is no version %d", storage.ErrNotFound, n)
	}
	if err != nil {
		return Version{}, err
	}
	return parseVersion(blob.Body, n)
}

// lastVersion returns the highest number of a version, by the listing.
func (b book) lastVersion(ctx context.Context) (last int64, err error) {
	prefix := b.name + "/versions/"
	for info, err := range b.blobs.List(ctx, prefix) {
		if err != nil {
			return 0, err
		}
		if n, err := strconv.ParseInt(strings.TrimPrefix(info.Key, prefix), 10, 64); err == nil && n > last {
			last = n
		}
	}
	return last, nil
}

// put writes a node's row. It goes on when ctx ends: a write that is cut off may come after the row's removal.
func (b book) put(ctx context.Context, n Node) error {
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := storecall.Limit(context.WithoutCancel(ctx), callTime)
	defer cancel()
	_, err = b.rows.Put(ctx, b.name, n.ID, data, storage.Condition{})
	return err
}

// remove deletes a node's row.
func (b book) remove(ctx context.Context, id string) error {
	ctx, cancel := storecall.Limit(ctx, callTime)
	defer cancel()
	if err := b.rows.Delete(ctx, b.name, id, storage.Condition{}); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return nil
}

// tell lets all nodes look now. A store that doesn't ring, or fails to, costs time alone: they look by themselves.
func (b book) tell(ctx context.Context) { _ = agree.Ring(ctx, b.store, topic, []byte(b.name)) }

// heeds reports that a ring is about these settings.
func (b book) heeds(ring []byte) bool { return string(ring) == b.name }
