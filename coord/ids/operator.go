package ids

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	mathrand "math/rand/v2"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// Raise makes a counter go on after past, at least: the next number that is reserved is past+1 or larger. It never
// lowers a counter. Raise makes a counter that is missing, and repairs a counter whose document can't be read: then the
// next number is past+1, whatever the next number was before. So past must be at least the largest number ever given
// out; see the package comment. After an error the counter is raised or not, and Raise may be repeated.
func Raise(ctx context.Context, store *storage.Store, name string, past int64) error {
	faults := []error{storecall.CheckStore(store), storage.CheckKey(name)}
	if past < 0 || past == math.MaxInt64 {
		faults = append(faults, fmt.Errorf("%w: can't raise past %d; want 0 to %d", storage.ErrInvalid, past, int64(math.MaxInt64-1)))
	}
	err := errors.Join(faults...)
	if err == nil {
		c := at(store, name, "raise by "+storecall.ProcessName())
		for err = c.raise(ctx, past+1); storage.LostRace(err); err = c.raise(ctx, past+1) {
			if end := storecall.Sleep(ctx, mathrand.N(20*time.Millisecond)); end != nil {
				err = end
				break
			}
		}
	}
	if err != nil {
		return fmt.Errorf("ids: raise %s: %w", storage.Quote(name), err)
	}
	return nil
}

// A Counter is what an operator sees of a counter.
type Counter struct {
	Name string
	Next int64     // the next number that is free
	By   string    // the process that wrote it last
	At   time.Time // when, by that process's clock
}

// State reads one counter. One that is not there is storage.ErrNotFound, and one that can't be read is [ErrCorrupt].
func State(ctx context.Context, store *storage.Store, name string) (Counter, error) {
	err := storecall.CheckStore(store)
	var doc document
	if err == nil {
		var etag storage.ETag
		if doc, etag, err = at(store, name, "").read(ctx); err == nil && etag == "" {
			err = storage.ErrNotFound
		}
	}
	if err != nil {
		return Counter{}, fmt.Errorf("ids: state of %s: %w", storage.Quote(name), err)
	}
	return Counter{Name: name, Next: doc.Next, By: doc.By, At: doc.At}, nil
}

// List yields all counters, by name. A counter that can't be read comes as its name with [ErrCorrupt], and the list
// goes on. Another error is yielded last and once.
func List(ctx context.Context, store *storage.Store) iter.Seq2[Counter, error] {
	return func(yield func(Counter, error) bool) {
		if err := storecall.CheckStore(store); err != nil {
			yield(Counter{}, fmt.Errorf("ids: list: %w", err))
			return
		}
		for info, err := range store.Blobs(container).List(ctx, "") {
			var c Counter
			if err == nil {
				c, err = State(ctx, store, info.Key)
			}
			switch {
			case errors.Is(err, ErrCorrupt):
				if !yield(Counter{Name: info.Key}, err) {
					return
				}
			case errors.Is(err, storage.ErrNotFound): // deleted since it was listed
			case err != nil:
				yield(Counter{}, fmt.Errorf("ids: list: %w", err))
				return
			case !yield(c, nil):
				return
			}
		}
	}
}
