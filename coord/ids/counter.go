package ids

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// container holds the documents of all counters.
const container = "counters"

// callTime bounds one request.
const callTime = 5 * time.Second

var (
	// ErrCorrupt is the error of a counter whose document can't be read as a counter of that name.
	ErrCorrupt = errors.New("the counter is corrupt")

	// ErrBackwards is the error of a counter that is gone, or has less than a Sequence has reserved of it: the store was
	// probably restored from an old backup.
	ErrBackwards = errors.New("the counter went backwards")

	// ErrEnd is the error of a counter that has no number left.
	ErrEnd = errors.New("the counter is at its end")

	// ErrClosed is the error of Next after Close.
	ErrClosed = errors.New("the sequence is closed")
)

// A counter is the document of a counter, and the calls on it.
type counter struct {
	blobs *storage.Blobs
	name  string
	by    string // who writes
}

func at(store *storage.Store, name, by string) counter {
	return counter{blobs: store.Blobs(container), name: name, by: by}
}

// A document is the blob's content, as JSON.
type document struct {
	Counter string    `json:"counter"` // its name, so that no other document is taken for it
	Next    int64     `json:"next"`    // the next free number; at its end math.MaxInt64, which is never given out
	By      string    `json:"by"`      // the process that wrote it
	At      time.Time `json:"at"`      // by that process's clock
}

// read returns the document and its ETag. Without a document the ETag is empty. The ETag comes with ErrCorrupt, too.
func (c counter) read(ctx context.Context) (document, storage.ETag, error) {
	ctx, cancel := storecall.Limit(ctx, callTime)
	defer cancel()
	blob, err := c.blobs.Get(ctx, c.name, "")
	if errors.Is(err, storage.ErrNotFound) {
		return document{}, "", nil
	}
	if err != nil {
		return document{}, "", err
	}
	var d document
	if json.Unmarshal(blob.Body, &d) != nil || d.Counter != c.name || d.Next < 1 {
		return document{}, blob.ETag, fmt.Errorf("%w: the blob of its name in container %s is not its document; look at it, and raise the counter past every number seen: millrace ids raise",
			ErrCorrupt, container)
	}
	return d, blob.ETag, nil
}

// write puts the document in the place of the one with an ETag; the empty ETag means that there is none.
func (c counter) write(ctx context.Context, next int64, old storage.ETag) (storage.ETag, error) {
	ctx, cancel := storecall.Limit(ctx, callTime)
	defer cancel()
	body, err := json.Marshal(document{Counter: c.name, Next: next, By: c.by, At: time.Now().UTC()})
	if err != nil {
		return "", err
	}
	return c.blobs.Put(ctx, c.name, body, storage.Condition{IfMatch: old, IfAbsent: old == ""})
}

// A reservation is a range that belongs to this process: first ≤ number < end.
type reservation struct {
	first, end int64
	etag       storage.ETag // of the document that reserves it
}

// reserve reserves up to size numbers. A counter that isn't there yet begins at first. known is the end of what this
// process has reserved before, 1 if it has only seen the counter, or 0. exists tells that the counter was seen.
func (c counter) reserve(ctx context.Context, size, first, known int64) (r reservation, exists bool, err error) {
	doc, old, err := c.read(ctx)
	switch {
	case err != nil:
		return r, false, err
	case old == "" && known > 0:
		return r, false, fmt.Errorf("%w: its document is gone from container %s since this process has used it: stop the programs, and raise it past every number seen: millrace ids raise",
			ErrBackwards, container)
	case old == "":
		doc.Next = first
	case doc.Next < known:
		return r, true, fmt.Errorf("%w: its next number is %d, but this process has reserved the numbers below %d: stop the programs, and raise it past every number seen: millrace ids raise",
			ErrBackwards, doc.Next, known)
	case doc.Next == math.MaxInt64:
		return r, true, fmt.Errorf("%w: the last number, %d, is reserved", ErrEnd, int64(math.MaxInt64-1))
	}
	end := doc.Next + min(size, math.MaxInt64-doc.Next)
	etag, err := c.write(ctx, end, old)
	if err != nil {
		return r, old != "", err
	}
	return reservation{first: doc.Next, end: end, etag: etag}, true, nil
}

// giveBack gives back the numbers from next, if last is still the last write. Otherwise given is false.
func (c counter) giveBack(ctx context.Context, next int64, last storage.ETag) (given bool, err error) {
	_, err = c.write(ctx, next, last)
	if storage.LostRace(err) {
		return false, nil
	}
	return err == nil, err
}

// raise makes the next number at least next.
func (c counter) raise(ctx context.Context, next int64) error {
	doc, old, err := c.read(ctx)
	if err != nil && !errors.Is(err, ErrCorrupt) || err == nil && doc.Next >= next {
		return err
	}
	_, err = c.write(ctx, next, old)
	return err
}

// permanent reports that another try soon can't succeed.
func permanent(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrBackwards) || errors.Is(err, ErrEnd) || storecall.Permanent(err)
}
