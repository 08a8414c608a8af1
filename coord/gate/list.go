package gate

import (
	"context"
	"fmt"
	"iter"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// Info is a gate of a listing.
type Info struct {
	Name string
	State
}

// List yields the gates that somebody has changed, by name in byte order. It writes nothing: a gate whose announced
// moment has passed is listed as closed until somebody looks at it. It makes a request for each gate.
//
// A blob that is no gate is yielded with its name and an error, and the listing goes on. An error of the store is
// yielded last.
func List(ctx context.Context, store *storage.Store) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if err := storecall.CheckStore(store); err != nil {
			yield(Info{}, fmt.Errorf("gate: list: %w", err))
			return
		}
		blobs := store.Blobs(container)
		for b, err := range blobs.List(ctx, "") {
			if err != nil {
				yield(Info{}, fmt.Errorf("gate: list: %w", err))
				return
			}
			var seen sighting
			err := documentOf(blobs, b.Key).Read(ctx, &seen)
			switch {
			case err != nil && seen.Fault == nil:
				yield(Info{Name: b.Key}, fail("list", b.Key, err))
				return
			case err != nil:
				err = fail("list", b.Key, err)
			case seen.ETag == "":
				continue // it was deleted meanwhile
			}
			if !yield(Info{Name: b.Key, State: seen.Doc.state()}, err) {
				return
			}
		}
	}
}
