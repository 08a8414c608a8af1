package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// A Note tells who does something, and why.
type Note struct {
	By  string // required; at most 256 bytes
	Why string // at most 256 bytes
}

// Broken tells who broke a lease, and why.
type Broken struct {
	By    string    `json:"by"`
	Why   string    `json:"why,omitempty"`
	Fence int64     `json:"fence"` // of the holder whose lease was broken
	At    time.Time `json:"at"`    // by the operator's clock
}

// Break takes a lease away from its present holder. The holder's context ends at its next renewal, or earlier. Others
// get the lease when the holder has called Release, or 7/6 of the TTL after they saw the break, when the holder's
// present period is surely over. The blob keeps the note.
//
// A lease that nobody holds stays free; a hand-over that nobody has taken yet is taken back. A lease that is broken
// already keeps its first note. A lease that never was is storage.ErrNotFound. A failed call is repeated twice; after
// an error the lease may be broken.
func Break(ctx context.Context, store *storage.Store, name string, note Note) error {
	faults := []error{storecall.CheckStore(store), storage.CheckKey(name), storecall.CheckText("By", note.By, maxText), storecall.CheckText("Why", note.Why, storecall.MaxWhy)}
	if note.By == "" {
		faults = append(faults, fmt.Errorf("%w: By is empty; say who breaks the lease", storage.ErrInvalid))
	}
	err := errors.Join(faults...)
	var fence int64
	for tries := 1; err == nil; tries++ {
		var over bool
		over, err = tryBreak(ctx, blobOf(store, name, Config{}.ttl()), note, &fence)
		switch {
		case over && err == nil:
			return nil
		case err == nil, ctx.Err() != nil, storecall.Permanent(err), errors.Is(err, storage.ErrNotFound), tries >= 3:
		default:
			err = storecall.Sleep(ctx, time.Duration(tries)*100*time.Millisecond)
		}
	}
	return fmt.Errorf("lease: break %s: %w", storage.Quote(name), err)
}

// Free waits until the holder of a broken lease has surely ended, and frees the lease: for those that only [Try], who
// would have to watch the lease themselves. It waits until the holder has released the lease, or for 7/6 of its TTL. A
// lease that nobody holds is free. One that is held and not broken is storage.ErrInvalid, because its holder may live:
// call [Break] before. After an error the lease may be free, and otherwise stays as it is.
func Free(ctx context.Context, store *storage.Store, name string) error {
	err := errors.Join(storecall.CheckStore(store), storage.CheckKey(name))
	var fence int64
	for failed := 0; err == nil; {
		var wait time.Duration
		wait, err = tryFree(ctx, store, name, &fence)
		switch {
		case err == nil && wait == 0:
			return nil
		case err == nil:
			failed = 0
		case ctx.Err() != nil, storecall.Permanent(err), errors.Is(err, storage.ErrNotFound):
			return freeError(name, err)
		default:
			if failed++; failed == 3 {
				return freeError(name, err)
			}
			wait = time.Duration(failed) * 100 * time.Millisecond
		}
		err = storecall.Sleep(ctx, wait)
	}
	return freeError(name, err)
}

func freeError(name string, err error) error {
	return fmt.Errorf("lease: free %s: %w", storage.Quote(name), err)
}

// tryFree looks at the broken lease of the holder with that fence, or with fence 0 of the present one, and returns when
// to look again. It frees the lease when this process has watched it for long enough.
func tryFree(ctx context.Context, store *storage.Store, name string, fence *int64) (wait time.Duration, err error) {
	c := &candidate{leaseBlob: blobOf(store, name, Config{}.ttl()), memory: agree.MemoryOf[document](store)}
	c.seen = c.memory.Recall(name)
	if doc, etag, err := c.get(ctx, c.seen.ETag); err == nil {
		c.saw(agree.Sighting[document]{Doc: doc, ETag: etag, Since: time.Now()})
	} else if !errors.Is(err, storage.ErrNotModified) {
		return 0, err
	}
	doc := c.seen.Doc
	if *fence == 0 {
		*fence = doc.Fence
	}
	switch {
	case doc.Fence != *fence, doc.ID == "" && doc.Next == "":
		return 0, nil
	case doc.ID != "" && !doc.broken():
		return 0, fmt.Errorf("%w: %s holds it, and nobody has broken it", storage.ErrInvalid, storage.Quote(doc.Holder))
	}
	if wait := c.waitBeforeTakeover(); wait > 0 {
		return min(wait, time.Second), nil
	}
	doc.ID, doc.Next = "", ""
	if _, err = c.put(ctx, doc, storage.Condition{IfMatch: c.seen.ETag}); storage.LostRace(err) {
		return time.Millisecond, nil
	}
	if err == nil {
		c.tell(ctx, "")
	}
	return 0, err
}

// tryBreak breaks the lease of the holder with that fence, or with fence 0 of the present one. It reports whether
// there is nothing more to do. It is false without an error when another write came first.
func tryBreak(ctx context.Context, b leaseBlob, note Note, fence *int64) (over bool, err error) {
	d, etag, err := b.get(ctx, "")
	if err != nil {
		return false, err
	}
	if *fence == 0 {
		*fence = d.Fence
	}
	switch {
	case d.Fence != *fence, d.ID == "" && d.Next == "", d.ID != "" && d.broken():
		return true, nil
	case d.ID == "":
		d.Next = ""
	}
	d.Broken = &Broken{By: note.By, Why: note.Why, Fence: d.Fence, At: time.Now().UTC()}
	_, err = b.put(ctx, d, storage.Condition{IfMatch: etag})
	if storage.LostRace(err) {
		return false, nil
	}
	return err == nil, err
}
