package gate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millrace-go/millrace/internal/call"
	"github.com/millrace-go/millrace/storage"
)

// Repair closes a gate whose blob is no gate, because it is damaged or somebody else wrote it. A blob that is a gate
// stays as it is, with an error that is storage.ErrInvalid: open or close it.
func Repair(ctx context.Context, store *storage.Store, name string, note Note) error {
	g := At(store, name)
	if g.fault != nil {
		return g.fault
	}
	note, err := note.withDefaults()
	if err == nil {
		err = g.repair(ctx, note)
	}
	if err != nil {
		return g.fail("repair", err)
	}
	g.tell(ctx)
	return nil
}

func (g *Gate) repair(ctx context.Context, note Note) error {
	limited, cancel := call.Limit(ctx, callTime)
	defer cancel()
	blob, err := g.blobs.Get(limited, g.name, "")
	if err != nil {
		return err
	}
	switch err := g.read(ctx, &sighting{}); {
	case err == nil:
		return fmt.Errorf("%w: it is a gate; open or close it", storage.ErrInvalid)
	case !errors.Is(err, storage.ErrInvalid):
		return err
	}
	body, err := json.Marshal(document{By: note.By, Why: note.Why, Since: g.now().Round(0).UTC(), Epoch: 1, ID: rand.Text()})
	if err != nil {
		return err
	}
	_, err = g.blobs.Put(limited, g.name, body, storage.Condition{IfMatch: blob.ETag})
	return err
}
